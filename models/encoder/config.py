"""Settings of the encoder judge."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from medal_judges.models.base.heads import HeadedConfig


class EncoderConfig(HeadedConfig):
    """The settings of an encoder judge: a pretrained encoder (ModernBERT, XLM-R, E5, BERT, ...)
    with a classification head, fine-tuned.

    ``base``: a hub id (at ``base_revision``), a folder, ``embedded:minilm`` or ``embedded:e5``.
    ``config``: fields of its config.json to change, under transformers' names, such as
    ``classifier_pooling: mean`` for ModernBERT. A dialogue is one text. A dialogue longer than
    ``max_tokens`` loses its oldest turns.
    """

    family: Literal["encoder"] = "encoder"
    base: str = "embedded:minilm"
    base_revision: str | None = None
    config: dict[str, Any] = Field(default_factory=dict)
    max_tokens: int = Field(default=512, ge=16)
