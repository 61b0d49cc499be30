"""Figures are drawn by matplotlib, the same in every run; it is imported only for a figure."""

import base64
from pathlib import Path
from xml.etree import ElementTree

import pytest

from medal_judges.report.figure import (
    Axis,
    Bar,
    Bars,
    BarSegment,
    Dot,
    Figure,
    Line,
    Plot,
    draw,
    write_figures,
)
from medal_judges.report.page import Page, Section
from medal_judges.report.table import IntervalBar, Table
from medal_judges.stats.estimate import Estimate

ESTIMATE = Estimate(0.5, 0.4, 0.6)
FIGURES = {
    "plot": Plot(
        "judge",
        Axis("label", (0.0, 1.0), [(0.0, "2026-01-01")]),
        Axis("judge", (0.0, 1.0)),
        [[Dot(0.5, 0.5, 1)], Line([(0, 0.1), (0.5, None), (1, 1)]), Line([])],
    ),
    "bars": Bars("share", [Bar("en", [BarSegment(3, 0)], (1, 4), "3")], 4),
    "intervals": Table("t", ("Judge", ""), [("a", IntervalBar(ESTIMATE, (0, 1), 0.7))]),
}


@pytest.mark.parametrize("name", FIGURES)
def test_every_kind_of_panel_is_drawn_the_same_in_every_run(
    name: str, tmp_path: Path
) -> None:
    figure = Figure("$x$", [FIGURES[name]], legend=[("a", 0), ("b", ("neg", 40))])  # type: ignore[list-item]
    write_figures({name: figure}, tmp_path)
    for ending, content in draw(figure, ("png", "pdf", "svg")).items():
        assert (tmp_path / f"{name}.{ending}").read_bytes() == content
    root = ElementTree.fromstring(draw(figure)["svg"])
    assert root.tag.endswith("svg")


def test_a_figure_stands_in_the_page_as_a_picture(tmp_path: Path) -> None:
    figure = Figure("By judge", [FIGURES["plot"]])  # type: ignore[list-item]
    page = Page("p", "t", "s", [Section("a", "A", [figure])], figures={"f": figure})
    text = page.write(tmp_path).read_text(encoding="utf-8")
    drawn = base64.b64encode((tmp_path / "figures/f.svg").read_bytes()).decode()
    assert drawn in text and 'alt="By judge"' in text
