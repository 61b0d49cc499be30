"""Comparison of every pair of judges on the rows that both scored, and means of a judge over the
dimensions of a set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, product

import numpy as np

from medal_judges.eval.metaeval.alignment import (
    THRESHOLD,
    Aligned,
    classification,
    classification_statistic,
    not_classifiable,
)
from medal_judges.eval.metaeval.ceiling import answers_by_annotator
from medal_judges.eval.metaeval.metaeval import JudgedRows, ResultRow
from medal_judges.report.table import Cell, Figured, PValue, Table
from medal_judges.stats.correlation import Floats, weighted_spearman
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import BESIDE, WHOM, leading
from medal_judges.stats.significance import (
    correlation_difference,
    holm,
    mcnemar,
    paired_difference,
    williams,
)

GRADED, ISSUES = "Differences between judges", "Differences between judges on issues"
CEILING, MEANS = "Judges against one annotator", "Means over dimensions"
ANNOTATORS = "Judges against each annotator on issues"
_PAIRS_NOTE = (
    "Every pair of judges, on the rows that both scored. p-values are computed like the intervals; "
    "Holm's correction is over all lines of this table, each test separately. A p above 0.05 does "
    "not show that two judges are equal. Williams' and McNemar's tests assume independent rows. "
    "F1+ is against each annotator and averaged; for McNemar (MEDAL, Figure 5) a judge is right on "
    "a row if most annotators agree with it, and rows on which they are split evenly count for "
    "neither."
)
_CEILING_NOTE = (
    "The judge, like for like, minus one annotator, both against the same others on the same rows "
    "(the figure that ranks judges, F1+ for issues); p-values as of pairs of judges."
)
_ANNOTATORS_NOTE = (
    "McNemar's test of the judge against an annotator (MEDAL, Figure 5).\n\nEach is right on a row "
    "if most of the other annotators agree with it; rows on which those are split evenly count for "
    "neither. F1+ is against each of the others and averaged. Annotators without names are "
    "positions in the list of labels."
)
_MEANS_NOTE = (
    "Spearman of each graded dimension, averaged.\n\nDSTC-12 ranks by the mean absolute "
    "correlation; in the mean positive one a negative correlation counts 0. Dimensions without a "
    "figure are left out and counted."
)
_RHO = ("Difference in ρ", "p", "p, Holm", "Williams p", "Williams p, Holm", "n")
_PAIRWISE = ("Difference in pairs right", "p", "p, Holm", "n")
_F1 = ("Difference in F1+", "p", "p, Holm", "Right alone: better", "Right alone: other",
       "McNemar p", "McNemar p, Holm", "n")  # fmt: skip
_AGAINST = ("Set", "Dimension", "Judge", "Like for like", "One annotator", "Difference", "p",
            "p, Holm", "n")  # fmt: skip
_EACH = ("Set", "Dimension", "Judge", "Annotator", "F1+ judge", "F1+ annotator",
         "Right alone: judge", "Right alone: annotator", "McNemar p", "McNemar p, Holm",
         "n")  # fmt: skip
_APART = (_RHO[0], _PAIRWISE[0], _F1[0], "Difference")
Line = tuple[Cell, ...]
# Compares two judges' scores of the same rows, each of shape (rows,).
Compare = Callable[[Aligned, Floats, Floats], Line]


def comparison_tables(judged: Sequence[JudgedRows]) -> list[Table]:
    """Returns tables of the differences between judges (graded dimensions and issues, each over all
    rows and by language), and of judges against one annotator. A table may have no rows."""
    accepted = [one for one in judged if not one.row.under_floor]
    tables = []
    pairwise = any(one.row.headline == "pairwise" for one in accepted)
    for title, binary, compare, columns in (
        (GRADED, False, *((_pairwise, _PAIRWISE) if pairwise else (_spearman, _RHO))),
        (ISSUES, True, _f1, _F1),
    ):
        chosen = [one for one in accepted if (one.row.kind == "binary") == binary]
        for name, where in (
            (title, ("Set", "Dimension")),
            (f"{title}, by language", ("Set", "Dimension", "Language")),
        ):
            heads = (*where, "Better", "Other", *columns)
            lines = _pairs(chosen, compare, by_language="Language" in where)
            tables.append(_table(name, heads, lines, _PAIRS_NOTE, chosen))
    lines = []
    for row in (one.row for one in accepted):
        difference = row.ceiling_difference
        if difference is not None and difference.value is not None:
            sides = row.like_for_like[row.headline], row.ceiling[row.headline]
            p_value = _p(difference.p_value)
            about = row.set_name, row.dimension, row.judge
            lines.append((*about, *sides, difference, p_value, None, row.ceiling_rows))
    tables.append(_table(CEILING, _AGAINST, lines, _CEILING_NOTE, accepted))
    lines = [line for one in accepted if one.row.kind == "binary" for line in _annotators(one)]
    return [*tables, Table(ANNOTATORS, _EACH, _corrected(_EACH, lines), _ANNOTATORS_NOTE)]


def _table(
    title: str, heads: Sequence[str], lines: list[Line], note: str, judged: Sequence[JudgedRows]
) -> Table:
    """The lines with corrected p-values, and behind a difference its interval for the others."""
    lead = leading(one.row.clusters for one in judged)
    lines, at = _corrected(heads, lines), 1 + next(i for i, h in enumerate(heads) if h in _APART)
    beside = [getattr(line[at - 1], "beside", None) for line in lines]
    if any(beside):
        heads = (*heads[:at], BESIDE[lead], *heads[at:])
        cells = [Figured(each, bare=True) for each in beside]
        lines = [(*a[:at], cell, *a[at:]) for a, cell in zip(lines, cells, strict=True)]
    return Table(title, heads, lines, f"95% intervals and p-values are for {WHOM[lead]}.\n\n{note}")


def _annotators(judged: JudgedRows) -> Iterator[Line]:
    """Yields a line for each annotator with whom others share rows."""
    row, aligned = judged.row, judged.aligned
    values = answers_by_annotator(aligned.rows, row.dimension, aligned.values)[0]
    if not len(values) or not_classifiable(aligned.score, values):
        return
    for k in range(values.shape[1]):
        rest = np.delete(values, k, axis=1)
        both = np.isfinite(values[:, k]) & np.isfinite(rest).any(axis=1)
        if both.any():
            sides, others = (aligned.score[both], values[both, k]), rest[both]
            f1 = (classification(side, others)["f1_present"] for side in sides)
            alone = right_alone(*sides, others)
            about = row.set_name, row.dimension, row.judge, k + 1
            yield *about, *f1, *alone, _p(mcnemar(*alone).p_value), None, int(both.sum())


def _pairs(
    judged: Sequence[JudgedRows], compare: Compare, *, by_language: bool = False
) -> list[Line]:
    """Returns one line for each pair of judges on the same set and dimension, the better judge
    first."""
    groups: dict[tuple[str, str], list[JudgedRows]] = {}
    for one in judged:
        groups.setdefault((one.row.set_name, one.row.dimension), []).append(one)
    lines: list[Line] = []
    for where, group in groups.items():
        found = {row.dialogue.lang for one in group for row in one.aligned.rows}
        langs = sorted(found) if by_language and len(found) > 1 else [] if by_language else [None]
        for lang, (one, other) in product(langs, combinations(group, 2)):
            sides = one.aligned.shared(other.aligned)
            if lang is not None:
                chosen = [i for i, r in enumerate(sides[0].rows) if r.dialogue.lang == lang]
                sides = sides[0].part(chosen), sides[1].part(chosen)
            names = one.row.judge, other.row.judge
            cells = compare(sides[0], sides[0].score, sides[1].score)
            if isinstance(cells[0], Estimate) and (cells[0].value or 0.0) < 0:
                cells = compare(sides[0], sides[1].score, sides[0].score)
                names = names[1], names[0]
            lines.append((*where, *([] if lang is None else [lang]), *names, *cells))
    return lines


def _spearman(shared: Aligned, first: Floats, second: Floats) -> Line:
    human, n = shared.human, len(first)
    difference = correlation_difference(human, first, second, shared.clusters)
    test = None
    if difference.value is not None:
        pairs = ((human, first), (human, second), (first, second))
        every = np.ones((1, n))
        one, two, between = (float(weighted_spearman(a, b, every)[0]) for a, b in pairs)
        test = _p(williams(one, two, between, n).p_value)
    return difference, _p(difference.p_value), None, test, None, n


def _pairwise(shared: Aligned, first: Floats, second: Floats) -> Line:
    rows = shared.human, first, second, shared.clusters
    difference = correlation_difference(*rows, "pairwise")
    return difference, _p(difference.p_value), None, len(first)


def _f1(shared: Aligned, first: Floats, second: Floats) -> Line:
    people, n = shared.values, len(first)
    sides = (first, second)
    reasons = [not_classifiable(score, people) for score in sides] if n else ["no common row"]
    if reason := next(filter(None, reasons), None):
        return Estimate(None, reason=reason), None, None, None, None, None, None, n
    better, other = right_alone(first, second, people)
    test = _p(mcnemar(better, other).p_value)
    figures = [classification(score, people)["f1_present"] for score in sides]
    difference = next((figure for figure in figures if figure.value is None), None)
    if difference is None:
        one, two = (classification_statistic(score, people) for score in sides)
        difference = paired_difference(one, two, "f1_present", shared.clusters)
    return difference, _p(difference.p_value), None, better, other, test, None, n


def right_alone(first: Floats, second: Floats, people: Floats) -> tuple[int, int]:
    """Returns the number of rows on which only the first, and only the second judge agrees with
    most annotators.

    ``first`` and ``second``: probabilities of label 1, shape (rows,). ``people``: labels of shape
    (rows, annotators), NaN if not given; a released mean is 1 from 0.5 on.
    """
    given = np.isfinite(people)
    lead = 2 * (given & (people >= THRESHOLD)).sum(axis=1) - given.sum(axis=1)
    one, two = ((score >= THRESHOLD) == (lead > 0) for score in (first, second))
    decided = lead != 0
    return int((decided & one & ~two).sum()), int((decided & two & ~one).sum())


def _p(value: float | None) -> PValue | None:
    return None if value is None else PValue(value)


def _corrected(heads: Sequence[str], lines: Sequence[Line]) -> list[Line]:
    """Fills each column whose head ends with ``, Holm`` with the corrected p-values of the column
    before it."""
    columns = [list(column) for column in zip(*lines, strict=True)]
    for i, head in enumerate(heads):
        if columns and head.endswith(", Holm"):
            raw = [cell.value if isinstance(cell, PValue) else None for cell in columns[i - 1]]
            columns[i] = [_p(value) for value in holm(raw)]
    return list(zip(*columns, strict=True))


def dimension_means_table(rows: Sequence[ResultRow]) -> Table:
    """Returns a row for each judge and set with several graded dimensions (ORALIS, section 3.1)."""
    values_of: dict[tuple[str, str], list[float | None]] = {}
    for row in rows:
        if row.kind != "binary":
            figure = None if row.under_floor else row.metrics["spearman"].value
            values_of.setdefault((row.set_name, row.judge), []).append(figure)
    cells: list[Line] = []
    for place, values in values_of.items():
        known = [value for value in values if value is not None]
        kinds = [abs(v) for v in known], [max(v, 0.0) for v in known], known
        means = [sum(each) / len(each) if each else None for each in kinds]
        if len(values) > 1:
            cells.append((*place, *means, f"{len(known)} of {len(values)}"))
    columns = ("Set", "Judge", "Mean absolute ρ", "Mean positive ρ", "Mean ρ", "Dimensions")
    return Table(MEANS, columns, cells, _MEANS_NOTE)
