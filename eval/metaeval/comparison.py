"""Comparison: every pair of judges of a set and dimension, on the rows that both scored.

MEDAL tests issues by McNemar (Figure 5). With several annotators a judge is right on a row where
most of them say what it says; a row on which they are split evenly is neither's. The difference in
F1+ is against each annotator, averaged, as everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from medal_judges.eval.metaeval.alignment import Aligned
from medal_judges.eval.metaeval.classification import (
    THRESHOLD,
    classification,
    classification_statistic,
    not_classifiable,
)
from medal_judges.eval.metaeval.metaeval import JudgedRows
from medal_judges.eval.metaeval.results import ResultRow
from medal_judges.records.signature import Signature, require_comparable
from medal_judges.report.table import Cell, PValue, Table
from medal_judges.stats.correlation import Floats, correlations
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import choose_clusters
from medal_judges.stats.significance import (
    correlation_difference,
    holm,
    mcnemar,
    paired_difference,
    williams,
)
from medal_judges.stats.weights import weighted

GRADED, ISSUES = "Differences between judges", "Differences between judges on issues"
CEILING = "Judges against one annotator"
_HOLM = (
    "Every pair of judges, on the rows that both scored. Holm's correction is over all lines of "
    "this table with a p-value, each test apart. A p above 0.05 does not show that two judges are "
    "equal. "
)
_CLUSTERED = "p is made as the intervals are: whole chatbots (or conversations) are left out. "
_GRADED_NOTE = (
    f"{_HOLM}{_CLUSTERED}Williams' test takes rows as independent, and none as "
    "worth more than another: with weights there is none. The difference is in Spearman's "
    "ρ."
)
_ISSUE_NOTE = (
    f"{_HOLM}{_CLUSTERED}McNemar's exact test takes rows as independent, and none as worth more "
    "than another: with weights there is none. The difference is in F1+, "
    "against each annotator and averaged. For McNemar a judge is right on a row where most of its "
    "annotators say what it says; rows on which they are split evenly count for neither. "
    "<Right alone> counts the rows on which only this judge is right."
)
_CEILING_NOTE = (
    "The judge, like for like, minus one annotator, both against the same others on the same rows "
    f"(Spearman's ρ, F1+ for issues). {_CLUSTERED}Holm's correction is over the lines of this "
    "table."
)


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two judges on the same rows. ``people`` has shape (rows, annotators), the rest (rows,)."""

    shared: Aligned
    first: Floats
    second: Floats

    @property
    def human(self) -> Floats:
        return self.shared.human

    @property
    def people(self) -> Floats:
        return self.shared.values


# What a pair of judges is compared by: cells, the better judge first where ``swap`` says so.
Compare = Callable[[_Pair], tuple[Cell, ...]]


def comparison_tables(judged: Sequence[JudgedRows]) -> list[Table]:
    """Graded dimensions and issues, over all rows and by language, then judges against one
    annotator; tables without a line among them.

    Raises MedalError for rows whose signatures differ in data or dimension.
    """
    kept = [one for one in judged if not one.row.under_floor]
    graded = [one for one in kept if one.row.kind != "binary"]
    issues = [one for one in kept if one.row.kind == "binary"]
    return [
        _table(GRADED, graded, _spearman, _SPEARMAN_COLUMNS, _GRADED_NOTE),
        _table(GRADED, graded, _spearman, _SPEARMAN_COLUMNS, _GRADED_NOTE, by_language=True),
        _table(ISSUES, issues, _f1, _F1_COLUMNS, _ISSUE_NOTE),
        _table(ISSUES, issues, _f1, _F1_COLUMNS, _ISSUE_NOTE, by_language=True),
        _ceiling_table([one.row for one in kept]),
    ]


def _table(
    title: str,
    judged: Sequence[JudgedRows],
    compare: Compare,
    columns: Sequence[str],
    note: str,
    *,
    by_language: bool = False,
) -> Table:
    lines: list[tuple[Cell, ...]] = []
    for group in _groups(judged):
        require_comparable([Signature.parse(one.row.signature) for one in group])
        for lang in _languages(group) if by_language else [None]:
            lines += _lines(group, lang, compare)
    where = ("Set", "Dimension", *(("Language",) if by_language else ()), "Better", "Other")
    heads = (*where, *columns)
    title = f"{title}, by language" if by_language else title
    return Table(title, heads, _corrected(heads, lines), note)


def _groups(judged: Sequence[JudgedRows]) -> Iterator[list[JudgedRows]]:
    groups: dict[tuple[str, str, str], list[JudgedRows]] = {}
    for one in judged:
        key = one.row.set_name, one.row.level, one.row.dimension
        groups.setdefault(key, []).append(one)
    yield from groups.values()


def _languages(group: Sequence[JudgedRows]) -> list[str]:
    """The languages of the rows; none where there is only one, which the whole set's table has."""
    langs = {row.dialogue.lang for one in group for row in one.aligned.rows}
    return sorted(langs) if len(langs) > 1 else []


