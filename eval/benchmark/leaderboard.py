"""Leaderboard: judges by sets and dimensions as tables, heat maps, and by language and chatbot."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from medal_judges.eval.benchmark.view import (
    SetKey,
    View,
    best,
    like_for_like,
    primary_metric,
    ranking,
    shown,
)
from medal_judges.eval.metaeval.metaeval import ResultRow
from medal_judges.eval.metaeval.system_level import SystemAgreement
from medal_judges.report.numbers import interval, label, number
from medal_judges.report.page import Block, Fold, Section, folded
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
    "○: like for like, the judge against the same annotators as the human ceiling, on the same "
    "rows; only ○ and the ceiling are comparable."
)
_NAMES = {"lang": "Language", "chatbot": "Chatbot"}
_ORDERS = {
    "pairwise_accuracy": "Pairwise accuracy",
    "soft_pairwise_accuracy": "Soft pairwise accuracy",
}


def leaderboard(view: View) -> Section:
    """Judges by sets, graded dimensions of each set, then the issues of each set."""
    blocks: list[Block] = []
    if headlines := view.headlines():
        blocks.append(_matrix(view, headlines))
    for key, headline in headlines:
        blocks.append(dimension_table(view, key, [headline]))
        if others := view.graded(key)[1:]:
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


def _matrix(view: View, headlines: Sequence[tuple[SetKey, str]]) -> Table:
    """Judges by sets with the headline correlation, ordered by each judge's worst set."""
    large = [
        (key, dimension)
        for key, dimension in headlines
        if any(row.scored >= MIN_ROWS for row in view.rows(key, dimension))
    ]
    ranks = {
        judge: {at: ranking(view.row(judge, *at), "spearman") for at in headlines}
        for judge in view.judges
    }
    worst: dict[str, Estimate] = {}
    for judge in view.judges:
        missing = [at[0].label for at in large if ranks[judge][at].value is None]
        if not large:
            worst[judge] = Estimate(None, reason=f"every set has fewer than {MIN_ROWS} rows")
        elif missing:
            worst[judge] = Estimate(None, reason=f"no number on {', '.join(missing)}")
        else:
            worst[judge] = min((ranks[judge][at] for at in large), key=lambda e: e.value or 0.0)
    tops = {at: best([ranks[judge][at] for judge in view.judges]) for at in headlines}
    rows: list[Row] = []
    for judge in sorted(view.judges, key=lambda judge: _order(worst[judge])):
        figures = [
            _marked(shown(view.row(judge, *at), "spearman"), top) for at, top in tops.items()
        ]
        rows.append((judge, _marked(worst[judge], best(list(worst.values()))), *figures))
    no_worst = Estimate(None, reason="a ceiling belongs to one set")
    ceilings = [view.ceiling(*at, "spearman") for at in headlines]
    rows.append(("human ceiling (beside ○ below)", no_worst, *ceilings))
    columns = ("Judge", "Worst set", *(f"{key.label}: {dimension}" for key, dimension in headlines))
    title = "Spearman ρ with people on every set, best worst set first"
    return Table(title, columns, rows, pinned={-1: "ceiling"})


def _marked(estimate: Estimate, top: float | None) -> Figured:
    return Figured(estimate, best=top is not None and estimate.value == top)


def _order(estimate: Estimate) -> tuple[bool, float]:
    return estimate.value is None, -(estimate.value or 0.0)


