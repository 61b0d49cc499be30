"""Comparison of every pair of judges on the rows that both scored, and means of a judge over the
dimensions of a set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, product

import numpy as np

from medal_judges.eval.metaeval.alignment import (
    Aligned,
    classification,
    classification_statistic,
    not_classifiable,
)
from medal_judges.eval.metaeval.ceiling import answers_by_annotator
from medal_judges.eval.metaeval.metaeval import JudgedRows, ResultRow
from medal_judges.report.table import Cell, Figured, PValue, Table
from medal_judges.stats.correlation import Floats, weighted_spearman
from medal_judges.stats.difference import Difference, holm, holm_corrected
from medal_judges.stats.equal import present
from medal_judges.stats.intervals import BESIDE, WHOM, leading
from medal_judges.stats.significance import (
    correlation_difference,
    mcnemar,
    paired_difference,
    williams,
)

GRADED, ISSUES = "Differences between judges", "Differences between judges on issues"
WILLIAMS, MCNEMAR = (
    "Williams' test between judges",
    "McNemar's test between judges on issues",
)
MEANS = "Means over dimensions"
ANNOTATORS = "Judges against each annotator on issues"
_PAIRS_NOTE = (
    "Every pair of judges, on the rows that both scored. Intervals and p-values come from one "
    "distribution and are corrected alike (Holm, over all lines of this table), so an interval "
    "excludes 0 if p is below 0.05. A p above 0.05 does not show that two judges are equal. F1+ is "
    "against each annotator and averaged."
)
_TESTS_NOTE = (
    "These tests assume independent rows. Holm's correction is over all lines of this table.\n\n"
    "Williams' test is of two correlations with the same labels. For McNemar's (MEDAL, Figure 5) a "
    "judge is right on a row if most annotators agree with it; rows on which they are split evenly "
    "count for neither."
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
_DIFFERENCE = {
    "spearman": "Difference in ρ",
    "pairwise": "Difference in pairs right",
    "f1_present": "Difference in F1+",
}
_EACH = (
    "Set",
    "Dimension",
    "Judge",
    "Annotator",
    "F1+ judge",
    "F1+ annotator",
    "Right alone: judge",
    "Right alone: annotator",
    "McNemar p",
    "McNemar p, Holm",
    "n",
)
Line = tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class JudgePair:
    """Two judges on the rows that both scored, the better one first. ``about``: set, dimension and,
    if the rows are of one, language; then both names."""

    about: tuple[str, ...]
    better: Aligned
    worse: Aligned
    difference: Difference


def comparison_tables(evaluations: Sequence[JudgedRows]) -> list[Table]:
    """Returns tables of the differences between judges (graded dimensions and issues, each over all
    rows and by language), of classical tests between them, and of judges against each annotator. A
    table may have no rows."""
    graded: list[JudgedRows] = []
    issues: list[JudgedRows] = []
    metric = "spearman"
    for judged_rows in evaluations:
        row = judged_rows.row
        if row.under_floor:
            continue
        if row.headline == "pairwise":
            metric = "pairwise"
        if row.kind == "binary":
            issues.append(judged_rows)
        else:
            graded.append(judged_rows)
    lines = list(chain.from_iterable(map(_annotators, issues)))
    return [
        *_pair_tables(GRADED, graded, metric),
        *_pair_tables(ISSUES, issues, "f1_present"),
        Table(ANNOTATORS, _EACH, _corrected(_EACH, lines), _ANNOTATORS_NOTE),
    ]


def corrected_ceilings(evaluations: Sequence[JudgedRows]) -> list[JudgedRows]:
    """Returns the rows with their differences from one annotator corrected by Holm over all of
    them, but for rows under the floor of coverage."""
    corrected = list(evaluations)
    differences: dict[int, Difference] = {}
    for i, rows in enumerate(evaluations):
        if rows.apart is not None and not rows.row.under_floor:
            differences[i] = rows.apart
    for i, difference in zip(
        differences, holm_corrected([*differences.values()]), strict=True
    ):
        row = replace(evaluations[i].row, ceiling_difference=difference.estimate)
        corrected[i] = replace(evaluations[i], row=row)
    return corrected


def _pair_tables(
    title: str, evaluations: Sequence[JudgedRows], metric: str
) -> Iterator[Table]:
    """Yields the differences of all pairs of judges and the test of ``metric`` beside them, first
    over all rows, then by language."""
    for by_language in (False, True):
        columns = ["Set", "Dimension", "Better", "Other"]
        suffix = ""
        if by_language:
            columns.insert(2, "Language")
            suffix = ", by language"
        pairs = _pairs(evaluations, metric, by_language=by_language)
        yield _difference_table(title + suffix, [*columns, _DIFFERENCE[metric]], pairs)
        if metric in _TESTS:
            name, test_columns, test = _TESTS[metric]
            lines = [(*pair.about, *test(pair)) for pair in pairs if pair.better.rows]
            heads = (*columns, *test_columns)
            yield Table(name + suffix, heads, _corrected(heads, lines), _TESTS_NOTE)


def _difference_table(
    title: str, heads: Sequence[str], pairs: Sequence[JudgePair]
) -> Table:
    """A table of the differences of pairs, with the interval for the others beside it, the p-value
    and the number of rows."""
    lead = leading(pair.better.clusters.unit for pair in pairs)
    differences = holm_corrected([pair.difference for pair in pairs])
    estimates = [difference.estimate for difference in differences]
    beside = []
    if any(estimate.beside for estimate in estimates):
        beside = [BESIDE[lead]]
    lines: list[Line] = []
    for pair, estimate in zip(pairs, estimates, strict=True):
        intervals = [Figured(estimate.beside, bare=True) for _ in beside]
        count = len(pair.better.rows)
        lines.append((*pair.about, estimate, *intervals, _p(estimate.p_value), count))
    note = f"95% intervals and p-values are for {WHOM[lead]}.\n\n{_PAIRS_NOTE}"
    return Table(title, (*heads, *beside, "p", "n"), lines, note)


def _annotators(evaluation: JudgedRows) -> Iterator[Line]:
    """Yields a line for each annotator with whom others share rows."""
    row, aligned = evaluation.row, evaluation.aligned
    values = answers_by_annotator(aligned.rows, row.dimension, aligned.values)[0]
    if not len(values) or not_classifiable(aligned.score, values):
        return
    for k in range(values.shape[1]):
        other_answers = np.delete(values, k, axis=1)
        is_shared = np.isfinite(values[:, k]) & np.isfinite(other_answers).any(axis=1)
        if is_shared.any():
            sides = aligned.score[is_shared], values[is_shared, k]
            other_answers = other_answers[is_shared]
            f1 = [classification(side, other_answers)["f1_present"] for side in sides]
            alone = right_alone(*sides, other_answers)
            about = row.set_name, row.dimension, row.judge, k + 1
            p_value = _p(mcnemar(*alone).p_value)
            yield *about, *f1, *alone, p_value, None, int(is_shared.sum())


def _pairs(
    evaluations: Sequence[JudgedRows], metric: str, *, by_language: bool = False
) -> list[JudgePair]:
    """Returns each pair of judges on the same set and dimension."""
    groups: dict[tuple[str, str], list[JudgedRows]] = {}
    for rows in evaluations:
        groups.setdefault((rows.row.set_name, rows.row.dimension), []).append(rows)
    pairs: list[JudgePair] = []
    for group in groups.values():
        languages: Sequence[str | None] = [None]
        if by_language:
            rows_of_group = chain.from_iterable(rows.aligned.rows for rows in group)
            languages = sorted({row.dialogue.lang for row in rows_of_group})
            if len(languages) < 2:
                continue
        for language, (first, second) in product(languages, combinations(group, 2)):
            pairs.append(_pair(first, second, metric, language))
    return pairs


def _pair(
    first: JudgedRows, second: JudgedRows, metric: str, language: str | None
) -> JudgePair:
    """Returns two judges on the rows of a ``language`` (None: all) that both scored."""
    better, worse = first.aligned.shared(second.aligned)
    about = [first.row.set_name, first.row.dimension]
    if language is not None:
        about.append(language)
        langs = [row.dialogue.lang for row in better.rows]
        indices = [i for i, lang in enumerate(langs) if lang == language]
        better, worse = better.part(indices), worse.part(indices)
    names = [first.row.judge, second.row.judge]
    difference = _difference(better, worse, metric)
    if (difference.value or 0.0) < -difference.tolerance:
        names.reverse()
        better, worse, difference = worse, better, -difference
    return JudgePair((*about, *names), better, worse, difference)


def _difference(first: Aligned, second: Aligned, metric: str) -> Difference:
    if metric != "f1_present":
        return correlation_difference(
            first.people, first.judge, second.judge, first.clusters, metric
        )
    if not first.rows:
        return Difference(None, reason="no common row")
    statistics = []
    for side in (first, second):
        reason = not_classifiable(side.score, side.values)
        if reason is not None:
            return Difference(None, reason=reason)
        statistics.append(classification_statistic(side.score, side.values))
    return paired_difference(statistics[0], statistics[1], metric, first.clusters)


def _williams(pair: JudgePair) -> Line:
    people, better, worse = pair.better.people, pair.better.judge, pair.worse.judge
    count = len(people)
    if pair.difference.value is None:
        return None, None, None, None, None, count
    rhos = []
    for x, y in ((people, better), (people, worse), (better, worse)):
        rhos.append(float(weighted_spearman(x, y, np.ones((1, count)))[0]))
    p_value = williams(rhos[0], rhos[1], rhos[2], count).p_value
    return *rhos, _p(p_value), None, count


def _mcnemar(pair: JudgePair) -> Line:
    people, better, worse = pair.better.values, pair.better.score, pair.worse.score
    if not_classifiable(better, people) or not_classifiable(worse, people):
        return None, None, None, None, len(people)
    alone = right_alone(better, worse, people)
    return *alone, _p(mcnemar(*alone).p_value), None, len(people)


# The test beside the differences of a metric: its title, its columns, and its cells of a pair.
_TESTS = {
    "spearman": (
        WILLIAMS,
        ("ρ better", "ρ other", "ρ of the two", "p", "p, Holm", "n"),
        _williams,
    ),
    "f1_present": (
        MCNEMAR,
        ("Right alone: better", "Right alone: other", "p", "p, Holm", "n"),
        _mcnemar,
    ),
}


def right_alone(first: Floats, second: Floats, people: Floats) -> tuple[int, int]:
    """Returns the number of rows on which only the first, and only the second judge agrees with
    most annotators.

    ``first`` and ``second``: probabilities of label 1, shape (rows,). ``people``: labels of shape
    (rows, annotators), NaN if not given; a released mean is 1 from 0.5 on.
    """
    is_answered = np.isfinite(people)
    lead = 2 * (is_answered & present(people)).sum(axis=1) - is_answered.sum(axis=1)
    majority = lead > 0
    first_right, second_right = present(first) == majority, present(second) == majority
    first_alone = (lead != 0) & first_right & ~second_right
    second_alone = (lead != 0) & second_right & ~first_right
    return int(first_alone.sum()), int(second_alone.sum())


def _p(value: float | None) -> PValue | None:
    if value is None:
        return None
    return PValue(value)


def _corrected(heads: Sequence[str], lines: Sequence[Line]) -> list[Line]:
    """Fills each column whose head ends with ``, Holm`` with the corrected p-values of the column
    before it."""
    columns = [list(column) for column in zip(*lines, strict=True)]
    for i, head in enumerate(heads):
        if columns and head.endswith(", Holm"):
            raw = [getattr(cell, "value", None) for cell in columns[i - 1]]
            columns[i] = [_p(value) for value in holm(raw)]
    return list(zip(*columns, strict=True))


def dimension_means_table(rows: Sequence[ResultRow]) -> Table:
    """Returns a row for each judge and set with several graded dimensions (ORALIS, section 3.1)."""
    values_of: dict[tuple[str, str], list[float | None]] = {}
    for row in rows:
        if row.kind != "binary":
            rho = row.metrics["spearman"].value
            if row.under_floor:
                rho = None
            values_of.setdefault((row.set_name, row.judge), []).append(rho)
    lines: list[Line] = []
    for about, values in values_of.items():
        if len(values) < 2:
            continue
        rhos = [rho for rho in values if rho is not None]
        means: list[float | None] = [None, None, None]
        if rhos:
            variants = np.abs(rhos), np.maximum(rhos, 0.0), np.array(rhos)
            means = [float(variant.mean()) for variant in variants]
        lines.append((*about, *means, f"{len(rhos)} of {len(values)}"))
    columns = (
        "Set",
        "Judge",
        "Mean absolute ρ",
        "Mean positive ρ",
        "Mean ρ",
        "Dimensions",
    )
    return Table(MEANS, columns, lines, _MEANS_NOTE)
