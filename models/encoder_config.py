"""Settings of the encoder judge: its body, its shape and its heads."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from medal_judges.config import Config
from medal_judges.models.heads import HeadConfig


class EncoderConfig(Config):
    """What an encoder judge is made of; stored whole in its config.json.

    ``base`` is a hub id or ``embedded:minilm``. Shapes: ``flat`` encodes the dialogue as one
    sequence with role marks (oldest whole turns dropped beyond ``max_tokens``); ``hierarchical``
    encodes turns one by one and lets ``layers`` small transformer layers look across them, so that
    a 512-token body reads any dialogue (oldest turns dropped only beyond ``max_turns``; a turn
    longer than ``max_tokens`` is read in pieces).

    ``pooling``: ``role`` averages assistant and user turns apart, ``attention`` learns a weight a
    turn and head. ``features`` adds the surface and similarity measures of models/turn_features.py
    and the net's own similarities to each turn. ``members`` turn nets are averaged; their spread is
    the judge's uncertainty. ``embedding`` false leaves the body out (features only).
    """

    family: Literal["encoder"] = "encoder"
    base: str = "embedded:minilm"
    base_revision: str | None = None
    shape: Literal["flat", "hierarchical"] = "hierarchical"
    max_tokens: int = Field(default=256, ge=8)
    max_turns: int = Field(default=512, ge=1)
    pooling: Literal["role", "attention"] = "attention"
    features: bool = True
    embedding: bool = True
    width: int = Field(default=128, ge=4)
    layers: int = Field(default=1, ge=0)
    attention_heads: int = Field(default=4, ge=1)
    members: int = Field(default=1, ge=1)
    dropout: float = Field(default=0.1, ge=0, lt=1)
    embedding_dropout: float = Field(default=0.1, ge=0, lt=1)
    turn_dropout: float = Field(default=0.0, ge=0, lt=1)
    skip: bool = True
    heads: dict[str, HeadConfig] = Field(default_factory=dict)