def dimension_table(view: View, key: SetKey, dimensions: Sequence[str]) -> Table:
    """Judges of one set on dimensions that are all graded or all issues, a group of rows each; the
    headline figure as text and as a bar, for issues with the counts behind the figures."""
    binary = view.rows(key, dimensions[0])[0].kind == "binary"
    metrics = BINARY if binary else GRADED
    rows: list[Row] = []
    headings: dict[int, str] = {}
    pinned: dict[int, Pin] = {}
    for dimension in dimensions:
        if binary or len(dimensions) > 1:
            headings[len(rows)] = dimension
        judged = sorted(view.rows(key, dimension), key=lambda row: _order(ranking(row, metrics[0])))
        ceilings = [view.ceiling(key, dimension, metric) for metric in metrics]
        span = (0.0, 1.0)
        if not binary:  # from zero, or the lowest interval below it, in tenths
            figures = [read(row, metrics[0]) for row in judged for read in (shown, like_for_like)]
            lows = [e.value if e.low is None else e.low for e in (*figures, ceilings[0])]
            low = min((v for v in lows if v is not None), default=0.0)
            span = (min(0.0, int(low * 10 - 0.999) / 10), 1.0)
        top = best([ranking(row, metrics[0]) for row in judged])
        for row in judged:
            headline, like = shown(row, metrics[0]), like_for_like(row, metrics[0])
            counts = " · ".join(f"{name}\u00a0{count:,}" for name, count in row.counts.items())
            rows.append((
                row.judge,
                _marked(headline, top),
                IntervalBar(headline, span, ceilings[0].value, like.value),
                like,
                Figured(like if like.value is None else row.ceiling_difference),
                Figured(headline if row.under_floor else row.noise_free.get(metrics[0])),
                *(Figured(shown(row, metric), brief=metric in _BRIEF) for metric in metrics[1:]),
                *((counts,) if binary else ()),
                row.n,
                coverage_cell(row),
            ))  # fmt: skip
        pinned[len(rows)] = "ceiling"
        # The ceiling's headline figure is in the column of the judges like for like.
        bar = IntervalBar(Estimate(None), span, ceilings[0].value)
        others = [Figured(ceiling, brief=binary) for ceiling in ceilings]
        answered = max(row.ceiling_rows for row in judged) or ""
        empty = ("",) if binary else ()
        rows.append(
            ("human ceiling", "", bar, others[0], "", "", *others[1:], *empty, answered, "")
        )
    heads = [label(metric) for metric in metrics]
    columns = ("Judge", heads[0], "", "Like for like", "minus ceiling", "Noise-free", *heads[1:],
               *(("Counts",) if binary else ()), "n", "Coverage")  # fmt: skip
    title = key.label
    if binary or len(dimensions) == 1:
        title = f"{key.label}: {'issues' if binary else dimensions[0]}"
    return Table(title, columns, rows, headings=headings, pinned=pinned)


def coverage_cell(row: ResultRow) -> Cell:
    """Share of rows scored, marked in words and colour if it is below the minimum."""
    if row.coverage is None:
        return Estimate(None, reason="no rows with a human answer")
    badge = "under floor" if row.under_floor else ""
    return Percent(row.coverage, f"{row.scored:,} of {row.n:,} scored", badge)


def dimensions(view: View) -> Section:
    """A heat map for each set with several dimensions."""
    maps = [table for key in view.sets if (table := dimension_map(view, key)) is not None]
    blocks: list[Block] = [_SCALE_KEY, *maps] if maps else []
    return Section("dimensions", "Dimensions by judge", blocks, link="Dimensions")


def dimension_map(view: View, key: SetKey) -> Table | None:
    """Dimensions of a set by judge with the human ceiling; None for a single dimension."""
    if len(view.dimensions(key)) < 2:
        return None
    rows: list[Row] = []
    for dimension in view.dimensions(key):
        metric = primary_metric(view.rows(key, dimension)[0].kind)
        name = Markup('{} <span class="metric">{}</span>').format(dimension, label(metric))
        figures = [shown(view.row(judge, key, dimension), metric) for judge in view.judges]
        cells: list[Cell] = []
        for estimate in (*figures, view.ceiling(key, dimension, metric)):
            value = estimate.value
            if value is None:
                cells.append(estimate)
            else:
                sign = "neg" if value < 0 else "pos"
                heat = Heat(number(value), abs(value), sign, interval(estimate), value)  # type: ignore[arg-type]
                cells.append(heat)
        rows.append((name, *cells))
    columns = ("Dimension", *view.judges, "human ceiling")
    return Table(f"{key.label}: dimensions by judge", columns, rows, style="heat ceiled")


