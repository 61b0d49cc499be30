"""Heat map: dimensions by judge, one table a set, the figure printed in each cell."""

from __future__ import annotations

from medal_judges.eval.report.arrangement import Arrangement, SetKey
from medal_judges.eval.report.markup import escape, section, title, undefined
from medal_judges.eval.report.numbers import interval, label, number, primary_metric, shown
from medal_judges.eval.results import Estimate

_LEAD = (
    "Spearman ρ for graded dimensions, F1+ for issues. Blue is above zero, orange below, the "
    "deeper the further; the number is printed, so nothing hangs on colour."
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
    heads = "".join(f'<th scope="col" dir="auto">{escape(j)}</th>' for j in view.judges)
    rows = "".join(_row(view, key, dimension) for dimension in view.dimensions(key))
    name = f"{key.label}: dimensions by judge"
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(name)}">'
        f'<table class="heat">{title(name)}<thead><tr>'
        f'<th scope="col">Dimension</th>{heads}<th scope="col">human ceiling</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>\n"
    )


def _row(view: Arrangement, key: SetKey, dimension: str) -> str:
    metric = primary_metric(view.kind(key, dimension))
    cells = "".join(_cell(shown(view.row(judge, key, dimension), metric)) for judge in view.judges)
    ceiling = _cell(view.ceiling(key, dimension, metric), "ceil")
    head = f'{escape(dimension)} <span class="metric">{escape(label(metric))}</span>'
    return f'<tr><th scope="row" dir="auto">{head}</th>{cells}{ceiling}</tr>'


def _cell(estimate: Estimate, kind: str = "") -> str:
    """Strength of the colour in percent as a CSS variable; the sheet knows the two hues."""
    if estimate.value is None:
        return f'<td class="none {kind}">{undefined(estimate.reason)}</td>'
    sign = "neg" if estimate.value < 0 else "pos"
    strength = round(100 * min(abs(estimate.value), 1.0))
    span = f' title="{interval(estimate)}"' if interval(estimate) else ""
    return f'<td class="{sign} {kind}" style="--s:{strength}%"{span}>{number(estimate.value)}</td>'
