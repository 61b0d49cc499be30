"""Settings of the encoder judge."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from medal_judges.models.base.heads import HeadedConfig


class EncoderConfig(HeadedConfig):
    """The settings of an encoder judge: a pretrained encoder (ModernBERT, XLM-R, E5, BERT, ...)
    with a classification head, fine-tuned.

    ``base``: the pretrained encoder. Give a hub id (at ``base_revision``), a folder,
    ``embedded:minilm`` or ``embedded:e5``. ``config``: fields of the encoder's config.json to
    replace, such as ``classifier_pooling: mean`` for ModernBERT. ``max_tokens``: the maximum length
    of a dialogue, which is read as one text. A longer dialogue loses its oldest turns.
    """

    family: Literal["encoder"] = "encoder"
    base: str = "embedded:minilm"
    base_revision: str | None = None
    config: dict[str, Any] = Field(default_factory=dict)
    max_tokens: int = Field(default=512, ge=16)
