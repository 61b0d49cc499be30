"""Makes the columns that a linear judge's heads read from a dialogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from medal_judges.models.base.turn_features import (
    ALL_FEATURES,
    ROLE_INDEX,
    SIMILARITY_NAMES,
    turn_features,
    turn_similarities,
)
from medal_judges.models.batching import BEFORE_BATCH
from medal_judges.models.linear.config import REACTION_NAMES, LinearConfig
from medal_judges.records.dialogue import Dialogue, Turn

if TYPE_CHECKING:
    from medal_judges.models.linear.encoder import Pieces, TextEncoder
    from medal_judges.models.linear.reply import Reactions

Floats = npt.NDArray[np.float64]
Vectors = npt.NDArray[np.float32]


@dataclass(slots=True)
class TurnReading:
    """The features and vectors of a dialogue's turns, not standardised.

    ``roles`` [T] is 1 for the assistant. ``measures`` [T, F] are features. ``texts`` [T, H] are
    unit vectors of the texts, without columns if turns are not compared. ``vectors`` [T, W] become
    columns of the heads, and may have none. ``weights`` [T] is each turn's weight in the mean of
    its side. ``text_vector`` [W] is the vector of the whole text (``reading:
    dialogue``).

    ``skipped`` counts the oldest turns, which are not in these arrays. ``turn_tokens`` [T] counts
    the tokens of each turn. ``cosines`` [T, T] are those of the texts. ``context`` is what the
    reply models read; None if there are none yet.
    """

    roles: npt.NDArray[np.int64]
    measures: Floats
    texts: Vectors
    vectors: Vectors
    weights: Floats
    text_vector: Vectors
    turn_tokens: npt.NDArray[np.int64]
    cosines: Floats
    context: Tensor | None = None
    skipped: int = 0

    def read_turns(self) -> TurnReading:
        """Returns the reading with only those turns that have a weight."""
        rows = np.flatnonzero(self.weights)
        return TurnReading(
            self.roles[rows],
            self.measures[rows],
            self.texts[rows],
            self.vectors[rows],
            self.weights[rows],
            self.text_vector,
            self.turn_tokens[rows],
            self.cosines,
        )

    def part(self, turns: slice, skipped: int) -> TurnReading:
        """Returns the reading of some of these turns, without measures and weights."""
        return replace(
            self,
            skipped=skipped,
            roles=self.roles[turns],
            texts=self.texts[turns],
            vectors=self.vectors[turns],
            turn_tokens=self.turn_tokens[turns],
            cosines=self.cosines[turns, turns],
            context=None if self.context is None else self.context[turns],
        )


@dataclass(slots=True)
class TurnScale:
    """Standardises the features and vectors of turns, by role.

    It subtracts ``mean`` [2, F] from features and divides them by ``deviation`` [2, F], and
    subtracts ``centre`` [2, W] from vectors. So a side without turns adds nothing. The scale comes
    from the training data, and a new domain is not centred on itself. The defaults change nothing.
    """

    mean: Floats
    deviation: Floats
    centre: Floats

    @classmethod
    def neutral(cls, features: int, width: int) -> TurnScale:
        """Returns the scale that changes nothing."""
        return cls(
            np.zeros((2, features)), np.ones((2, features)), np.zeros((2, width))
        )

    def tensors(self) -> dict[str, Floats]:
        """Returns the arrays that are saved; an empty one cannot be."""
        arrays = {"mean": self.mean, "deviation": self.deviation, "centre": self.centre}
        return {f"scale.{name}": array for name, array in arrays.items() if array.size}

    def standardised(
        self, measures: Floats, roles: npt.NDArray[np.int64], limit: float | None
    ) -> Floats:
        """Returns the first features [T, at most F], standardised and clipped at ``limit``."""
        count = measures.shape[1]
        scores = (measures - self.mean[roles, :count]) / self.deviation[roles, :count]
        return scores if limit is None else np.clip(scores, -limit, limit)


class DialogueReader:
    """Reads dialogues in two steps.

    ``read`` computes features and vectors of turns. ``rows`` and ``pool`` make columns of them.
    ``encoder`` is None if only features of texts are read. ``text_vectors`` caches the vectors of
    texts; None caches nothing.
    """

    def __init__(self, config: LinearConfig, encoder: TextEncoder | None) -> None:
        self.config, self.encoder = config, encoder
        self.places = [ALL_FEATURES.index(name) for name in config.measures]
        self.has_vectors = config.vectors and config.reading != "dialogue"
        self.width = encoder.width if encoder is not None and config.vectors else 0
        self.turn_width = self.width if self.has_vectors else 0
        self.scale = TurnScale.neutral(len(config.names), self.turn_width)
        self.reactions: Reactions | None = None
        self.text_vectors: dict[str, Vectors] | None = None

    @cached_property
    def layout(self) -> list[tuple[int, str] | None]:
        """The side and the name of the feature in each column [C]; None for a vector's column."""
        layout: list[tuple[int, str] | None] = []
        if self.config.reading == "dialogue":
            layout += [None] * self.width
        for side in (0, 1):
            layout += [(side, name) for name in self.config.names]
            layout += [None] * self.turn_width
        return layout

    @property
    def is_vector(self) -> npt.NDArray[np.bool_]:
        """Says which columns [C] belong to vectors; the others are features."""
        return np.array([feature is None for feature in self.layout])

    def named(self, values: Mapping[str, float]) -> Floats:
        """Returns the columns [C] with the value of each feature that ``values`` name; else 0."""
        columns = np.zeros(len(self.layout))
        for name, value in values.items():
            for feature in self.config.columns[name]:
                columns[self.layout.index(feature)] = value
        return columns

    # -- what costs: features and vectors of turns -----------------------------------------------

    def read(self, dialogues: Sequence[Dialogue], budget: int) -> list[TurnReading]:
        """Returns the reading of each dialogue. Each distinct text is encoded once; ``budget`` is
        the maximum number of padded tokens in a batch."""
        skipped = [self._skipped(dialogue) for dialogue in dialogues]
        # Answers that skip about as many turns share a reading, of twice max_turns at most.
        wholes = _longest(dialogues, [n // self.config.max_turns for n in skipped])
        spans: dict[int, tuple[Turn, ...]] = {}  # the turns of each whole that are read
        for whole, start in zip(wholes, skipped, strict=True):
            span = whole.turns[start:]
            spans[id(whole)] = max(span, spans.get(id(whole), ()), key=len)
        all_turns = chain.from_iterable(spans.values())
        pieces = self._pieces([turn.content for turn in all_turns])
        vectors: dict[str, Vectors] = {}
        if self.config.compares_turns:
            vectors = self._embedded(pieces, budget)
        whole_readings = {}
        for key, span in spans.items():
            whole_readings[key] = self._reading(span, vectors, pieces)
        readings = []
        for dialogue, whole, start in zip(dialogues, wholes, skipped, strict=True):
            first = len(whole.turns) - len(spans[id(whole)])
            turns = slice(start - first, len(dialogue.turns) - first)
            readings.append(whole_readings[id(whole)].part(turns, start))
        self._measure(readings, dialogues)
        if self.config.reading == "dialogue":
            texts = [_text(dialogue) for dialogue in dialogues]
            vectors = self._embedded(self._pieces(texts), budget)
            for reading, text in zip(readings, texts, strict=True):
                reading.text_vector = vectors[text]
        for reading in readings:
            reading.weights = self._weights(reading)
        return readings

    def _measure(
        self, readings: Sequence[TurnReading], dialogues: Sequence[Dialogue]
    ) -> None:
        """Sets the measures of each reading."""
        surfaces: dict[int, Vectors] = {}
        longest_dialogues = _longest(dialogues, [0] * len(dialogues))
        for reading, longest in zip(readings, longest_dialogues, strict=True):
            BEFORE_BATCH.get()()
            if id(longest) not in surfaces:
                surfaces[id(longest)] = turn_features(longest)
            surface = surfaces[id(longest)][reading.skipped :][: len(reading.roles)]
            similarities = np.zeros((len(reading.roles), len(SIMILARITY_NAMES)))
            if reading.cosines.size:
                similarities = turn_similarities(reading.cosines, reading.roles)
            measures = np.concatenate([surface, similarities], axis=1)
            reading.measures = measures[:, self.places]

    def _skipped(self, dialogue: Dialogue) -> int:
        """Returns the number of oldest turns that are not read. The last answer is always read."""
        if self.encoder is None:
            return 0
        last = dialogue.assistant_turns[-1]
        return max(0, min(len(dialogue.turns) - self.config.max_turns, last))

    def _reading(
        self,
        turns: Sequence[Turn],
        vectors: Mapping[str, Vectors],
        pieces: Mapping[str, Pieces],
    ) -> TurnReading:
        """Returns the reading of ``turns``, without measures and weights."""
        nothing = np.zeros((len(turns), 0), dtype=np.float32)
        texts, cosines, context = nothing, np.zeros((0, 0)), None
        if vectors:
            texts = np.stack([vectors[turn.content] for turn in turns])
            unit = texts.astype(np.float64)
            cosines = unit @ unit.T
        if self.reactions is not None:
            context = self.reactions.read(texts)
        turn_tokens = np.ones(len(turns), dtype=np.int64)
        if self.encoder is not None:
            turn_tokens[:] = [_tokens(pieces[turn.content]) for turn in turns]
        return TurnReading(
            np.array([ROLE_INDEX[turn.role] for turn in turns], dtype=np.int64),
            np.zeros((len(turns), 0)),
            texts,
            texts if self.has_vectors else nothing,
            np.zeros(len(turns)),
            np.zeros(0, dtype=np.float32),
            turn_tokens,
            cosines,
            context,
        )

    def _weights(self, reading: TurnReading) -> Floats:
        """Returns the weight of each turn. With ``reading: answers`` only the last answer counts,
        with the user turn before it. Otherwise all turns of a side weigh the same."""
        roles, weights = reading.roles, np.zeros(len(reading.roles))
        if self.config.reading == "answers":
            answers = np.flatnonzero(roles == 1).tolist()
            return answer_weights(roles, answers[-1:])
        for side in (0, 1):
            weights[roles == side] = 1 / max(1, int((roles == side).sum()))
        return weights

    def _pieces(self, texts: Sequence[str]) -> dict[str, Pieces]:
        """Returns the token pieces of each distinct text."""
        if self.encoder is None:
            return {}
        distinct = list(dict.fromkeys(texts))
        pieces = map(self.encoder.pieces, self.encoder.token_ids(distinct))
        return dict(zip(distinct, pieces, strict=True))

    def _embedded(
        self, pieces: Mapping[str, Pieces], budget: int
    ) -> dict[str, Vectors]:
        """Returns the vector of each text."""
        assert self.encoder is not None
        vectors = {} if self.text_vectors is None else self.text_vectors
        texts = [text for text in pieces if text not in vectors]
        embedded = self.encoder.embed([pieces[text] for text in texts], budget)
        vectors.update(zip(texts, embedded, strict=True))
        return vectors

    # -- what is cheap: columns ------------------------------------------------------------------

    def features(self, reading: TurnReading, half: int | None = None) -> Floats:
        """Returns all features of each turn [T, F], not standardised. ``half`` selects the reply
        model (in training); None uses the mean of both."""
        if self.reactions is None:
            return reading.measures
        standardised = self.scale.standardised(
            reading.measures, reading.roles, self.config.limit
        )
        if reading.context is None:  # in training
            context = self.reactions.read(reading.texts)
        else:  # the first two turns do not see those before them
            first = self.reactions.read(reading.texts[:2])
            context = torch.cat([first, reading.context[2:]])
        reactions = self.reactions.columns(
            reading.texts, context, standardised, reading.roles, half
        )
        is_read = np.isin(REACTION_NAMES, self.config.names)
        return np.concatenate([reading.measures, reactions[:, is_read]], axis=1)

    def rows(self, reading: TurnReading, half: int | None = None) -> Floats:
        """Returns the columns of each turn [T, F + W]: features, then its vector."""
        features = self.features(reading, half)
        standardised = self.scale.standardised(
            features, reading.roles, self.config.limit
        )
        vectors = reading.vectors - self.scale.centre[reading.roles]
        return np.concatenate([standardised, vectors], axis=1)

    def pool(
        self, reading: TurnReading, rows: Floats, weights: Floats | None = None
    ) -> Floats:
        """Returns the columns of the dialogue [C]: the vector of its text, if it has one, then for
        each side the weighted sum of its ``rows``."""
        if weights is None:
            weights = reading.weights
        parts: list[npt.NDArray[np.floating]] = []
        if self.config.reading == "dialogue":
            parts.append(reading.text_vector)
        for side in (0, 1):
            of_side = reading.roles == side
            parts.append(weights[of_side] @ rows[of_side])
        return np.concatenate(parts).astype(np.float64)


def answer_weights(roles: npt.NDArray[np.int64], answers: Sequence[int]) -> Floats:
    """Returns the weight of each turn in the mean of ``answers``: each counts the same, and so does
    the last user turn before it, if there is one."""
    weights = np.zeros(len(roles))
    for answer in answers:
        user_turns = np.flatnonzero(roles[:answer] == 0)
        weights[[*user_turns[-1:], answer]] += 1 / len(answers)
    return weights


def _longest(dialogues: Sequence[Dialogue], keys: Sequence[int]) -> list[Dialogue]:
    """Returns for each dialogue the longest one with its key that begins with all its turns: at
    level turn, the dialogues are beginnings of a few."""
    longest: dict[tuple[int, int], Dialogue] = {}
    for dialogue, key in zip(dialogues, keys, strict=True):
        group = id(dialogue.turns[0]), key
        before = longest.setdefault(group, dialogue)
        if len(dialogue.turns) > len(before.turns):
            longest[group] = dialogue
    wholes = []
    for dialogue, key in zip(dialogues, keys, strict=True):
        full = longest[id(dialogue.turns[0]), key]
        is_beginning = full.turns[: len(dialogue.turns)] == dialogue.turns
        wholes.append(full if is_beginning else dialogue)
    return wholes


def _tokens(pieces: Pieces) -> int:
    return sum(map(len, pieces))


def _text(dialogue: Dialogue) -> str:
    return "\n".join(
        f"{turn.role.capitalize()}: {turn.content}" for turn in dialogue.turns
    )
