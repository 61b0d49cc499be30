"""Cascades: agreement against the share of rows that the dear judge is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from medal_judges.eval.page.arrangement import Arrangement, SetKey
from medal_judges.report.markup import (
    Column,
    Group,
    escape,
    estimate_cell,
    number_cell,
    panel_grid,
    row_head,
    section,
    sortable,
)
from medal_judges.report.svg import Frame, padded
from medal_judges.stats.results import CascadeCurve, CascadePoint

_LEAD = (
    "A cheap judge answers, and a dear one is asked for the rows that the cheap one is least sure "
    "of. Solid: Spearman ρ by the share deferred, with its 95% interval; dashed: the same share "
    "deferred at random, which uncertainty has to beat. The ends are the two judges alone, on the "
    "rows that both scored. Scores are mixed as they stand, each on its own judge's scale. Costs "
    "are for 1,000 rows; an amount that a judge did not record counts as 0."
)


def cascades(view: Arrangement) -> str:
    """The section: a panel and a table for each curve; empty where there are none."""
    curves = view.benchmark.cascades
    if not curves:
        return ""
    panels = panel_grid("Cascades", [_panel(curve) for curve in curves])
    return section("cascades", "Cascades", panels + "".join(map(_table, curves)), _LEAD)


def title(curve: CascadeCurve) -> str:
    """Set, dimension and the two judges, as text."""
    key = SetKey(curve.set_name, curve.level)
    return f"{curve.cheap}, then {curve.dear}: {key.label}, {curve.dimension}"


def _panel(curve: CascadeCurve) -> str:
    known = [e for p in curve.points if (e := p.spearman).value is not None]
    if not known:
        return f"<figure><figcaption>{escape(title(curve))}: undefined</figcaption></figure>"
    ends = [v for e in known for v in (e.low, e.value, e.high) if v is not None]
    ends += [p.at_random for p in curve.points if p.at_random is not None]
    frame = Frame((0.0, 1.0), padded(ends), "share deferred", "Spearman ρ")
    drawn = [(p.share, p.spearman.value) for p in curve.points]
    chance = [(p.share, p.at_random) for p in curve.points]
    whiskers = "".join(
        frame.line(p.share, p.spearman.low, p.share, p.spearman.high, "whisker")
        for p in curve.points
        if p.spearman.low is not None and p.spearman.high is not None
    )
    said = f"Spearman by share deferred, {title(curve)}"
    body = whiskers + _line(frame, chance, "trend dashed") + _line(frame, drawn, "trend")
    return (
        f'<figure><figcaption><b dir="auto">{escape(title(curve))}</b></figcaption>'
        f'{frame.svg(body, escape(said))}<p class="count">{curve.n:,} rows</p></figure>'
    )


def _thousand(point: CascadePoint, key: str) -> float | None:
    cost = point.cost.get(key)
    return None if cost is None else 1000 * cost


def _line(frame: Frame, points: Sequence[tuple[float, float | None]], kind: str) -> str:
    """Segments between neighbours that both have a value."""
    return "".join(
        frame.line(a, u, b, v, kind)
        for (a, u), (b, v) in pairwise(points)
        if u is not None and v is not None
    )


def _table(curve: CascadeCurve) -> str:
    costs = list(dict.fromkeys(key for point in curve.points for key in point.cost))
    heads = [f"{key} for 1,000 rows" for key in costs]
    columns = [
        *(Column(name, "number") for name in ("Share deferred", "Spearman ρ", "ρ at random")),
        *(Column(head, "number") for head in heads),
    ]
    rows = [
        row_head(f"{100 * point.share:.0f}% ({point.deferred:,})")
        + estimate_cell(point.spearman)
        + number_cell(point.at_random)
        + "".join(number_cell(_thousand(point, key)) for key in costs)
        for point in curve.points
    ]
    return sortable(title(curve), columns, [Group(rows)])
