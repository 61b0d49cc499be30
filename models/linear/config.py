"""Settings of a linear judge: what it reads of a dialogue, and what is fitted on it."""

from __future__ import annotations

from itertools import chain
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from medal_judges.models.base.trained import TrainedConfig
from medal_judges.models.base.turn_features import (
    ALL_FEATURES,
    ROLE_INDEX,
    SIMILARITY_NAMES,
    USUAL_FEATURES,
)

MAX_TURNS = 512  # of a dialogue; it loses its oldest turns beyond them
HeadName = Literal["ridge", "logistic", "mlp_classifier"]
REACTION_NAMES = (
    "reaction",  # user turns: log-mean similarity to positive less negative reactions
    "expected_reaction",  # assistant turns: the same of the reaction that the reply model expects
    "follows_answer",  # user turns: log-likelihood after the answer, less that of the reactions
)


class LinearConfig(TrainedConfig):
    """The settings of a linear judge. Its judge.json holds all of them.

    Attributes:
        base: The pretrained encoder of texts, which is not trained: a Hub id, a folder or an
            ``embedded:`` name.
        base_revision: The revision of a Hub id.
        max_tokens: A longer text is encoded in pieces of at most this many tokens.
        reading: What heads read: the mean turn of each speaker (``turns``), the ``dialogue`` as one
            text, or ``answers``, each with the user turn before it.
        vectors: Whether heads also read vectors of texts.
        features: Names of base/turn_features.py. ``NAME`` is for the turns of both speakers,
            ``user.NAME`` or ``assistant.NAME`` for one.
        limit: Features are clipped at this many standard deviations.
        reply: Typical ``positive`` and ``negative`` reactions of users, for the features
            ``reaction``, ``expected_reaction`` and ``follows_answer``.
        head: ``ridge``, ``logistic`` or ``mlp_classifier``. By default logistic for a binary
            dimension, otherwise ridge.
        grid: A setting of the head -> the values to try. It is ``alpha`` (penalty) or ``share``
            (weight of vectors). For an MLP it is a setting of scikit-learn's MLPClassifier or
            ``classes`` (the highest class).
        stretch: Whether to widen a ridge head's scores to the standard deviation of the labels.
        prior_weights: Dimension -> feature -> a weight to add to the fitted one, in standard
            deviations of the score. Needs ``stretch``.
        offsets: Dimension -> language -> what to add to a ridge head's score, as a share of the
            scale. The judge supports these languages.
        decode: Whether an MLP's score is its ``expected`` class or its likeliest one (``argmax``).
        fold_by: What cross-validation holds out to choose from ``grid``: a fifth of the dialogues
            (``conversation``) or one ``chatbot``.
    """

    family: Literal["linear"] = "linear"
    base: str = "embedded:minilm"
    base_revision: str | None = None
    max_tokens: int = Field(default=256, ge=8)
    # With answers, a dialogue is its mean answer, or its worst one if the dimension is an issue.
    reading: Literal["turns", "dialogue", "answers"] = "turns"
    vectors: bool = True
    features: tuple[str, ...] = USUAL_FEATURES
    limit: float | None = Field(default=None, gt=0)
    reply: dict[Literal["positive", "negative"], tuple[str, ...]] | None = None
    head: HeadName | None = None
    grid: dict[str, tuple[Any, ...]] = Field(default_factory=dict)
    stretch: bool = False
    prior_weights: dict[str, dict[str, float]] = Field(default_factory=dict)
    offsets: dict[str, dict[Annotated[str, Field(pattern="^[a-z]{2,3}$")], float]] = (
        Field(default_factory=dict)
    )
    decode: Literal["expected", "argmax"] = "expected"
    fold_by: Literal["conversation", "chatbot"] = "conversation"

    @model_validator(mode="after")
    def _require_known_features(self) -> LinearConfig:
        names = ALL_FEATURES + (REACTION_NAMES if self.reply else ())
        prior_features = set(chain.from_iterable(self.prior_weights.values()))
        for feature in (*self.features, *sorted(prior_features)):
            side, dot, name = feature.rpartition(".")
            if name not in names or (dot and side not in ROLE_INDEX):
                raise ValueError(
                    f"no feature {feature!r}. Use one of {', '.join(names)}, each also as "
                    "user.NAME and assistant.NAME"
                )
        unread = sorted(prior_features - set(self.feature_columns))
        if unread:
            raise ValueError(
                f"prior_weights: {unread[0]!r} is not one of the features. Leave it out"
            )
        return self

    @model_validator(mode="after")
    def _require_consistent_settings(self) -> LinearConfig:
        if self.prior_weights and not self.stretch:
            raise ValueError("set stretch: true, which prior_weights need")
        if self.reply and self.reading != "turns":
            raise ValueError("set reading: turns, which reply needs")
        if self.reply is not None and sum(map(bool, self.reply.values())) < 2:
            raise ValueError("give reply positive and negative reactions")
        if not self.vectors and (self.reading == "dialogue" or not self.features):
            raise ValueError(
                "vectors: false leaves nothing to read. Give features, and set reading: turns"
            )
        return self

    @property
    def measure_names(self) -> tuple[str, ...]:
        """Names of features that need no reply model, without ``user.`` and ``assistant.``."""
        names = dict.fromkeys(feature.rpartition(".")[2] for feature in self.features)
        return tuple(name for name in names if name not in REACTION_NAMES)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of all features, without ``user.`` and ``assistant.``.

        The features of the reply model come last."""
        names = {feature.rpartition(".")[2] for feature in self.features}
        return self.measure_names + tuple(
            name for name in REACTION_NAMES if name in names
        )

    @property
    def feature_columns(self) -> dict[str, tuple[tuple[int, str], ...]]:
        """Maps the name of each feature to its columns, as pairs (side, name).

        Side 0 is the user, side 1 the assistant. ``user.NAME`` has one column, ``NAME`` has two."""
        columns: dict[str, tuple[tuple[int, str], ...]] = {}
        for feature in self.features:
            role, _, name = feature.rpartition(".")
            roles = (role,) if role else tuple(ROLE_INDEX)
            columns[feature] = tuple((ROLE_INDEX[role], name) for role in roles)
            for role in roles:
                columns[f"{role}.{name}"] = ((ROLE_INDEX[role], name),)
        return columns

    @property
    def needs_turn_vectors(self) -> bool:
        """Whether the judge needs a vector of the text of each turn."""
        reads_vectors = self.vectors and self.reading != "dialogue"
        has_similarities = not set(self.measure_names).isdisjoint(SIMILARITY_NAMES)
        return reads_vectors or has_similarities or self.reply is not None

    @property
    def needs_base(self) -> bool:
        """Whether the judge needs its base model, and not only features of the text."""
        return self.vectors or self.needs_turn_vectors

    def head_name(self, kind: str) -> HeadName:
        """Returns the kind of head for a dimension of ``kind``, such as ``binary``."""
        return self.head or ("logistic" if kind == "binary" else "ridge")
