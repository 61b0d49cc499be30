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

    ``base``: the pretrained model that turns texts into vectors of length 1. It is a model of
    sentence-transformers, or a model of transformers whose token vectors are averaged. Give a hub
    id (at ``base_revision``), a folder or an ``embedded:`` name. Its weights are not trained. They
    are saved with the judge, except for an ``embedded:`` base. A text longer than ``max_tokens`` is
    encoded in pieces.

    ``features``: names of base/turn_features.py. ``name`` is a feature of the turns of both
    speakers, and ``user.name`` or ``assistant.name`` a feature of the turns of one speaker.
    ``vectors``: whether the heads also read vectors of texts. ``limit``: features are clipped at
    this many standard deviations.

    ``reading``: what a head reads of a dialogue. With ``turns`` it reads the mean user turn and the
    mean assistant turn: their features and the vectors of their texts. With ``dialogue`` it reads
    one vector of the whole text, as ORALIS does (section 4.4), and the mean features of both
    speakers. With ``answers`` it reads the features and vectors of an answer and of the last user
    turn before it. A label then describes the last answer of its row. A dialogue is read as its
    mean answer, or as its worst answer if the dimension is an issue (its good end is low).

    ``reply``: texts of users' ``positive`` and ``negative`` reactions. With them ``features`` can
    also name ``reaction``, ``expected_reaction`` and ``follows_answer`` (reply.py).

    ``head``: ``ridge``, ``logistic`` or an MLP (``mlp_classifier``). The default is logistic for a
    binary dimension, and ridge for any other. In training a logistic head, the two labels have the
    same total weight, even if one is rare. ``stretch``: whether to widen the scores of a ridge head
    to the standard deviation of the labels. Unwidened scores vary too little, because the penalty
    shrinks them. ``prior_weights``: dimension -> feature -> a weight in standard deviations of the
    score. It is added to the fitted weight of the feature, and needs ``stretch``.

    ``offsets``: dimension -> language -> a share of the scale, which is added to a ridge head's
    scores in this language. It makes up for the fall of the score when a dialogue is translated.
    The languages in ``offsets`` are those that the judge supports.

    ``grid``: a setting of the head -> the values to try. Training tries all combinations. Ridge and
    logistic heads have two settings. ``alpha`` is the penalty, if the rows of one source have a
    total weight of 1. ``share`` is the size of a vector's column relative to a feature's column
    after both are standardised. With ``share`` 0 vectors are not used. An MLP has the settings of
    scikit-learn's MLPClassifier, and ``classes``, the highest class k. Equation 1 of ORALIS maps
    the scale to the classes 0 to k. A binary dimension always has the classes 0 and 1.

    ``decode``: the score of an MLP is its ``expected`` class, or its likeliest class (``argmax``)
    as in the paper. ``fold_by``: how cross-validation splits the rows. It has five folds of whole
    dialogues (``conversation``), or leaves out one chatbot at a time (``chatbot``). It chooses the
    settings of ``grid`` if there are no validation rows.
    """

    family: Literal["linear"] = "linear"
    base: str = "embedded:minilm"
    base_revision: str | None = None
    max_tokens: int = Field(default=256, ge=8)
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
    def _features_fit(self) -> LinearConfig:
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
    def _settings_fit(self) -> LinearConfig:
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
        """The names of ``features`` that need no reply model, without ``user.`` and ``assistant.``,
        each once."""
        names = dict.fromkeys(feature.rpartition(".")[2] for feature in self.features)
        return tuple(name for name in names if name not in REACTION_NAMES)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of all ``features``, without ``user.`` and ``assistant.``, each once. Those of
        the reply model come last."""
        names = {feature.rpartition(".")[2] for feature in self.features}
        return self.measure_names + tuple(
            name for name in REACTION_NAMES if name in names
        )

    @property
    def feature_columns(self) -> dict[str, tuple[tuple[int, str], ...]]:
        """Maps the name of each feature to its columns, as pairs (side, name). Side 0 is the user
        and side 1 the assistant. A feature ``name`` has one column for each side. ``user.name`` and
        ``assistant.name`` have one column."""
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
        """Whether the judge needs its base model. A judge that reads only features of the text does
        not."""
        return self.vectors or self.needs_turn_vectors

    def head_name(self, kind: str) -> HeadName:
        """Returns the kind of head for a dimension. ``kind``: the kind of the dimension, such as
        ``binary``."""
        return self.head or ("logistic" if kind == "binary" else "ridge")
