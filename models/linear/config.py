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
    """The settings of a linear judge, saved in its judge.json. The judge has a frozen text encoder,
    and one head (a linear model or an MLP) for each dimension.

    Attributes:
        base: The pretrained text encoder, which is not trained: a Hub id, a folder,
            ``embedded:minilm`` or ``embedded:e5``.
        base_revision: The branch, tag or commit of a Hub id. None is the main branch.
        max_tokens: The maximum number of tokens that the encoder reads at once. Longer texts are
            encoded in pieces.
        reading: What a head reads. ``turns``: the mean embedding and mean features of the user's
            turns, and those of the assistant's. ``dialogue``: the embedding of the whole dialogue
            as one text, and the mean features of the user's and of the assistant's turns.
            ``answers``: the mean of all answers, where an answer is an assistant turn with the user
            turn before it. On a dimension on which low scores are good, the score is that of the
            worst answer instead.
        vectors: Whether the heads read embeddings. Otherwise they read ``features`` only.
        features: The names of turn features, listed in base/turn_features.py. ``log_words`` (log of
            the number of words) is for both speakers, ``user.log_words`` for the user only.
        limit: The maximum absolute value of a standardised feature. Larger values are clipped. None
            clips nothing.
        reply: Example replies of a pleased and of an annoyed user, such as ``{"positive": ["Good
            point."], "negative": ["Stop it."]}``. The features ``reaction``, ``expected_reaction``
            and ``follows_answer`` compare turns with these replies. None is for a judge without
            these features.
        head: The model of each dimension: ``ridge``, ``logistic`` or ``mlp_classifier``. None is
            ``logistic`` for a binary dimension and ``ridge`` for any other.
        grid: Hyperparameter -> the values among which training chooses, such as ``{"alpha": [0.1,
            1]}``. Linear heads have ``alpha`` (L2 penalty) and ``share`` (a factor on embeddings,
            where 0 ignores them). MLPs have ``classes`` (the highest class, where the lowest is 0)
            and the arguments of scikit-learn's MLPClassifier. A hyperparameter that is not given
            has default values.
        stretch: Whether to rescale a ridge head's scores to the standard deviation of the labels.
        prior_weights: Dimension -> feature -> a weight to add to the fitted weights, such as
            ``{"overall": {"user.near_copy": -0.25}}``. If the largest absolute value is 0.25, the
            added part of the scores has 0.25 times the standard deviation of the fitted part. Needs
            ``stretch``.
        offsets: Dimension -> language -> a constant to add to a ridge head's score, as a fraction
            of the scale, such as ``{"overall": {"de": 0.03}}``. If given, the judge supports only
            these languages.
        decode: How an MLP's class probabilities become a score: the ``expected`` class, or the most
            probable class (``argmax``).
        fold_by: What cross-validation holds out in a fold: a fifth of the dialogues
            (``conversation``) or all dialogues of one ``chatbot``.

    Raises:
        ValueError: A feature is unknown, or two settings conflict.
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
    def bare_names_without_reply(self) -> tuple[str, ...]:
        """The feature names without the prefix ``user.`` or ``assistant.``, each once, such as
        ``("log_words", "copy")``. The features that need the setting ``reply`` are left out."""
        names = dict.fromkeys(feature.rpartition(".")[2] for feature in self.features)
        return tuple(name for name in names if name not in REACTION_NAMES)

    @property
    def bare_feature_names(self) -> tuple[str, ...]:
        """The feature names without the prefix ``user.`` or ``assistant.``, each once, such as
        ``("log_words", "reaction")``. The features that need the setting ``reply`` come last."""
        names = {feature.rpartition(".")[2] for feature in self.features}
        return self.bare_names_without_reply + tuple(
            name for name in REACTION_NAMES if name in names
        )

    @property
    def feature_columns(self) -> dict[str, tuple[tuple[int, str], ...]]:
        """Feature -> its input columns, each as a pair (side, name). Side 0 is the user, side 1 the
        assistant.

        The feature ``copy`` is for both speakers and gives three keys: ``copy`` with the columns
        ``(0, "copy")`` and ``(1, "copy")``, ``user.copy`` with the first column, and
        ``assistant.copy`` with the second.
        """
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
        """Whether the judge needs an embedding of each turn."""
        reads_vectors = self.vectors and self.reading != "dialogue"
        has_similarities = not set(self.bare_names_without_reply).isdisjoint(
            SIMILARITY_NAMES
        )
        return reads_vectors or has_similarities or self.reply is not None

    @property
    def needs_base(self) -> bool:
        """Whether the judge needs its text encoder. If not, the judge reads only features that are
        computed without embeddings."""
        return self.vectors or self.needs_turn_vectors

    def head_name(self, kind: str) -> HeadName:
        """Returns the model of a dimension: ``ridge``, ``logistic`` or ``mlp_classifier``.

        Args:
            kind: The dimension's kind, such as ``binary``. It matters only if the setting ``head``
                is None.
        """
        return self.head or ("logistic" if kind == "binary" else "ridge")
