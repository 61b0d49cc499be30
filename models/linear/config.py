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

    ``base`` is a model of sentence-transformers, or one of transformers, whose token vectors are
    averaged: a hub id, a folder or an ``embedded:`` name. Its weights are frozen, and are saved
    with the judge if they are in no package. Vectors have length 1. A text longer than
    ``max_tokens`` is read in pieces. ``base_revision`` is the revision of a hub id.

    ``reading: turns`` reads the mean user turn and the mean assistant turn: their ``features``
    (base/turn_features.py) and, with ``vectors``, the vectors of their texts. A feature is ``name``
    for both sides, or ``user.name`` or ``assistant.name`` for one side. ``reading: dialogue`` reads
    one vector of the whole text, as ORALIS does (section 4.4), and the features of both sides.

    ``reading: answers`` reads the features and vectors of single answers, each with the last user
    turn before it. A label describes the last answer of its row. A dialogue has the score of its
    mean answer, or of its worst answer if the dimension is an issue (its good end is low).

    ``limit`` clips features at that many standard deviations. ``reply`` has short ``positive`` and
    ``negative`` reactions of users. It adds the features ``reaction``, ``expected_reaction`` and
    ``follows_answer`` (reply.py).

    ``head`` is ``ridge``, ``logistic`` or an MLP. The default is logistic for a binary dimension,
    else ridge. Both labels of a logistic head have the same total weight, however rare one is.
    ``stretch`` widens the scores of a ridge to the spread of the labels, because the penalty
    shrinks them. ``prior_weights`` maps dimension -> feature -> weight, in standard deviations of
    the score. The weight is added to a stretched ridge.

    ``offsets`` maps dimension -> language -> share of the scale, which is added to the scores of
    ridge heads. They make up for what a translation of the same dialogue loses in that language,
    and their languages are those of the judge.

    ``grid`` maps settings to the values of which training tries all combinations. Ridge and
    logistic heads have ``alpha``, the penalty (the rows of a source have a total weight of 1), and
    ``share``, the size of a vector's column relative to a feature's column, after both are
    standardised; 0 leaves vectors out. An MLP has the settings of scikit-learn's MLPClassifier, and
    ``classes``: it classifies into the classes 0 to k, to which Equation 1 of ORALIS maps the
    scale. A binary dimension has the classes 0 and 1. ``decode`` says whether a classifier's score
    is its expected class, or its likeliest class as in the paper. Without validation rows,
    cross-validation chooses the settings, with five folds of dialogues, or with one chatbot left
    out at a time (``fold_by: chatbot``).
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
                    f"no feature {feature!r}; there are {', '.join(names)}, each also as "
                    "user.NAME and assistant.NAME"
                )
        unread = sorted(prior_features - set(self.columns))
        if unread:
            raise ValueError(f"prior_weights: {unread[0]!r} is not one of the features")
        return self

    @model_validator(mode="after")
    def _settings_fit(self) -> LinearConfig:
        if self.prior_weights and not self.stretch:
            raise ValueError("prior_weights are for stretch: true")
        if self.reply and self.reading != "turns":
            raise ValueError("reply is for reading: turns")
        if self.reply is not None and sum(map(bool, self.reply.values())) < 2:
            raise ValueError("reply needs positive and negative reactions")
        if not self.vectors and (self.reading == "dialogue" or not self.features):
            raise ValueError(
                "vectors: false leaves nothing to read: name features, and no reading: dialogue"
            )
        return self

    @property
    def measures(self) -> tuple[str, ...]:
        """The features that need no reply model, without their side, each once."""
        names = dict.fromkeys(feature.rpartition(".")[2] for feature in self.features)
        return tuple(name for name in names if name not in REACTION_NAMES)

    @property
    def names(self) -> tuple[str, ...]:
        """``measures``, then the features of the reply model, without their side."""
        names = {feature.rpartition(".")[2] for feature in self.features}
        return self.measures + tuple(name for name in REACTION_NAMES if name in names)

    @property
    def columns(self) -> dict[str, tuple[tuple[int, str], ...]]:
        """Maps each name of a feature that is read to its columns (side, feature)."""
        columns: dict[str, tuple[tuple[int, str], ...]] = {}
        for feature in self.features:
            role, _, name = feature.rpartition(".")
            roles = (role,) if role else tuple(ROLE_INDEX)
            columns[feature] = tuple((ROLE_INDEX[role], name) for role in roles)
            for role in roles:
                columns[f"{role}.{name}"] = ((ROLE_INDEX[role], name),)
        return columns

    @property
    def compares_turns(self) -> bool:
        """Whether the vectors of the texts of turns are needed."""
        reads_vectors = self.vectors and self.reading != "dialogue"
        has_similarities = not set(self.measures).isdisjoint(SIMILARITY_NAMES)
        return reads_vectors or has_similarities or self.reply is not None

    @property
    def reads_base(self) -> bool:
        """Returns whether the base is needed. Without it, features of the texts alone are read."""
        return self.vectors or self.compares_turns

    def head_of(self, kind: str) -> HeadName:
        """Returns the head of a dimension of that kind."""
        return self.head or ("logistic" if kind == "binary" else "ridge")
