"""Settings of the encoder judge: its body, its shape and its heads."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from medal_judges.config import Config
from medal_judges.models.base.heads import HeadConfig
from medal_judges.models.base.turn_features import USUAL_FEATURES, TurnFeatures
from medal_judges.models.device import Attention

REACTION_NAMES = (
    "reaction",  # user turns: log-mean similarity to positive less negative reactions
    "expected_reaction",  # assistant turns: the same of the reaction that the reply model expects
)


class ReplyConfig(Config):
    """``positive`` and ``negative`` are short user reactions, in our own words; ``width``,
    ``epochs``, ``lr`` and ``noise`` are for training/families/reply.py. ``half``: the
    weights are rounded to half precision before anything is fitted on them, and saved so."""

    positive: tuple[str, ...] = Field(min_length=1)
    negative: tuple[str, ...] = Field(min_length=1)
    width: int = Field(default=256, ge=1)
    epochs: int = Field(default=5, ge=1)
    batch_size: int = Field(default=1024, ge=2)
    lr: float = Field(default=1e-3, gt=0)
    noise: float = Field(default=0.02, ge=0)
    half: bool = False


class FeatureGroup(Config):
    """A member of the ensemble with its own sources (none: all) and settings.

    ``weight`` is its share of the score. The rest is for the ridge solver: ``alpha`` is the penalty
    (each source has a total weight of 1); ``features`` are those it reads, as ``name`` or, for one
    side only, ``user.name`` or ``assistant.name`` (None: all); ``prior_weights`` has for some
    dimensions a weight per feature, in units of the answer's deviation, that is added to the fit.
    """

    name: str
    sources: tuple[str, ...] = ()
    weight: float = Field(default=1.0, gt=0)
    alpha: float = Field(default=1.0, gt=0)
    features: tuple[str, ...] | None = None
    prior_weights: dict[str, dict[str, float]] = Field(default_factory=dict)


class EncoderConfig(Config):
    """The settings of an encoder judge, stored whole in its config.json.

    ``base`` is a hub id or ``embedded:minilm``. ``shape: flat`` encodes the dialogue as one
    sequence with role marks and drops the oldest whole turns beyond ``max_tokens``. ``shape:
    hierarchical`` encodes each turn alone, and ``layers`` small transformer layers look across
    turns, so that a 512-token body reads any dialogue: the oldest turns are dropped only beyond
    ``max_turns``, and a turn longer than ``max_tokens`` is read in pieces.

    ``pooling: role`` averages assistant and user turns apart, ``attention`` learns a weight for
    each turn and head; ``cls`` and ``mean`` make one vector of the whole sequence (``net:
    sequence``). ``features`` (base/turn_features.py) are added to each turn. ``embedding: false``
    leaves the body out. ``save_body: false`` (a frozen body only) saves the trained weights alone:
    the body is loaded from ``base`` again, and one with other weights is refused.

    ``net: transformer`` looks across turns; ``linear`` is one linear map of mean turn vectors and
    features, which training can solve in closed form; ``sequence`` is the classifier of
    transformers on one vector of the flat dialogue (no features, no contributions). ``members``
    nets are averaged; with ``feature_groups`` each learns from its own sources, and the score is
    their weighted mean. ``reply`` adds the two reaction measures of encoder/net.py.
    """

    family: Literal["encoder"] = "encoder"
    base: str = "embedded:minilm"
    base_revision: str | None = None
    save_body: bool = True
    shape: Literal["flat", "hierarchical"] = "hierarchical"
    max_tokens: int = Field(default=256, ge=8)
    max_turns: int = Field(default=512, ge=1)
    attention: Attention = "auto"
    pooling: Literal["role", "attention", "cls", "mean"] = "attention"
    features: TurnFeatures = USUAL_FEATURES
    embedding: bool = True
    net: Literal["transformer", "linear", "sequence"] = "transformer"
    feature_groups: tuple[FeatureGroup, ...] = ()
    reply: ReplyConfig | None = None
    width: int = Field(default=128, ge=4)
    layers: int = Field(default=1, ge=0)
    attention_heads: int = Field(default=4, ge=1)
    members: int = Field(default=1, ge=1)
    dropout: float = Field(default=0.1, ge=0, lt=1)
    embedding_dropout: float = Field(default=0.1, ge=0, lt=1)
    turn_dropout: float = Field(default=0.0, ge=0, lt=1)
    skip: bool = True
    heads: dict[str, HeadConfig] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _settings_fit(self) -> EncoderConfig:
        if self.net == "transformer" and self.width % self.attention_heads:
            raise ValueError(
                f"width {self.width} is not a multiple of attention_heads {self.attention_heads}"
            )
        if not self.embedding and not self.feature_names:
            raise ValueError("with embedding: false and no features there is nothing to read")
        whole = self.pooling in ("cls", "mean")
        if self.net != "sequence" and whole:
            raise ValueError(f"pooling {self.pooling} is for net: sequence")
        plain = self.shape == "flat" and not self.feature_names and self.embedding
        if self.net == "sequence" and not (whole and plain and not self.feature_groups):
            raise ValueError(
                "net: sequence reads one vector of the dialogue: set shape: flat, "
                "pooling: cls or mean, features: [], and no reply or feature_groups"
            )
        return self

    @property
    def feature_names(self) -> tuple[str, ...]:
        """``features``, and the reactions if there is a reply model."""
        return self.features + (REACTION_NAMES if self.reply else ())
