"""Settings of the encoder judge."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from medal_judges.models.base.heads import HeadedConfig


class EncoderConfig(HeadedConfig):
    """A pretrained encoder with a classification head, fine-tuned (ModernBERT, mmBERT, XLM-R, E5,
    BERT, ...).

    ``base`` is a hub id, a folder, ``embedded:minilm`` or ``embedded:e5``; ``config`` changes
    fields of its config.json under transformers' names, such as ``classifier_pooling: mean`` of
    ModernBERT. A dialogue is one text; dialogues longer than ``max_tokens`` lose whole oldest
    turns. ``base_revision`` is the revision of a hub id.
    """

    family: Literal["encoder"] = "encoder"
    base: str = "embedded:minilm"
    base_revision: str | None = None
    config: dict[str, Any] = Field(default_factory=dict)
    max_tokens: int = Field(default=512, ge=16)
