"""Judgements joined with ratings by (id, turn), once for a judge and a set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import numpy as np
import pandas as pd

from medal_judges.errors import MedalError
from medal_judges.records.dimension import Kind
from medal_judges.records.joining import ScoreKey, join_labels
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue, Scale
from medal_judges.stats.correlation import Floats, Rows
from medal_judges.stats.equal import Values, tolerance_of
from medal_judges.stats.intervals import Clusters, choose_clusters

Key = tuple[str, int | None]


@dataclass(frozen=True, slots=True)
class Aligned:
    """Rows that both people and the judge scored, on one dimension.

    ``facts``: chatbot, group, lang and aggregated of each row; its index numbers the rows of the
    set. ``answers``: the ratings of people, shape (rows, annotators), NaN if not given.
    ``people``: their means. ``judge``: the judge's scores. ``total``: the number of rows with a
    label, scored or not.
    """

    facts: pd.DataFrame
    answers: Values
    people: Values
    judge: Values
    total: int

    @property
    def clusters(self) -> Clusters:
        """Returns what intervals leave out."""
        return choose_clusters(list(self.facts.chatbot), list(self.facts.group))

    def part(self, indices: Rows) -> Aligned:
        """Returns the rows at the positions ``indices``. ``total`` becomes their number."""
        return Aligned(
            self.facts.iloc[indices],
            self.answers[indices],
            self.people[indices],
            self.judge[indices],
            len(indices),
        )

    def share_rows(self, second: Aligned) -> tuple[Aligned, Aligned]:
        """Returns the rows that both have, in this order: first with this judge's scores, then with
        the scores of ``second``."""
        common = self.facts.index.intersection(second.facts.index, sort=False)
        first_part = self.part(self.facts.index.get_indexer(common))
        return first_part, second.part(second.facts.index.get_indexer(common))


@dataclass(frozen=True, slots=True)
class Joined:
    """The rows of a set, each with the judgement of its chat, or None without one.

    ``numbers``: the number of each row in the set. ``scales``: (lowest, highest) of the judge's
    dimensions, as far as they are known. ``notes``: how many rows were left out, because their ids
    were judged with other chats.
    """

    rows: Sequence[LabelledDialogue]
    judgements: Sequence[Judgement | None]
    numbers: Sequence[int]
    scales: Mapping[str, Scale] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def on(self, dimension: str, judge_dimension: str) -> Aligned:
        """Returns the rows with a label of ``dimension`` and a score of ``judge_dimension``."""
        rows: list[LabelledDialogue] = []
        numbers: list[int] = []
        scores: list[float] = []
        facts: list[tuple[object, ...]] = []
        total = 0
        for number, row, judgement in zip(
            self.numbers, self.rows, self.judgements, strict=True
        ):
            if not row.has_label(dimension):
                continue
            total += 1
            score = None
            if judgement is not None:
                score = judgement.scores.get(judge_dimension)
            if score is not None:
                rows.append(row)
                numbers.append(number)
                scores.append(score)
                language = row.dialogue.lang or "unknown"
                chatbot = row.dialogue.chatbot
                facts.append((chatbot, row.group, language, row.aggregated))
        answers = answer_matrix(rows, dimension)
        counts = np.isfinite(answers).sum(axis=1)
        labels = np.nansum(answers, axis=1) / counts
        scales = {row.scales.get(dimension) for row in rows}
        scale = scales.pop() if len(scales) == 1 else None
        tolerance = tolerance_of(scale, labels)
        judge = np.array(scores, dtype=np.float64)
        columns = ["chatbot", "group", "lang", "aggregated"]
        return Aligned(
            pd.DataFrame(facts, index=numbers, columns=columns, dtype=object),
            Values(answers, tolerance),
            Values(labels, tolerance),
            Values(judge, tolerance_of(self.scales.get(judge_dimension), judge)),
            total,
        )


def join(
    rows: Sequence[LabelledDialogue],
    judgements: Iterable[Judgement],
    scales: Mapping[str, Scale] | None = None,
    left_out: Iterable[LabelledDialogue] = (),
) -> Joined:
    """Joins ``rows`` with their ``judgements`` by id, turn and chat.

    A row without a judgement counts against coverage. A row whose judgement is of another chat is
    left out. ``scales``: (lowest, highest) of the judge's dimensions. ``left_out``: rows that were
    judged but are not part of this set. Raises MedalError for judgements of other rows, and for two
    rows or judgements of one (id, turn).
    """
    judgements = list(judgements)
    keys = _score_keys(rows, judgements)
    joined = join_labels(rows, keys, lambda label, score: label.turn == score.turn)
    of_other_chats = {(row.id, row.turn) for row in joined.of_other_chats}
    strangers = dict(enumerate(keys))
    judgement_of: dict[int, Judgement | None] = {}
    for number, (row, indices) in enumerate(zip(rows, joined.score_rows, strict=True)):
        if len(indices) > 1:
            raise MedalError(
                f"keep one of two judgements of {_names([(row.id, row.turn)])}"
            )
        if (row.id, row.turn) not in of_other_chats:
            judgement_of[number] = None
        for index in indices:
            judgement_of[number] = judgements[index]
            del strangers[index]
    keys_of_set = {(row.id, row.turn) for row in [*rows, *left_out]}
    unknown = [key[:2] for key in strangers.values() if key[:2] not in keys_of_set]
    if unknown:
        raise MedalError(
            f"{len(unknown)} judgements of rows that are not in the set: {_names(unknown)}",
            hint="Score the file of the set. For a set of turns, type: medal score --level last",
        )
    numbers = list(judgement_of)
    return Joined(
        [rows[number] for number in numbers],
        list(judgement_of.values()),
        numbers,
        scales or {},
        joined.notes("the set"),
    )


def _score_keys(
    rows: Iterable[LabelledDialogue], judgements: Iterable[Judgement]
) -> list[ScoreKey]:
    """Returns what each judgement belongs to. The judgement of a row of level turn without an
    answer has no turn: it gets the row's. Raises MedalError for a row that occurs twice."""
    turn_of: dict[str, int | None] = {}
    for (id, turn), count in Counter((row.id, row.turn) for row in rows).items():
        if count > 1:
            raise MedalError(f"keep one of two rows in the set: {_names([(id, turn)])}")
        turn_of[id] = turn
    keys: list[ScoreKey] = []
    for judgement in judgements:
        turn = judgement.turn
        if turn is None and set(judgement.scores.values()) <= {None}:
            turn = turn_of.get(judgement.id)
        keys.append(ScoreKey(judgement.id, turn, judgement.chat))
    return keys


def kind_of(rows: Iterable[LabelledDialogue], dimension: str) -> Kind:
    """Returns ``binary`` for a scale from 0 to 1 with ratings of 0 or 1, ``ordinal`` for whole
    numbers that are not means, or else ``continuous``. ``rows`` without a label of ``dimension`` do
    not count."""
    scales = set()
    is_aggregated = False
    for row in rows:
        if not row.has_label(dimension):
            continue
        for value in row.labels[dimension]:
            if value is not None and value % 1:
                return "continuous"
        scales.add(row.scales.get(dimension))
        is_aggregated |= row.aggregated
    if scales == {(0.0, 1.0)}:
        return "binary"
    return "continuous" if is_aggregated else "ordinal"


def answer_matrix(rows: Sequence[LabelledDialogue], dimension: str) -> Floats:
    """Returns the ratings of ``dimension``, shape (rows, annotators), NaN if not given."""
    if not rows:
        return np.full((0, 1), np.nan)
    columns = list(zip_longest(*(row.labels[dimension] for row in rows)))
    values: Floats = np.array(columns, dtype=np.float64).T
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
