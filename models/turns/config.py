"""Settings of the encoder judge: its body, its shape and its heads."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from medal_judges.config import Config
from medal_judges.models.base.heads import HeadConfig
from medal_judges.models.base.trained import TrainedConfig
from medal_judges.models.base.turn_features import USUAL_FEATURES, TurnFeatures
from medal_judges.models.device import Attention

REACTION_NAMES = (
    "reaction",  # user turns: log-mean similarity to positive less negative reactions
    "expected_reaction",  # assistant turns: the same of the reaction that the reply model expects
)


class ReplyConfig(Config):
    """Settings of the reply model. ``positive`` and ``negative`` are short reactions of users.
    ``width``, ``epochs``, ``lr`` and ``noise`` are for training/families/reply.py. ``half``: its
    weights are rounded to half precision before anything else is fitted, and saved in half
    precision."""

    positive: tuple[str, ...] = Field(min_length=1)
    negative: tuple[str, ...] = Field(min_length=1)
    width: int = Field(default=256, ge=1, le=16_384)
    epochs: int = Field(default=5, ge=1)
    batch_size: int = Field(default=1024, ge=2)
    lr: float = Field(default=1e-3, gt=0)
    noise: float = Field(default=0.02, ge=0)
    half: bool = False


class FeatureGroup(Config):
    """A member of the ensemble that is trained on its own ``sources`` (none: all).

    ``weight`` is its share of the score. The other settings are for the ridge solver: ``alpha`` is
    the penalty (each source has a total weight of 1). ``features`` are ``name``, or ``user.name``
    and ``assistant.name`` for one side only (None: all). ``prior_weights``: dimension -> feature ->
    a weight, in standard deviations of the answer, that is added to the fit.
    """

    name: str
    sources: tuple[str, ...] = ()
    weight: float = Field(default=1.0, gt=0)
    alpha: float = Field(default=1.0, gt=0)
    features: tuple[str, ...] | None = None
    prior_weights: dict[str, dict[str, float]] = Field(default_factory=dict)


class TurnsConfig(TrainedConfig):
    """The settings of an encoder judge, stored whole in its judge.json.

    ``base`` is a hub id or ``embedded:minilm``. ``shape: flat`` encodes the dialogue as one
    sequence with role marks and drops the oldest whole turns beyond ``max_tokens``. ``shape:
    hierarchical`` encodes each turn by itself, in pieces of at most ``max_tokens``; ``layers``
    small transformer layers then look across turns. So a body with 512 positions reads long
    dialogues; the oldest turns beyond ``max_turns`` are dropped.

    ``pooling: role`` averages assistant turns and user turns; ``attention`` learns a weight for
    each turn and head; ``cls`` and ``mean`` (for ``net: sequence``) make one vector of the whole
    sequence. ``features`` (base/turn_features.py) are appended to each turn's vector. ``embedding:
    false`` leaves the body out. ``save_body: false`` (for a frozen body) saves only the trained
    weights: the body is loaded from ``base``, and refused if its weights have changed.

    ``net: transformer`` looks across turns; ``linear`` is one linear map of mean turn vectors and
    features, for which training has a closed form; ``sequence`` is the classifier of transformers
    on one vector of the flat dialogue (no features, no contributions). The score is the mean over
    ``members`` nets, or with ``feature_groups`` the weighted mean of nets that are trained on
    different sources. ``reply`` adds the two reaction features of encoder/net.py.
    """

    family: Literal["turns"] = "turns"
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
    feature_groups: tuple[FeatureGroup, ...] = Field(default=(), max_length=100)
    reply: ReplyConfig | None = None
    width: int = Field(default=128, ge=4, le=16_384)
    layers: int = Field(default=1, ge=0, le=100)
    attention_heads: int = Field(default=4, ge=1)
    members: int = Field(default=1, ge=1, le=100)
    dropout: float = Field(default=0.1, ge=0, lt=1)
    embedding_dropout: float = Field(default=0.1, ge=0, lt=1)
    turn_dropout: float = Field(default=0.0, ge=0, lt=1)
    skip: bool = True
    heads: dict[str, HeadConfig] = Field(default_factory=dict)

    def level_dimensions(self) -> set[str]:
        by_level = ("ordinal", "classification")
        return {name for name, head in self.heads.items() if head.kind in by_level}

    @model_validator(mode="after")
    def _settings_fit(self) -> TurnsConfig:
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
        """The names of all features: ``features``, and with a reply model the reactions."""
        return self.features + (REACTION_NAMES if self.reply else ())
