"""Leaderboard: judges by sets, then one table a set, intervals as text and as bars."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from medal_judges.eval.page.arrangement import (
    Arrangement,
    SetKey,
    like_for_like,
    ranking,
    shown,
)
from medal_judges.report.figure import Range
from medal_judges.report.numbers import label
from medal_judges.report.page import Block, Fold, Section
from medal_judges.report.table import Cell, Figured, IntervalBar, Percent, Pin, Row, Table
from medal_judges.stats.intervals import MIN_ROWS
from medal_judges.stats.results import Estimate, ResultRow

GRADED = ("spearman", "within_system", "pearson", "kendall")
BINARY = ("f1_present", "f1_absent", "precision", "recall", "accuracy")
_BRIEF = ("precision", "recall", "accuracy")  # their intervals are tooltips
_LEAD = Markup(
    "Agreement of each judge with the mean human answer. Brackets hold 95% intervals; in the bars "
    "● is the figure and the line its interval. The human ceiling "
    '<span class="rhomb">◆</span> is one annotator against the others, on the rows with two '
    "answers or more. Beside it stands ○, <em>like for like</em>: the judge against the same "
    "others on the same rows. Only these two compare, since the mean of all annotators is less "
    "noisy than that of all but one; a further person like the others would score the ceiling "
    "there. <em>Within chatbots</em> leaves out what comes from telling one chatbot from another. "
    "The <em>worst set</em> is the lowest figure over all sets, and needs a number on each. Fewer "
    "than 10 rows get no interval and no rank. A dash or a missing interval tells its reason on "
    "hover or tap. Under the coverage floor (98% unless set otherwise) there is no number."
)


def leaderboard(view: Arrangement) -> Section:
    """Judges by sets, graded dimensions of each set, then the issues of each set."""
    blocks: list[Block] = []
    headlines = [(key, d) for key in view.sets if (d := view.headline(key)) is not None]
    if headlines:
        blocks.append(_matrix(view, headlines))
    for key, headline in headlines:
        blocks.append(dimension_table(view, key, [headline]))
        others = view.graded(key)[1:]
        if others:
            table = dimension_table(view, key, others)
            blocks.append(Fold(f"{key.label}: {len(others)} more graded dimensions", [table]))
    with_issues = [key for key in view.sets if view.binary(key)]
    if with_issues:
        blocks.append(Markup("<h3>Issues: present or absent</h3>"))
    for key in with_issues:
        issues = view.binary(key)
        table = dimension_table(view, key, issues)
        name = f"{key.label}: {len(issues)} issues"
        blocks.append(Fold(name, [table], is_open=key == with_issues[0]))
    return Section("leaderboard", "Leaderboard", blocks, _LEAD)


def _matrix(view: Arrangement, headlines: Sequence[tuple[SetKey, str]]) -> Table:
    """Judges by sets with the headline correlation and the worst set, which is what counts."""

    def figures(judge: str) -> list[Estimate]:
        return [shown(view.row(judge, key, d), "spearman") for key, d in headlines]

    ranks = {
        judge: [ranking(view.row(judge, key, d), "spearman") for key, d in headlines]
        for judge in view.judges
    }
    large = {  # position and name of the sets on which a judge has rows enough for a rank
        i: key.label
        for i, (key, dimension) in enumerate(headlines)
        if any(row.scored >= MIN_ROWS for row in view.rows(key, dimension))
    }
    worst = {judge: _worst(ranks[judge], large) for judge in view.judges}
    best = [_best([ranks[judge][i] for judge in view.judges]) for i in range(len(headlines))]
    best_worst = _best(list(worst.values()))
    rows: list[Row] = [
        (
            judge,
            _marked(worst[judge], best_worst),
            *(_marked(e, b) for e, b in zip(figures(judge), best, strict=True)),
        )
        for judge in sorted(view.judges, key=lambda judge: _order(worst[judge]))
    ]
    no_worst = Estimate(None, reason="a ceiling belongs to one set")
    ceilings = [view.ceiling(key, d, "spearman") for key, d in headlines]
    rows.append(("human ceiling (beside ○ below)", no_worst, *ceilings))
    return Table(
        "Spearman ρ with people on every set, best worst set first",
        ("Judge", "Worst set", *(f"{key.label}: {dimension}" for key, dimension in headlines)),
        rows,
        pinned={-1: "ceiling"},
    )


def _worst(figures: Sequence[Estimate], large: dict[int, str]) -> Estimate:
    if not large:
        return Estimate(None, reason=f"every set has fewer than {MIN_ROWS} rows")
    missing = [name for i, name in large.items() if figures[i].value is None]
    if missing:
        return Estimate(None, reason=f"no number on {', '.join(missing)}")
    return min((figures[i] for i in large), key=lambda estimate: estimate.value or 0.0)


def _best(figures: Sequence[Estimate]) -> float | None:
    return max((e.value for e in figures if e.value is not None), default=None)


def _marked(estimate: Estimate, best: float | None, *, brief: bool = False) -> Figured:
    """The estimate as a cell, marked where it is the best."""
    return Figured(estimate, best=best is not None and estimate.value == best, brief=brief)


def _order(estimate: Estimate) -> tuple[bool, float]:
    return estimate.value is None, -(estimate.value or 0.0)


def dimension_table(view: Arrangement, key: SetKey, dimensions: Sequence[str]) -> Table:
    """Judges of one set on dimensions that are all graded or all issues, a group of rows each; the
    headline figure as text and as a bar, for issues with the counts behind the figures."""
    binary = view.kind(key, dimensions[0]) == "binary"
    metrics = BINARY if binary else GRADED
    rows: list[Row] = []
    headings: dict[int, str] = {}
    pinned: dict[int, Pin] = {}
    for dimension in dimensions:
        if binary or len(dimensions) > 1:
            headings[len(rows)] = dimension
        judged = sorted(view.rows(key, dimension), key=lambda row: _order(ranking(row, metrics[0])))
        ceilings = [view.ceiling(key, dimension, metric) for metric in metrics]
        figures = [read(row, metrics[0]) for row in judged for read in (shown, like_for_like)]
        span = (0.0, 1.0) if binary else _span([*figures, ceilings[0]])
        best = _best([ranking(row, metrics[0]) for row in judged])
        rows += [_judge_row(row, metrics, span, ceilings[0].value, best) for row in judged]
        pinned[len(rows)] = "ceiling"
        # The ceiling's headline figure stands under that of the judges like for like.
        bar = IntervalBar(Estimate(None), span, ceilings[0].value)
        others = [Figured(ceiling, brief=binary) for ceiling in ceilings]
        counts = ("",) if binary else ()
        answered = view.ceiling_rows(key, dimension) or ""
        rows.append(("human ceiling", "", bar, others[0], "", *others[1:], *counts, answered, ""))
    name = "issues" if binary else dimensions[0]
    heads = [label(metric) for metric in metrics]
    return Table(
        f"{key.label}: {name}" if binary or len(dimensions) == 1 else key.label,
        ("Judge", heads[0], "", "Like for like", "minus ceiling", *heads[1:],
         *(("Counts",) if binary else ()), "n", "Coverage"),
        rows,
        headings=headings,
        pinned=pinned,
    )  # fmt: skip


def _judge_row(
    row: ResultRow,
    metrics: Sequence[str],
    span: Range,
    ceiling: float | None,
    best: float | None,
) -> Row:
    headline, like = shown(row, metrics[0]), like_for_like(row, metrics[0])
    counts = " · ".join(f"{name}\u00a0{count:,}" for name, count in row.counts.items())
    return (
        row.judge,
        _marked(headline, best),
        IntervalBar(headline, span, ceiling, like.value),
        like,
        Figured(like if like.value is None else row.ceiling_difference),
        *(Figured(shown(row, metric), brief=metric in _BRIEF) for metric in metrics[1:]),
        *((counts,) if row.kind == "binary" else ()),
        row.n,
        coverage_cell(row),
    )


def _span(figures: Sequence[Estimate]) -> Range:
    """From zero (or the lowest interval below it, in tenths) to one."""
    lows = [e.low if e.low is not None else e.value for e in figures]
    low = min((v for v in lows if v is not None), default=0.0)
    return (min(0.0, int(low * 10 - 0.999) / 10), 1.0)


def coverage_cell(row: ResultRow) -> Cell:
    """Share of rows scored; marked in words and colour where it is under the floor."""
    if row.coverage is None:
        return Estimate(None, reason="no rows with a human answer")
    badge = "under floor" if row.under_floor else ""
    return Percent(row.coverage, f"{row.scored:,} of {row.n:,} scored", badge)
