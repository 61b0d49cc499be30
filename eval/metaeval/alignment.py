"""Judgements joined with human labels by id and turn."""

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
    """Human labels and a judge's scores on one dimension, for the dialogues or
    turns that have both.

    Attributes:
        facts: A table with the columns chatbot, group (the conversation), lang, and aggregated
            (whether the label is a mean or vote of annotators). Its index holds each row's position
            in the set, from 0.
        ratings: [rows, annotators] human ratings, NaN if not given.
        people: [rows] mean rating of each dialogue or turn.
        judge: [rows] the judge's scores of the same dialogues or turns.
        total: The number of rows with a label, including those without a score.
    """

    facts: pd.DataFrame
    ratings: Values
    people: Values
    judge: Values
    total: int

    @property
    def clusters(self) -> Clusters:
        """Returns the groups of rows that the jackknife leaves out in turn to
        estimate standard errors."""
        return choose_clusters(list(self.facts.chatbot), list(self.facts.group))

    def select_rows(self, indices: Rows) -> Aligned:
        """Returns a copy with some of the rows.

        Args:
            indices: Positions of the rows in ``judge`` and the other arrays, from 0. The copy has
                the rows in this order.
        """
        return Aligned(
            self.facts.iloc[indices],
            self.ratings[indices],
            self.people[indices],
            self.judge[indices],
            len(indices),
        )

    def select_common_rows(self, second: Aligned) -> tuple[Aligned, Aligned]:
        """Returns two copies with only the rows that both judges scored.

        Args:
            second: The same labels with the scores of another judge.

        Returns:
            A copy of ``self`` and a copy of ``second``, with their rows in the same order.
        """
        common = self.facts.index.intersection(second.facts.index, sort=False)
        first_part = self.select_rows(self.facts.index.get_indexer(common))
        return first_part, second.select_rows(second.facts.index.get_indexer(common))


@dataclass(frozen=True, slots=True)
class Joined:
    """The labelled dialogues or turns of a set, each with its judgement.

    Attributes:
        rows: The labelled dialogues or turns.
        judgements: One for each row, None if the row was not judged.
        numbers: The position of each row in the set, from 0.
        scales: The judge's name of a dimension -> (lowest, highest) score. A dimension with an
            unknown scale is absent.
        notes: Warnings on rows that were left out, and on rows whose text could not be compared
            with the judged text.
    """

    rows: Sequence[LabelledDialogue]
    judgements: Sequence[Judgement | None]
    numbers: Sequence[int]
    scales: Mapping[str, Scale] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def align(self, dimension: str, judge_dimension: str) -> Aligned:
        """Returns the human labels and the judge's scores on one dimension, for the rows with both.

        Args:
            dimension: The dimension of the labels.
            judge_dimension: The judge's name for that dimension.
        """
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
        ratings = rating_matrix(rows, dimension)
        counts = np.isfinite(ratings).sum(axis=1)
        labels = np.nansum(ratings, axis=1) / counts
        scales = {row.scales.get(dimension) for row in rows}
        scale = scales.pop() if len(scales) == 1 else None
        tolerance = tolerance_of(scale, labels)
        judge = np.array(scores, dtype=np.float64)
        columns = ["chatbot", "group", "lang", "aggregated"]
        return Aligned(
            pd.DataFrame(facts, index=numbers, columns=columns, dtype=object),
            Values(ratings, tolerance),
            Values(labels, tolerance),
            Values(judge, tolerance_of(self.scales.get(judge_dimension), judge)),
            total,
        )


def join_rows(
    rows: Sequence[LabelledDialogue],
    judgements: Iterable[Judgement],
    scales: Mapping[str, Scale] | None = None,
    left_out: Iterable[LabelledDialogue] = (),
) -> Joined:
    """Returns the labelled ``rows`` with their judgements, matched by id, turn and text.

    A row is left out if its judgement is of another text. A row without a judgement stays.

    Args:
        rows: The labelled dialogues or turns of a set.
        judgements: The judgements by one judge.
        scales: The judge's name of a dimension -> (lowest, highest) score. None if unknown.
        left_out: Labelled rows that the set excludes. Judgements of them are ignored.

    Raises:
        MedalError: A judgement is of an unknown row, or two rows or judgements have the same id and
            turn.
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
                f"keep one of two judgements of {_keys_text([(row.id, row.turn)])}"
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
            f"{len(unknown)} judgements of rows that are not in the set: {_keys_text(unknown)}",
            hint="Score the file of the set. For a set of turns, type: medal score --level last",
        )
    numbers = list(judgement_of)
    return Joined(
        [rows[number] for number in numbers],
        list(judgement_of.values()),
        numbers,
        scales or {},
        joined.check_and_describe("the set"),
    )


def _score_keys(
    rows: Iterable[LabelledDialogue], judgements: Iterable[Judgement]
) -> list[ScoreKey]:
    """Returns the id, turn and text hash of each judgement. A failed judgement that states no turn
    gets the turn of the labelled row with its id.

    Raises:
        MedalError: Two ``rows`` have the same id and turn.
    """
    turn_of: dict[str, int | None] = {}
    for (id, turn), count in Counter((row.id, row.turn) for row in rows).items():
        if count > 1:
            raise MedalError(
                f"keep one of two rows in the set: {_keys_text([(id, turn)])}"
            )
        turn_of[id] = turn
    keys: list[ScoreKey] = []
    for judgement in judgements:
        turn = judgement.turn
        if turn is None and set(judgement.scores.values()) <= {None}:
            turn = turn_of.get(judgement.id)
        keys.append(ScoreKey(judgement.id, turn, judgement.chat))
    return keys


def infer_kind(rows: Iterable[LabelledDialogue], dimension: str) -> Kind:
    """Infers the kind of ``dimension`` from its labels in ``rows``.

    Returns:
        ``continuous`` if a label is a fraction or the labels are means of annotators. Otherwise
        ``binary`` if the scale is 0 to 1, and ``ordinal`` if it is not.
    """
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


def rating_matrix(rows: Sequence[LabelledDialogue], dimension: str) -> Floats:
    """Returns the ratings of ``dimension`` in ``rows`` as a matrix [rows, ratings].

    Column j has the rating at position j of each row's list of ratings. It is NaN where a row has
    no such rating.
    """
    if not rows:
        return np.full((0, 1), np.nan)
    columns = list(zip_longest(*(row.labels[dimension] for row in rows)))
    values: Floats = np.array(columns, dtype=np.float64).T
    return values


def _keys_text(keys: Sequence[Key]) -> str:
    names = []
    for id, turn in keys[:5]:
        if turn is not None:
            id += f" (turn {turn})"
        names.append(id)
    if len(keys) > 5:
        names.append("...")
    return ", ".join(names)
