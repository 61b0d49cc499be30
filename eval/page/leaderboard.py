"""Leaderboard: judges by sets, then one table a set, intervals as text and as bars."""

from __future__ import annotations

from collections.abc import Sequence

from medal_judges.eval.page.arrangement import Arrangement, SetKey
from medal_judges.report.markup import (
    Column,
    Group,
    details,
    estimate_cell,
    html_cell,
    number_cell,
    row_head,
    section,
    sortable,
    text_cell,
    undefined,
)
from medal_judges.report.numbers import (
    label,
    like_for_like,
    primary_metric,
    ranking,
    shown,
    under_floor,
)
from medal_judges.report.svg import Range, interval_bar
from medal_judges.stats.intervals import MIN_ROWS
from medal_judges.stats.results import Estimate, ResultRow

_GRADED = ("spearman", "within", "pearson", "kendall")
_BINARY = ("f1_present", "f1_absent", "precision", "recall", "accuracy")
_BAR, _COUNTS = Column("", "bar"), Column("Counts", "words")
_LIKE, _EMPTY = ("Like for like", "minus ceiling"), "<td></td>"
_LEAD = (
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


def leaderboard(view: Arrangement) -> str:
    """The section; empty where there are no rows."""
    parts = [_matrix(view)]
    for key in view.sets:
        headline = view.headline(key)
        if headline is not None:
            parts.append(graded_table(view, key, [headline]))
        others = view.graded(key)[1:]
        if others:
            table = graded_table(view, key, others)
            parts.append(details(f"{key.label}: {len(others)} more graded dimensions", table))
    parts += _issues(view)
    return section("leaderboard", "Leaderboard", "".join(parts), _LEAD)


def _matrix(view: Arrangement) -> str:
    """Judges by sets with the headline correlation and the worst set, which is what counts."""
    keys = [(key, d) for key in view.sets if (d := view.headline(key)) is not None]
    if not keys:
        return ""
    cells = {
        judge: [shown(view.row(judge, key, d), "spearman") for key, d in keys]
        for judge in view.judges
    }
    ranks = {j: [ranking(view.row(j, key, d), "spearman") for key, d in keys] for j in view.judges}
    worst = {judge: _worst(ranks[judge], _large(view, keys)) for judge in view.judges}
    best = [_best([ranks[j][i] for j in view.judges]) for i in range(len(keys))]
    best_worst = _best(list(worst.values()))
    rows = [
        row_head(judge)
        + estimate_cell(worst[judge], best=_is(worst[judge], best_worst))
        + "".join(estimate_cell(e, best=_is(e, b)) for e, b in zip(cells[judge], best, strict=True))
        for judge in sorted(view.judges, key=lambda judge: _order(worst[judge]))
    ]
    ceilings = "".join(estimate_cell(view.ceiling(key, d, "spearman")) for key, d in keys)
    dash = f'<td class="num">{undefined("a ceiling belongs to one set")}</td>'
    names = [f"{key.label}: {dimension}" for key, dimension in keys]
    return sortable(
        "Spearman ρ with people on every set, best worst set first",
        ["Judge", "Worst set", *names],
        [Group(rows, pinned=[row_head("human ceiling (beside ○ below)") + dash + ceilings])],
    )


def _large(view: Arrangement, keys: Sequence[tuple[SetKey, str]]) -> dict[int, str]:
    """Position and name of the sets on which a judge has rows enough for a rank."""
    return {
        i: key.label
        for i, (key, dimension) in enumerate(keys)
        if any(row.scored >= MIN_ROWS for row in view.rows(key, dimension))
    }


def _worst(found: Sequence[Estimate], large: dict[int, str]) -> Estimate:
    if not large:
        return Estimate(None, reason=f"every set has fewer than {MIN_ROWS} rows")
    missing = [name for i, name in large.items() if found[i].value is None]
    if missing:
        return Estimate(None, reason=f"no number on {', '.join(missing)}")
    return min((found[i] for i in large), key=lambda estimate: estimate.value or 0.0)


def _best(found: Sequence[Estimate]) -> float | None:
    return max((e.value for e in found if e.value is not None), default=None)


def _is(estimate: Estimate, best: float | None) -> bool:
    return best is not None and estimate.value == best


def _order(estimate: Estimate) -> tuple[bool, float]:
    return estimate.value is None, -(estimate.value or 0.0)


def graded_table(view: Arrangement, key: SetKey, dimensions: Sequence[str]) -> str:
    """Judges of one set on graded dimensions; the headline figure as text and as a bar."""
    groups = []
    for dimension in dimensions:
        rows = view.rows(key, dimension)
        rows = sorted(rows, key=lambda row: _order(ranking(row, "spearman")))
        ceiling = [view.ceiling(key, dimension, metric) for metric in _GRADED]
        drawn = [read(row, "spearman") for row in rows for read in (shown, like_for_like)]
        span = _span(drawn + ceiling[:1])
        best = _best([ranking(row, "spearman") for row in rows])
        groups.append(
            Group(
                [_graded_row(row, span, ceiling[0].value, best) for row in rows],
                heading=dimension if len(dimensions) > 1 else "",
                pinned=[_ceiling_row(ceiling, span, view.ceiling_rows(key, dimension))],
            )
        )
    title = key.label + (f": {dimensions[0]}" if len(dimensions) == 1 else "")
    heads = [label(metric) for metric in _GRADED]
    columns: list[Column | str] = ["Judge", heads[0], _BAR, *_LIKE, *heads[1:], "n", "Coverage"]
    return sortable(title, columns, groups)


def _graded_row(row: ResultRow, span: Range, ceiling: float | None, best: float | None) -> str:
    headline, like = shown(row, "spearman"), like_for_like(row, "spearman")
    return (
        row_head(row.judge)
        + estimate_cell(headline, best=_is(headline, best))
        + html_cell(interval_bar(headline, span, ceiling, like.value), "barcell")
        + _like_cells(row, like)
        + "".join(estimate_cell(shown(row, metric)) for metric in _GRADED[1:])
        + number_cell(row.n)
        + coverage_cell(row)
    )


def _like_cells(row: ResultRow, like: Estimate) -> str:
    """Like for like, and how far above (or below) the ceiling that is."""
    difference = like if like.value is None else row.ceiling_difference
    return estimate_cell(like) + estimate_cell(difference)


def _ceiling_row(ceiling: Sequence[Estimate], span: Range, rows: int) -> str:
    """The ceiling's headline figure stands under that of the judges like for like."""
    bar = interval_bar(Estimate(None), span, ceiling[0].value)
    first, *others = (estimate_cell(estimate, brief=len(ceiling) > 4) for estimate in ceiling)
    lead = row_head("human ceiling") + _EMPTY + html_cell(bar, "barcell") + first + _EMPTY
    counts = _EMPTY if len(ceiling) > len(_GRADED) else ""
    return lead + "".join(others) + counts + (number_cell(rows) if rows else _EMPTY) + _EMPTY


def _span(found: Sequence[Estimate]) -> Range:
    """From zero (or the lowest interval below it, in tenths) to one."""
    lows = [e.low if e.low is not None else e.value for e in found]
    low = min((v for v in lows if v is not None), default=0.0)
    return (min(0.0, int(low * 10 - 0.999) / 10), 1.0)


def coverage_cell(row: ResultRow) -> str:
    """Share of rows scored; marked in words and colour where it is under the floor."""
    if row.coverage is None:
        return number_cell(None, "no rows with a human answer")
    text = f"{100 * row.coverage:.1f}%"
    count = f"{row.scored:,} of {row.n:,} scored"
    if under_floor(row):
        text += ' <span class="badge">under floor</span>'
    return f'<td class="num" data-sort="{row.coverage!r}" title="{count}">{text}</td>'


def _issues(view: Arrangement) -> list[str]:
    tables = [(key, _binary_table(view, key)) for key in view.sets if view.binary(key)]
    if not tables:
        return []
    heading = "<h3>Issues: present or absent</h3>"
    first = tables[0][0]
    folds = [
        details(f"{key.label}: {len(view.binary(key))} issues", table, is_open=key == first)
        for key, table in tables
    ]
    return [heading, *folds]


def _binary_table(view: Arrangement, key: SetKey) -> str:
    """F1 for present and absent with the counts behind them, one group of rows an issue."""
    groups = []
    for dimension in view.binary(key):
        metric = primary_metric("binary")
        rows = sorted(view.rows(key, dimension), key=lambda row: _order(ranking(row, metric)))
        ceiling = [view.ceiling(key, dimension, name) for name in _BINARY]
        best = _best([ranking(row, metric) for row in rows])
        pinned = _ceiling_row(ceiling, (0, 1), view.ceiling_rows(key, dimension))
        ready = [_binary_row(row, ceiling[0].value, best) for row in rows]
        groups.append(Group(ready, heading=dimension, pinned=[pinned]))
    heads = [label(metric) for metric in _BINARY]
    columns: list[Column | str] = ["Judge", heads[0], _BAR, *_LIKE, *heads[1:], _COUNTS, "n"]
    columns.append("Coverage")
    return sortable(f"{key.label}: issues", columns, groups)


def _binary_row(row: ResultRow, ceiling: float | None, best: float | None) -> str:
    first, like = shown(row, "f1_present"), like_for_like(row, "f1_present")
    counts = " · ".join(f"{name}\u00a0{count:,}" for name, count in row.counts.items())
    return (
        row_head(row.judge)
        + estimate_cell(first, best=_is(first, best))
        + html_cell(interval_bar(first, (0, 1), ceiling, like.value), "barcell")
        + _like_cells(row, like)
        + estimate_cell(shown(row, "f1_absent"))
        + "".join(estimate_cell(shown(row, metric), brief=True) for metric in _BINARY[2:])
        + text_cell(counts)
        + number_cell(row.n)
        + coverage_cell(row)
    )
