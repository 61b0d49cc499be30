"""Settings of the encoder judge."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from medal_judges.models.base.heads import HeadedConfig


class EncoderConfig(HeadedConfig):
    """The settings of an encoder judge: a fine-tuned encoder (ModernBERT, XLM-R, E5, BERT, ...)
    with a classification head.

    Attributes:
        base: The pretrained encoder: a Hub id, a folder, ``embedded:minilm`` or ``embedded:e5``.
        base_revision: The branch, tag or commit of a Hub id. None is main.
        config: Values that override fields of the encoder's config.json, such as
            ``{classifier_pooling: mean}`` for ModernBERT.
        max_tokens: The maximum length of a dialogue in tokens. A longer dialogue loses its oldest
            turns.
    """

    family: Literal["encoder"] = "encoder"
    base: str = "embedded:minilm"
    base_revision: str | None = None
    config: dict[str, Any] = Field(default_factory=dict)
    max_tokens: int = Field(default=512, ge=16)