def _lines(
    group: Sequence[JudgedRows], lang: str | None, compare: Compare
) -> Iterator[tuple[Cell, ...]]:
    for one, other in combinations(group, 2):
        pair = _pair(one.aligned, other.aligned, lang)
        names = one.row.judge, other.row.judge
        cells = compare(pair)
        if isinstance(cells[0], Estimate) and (cells[0].value or 0.0) < 0:
            cells = compare(_Pair(pair.shared, pair.second, pair.first))
            names = names[1], names[0]
        where = (one.row.set_name, one.row.dimension, *(() if lang is None else (lang,)))
        yield (*where, *names, *cells)


def _pair(one: Aligned, other: Aligned, lang: str | None) -> _Pair:
    theirs = {(r.id, r.turn): s for r, s in zip(other.rows, other.score, strict=True)}
    chosen = [
        i
        for i, row in enumerate(one.rows)
        if (row.id, row.turn) in theirs and lang in (None, row.dialogue.lang)
    ]
    shared = one.part(chosen)
    second = np.array([theirs[row.id, row.turn] for row in shared.rows], dtype=np.float64)
    return _Pair(shared, shared.score, second)


_SPEARMAN_COLUMNS = ("Difference in ρ", "p", "p, Holm", "Williams p", "Williams p, Holm", "n")


def _spearman(pair: _Pair) -> tuple[Cell, ...]:
    human, first, second, n = pair.human, pair.first, pair.second, len(pair.first)
    clusters = choose_clusters(pair.shared.chatbots, pair.shared.groups)
    weights = pair.shared.weights
    difference = correlation_difference(human, first, second, clusters, weights)
    if difference.value is None or weights is not None:
        return difference, _p(difference.p_value), None, None, None, n
    pairs = ((human, first), (human, second), (first, second))
    one, two, between = (correlations(a, b)["spearman"].value or 0.0 for a, b in pairs)
    test = williams(one, two, between, n)
    return difference, _p(difference.p_value), None, _p(test.p_value), None, n


_F1_COLUMNS = ("Difference in F1+", "p", "p, Holm", "Right alone: better", "Right alone: other",
               "McNemar p", "McNemar p, Holm", "n")  # fmt: skip


def _f1(pair: _Pair) -> tuple[Cell, ...]:
    n = len(pair.first)
    for score in (pair.first, pair.second):
        if n and (reason := not_classifiable(score, pair.people)):
            return Estimate(None, reason=reason), None, None, None, None, None, None, n
    difference = _f1_difference(pair)
    better, other = right_alone(pair.first, pair.second, pair.people)
    test = None if pair.shared.weights is not None else _p(mcnemar(better, other).p_value)
    return difference, _p(difference.p_value), None, better, other, test, None, n


def _f1_difference(pair: _Pair) -> Estimate:
    if not len(pair.first):
        return Estimate(None, reason="no row was scored by both")
    for score in (pair.first, pair.second):
        estimate = classification(score, pair.people)["f1_present"]
        if estimate.value is None:
            return estimate
    clusters = choose_clusters(pair.shared.chatbots, pair.shared.groups)
    one, two = (
        weighted(classification_statistic(score, pair.people), pair.shared.weights)
        for score in (pair.first, pair.second)
    )
    return paired_difference(one, two, "f1_present", clusters)


def right_alone(first: Floats, second: Floats, people: Floats) -> tuple[int, int]:
    """On how many rows only the first, and only the second judge says what most annotators say.

    ``first`` and ``second``: probabilities of label 1, shape (rows,). ``people``: labels of shape
    (rows, annotators), NaN where not given; a released mean is 1 from 0.5 on. A row on which the
    annotators are split evenly counts for neither.
    """
    given = np.isfinite(people)
    present = (given & (people >= THRESHOLD)).sum(axis=1)
    lead = 2 * present - given.sum(axis=1)
    one, two = ((score >= THRESHOLD) == (lead > 0) for score in (first, second))
    decided = lead != 0
    return int((decided & one & ~two).sum()), int((decided & two & ~one).sum())


def _ceiling_table(rows: Sequence[ResultRow]) -> Table:
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        difference = row.ceiling_difference
        if difference is not None and difference.value is not None:
            metric = "f1_present" if row.kind == "binary" else "spearman"
            sides = (row.like_for_like[metric], row.ceiling[metric])
            where = (row.set_name, row.dimension, row.judge)
            lines.append(
                (*where, *sides, difference, _p(difference.p_value), None, row.ceiling_rows)
            )
    heads = ("Set", "Dimension", "Judge", "Like for like", "One annotator", "Difference", "p",
             "p, Holm", "n")  # fmt: skip
    return Table(CEILING, heads, _corrected(heads, lines), _CEILING_NOTE)


def _p(value: float | None) -> PValue | None:
    return None if value is None else PValue(value)


def _corrected(heads: Sequence[str], lines: Sequence[tuple[Cell, ...]]) -> list[tuple[Cell, ...]]:
    """The lines with each column ``..., Holm`` filled from the one before it."""
    columns = [list(column) for column in zip(*lines, strict=True)]
    for i, head in enumerate(heads):
        if columns and head.endswith(", Holm"):
            raw = [cell.value if isinstance(cell, PValue) else None for cell in columns[i - 1]]
            columns[i] = [_p(value) for value in holm(raw)]
    return list(zip(*columns, strict=True))
