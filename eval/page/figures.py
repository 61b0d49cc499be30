"""The figures of the page as PNG, drawn by matplotlib without a display or global state."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from medal_judges.eval.page.arrangement import Arrangement, SetKey
from medal_judges.eval.page.calibration import bins
from medal_judges.eval.page.scatter import chatbot, chatbot_colours, scatter_rows, trend
from medal_judges.report.colours import NEGATIVE, OTHER_INDEX, POSITIVE, colour_of
from medal_judges.report.drawing import (
    colour_legend,
    drawing,
    new_figure,
    panel_figure,
    save,
)
from medal_judges.report.numbers import (
    DASH,
    label,
    like_for_like,
    number,
    primary_metric,
    shown,
)
from medal_judges.stats.results import Estimate, ResultRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def write_figures(view: Arrangement, folder: Path) -> list[Path]:
    """Write leaderboard, scatter, heat map and calibration of each set; paths as written.

    Raises MissingExtraError where matplotlib is not installed.
    """
    with drawing():
        folder.mkdir(parents=True, exist_ok=True)
        return [path for key in view.sets for path in _figures_of_set(view, key, folder)]


def _figures_of_set(view: Arrangement, key: SetKey, folder: Path) -> list[Path]:
    drawn = {
        "leaderboard": _leaderboard(view, key),
        "scatter": _scatter(view, key),
        "heatmap": _heatmap(view, key),
        "calibration": _calibration(view, key),
    }
    paths = []
    for name, figure in drawn.items():
        if figure is not None:
            paths.append(folder / f"{name}-{view.set_slugs[key]}.png")
            save(figure, paths[-1])
    return paths


def _leaderboard(view: Arrangement, key: SetKey) -> Figure | None:
    """Headline figure of each judge with its interval, the human ceiling as a line."""
    dimension = view.headline(key)
    if dimension is None:
        return None
    rows = sorted(view.rows(key, dimension), key=lambda r: shown(r, "spearman").value or -9.0)
    figure = new_figure(6.4, 0.36 * len(rows) + 1.4, f"{key.label}: {dimension}")
    axes = figure.subplots()
    for y, row in enumerate(rows):
        _interval(axes, y, shown(row, "spearman"))
    axes.set_yticks(range(len(rows)), [row.judge for row in rows])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    ceiling = view.ceiling(key, dimension, "spearman").value
    if ceiling is not None:
        axes.axvline(ceiling, color="#D55E00", lw=1.2, ls="--", label="human ceiling")
        likes = [like_for_like(row, "spearman").value for row in rows]
        at = [(x, y) for y, x in enumerate(likes) if x is not None]
        ends, ring = list(zip(*at, strict=True)) or [(), ()], colour_of(0)
        axes.plot(*ends, "o", mfc="none", ms=9, color=ring, label="judge, like for like")
        figure.legend(loc="outside lower right", frameon=False, ncols=2)
    axes.axvline(0, color="#999999", lw=0.8)
    axes.set_xlabel(f"{label('spearman')} with people, 95% interval")
    return figure


def _interval(axes: Axes, y: int, estimate: Estimate) -> None:
    if estimate.value is None:
        where = axes.get_yaxis_transform()  # across in shares of the panel, up in rows
        said = f"{DASH} {estimate.reason}"
        axes.text(0.02, y, said, transform=where, va="center", fontsize=7, color="#555555")
        return
    if estimate.low is not None and estimate.high is not None:
        axes.plot([estimate.low, estimate.high], [y, y], color=colour_of(0), lw=2, alpha=0.5)
    axes.plot([estimate.value], [y], "o", color=colour_of(0))


def _scatter(view: Arrangement, key: SetKey) -> Figure | None:
    rows = scatter_rows(view, key)
    if not rows:
        return None
    colours = chatbot_colours(rows)
    figure, panels = panel_figure(len(rows), f"{key.label}: {rows[0].dimension}")
    for axes, row in zip(panels, rows, strict=True):
        _scatter_panel(axes, row, colours)
    named = [(name, i) for name, i in colours.items() if i < OTHER_INDEX]
    if len(named) < len(colours):
        named.append((f"{len(colours) - len(named)} others", OTHER_INDEX))
    colour_legend(figure, named)
    return figure


def _scatter_panel(axes: Axes, row: ResultRow, colours: Any) -> None:
    points = row.points
    hues = [colour_of(colours[chatbot(p)]) for p in points]
    humans = [p.human for p in points]
    axes.scatter(humans, [p.score for p in points], c=hues, s=9, alpha=0.6, lw=0)
    line = trend(points)
    if line is not None:
        ends = [min(humans), max(humans)]
        axes.plot(ends, [line[0] + line[1] * x for x in ends], color="#333333", lw=1)
    found = shown(row, "spearman")
    said = DASH if found.value is None else number(found.value)
    axes.set_title(f"{row.judge}\nρ {said}", fontsize=8)
    axes.set_xlabel("people", fontsize=8)
    axes.set_ylabel("judge", fontsize=8)


def _heatmap(view: Arrangement, key: SetKey) -> Figure | None:
    dimensions = view.dimensions(key)
    if len(dimensions) < 2:
        return None
    from matplotlib.colors import LinearSegmentedColormap

    metrics = [primary_metric(view.kind(key, dimension)) for dimension in dimensions]
    found = [
        [shown(view.row(judge, key, d), metric).value for judge in view.judges]
        for d, metric in zip(dimensions, metrics, strict=True)
    ]
    size = (1.0 * len(view.judges) + 3, 0.36 * len(dimensions) + 2)
    figure = new_figure(*size, f"{key.label}: dimensions by judge")
    axes = figure.subplots()
    colours = LinearSegmentedColormap.from_list("judge", [NEGATIVE, "#FFFFFF", POSITIVE])
    numbers = [[float("nan") if v is None else v for v in line] for line in found]
    axes.imshow(numbers, cmap=colours, vmin=-1, vmax=1, aspect="auto")
    for y, line in enumerate(found):
        for x, value in enumerate(line):
            axes.text(x, y, DASH if value is None else number(value), ha="center", va="center")
    axes.set_xticks(range(len(view.judges)), view.judges, rotation=30, ha="right")
    names = [f"{d} ({label(m)})" for d, m in zip(dimensions, metrics, strict=True)]
    axes.set_yticks(range(len(dimensions)), names)
    return figure


def _calibration(view: Arrangement, key: SetKey) -> Figure | None:
    """One panel a dimension, one line a judge."""
    found = {
        d: [r for r in view.rows(key, d) if r.points and bins(r)] for d in view.dimensions(key)
    }
    drawn = {dimension: rows for dimension, rows in found.items() if rows}
    if not drawn:
        return None
    figure, panels = panel_figure(len(drawn), f"{key.label}: calibration")
    index = {judge: min(i, OTHER_INDEX) for i, judge in enumerate(view.judges)}
    for axes, (dimension, rows) in zip(panels, drawn.items(), strict=True):
        for row in rows:
            parts = bins(row)
            scores, humans = [b.score for b in parts], [b.human for b in parts]
            axes.plot(scores, humans, "o-", ms=3, lw=1, color=colour_of(index[row.judge]))
        ends = (*axes.get_xlim(), *axes.get_ylim())
        low, high = min(ends), max(ends)
        axes.plot([low, high], [low, high], color="#777777", lw=0.8, ls="--", zorder=0)
        axes.set(xlim=(low, high), ylim=(low, high))
        axes.set_title(dimension, fontsize=8)
        axes.set_xlabel("mean score, on people's scale", fontsize=8)
        axes.set_ylabel("mean human answer", fontsize=8)
    present = {row.judge for rows in drawn.values() for row in rows}
    colour_legend(figure, [(judge, i) for judge, i in index.items() if judge in present])
    return figure
