"""Alignment: judgements joined with ratings by (id, turn). What is not scored stays in sight."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from medal_judges.errors import MedalError
from medal_judges.eval.metaeval.results import Point
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.rating import mean
from medal_judges.stats.correlation import Floats
from medal_judges.stats.weights import Weights, row_weights

Key = tuple[str, int | None]
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Aligned:
    """Rows that people and judge both answered.

    ``values``: one column per annotator position on the raw scale, NaN where not given, shape
    (rows, annotators). ``human``: mean over the annotators who answered, ``score``: the judge's,
    shape (rows,). ``weights``: how often each row counts, shape (rows,), None where all count
    alike. ``total`` counts the rows with a human answer, scored or not; ``failures`` says
    why rows have no score.
    """

    rows: tuple[LabelledDialogue, ...]
    judgements: tuple[Judgement, ...]
    values: Floats
    human: Floats
    score: Floats
    total: int
    failures: Counter[str]
    weights: Floats | None = None

    @property
    def coverage(self) -> float | None:
        return len(self.rows) / self.total if self.total else None

    @property
    def chatbots(self) -> list[str | None]:
        return [row.dialogue.chatbot for row in self.rows]

    @property
    def groups(self) -> list[str]:
        return [row.group for row in self.rows]

    def points(self) -> list[Point]:
        counts = np.ones(len(self.rows)) if self.weights is None else self.weights
        return [
            Point(r.id, r.turn, float(h), float(s), r.dialogue.lang, r.dialogue.chatbot, r.group, w)
            for r, h, s, w in zip(self.rows, self.human, self.score, counts.tolist(), strict=True)
        ]

    def part(self, chosen: Sequence[int]) -> Aligned:
        """The same for a selection of the scored rows; ``total`` is then their number."""
        index = list(chosen)
        return Aligned(
            tuple(self.rows[i] for i in index),
            tuple(self.judgements[i] for i in index),
            self.values[index],
            self.human[index],
            self.score[index],
            len(index),
            Counter(),
            None if self.weights is None else self.weights[index],
        )


def align(
    rows: Iterable[LabelledDialogue],
    judgements: Iterable[Judgement],
    dimension: str,
    judge_dimension: str | None = None,
    *,
    left_out: Iterable[LabelledDialogue] = (),
    weights: Weights = "none",
) -> Aligned:
    """Join ``rows`` that have a label of ``dimension`` with the judge's ``judge_dimension``.

    A judgement belongs to a row of level turn when its ``turn`` is the row's, to a dialogue when
    it has none. A row without a judgement, or with an unscored one, counts against coverage.
    ``left_out``: rows that were judged too but are not part of this set. ``weights``: how rows
    count, see weights.py. Raises MedalError for
    judgements of rows that are neither, and for two rows or judgements of one (id, turn).
    """
    listed = list(rows)
    judged = _index(listed, judgements, {(row.id, row.turn) for row in left_out})
    answered = [(row, human) for row in listed if (human := _human(row, dimension)) is not None]
    pairs, failures = [], Counter[str]()
    for row, human in answered:
        judgement = judged.get((row.id, row.turn))
        score = judgement.scores.get(judge_dimension or dimension) if judgement else None
        if judgement is None or score is None:
            failures[_why(judgement)] += 1
        else:
            pairs.append((row, judgement, human, float(score)))
    return Aligned(
        tuple(row for row, *_ in pairs),
        tuple(judgement for _, judgement, *_ in pairs),
        answer_matrix([row for row, *_ in pairs], dimension),
        np.array([human for *_, human, _ in pairs], dtype=np.float64),
        np.array([score for *_, score in pairs], dtype=np.float64),
        len(answered),
        failures,
        row_weights([row for row, *_ in pairs], weights),
    )


def answer_matrix(rows: Sequence[LabelledDialogue], dimension: str) -> Floats:
    """Raw answers, shape (rows, annotators), NaN where none was given."""
    width = max((len(row.labels[dimension]) for row in rows), default=1)
    values = np.full((len(rows), width), np.nan)
    for i, row in enumerate(rows):
        for k, value in enumerate(row.labels[dimension]):
            if value is not None:
                values[i, k] = value
    return values


def _human(row: LabelledDialogue, dimension: str) -> float | None:
    rating = row.rating(dimension)
    return None if rating is None else mean(rating)


def _why(judgement: Judgement | None) -> str:
    if judgement is None:
        return "no judgement of this row"
    return judgement.failure or "no score for this dimension"


def _index(
    rows: Sequence[LabelledDialogue], judgements: Iterable[Judgement], ignored: set[Key]
) -> dict[Key, Judgement]:
    keys = Counter((row.id, row.turn) for row in rows)
    if twice := [key for key, count in keys.items() if count > 1]:
        raise MedalError(f"rows that occur twice in the set: {_names(twice)}")
    turn_of = {row.id: row.turn for row in rows}
    judged: dict[Key, Judgement] = {}
    unknown: list[Key] = []
    for judgement in judgements:
        key = (judgement.id, judgement.turn)
        if key not in keys and judgement.turn is None and not _has_score(judgement):
            # a row of level turn without an assistant turn is judged as unscored, without a turn
            key = (judgement.id, turn_of.get(judgement.id))
        if key in judged:
            raise MedalError(f"two judgements of {_names([key])}")
        if key in keys:
            judged[key] = judgement
        elif key not in ignored:
            unknown.append(key)
    if unknown:
        raise MedalError(
            f"{len(unknown)} judgements of rows that are not in the set: {_names(unknown)}",
            hint="was another file judged, or another level? (--level last for turn-level sets)",
        )
    return judged


def _has_score(judgement: Judgement) -> bool:
    return any(value is not None for value in judgement.scores.values())


def _names(keys: Sequence[Key]) -> str:
    shown = [id if turn is None else f"{id} (turn {turn})" for id, turn in keys[:_SHOWN]]
    return ", ".join(shown) + (", ..." if len(keys) > _SHOWN else "")
