"""Settings of the LoRA judge."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from medal_judges.config import Config
from medal_judges.models.base.heads import HeadConfig
from medal_judges.models.device import Attention


class LoraConfig(Config):
    """A causal language model with low-rank adapters (PEFT); stored whole in config.json.

    ``base`` is a hub id or ``embedded:smollm2``. ``head``: ``scoring`` puts one head a dimension on
    the last token that is not padding; the sequence is the chat up to where ``speaks`` would speak
    next (the user: the state there holds what it expects as a reaction). ``generative`` is trained
    to write the answer of ``prompt`` (comments too where the labels have them) and asked as the
    prompted judge is.

    ``rank``, ``alpha``, ``dropout`` and ``targets`` (names of linear layers, or ``all-linear``)
    are PEFT's, as are ``rslora`` (Kalajdzievski, 2023) and ``dora`` (Liu et al., 2024).
    ``quantize`` loads the base in 4 or 8 bits (QLoRA; needs bitsandbytes, and is slow on a CPU).
    Dialogues longer than ``max_tokens`` lose whole oldest turns.
    """

    family: Literal["lora"] = "lora"
    base: str = "embedded:smollm2"
    base_revision: str | None = None
    head: Literal["scoring", "generative"] = "scoring"
    rank: int = Field(default=16, ge=1)
    alpha: float = Field(default=32, gt=0)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    targets: Literal["all-linear"] | tuple[str, ...] = "all-linear"
    rslora: bool = False
    dora: bool = False
    quantize: Literal["nf4", "int8"] | None = None
    max_tokens: int = Field(default=2048, ge=32)
    attention: Attention = "auto"
    heads: dict[str, HeadConfig] = Field(default_factory=dict)
    speaks: Literal["user", "assistant"] = "user"
    prompt: str = "lora"
    layout: str | None = None
    answer_tokens: int = Field(default=512, ge=8)
    comment_chars: int = Field(default=200, ge=0)

    @model_validator(mode="after")
    def _settings_apply(self) -> LoraConfig:
        if self.head == "generative" and self.heads:
            raise ValueError("heads are for head: scoring; a generative judge writes its numbers")
        return self
