"""Dimensions by judge as a heat map, and the same figures by language and by chatbot."""

from __future__ import annotations

from markupsafe import Markup

from medal_judges.eval.page.arrangement import (
    Arrangement,
    SetKey,
    like_for_like,
    primary_metric,
    shown,
)
from medal_judges.report.numbers import interval, label, number
from medal_judges.report.page import Block, Fold, Section
from medal_judges.report.table import Cell, Figured, Heat, Row, Table
from medal_judges.stats.results import Estimate, ResultRow

_LEAD = Markup(
    "Spearman ρ for graded dimensions, F1+ for issues. Blue is above zero, orange below, the "
    "deeper the further; the number is printed, so nothing hangs on colour. The human ceiling is "
    "one annotator against the others; judges are held against all annotators here, so compare the "
    "ceiling with <em>like for like</em> in the leaderboard."
)
_KEY = Markup(
    '<p class="scalekey" aria-hidden="true"><span>−1</span><i></i><span>0</span><i></i>'
    "<span>+1</span></p>"
)
_NOTE = (
    "○: like for like, the judge against those whom the human ceiling is held against, on the "
    "same rows; only ○ and the ceiling compare."
)
_NAMES = {"lang": "Language", "chatbot": "Chatbot"}


def dimensions(view: Arrangement) -> Section:
    """A heat map for each set; sets with a single dimension are left to the leaderboard."""
    maps = [table for key in view.sets if (table := dimension_map(view, key)) is not None]
    blocks: list[Block] = [_KEY, *maps] if maps else []
    return Section("dimensions", "Dimensions by judge", blocks, _LEAD, link="Dimensions")


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
        _NOTE,
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
