"""Heat map: dimensions by judge, one table a set, the figure printed in each cell."""

from __future__ import annotations

from typing import Literal

from medal_judges.eval.page.arrangement import Arrangement, SetKey
from medal_judges.report.heat import empty_cell, heat_cell, heat_table
from medal_judges.report.markup import escape, section
from medal_judges.report.numbers import interval, label, number, primary_metric, shown
from medal_judges.stats.results import Estimate

_LEAD = (
    "Spearman ρ for graded dimensions, F1+ for issues. Blue is above zero, orange below, the "
    "deeper the further; the number is printed, so nothing hangs on colour. The human ceiling is "
    "one annotator against the others; judges are held against all annotators here, so compare the "
    "ceiling with <em>like for like</em> in the leaderboard."
)
_KEY = (
    '<p class="scalekey" aria-hidden="true"><span>−1</span><i></i><span>0</span><i></i>'
    "<span>+1</span></p>"
)


def heatmap(view: Arrangement) -> str:
    """The section; sets with a single dimension are left to the leaderboard."""
    maps = "".join(_map(view, key) for key in view.sets if len(view.dimensions(key)) > 1)
    return section("dimensions", "Dimensions by judge", _KEY + maps if maps else "", _LEAD)


def _map(view: Arrangement, key: SetKey) -> str:
    rows = [_row(view, key, dimension) for dimension in view.dimensions(key)]
    name = f"{key.label}: dimensions by judge"
    return heat_table(name, "Dimension", [*view.judges, "human ceiling"], rows)


def _row(view: Arrangement, key: SetKey, dimension: str) -> str:
    metric = primary_metric(view.kind(key, dimension))
    cells = "".join(_cell(shown(view.row(judge, key, dimension), metric)) for judge in view.judges)
    ceiling = _cell(view.ceiling(key, dimension, metric), "ceil")
    head = f'{escape(dimension)} <span class="metric">{escape(label(metric))}</span>'
    return f'<th scope="row" dir="auto">{head}</th>{cells}{ceiling}'


def _cell(estimate: Estimate, kind: str = "") -> str:
    if estimate.value is None:
        return empty_cell(estimate.reason, kind)
    sign: Literal["pos", "neg"] = "neg" if estimate.value < 0 else "pos"
    return heat_cell(number(estimate.value), abs(estimate.value), sign, interval(estimate), kind)
