"""The figures of the statistics as PNG: heat maps, issues by language, levels of overall."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from medal_judges.data_prep.corpus_stats.bars import tone
from medal_judges.data_prep.corpus_stats.findings import OVERALL, Distribution, Findings
from medal_judges.data_prep.corpus_stats.heatmaps import grid, highest_share
from medal_judges.data_prep.corpus_stats.labels import Dimension
from medal_judges.eval.page.arrangement import unique_slugs
from medal_judges.report.colours import NEGATIVE, POSITIVE, colour_of
from medal_judges.report.drawing import drawing, new_figure, panel_figure, save
from medal_judges.report.numbers import DASH, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def write_figures(findings: Findings, folder: Path) -> list[Path]:
    """Write what there is to draw; paths as written.

    Raises MissingExtraError where matplotlib is not installed.
    """
    with drawing():
        named = [("heatmaps", _heatmaps(findings)), ("issues", _issues(findings))]
        named += [(findings.label(d), _levels(findings, d)) for d in findings.graded]
        drawn = [(name, figure) for name, figure in named if figure is not None]
        if drawn:
            folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"{slug}.png" for slug in unique_slugs([name for name, _ in drawn])]
        for path, (_, figure) in zip(paths, drawn, strict=True):
            save(figure, path)
    return paths


def _heatmaps(findings: Findings) -> Figure | None:
    """One panel an issue, and overall."""
    shown = findings.issues + [d for d in findings.graded if d.name == OVERALL]
    if not shown or not findings.chatbots:
        return None
    across = min(3, len(shown))
    down = -(-len(shown) // across)
    heads, lines = grid(findings)
    size = (across * (0.55 * len(heads) + 2.2), down * (0.3 * len(lines) + 1.1) + 0.4)
    figure = new_figure(*size, f"{findings.name}: chatbots by languages")
    panels = list(figure.subplots(down, across, squeeze=False).flat)
    top = highest_share(findings) or 1.0
    for axes in panels[len(shown) :]:
        axes.set_visible(False)
    for axes, dimension in zip(panels, shown, strict=False):
        _heatmap(findings, axes, dimension, top)
    return figure


def _heatmap(findings: Findings, axes: Axes, dimension: Dimension, top: float) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    heads, lines = grid(findings)
    found = [[findings.figure(p, dimension).estimate.value for p in parts] for _, parts in lines]
    known = [v for line in found for v in line if v is not None]
    share = findings.survey.labels.is_share(dimension)
    low, high = (0.0, top) if share else dimension.scale or (min(known), max(known))
    hue = NEGATIVE if share else POSITIVE
    colours = LinearSegmentedColormap.from_list("share", ["#FFFFFF", hue])
    numbers = [[float("nan") if v is None else v for v in line] for line in found]
    axes.imshow(numbers, cmap=colours, vmin=low, vmax=high, aspect="auto")
    for y, line in enumerate(found):
        for x, value in enumerate(line):
            axes.text(x, y, _shown(value, share), ha="center", va="center", fontsize=7)
    axes.set_title(f"{findings.label(dimension)}, {'%' if share else 'mean'}", fontsize=9)
    axes.set_xticks(range(len(heads)), heads)
    axes.set_yticks(range(len(lines)), [name for name, _ in lines])


def _shown(value: float | None, share: bool) -> str:
    if value is None:
        return DASH
    return number(100 * value, 1) if share else number(value)


def _issues(findings: Findings) -> Figure | None:
    """Percent with each issue by language, with intervals."""
    if not findings.issues:
        return None
    figure, panels = panel_figure(len(findings.issues), f"{findings.name}: issues by language, %")
    langs = findings.langs
    for axes, dimension in zip(panels, findings.issues, strict=True):
        for y, part in enumerate(langs):
            e = findings.figure(part, dimension).estimate
            if e.value is not None:
                axes.barh(y, 100 * e.value, color=colour_of(1), height=0.65)
            if e.low is not None and e.high is not None:
                axes.plot([100 * e.low, 100 * e.high], [y, y], color="#333333", lw=0.8)
        axes.set_yticks(range(len(langs)), [str(part.lang) for part in langs])
        axes.invert_yaxis()
        axes.set_xlim(left=0)
        axes.set_title(findings.label(dimension), fontsize=8)
    return figure


def _levels(findings: Findings, dimension: Dimension) -> Figure | None:
    """Stacked bars, one a language."""
    found = [(str(part.lang), findings.distribution(part, dimension)) for part in findings.langs]
    lines = [(name, d) for name, d in found if isinstance(d, Distribution) and d.n]
    if not lines:
        return None
    title = f"{findings.name}: {findings.label(dimension)}, %"
    figure = new_figure(6.4, 0.34 * len(lines) + 1.6, title)
    axes = figure.subplots()
    levels = lines[0][1].levels
    lefts = [0.0] * len(lines)
    for i, level in enumerate(levels):
        widths = [100 * d.shares[i] for _, d in lines]
        axes.barh(range(len(lines)), widths, left=lefts, color=_colour(i, len(levels)),
                  edgecolor="#999999", lw=0.4, label=str(level))  # fmt: skip
        lefts = [left + width for left, width in zip(lefts, widths, strict=True)]
    axes.set_yticks(range(len(lines)), [name for name, _ in lines])
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    figure.legend(loc="outside lower center", ncols=len(levels), frameon=False)
    return figure


def _colour(i: int, count: int) -> tuple[float, float, float]:
    from matplotlib.colors import to_rgb

    kind, strength = tone(i, count)
    r, g, b = to_rgb(NEGATIVE if kind == "neg" else POSITIVE)
    s = strength / 100
    return 1 - s * (1 - r), 1 - s * (1 - g), 1 - s * (1 - b)
