"""Turns a dialogue into columns, the input of a linear judge's heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from medal_judges.models.base.turn_features import (
    ALL_FEATURES,
    ROLE_INDEX,
    SIMILARITY_NAMES,
    surface_features,
    turn_similarities,
)
from medal_judges.models.batching import BEFORE_BATCH
from medal_judges.models.linear.config import MAX_TURNS, REACTION_NAMES, LinearConfig
from medal_judges.models.linear.encoder import Pieces, TextEncoder
from medal_judges.models.linear.reply import Reactions
from medal_judges.records.dialogue import Dialogue, Turn

Floats = npt.NDArray[np.float64]
Vectors = npt.NDArray[np.float32]
_NOTHING: Vectors = np.zeros(0, dtype=np.float32)


@dataclass(slots=True)
class DialogueReading:
    """The features and embeddings of a dialogue's T turns, before they are standardised.

    M and F are numbers of features, and H is the width of an embedding. A reply model is a network
    that predicts the user's next turn.

    Attributes:
        roles: 0 for a user turn, 1 for an assistant turn, [T].
        measures: The features that need no reply model, [T, M].
        features: The features that the heads read, [T, F]. They are ``measures``, followed by the
            features from the reply models if there are any.
        texts: The embeddings of the turns (unit vectors), [T, H], or [T, 0] if not needed.
        vectors: The same embeddings as ``texts`` if the heads read embeddings of turns. Otherwise
            [T, 0].
        weights: The weight of each turn in the mean over its speaker's turns, [T].
        text_vector: The embedding of the whole dialogue, [H], if the judge's setting ``reading`` is
            ``dialogue``. Otherwise it is empty.
        tokens: The number of tokens of the T turns. Without an encoder it is T.
        skipped: How many of the oldest turns are left out of these arrays, because the dialogue has
            more than 512.
    """

    roles: npt.NDArray[np.int64]
    measures: Floats
    features: Floats
    texts: Vectors
    vectors: Vectors
    weights: Floats
    text_vector: Vectors
    tokens: int = 0
    skipped: int = 0

    def drop_unweighted_turns(self) -> DialogueReading:
        """Returns a copy with only those turns whose weight is not 0. With the setting ``reading:
        answers`` these are the turns of the last answer."""
        rows = np.flatnonzero(self.weights)
        names = ("roles", "measures", "features", "texts", "vectors", "weights")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})


@dataclass(slots=True)
class TurnScale:
    """Standardises the F features and the embeddings (W numbers) of turns with statistics of the
    training data.

    In each array, row 0 is for user turns and row 1 for assistant turns.

    Attributes:
        mean: The mean of each feature, [2, F].
        deviation: The standard deviation of each feature, [2, F].
        centre: The mean embedding, which is subtracted from embeddings, [2, W].
    """

    # The mean turn becomes 0, so a speaker without turns counts as average.
    mean: Floats
    deviation: Floats
    centre: Floats

    @classmethod
    def neutral(cls, features: int, width: int) -> TurnScale:
        """Returns a TurnScale that changes nothing: all means are 0, and all standard deviations
        are 1.

        Args:
            features: The number F of features.
            width: The number W of components of an embedding.
        """
        return cls(
            np.zeros((2, features)), np.ones((2, features)), np.zeros((2, width))
        )

    def named_arrays(self) -> dict[str, Floats]:
        """Returns tensor name -> array, such as ``{"scale.mean": ...}``. It has no empty arrays."""
        arrays = asdict(self)
        return {f"scale.{name}": array for name, array in arrays.items() if array.size}

    def standardise(
        self, measures: Floats, roles: npt.NDArray[np.int64], limit: float | None
    ) -> Floats:
        """Returns standardised features of T turns, [T, m]: less the mean, divided by the standard
        deviation.

        Args:
            measures: The first m of the F features of each turn, [T, m].
            roles: 0 for a user turn, 1 for an assistant turn, [T].
            limit: The maximum absolute value. Larger values are clipped. None clips nothing.
        """
        count = measures.shape[1]
        scores = (measures - self.mean[roles, :count]) / self.deviation[roles, :count]
        return scores if limit is None else np.clip(scores, -limit, limit)


def concat_field(readings: Sequence[DialogueReading], field: str) -> npt.NDArray[Any]:
    """Returns one array with a row for each turn of all ``readings``, in order.

    Args:
        field: The name of an array of DialogueReading with a row for each turn, such as
            ``features``.
    """
    return np.concatenate([getattr(reading, field) for reading in readings])


class DialogueReader:
    """Turns dialogues into the inputs of a linear judge's heads: features and embeddings.

    Args:
        config: The judge's settings.
        encoder: The model for embeddings. None if the judge reads only features of the text.
    """

    def __init__(self, config: LinearConfig, encoder: TextEncoder | None) -> None:
        self.config, self.encoder = config, encoder
        self.names = config.bare_feature_names
        self.places = [
            ALL_FEATURES.index(name) for name in config.bare_names_without_reply
        ]
        self.has_vectors = config.vectors and config.reading != "dialogue"
        self.width = encoder.width if encoder is not None and config.vectors else 0
        self.turn_width = self.width if self.has_vectors else 0
        self.scale = TurnScale.neutral(len(config.bare_feature_names), self.turn_width)
        self.reactions: Reactions | None = None

    @cached_property
    def layout(self) -> list[tuple[int, str] | None]:
        """What each of the C input columns of a head holds: a pair (side, feature), or None for a
        component of an embedding. Side 0 is the user, side 1 the assistant."""
        layout: list[tuple[int, str] | None] = []
        if self.config.reading == "dialogue":
            layout += [None] * self.width
        for side in (0, 1):
            layout += [(side, name) for name in self.config.bare_feature_names]
            layout += [None] * self.turn_width
        return layout

    @property
    def vector_mask(self) -> npt.NDArray[np.bool_]:
        """Whether each of the C input columns of a head is a component of an embedding, [C]. False
        is a feature."""
        return np.array([feature is None for feature in self.layout])

    def feature_row(self, values: Mapping[str, float]) -> Floats:
        """Returns one input row of a head, [C]. Columns of features that are not given are 0.

        Args:
            values: Feature -> the number to write, such as ``{"user.copy": 1.0}``. ``copy`` without
                a prefix writes it for the user and for the assistant.
        """
        columns = np.zeros(len(self.layout))
        for name, value in values.items():
            for feature in self.config.feature_columns[name]:
                columns[self.layout.index(feature)] = value
        return columns

    # -- what costs: features and vectors of turns -----------------------------------------------

    def read(self, dialogues: Sequence[Dialogue], budget: int) -> list[DialogueReading]:
        """Computes the features and embeddings of the turns of each of ``dialogues``, in order.
        Features that need a reply model are not computed yet.

        Args:
            budget: The maximum number of tokens in a batch of the encoder, with padding.
        """
        starts = [self._count_skipped(dialogue) for dialogue in dialogues]
        spans = [d.turns[start:] for d, start in zip(dialogues, starts, strict=True)]
        pieces = self._token_pieces([turn.content for span in spans for turn in span])
        vectors: dict[str, Vectors] = {}
        if self.config.needs_turn_vectors:
            vectors = self._embed(pieces, budget)
        surfaces: dict[int, Vectors] = {}
        readings: list[DialogueReading] = []
        for dialogue, start in zip(
            _longest_continuations(dialogues), starts, strict=True
        ):
            BEFORE_BATCH.get()()
            if id(dialogue) not in surfaces:
                surfaces[id(dialogue)] = surface_features(dialogue)
            span = spans[len(readings)]
            surface = surfaces[id(dialogue)][start:][: len(span)]
            readings.append(self._make_reading(span, surface, vectors, pieces, start))
        if self.config.reading == "dialogue":
            texts = [_dialogue_text(dialogue) for dialogue in dialogues]
            vectors = self._embed(self._token_pieces(texts), budget)
            for reading, text in zip(readings, texts, strict=True):
                reading.text_vector = vectors[text]
        return readings

    def _count_skipped(self, dialogue: Dialogue) -> int:
        """Returns how many of the oldest turns of ``dialogue`` to leave out, because it is too
        long."""
        if self.encoder is None:
            return 0
        last = dialogue.assistant_turns[-1]
        return max(0, min(len(dialogue.turns) - MAX_TURNS, last))

    def _make_reading(
        self,
        turns: Sequence[Turn],
        surface: Vectors,
        vectors: Mapping[str, Vectors],
        pieces: Mapping[str, Pieces],
        skipped: int,
    ) -> DialogueReading:
        """Returns the features and embeddings of ``turns``, the T turns of one dialogue.

        Args:
            surface: The features of each turn that need no embeddings, [T, S].
            vectors: Text -> its embedding. Empty if embeddings of turns are not needed.
            pieces: Text -> its token ids, by which tokens are counted.
            skipped: How many older turns of the dialogue are left out.
        """
        sides, texts = [], []
        tokens = 0 if self.encoder is not None else len(turns)
        for turn in turns:
            sides.append(ROLE_INDEX[turn.role])
            texts.append(vectors.get(turn.content, _NOTHING))
            tokens += sum(map(len, pieces.get(turn.content, ())))
        roles, stacked = np.array(sides, dtype=np.int64), np.stack(texts)
        similarities = np.zeros((len(turns), len(SIMILARITY_NAMES)))
        if vectors:
            unit = stacked.astype(np.float64)
            similarities = turn_similarities(unit @ unit.T, roles)
        measures = np.concatenate([surface, similarities], axis=1)[:, self.places]
        return DialogueReading(
            roles=roles,
            measures=measures,
            features=measures,
            texts=stacked,
            vectors=stacked if self.has_vectors else stacked[:, :0],
            weights=self._turn_weights(roles),
            text_vector=_NOTHING,
            tokens=tokens,
            skipped=skipped,
        )

    def _turn_weights(self, roles: npt.NDArray[np.int64]) -> Floats:
        """Returns the weight of each turn in the mean over its speaker's turns, [T].

        With ``reading: answers`` only the last assistant turn and the user turn before it have
        weights above 0.

        Args:
            roles: 0 for a user turn, 1 for an assistant turn, [T].
        """
        if self.config.reading == "answers":
            return answer_weights(roles, np.flatnonzero(roles == 1)[-1:].tolist())
        weights = np.zeros(len(roles))
        for side in (0, 1):
            weights[roles == side] = 1 / max(1, int((roles == side).sum()))
        return weights

    def _token_pieces(self, texts: Sequence[str]) -> dict[str, Pieces]:
        """Returns text -> its token ids, in pieces that fit the encoder, for each distinct text in
        ``texts``. Empty without an encoder."""
        if self.encoder is None:
            return {}
        distinct = list(dict.fromkeys(texts))
        pieces = map(self.encoder.to_pieces, self.encoder.token_ids(distinct))
        return dict(zip(distinct, pieces, strict=True))

    def _embed(self, pieces: Mapping[str, Pieces], budget: int) -> dict[str, Vectors]:
        """Returns text -> its embedding.

        Args:
            pieces: Text -> its token ids, in pieces that fit the encoder.
            budget: The maximum number of padded tokens in a batch.
        """
        assert self.encoder is not None
        vectors = self.encoder.embed(list(pieces.values()), budget)
        return dict(zip(pieces, vectors, strict=True))

    # -- what is cheap: columns ------------------------------------------------------------------

    def add_reply_features(
        self, readings: Sequence[DialogueReading], half: int | None = None
    ) -> None:
        """Appends the features from the reply models (which predict the user's next turn) to
        ``features`` of each of ``readings``.

        Does nothing if the judge has no reply models.

        Args:
            half: In training, which of the two reply models to use, 0 or 1. None takes the mean of
                both.
        """
        if self.reactions is None or not readings:
            return
        roles = [reading.roles for reading in readings]
        measures = self.scale.standardise(
            concat_field(readings, "measures"), np.concatenate(roles), self.config.limit
        )
        texts = [reading.texts for reading in readings]
        reactions = self.reactions.reaction_features(texts, measures, roles, half)
        is_read = np.isin(REACTION_NAMES, self.names)
        for reading, columns in zip(readings, reactions, strict=True):
            features = [reading.measures, columns[:, is_read]]
            reading.features = np.concatenate(features, axis=1)

    def turn_columns(self, readings: Sequence[DialogueReading]) -> Floats:
        """Returns a row for each of the T turns of all ``readings``, [T, F + W]: its F standardised
        features, then the W numbers of its embedding. The mean embedding of the training data is
        subtracted. W is 0 if the heads read no embeddings of turns."""
        sides = concat_field(readings, "roles")
        standardised = self.scale.standardise(
            concat_field(readings, "features"), sides, self.config.limit
        )
        centred = concat_field(readings, "vectors") - self.scale.centre[sides]
        return np.concatenate([standardised, centred], axis=1)

    def pool_turns(
        self, readings: Sequence[DialogueReading], rows: Floats, weights: Floats
    ) -> Floats:
        """Returns the inputs of the heads for n dialogues, [n, C].

        The C columns are the embedding of the whole dialogue (only with the setting ``reading:
        dialogue``), the weighted sum of the user turns, and the weighted sum of the assistant
        turns.

        Args:
            readings: The n dialogues, with T turns in all.
            rows: The F standardised features and the embedding (W numbers) of each turn, [T, F +
                W].
            weights: How much each turn counts in the sum of its speaker's turns, [T].
        """
        sides = concat_field(readings, "roles")
        ends = np.cumsum([len(reading.roles) for reading in readings])
        texts = np.stack([reading.text_vector for reading in readings])
        columns: list[npt.NDArray[np.floating]] = [texts]
        for side in (0, 1):
            of_side = rows * np.where(sides == side, weights, 0.0)[:, None]
            columns.append(np.add.reduceat(of_side, [0, *ends[:-1]]))
        return np.concatenate(columns, axis=1)


def answer_weights(roles: npt.NDArray[np.int64], answers: Sequence[int]) -> Floats:
    """Returns the weight of each of a dialogue's T turns in a mean over answers, [T]. An answer is
    an assistant turn with the last user turn before it. Each of n answers adds 1 / n to the weights
    of its turns.

    Args:
        roles: 0 for a user turn, 1 for an assistant turn, [T].
        answers: The indices in ``roles`` of the assistant turns of these answers.
    """
    weights = np.zeros(len(roles))
    for answer in answers:
        user_turns = np.flatnonzero(roles[:answer] == 0)
        weights[[*user_turns[-1:], answer]] += 1 / len(answers)
    return weights


def _longest_continuations(dialogues: Sequence[Dialogue]) -> list[Dialogue]:
    """Returns, for each of ``dialogues``, the longest dialogue in the list that begins with all of
    its turns."""
    # When each answer is scored, many dialogues are beginnings of a few long ones.
    longest: dict[int, Dialogue] = {}
    for dialogue in dialogues:
        before = longest.setdefault(id(dialogue.turns[0]), dialogue)
        if len(dialogue.turns) > len(before.turns):
            longest[id(dialogue.turns[0])] = dialogue
    wholes = []
    for dialogue in dialogues:
        full = longest[id(dialogue.turns[0])]
        is_beginning = full.turns[: len(dialogue.turns)] == dialogue.turns
        wholes.append(full if is_beginning else dialogue)
    return wholes


def _dialogue_text(dialogue: Dialogue) -> str:
    return "\n".join(
        f"{turn.role.capitalize()}: {turn.content}" for turn in dialogue.turns
    )
