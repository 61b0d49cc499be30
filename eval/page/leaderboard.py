"""Leaderboard: judges by sets and dimensions as tables, heat maps, and by language and chatbot."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from medal_judges.eval.metaeval.results import ResultRow
from medal_judges.eval.page.arrangement import (
    Arrangement,
    SetKey,
    like_for_like,
    primary_metric,
    ranking,
    shown,
)
from medal_judges.report.figure import Range
from medal_judges.report.numbers import interval, label, number
from medal_judges.report.page import Block, Fold, Section
from medal_judges.report.table import Cell, Figured, Heat, IntervalBar, Percent, Pin, Row, Table
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import MIN_ROWS

GRADED = ("spearman", "within_system", "pearson", "kendall")
BINARY = ("f1_present", "f1_absent", "precision", "recall", "accuracy")
_BRIEF = ("precision", "recall", "accuracy")  # their intervals are tooltips
_SCALE_KEY = Markup(
    '<p class="scalekey" aria-hidden="true"><span>−1</span><i></i><span>0</span><i></i>'
    "<span>+1</span></p>"
)
_LIKE_FOR_LIKE = (
    "○: like for like, the judge against those whom the human ceiling is held against, on the "
    "same rows; only ○ and the ceiling compare."
)
_NAMES = {"lang": "Language", "chatbot": "Chatbot"}


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
    return Section("leaderboard", "Leaderboard", blocks)


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
        rows.append(
            ("human ceiling", "", bar, others[0], "", "", *others[1:], *counts, answered, "")
        )
    name = "issues" if binary else dimensions[0]
    heads = [label(metric) for metric in metrics]
    return Table(
        f"{key.label}: {name}" if binary or len(dimensions) == 1 else key.label,
        ("Judge", heads[0], "", "Like for like", "minus ceiling", "Noise-free", *heads[1:],
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
        Figured(shown(row, metrics[0]) if row.under_floor else row.noise_free.get(metrics[0])),
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


def dimensions(view: Arrangement) -> Section:
    """A heat map for each set; sets with a single dimension are left to the leaderboard."""
    maps = [table for key in view.sets if (table := dimension_map(view, key)) is not None]
    blocks: list[Block] = [_SCALE_KEY, *maps] if maps else []
    return Section("dimensions", "Dimensions by judge", blocks, link="Dimensions")


def dimension_map(view: Arrangement, key: SetKey) -> Table | None:
    """Dimensions of a set by judge with the human ceiling; None for a single dimension."""
    if len(view.dimensions(key)) < 2:
        return None
    rows: list[Row] = []
    for dimension in view.dimensions(key):
        metric = primary_metric(view.kind(key, dimension))
        name = Markup('{} <span class="metric">{}</span>').format(dimension, label(metric))
        figures = [shown(view.row(judge, key, dimension), metric) for judge in view.judges]
        figures.append(view.ceiling(key, dimension, metric))
        rows.append((name, *map(heat, figures)))
    columns = ("Dimension", *view.judges, "human ceiling")
    return Table(f"{key.label}: dimensions by judge", columns, rows, style="heat ceiled")


def heat(estimate: Estimate) -> Cell:
    """The value as a cell, coloured from −1 to 1; as it is where there is none."""
    if estimate.value is None:
        return estimate
    sign = "neg" if estimate.value < 0 else "pos"
    value = estimate.value
    return Heat(number(value), abs(value), sign, interval(estimate), value)  # type: ignore[arg-type]


def slices(view: Arrangement, part: str) -> Section:
    """Each set by ``part`` ('lang' or 'chatbot'), judges side by side."""
    blocks: list[Block] = []
    for key in view.sets:
        sliced = [d for d in view.dimensions(key) if slice_names(view, key, d, part)]
        if not sliced:
            continue
        names = slice_names(view, key, sliced[0], part)
        if len(names) == 1:  # a table would only repeat the leaderboard
            blocks.append(f"{key.label}: only {names[0]}.")
            continue
        first, *more = (_slice_table(view, key, dimension, part) for dimension in sliced)
        blocks.append(first)
        if more:
            blocks.append(Fold(f"{key.label}: {len(more)} more dimensions", more))
    return Section(f"by-{part}", f"{_NAMES[part]}s", blocks)


def slice_names(view: Arrangement, key: SetKey, dimension: str, part: str) -> list[str]:
    """Names such as ``de`` of the slices of a set, sorted."""
    names = {name for row in view.rows(key, dimension) for name in row.slices}
    return sorted(name.split(":", 1)[1] for name in names if name.startswith(f"{part}:"))


def _slice_table(view: Arrangement, key: SetKey, dimension: str, part: str) -> Table:
    metric = primary_metric(view.kind(key, dimension))
    judged = view.rows(key, dimension)
    rows: list[Row] = []
    for name in slice_names(view, key, dimension, part):
        at = f"{part}:{name}"
        sizes = [row.slice_sizes[at] for row in judged if at in row.slice_sizes]
        size: Cell = sizes[0] if sizes else Estimate(None, reason="size not recorded")
        ceiling = view.slice_ceiling(key, dimension, at, metric)
        rows.append((name, size, *(_slice(row, at, metric, ceiling) for row in judged), ceiling))
    ceiling = view.ceiling(key, dimension, metric)
    whole = (_pair(shown(r, metric), like_for_like(r, metric), ceiling) for r in judged)
    rows.append(("all", judged[0].n, *whole, ceiling))
    return Table(
        f"{key.label}: {dimension}, {label(metric)} by {_NAMES[part].lower()}",
        (_NAMES[part], "n", *(row.judge for row in judged), "human ceiling"),
        rows,
        _LIKE_FOR_LIKE,
        pinned={-1: "total"},
    )


def _slice(row: ResultRow, at: str, metric: str, ceiling: Estimate) -> Figured:
    if row.under_floor:
        return Figured(shown(row, metric))
    figure = row.slices.get(at, {}).get(metric)
    return _pair(figure, row.slice_like_for_like.get(at, {}).get(metric), ceiling)


def _pair(figure: Estimate | None, like: Estimate | None, ceiling: Estimate) -> Figured:
    """The figure, and like for like under it where there is a ceiling to compare with."""
    compares = ceiling.value is not None and like is not None and like.value is not None
    return Figured(figure, like=like if compares else None)
