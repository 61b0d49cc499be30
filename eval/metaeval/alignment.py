"""Judgements joined with ratings by (id, turn), once for a judge and a set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, zip_longest

import numpy as np

from medal_judges.errors import MedalError
from medal_judges.records.dimension import Kind
from medal_judges.records.joining import ScoreKey, join_labels
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue, Scale
from medal_judges.stats.correlation import Floats
from medal_judges.stats.equal import Values, tolerance_of
from medal_judges.stats.intervals import Clusters, choose_clusters

Key = tuple[str, int | None]


@dataclass(frozen=True, slots=True)
class Aligned:
    """Rows that both people and the judge scored, on one dimension.

    ``answers``: the raw answers of people, shape (rows, annotators), NaN if not given. ``people``:
    their means. ``judge``: the judge's scores. ``total``: the number of rows with a label, scored
    or not.
    """

    rows: tuple[LabelledDialogue, ...]
    answers: Values
    people: Values
    judge: Values
    total: int

    @property
    def chatbots(self) -> list[str | None]:
        return [row.dialogue.chatbot for row in self.rows]

    @property
    def clusters(self) -> Clusters:
        return choose_clusters(self.chatbots, [row.group for row in self.rows])

    def part(self, indices: Iterable[int]) -> Aligned:
        """Returns a selection of the rows. ``total`` becomes their number."""
        index = np.fromiter(indices, dtype=np.intp)
        return Aligned(
            tuple(self.rows[i] for i in index),
            self.answers[index],
            self.people[index],
            self.judge[index],
            len(index),
        )

    def shared(self, second: Aligned) -> tuple[Aligned, Aligned]:
        """Returns the rows that both have, in this order: first with this judge's scores, then with
        the scores of ``second``."""
        indices_of_second = {_key(row): i for i, row in enumerate(second.rows)}
        indices = [
            i for i, row in enumerate(self.rows) if _key(row) in indices_of_second
        ]
        second_indices = [indices_of_second[_key(self.rows[i])] for i in indices]
        return self.part(indices), second.part(second_indices)


@dataclass(frozen=True, slots=True)
class Joined:
    """The rows of a set, each with the judgement of its chat, or None without one. ``scales``:
    (lowest, highest) of the judge's dimensions, as far as they are known. ``notes``: how many rows
    were left out, because their ids were judged with other chats."""

    rows: Sequence[LabelledDialogue]
    judgements: Sequence[Judgement | None]
    scales: Mapping[str, Scale] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def on(self, dimension: str, judge_dimension: str) -> Aligned:
        """Returns the rows with a label of ``dimension`` and a score of ``judge_dimension``."""
        rows: list[LabelledDialogue] = []
        scores: list[float] = []
        total = 0
        for row, judgement in zip(self.rows, self.judgements, strict=True):
            if not row.has_label(dimension):
                continue
            total += 1
            if judgement is None:
                continue
            score = judgement.scores.get(judge_dimension)
            if score is not None:
                rows.append(row)
                scores.append(score)
        answers = answer_matrix(rows, dimension)
        counts = np.isfinite(answers).sum(axis=1)
        labels = np.nansum(answers, axis=1) / counts
        label_tolerance = tolerance_of(common_scale(rows, dimension), labels)
        judge = np.array(scores, dtype=np.float64)
        return Aligned(
            tuple(rows),
            Values(answers, label_tolerance),
            Values(labels, label_tolerance),
            Values(judge, tolerance_of(self.scales.get(judge_dimension), judge)),
            total,
        )


def _key(row: LabelledDialogue | Judgement) -> Key:
    return row.id, row.turn


def join(
    rows: Sequence[LabelledDialogue],
    judgements: Iterable[Judgement],
    scales: Mapping[str, Scale] | None = None,
    left_out: Iterable[LabelledDialogue] = (),
) -> Joined:
    """Joins ``rows`` with their judgements by id, turn and chat.

    A row without a judgement counts against coverage. A row whose judgement is of another chat is
    left out. ``left_out``: rows that were judged but are not part of this set. Raises MedalError
    for judgements of other rows, and for two rows or judgements of one (id, turn).
    """
    repeated = [key for key, count in Counter(map(_key, rows)).items() if count > 1]
    if repeated:
        raise MedalError(f"rows that occur twice in the set: {_names(repeated)}")
    turn_of = {row.id: row.turn for row in rows}
    judgements = [_with_turn(judgement, turn_of) for judgement in judgements]
    keys = [ScoreKey(*_key(judgement), judgement.chat) for judgement in judgements]
    joined = join_labels(rows, keys, lambda label, score: label.turn == score.turn)
    used = set(chain.from_iterable(joined.score_rows))
    unused = [key for i, key in enumerate(map(_key, judgements)) if i not in used]
    _require_known(unused, set(map(_key, [*rows, *left_out])))
    of_other_chats = set(map(_key, joined.of_other_chats))
    joined_rows: list[LabelledDialogue] = []
    judgement_of_row: list[Judgement | None] = []
    for row, indices in zip(rows, joined.score_rows, strict=True):
        if len(indices) > 1:
            raise MedalError(f"two judgements of {_names([_key(row)])}")
        if _key(row) not in of_other_chats:
            joined_rows.append(row)
            judgement_of_row.append(next((judgements[i] for i in indices), None))
    notes = joined.notes("the set")
    return Joined(joined_rows, judgement_of_row, scales or {}, notes)


def _require_known(keys: Sequence[Key], in_set: Container[Key]) -> None:
    """Raises MedalError for a judgement of another row."""
    unknown = [key for key in keys if key not in in_set]
    if unknown:
        raise MedalError(
            f"{len(unknown)} judgements of rows that are not in the set: {_names(unknown)}",
            hint="was another file judged, or another level? (turn-level sets: medal score --level "
            "last)",
        )


def _with_turn(judgement: Judgement, turn_of: Mapping[str, int | None]) -> Judgement:
    """Returns the judgement with the turn of its row if it is unscored and has none: a row of level
    turn without an assistant turn."""
    is_scored = any(score is not None for score in judgement.scores.values())
    if judgement.turn is not None or is_scored:
        return judgement
    return replace(judgement, turn=turn_of.get(judgement.id))


def common_scale(rows: Iterable[LabelledDialogue], dimension: str) -> Scale | None:
    """Returns the scale of the labels of ``dimension``; None if rows state several, or none."""
    scales = {row.scales.get(dimension) for row in rows if dimension in row.labels}
    if len(scales) == 1:
        return scales.pop()
    return None


def kind_of(rows: Iterable[LabelledDialogue], dimension: str) -> Kind:
    """Returns ``binary`` for a scale from 0 to 1 with answers of 0 or 1, ``ordinal`` for whole
    numbers that are no means, or else ``continuous``."""
    rows = [row for row in rows if row.has_label(dimension)]
    for row in rows:
        if not all(float(v or 0).is_integer() for v in row.labels[dimension]):
            return "continuous"
    if {row.scales.get(dimension) for row in rows} == {(0.0, 1.0)}:
        return "binary"
    if any(row.aggregated for row in rows):
        return "continuous"
    return "ordinal"


def answer_matrix(rows: Sequence[LabelledDialogue], dimension: str) -> Floats:
    """Returns the raw answers of people, shape (rows, annotators), NaN if not given."""
    if not rows:
        return np.full((0, 1), np.nan)
    columns = list(zip_longest(*(row.labels[dimension] for row in rows)))
    values: Floats = np.array(columns, dtype=np.float64).reshape(-1, len(rows)).T
    return values


def _names(keys: Sequence[Key]) -> str:
    names = []
    for id, turn in keys[:5]:
        if turn is not None:
            id += f" (turn {turn})"
        names.append(id)
    if len(keys) > 5:
        names.append("...")
    return ", ".join(names)