def slices(view: View, part: str) -> Section:
    """Each set by ``part`` ('lang' or 'chatbot'), judges side by side."""
    blocks: list[Block] = []
    for key in view.sets:
        named = {}
        for dimension in view.dimensions(key):
            names = {name for row in view.rows(key, dimension) for name in row.slices}
            if found := sorted(name for name in names if name.startswith(f"{part}:")):
                named[dimension] = found
        if not named:
            continue
        names_of_first = next(iter(named.values()))
        if len(names_of_first) == 1:  # a table would only repeat the leaderboard
            blocks.append(f"{key.label}: only {names_of_first[0].split(':', 1)[1]}.")
            continue
        first, *more = (_slice_table(view, key, d, part, names) for d, names in named.items())
        blocks.append(first)
        if more:
            blocks.append(Fold(f"{key.label}: {len(more)} more dimensions", more))
    return Section(f"by-{part}", f"{_NAMES[part]}s", blocks)


def _slice_table(view: View, key: SetKey, dimension: str, part: str, names: Sequence[str]) -> Table:
    judged = view.rows(key, dimension)
    metric = primary_metric(judged[0].kind)

    def pair(figure: Estimate | None, like: Estimate | None, ceiling: Estimate) -> Figured:
        """The figure, with like for like below it if there is a ceiling to compare."""
        compares = ceiling.value is not None and like is not None and like.value is not None
        return Figured(figure, like=like if compares else None)

    rows: list[Row] = []
    for name in names:
        ceiling = view.ceiling(key, dimension, metric, name)
        sizes = [row.slice_sizes[name] for row in judged if name in row.slice_sizes]
        size: Cell = sizes[0] if sizes else Estimate(None, reason="size not recorded")
        cells = []
        for row in judged:
            like = row.slice_like_for_like.get(name, {}).get(metric)
            figure = row.slices.get(name, {}).get(metric)
            whole = Figured(shown(row, metric))
            cells.append(whole if row.under_floor else pair(figure, like, ceiling))
        rows.append((name.split(":", 1)[1], size, *cells, ceiling))
    ceiling = view.ceiling(key, dimension, metric)
    total = [pair(shown(row, metric), like_for_like(row, metric), ceiling) for row in judged]
    rows.append(("all", judged[0].n, *total, ceiling))
    title = f"{key.label}: {dimension}, {label(metric)} by {_NAMES[part].lower()}"
    columns = (_NAMES[part], "n", *(row.judge for row in judged), "human ceiling")
    return Table(title, columns, rows, _LIKE_FOR_LIKE, pinned={-1: "total"})


def systems(agreements: Sequence[SystemAgreement]) -> Section:
    """Judges about chatbots as wholes, a table for each set and dimension: best judge first,
    people's split half at the end."""
    groups: dict[tuple[SetKey, str], list[SystemAgreement]] = {}
    for one in agreements:
        groups.setdefault((SetKey(one.set_name, one.level), one.dimension), []).append(one)
    tables = []
    for (key, dimension), listed in groups.items():
        soft = "soft_pairwise_accuracy"
        listed.sort(key=lambda one: -(one.figures[soft].value or 0))
        rows: list[Row] = [
            (one.judge, *(one.figures[metric] for metric in _ORDERS), one.systems, one.rows)
            for one in listed
        ]
        people = [listed[0].split_half.get(metric) for metric in _ORDERS]
        rows.append(("people, split half", *people, None, None))
        columns = ("Judge", *_ORDERS.values(), "Chatbots", "Rows")
        title = f"{key.label}: {dimension}, order of chatbots"
        tables.append(Table(title, columns, rows, pinned={-1: "ceiling"}))
    return Section("systems", "Chatbots in order", folded(tables, 3), link="Chatbots")
