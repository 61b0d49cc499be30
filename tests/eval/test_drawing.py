"""Figures are drawn by matplotlib, the same in every run; it is imported only for a figure."""

import base64
from pathlib import Path
from xml.etree import ElementTree

import pytest

from medal_judges.report.figure import (
    BLUE,
    Bar,
    Bars,
    Figure,
    Intervals,
    Series,
    render_bytes,
    write_figures,
)
from medal_judges.report.page import Page, Section
from medal_judges.stats.intervals import Estimate

ESTIMATES = [Estimate(0.5, 0.4, 0.6), Estimate(None, reason="no rows"), Estimate(0.7)]
NAMES = ["a", "$b$", "c"]
FIGURES = {
    "series": Series("overall", NAMES, ESTIMATES, (0.0, 1.0), "mean"),
    "intervals": Intervals("ρ", NAMES, ESTIMATES, (0.0, 1.0), 0.7, [0.5, None, 0.6]),
    "bars": Bars("share", [Bar("en", [(3, BLUE), (1, "orange")], "4")], 4),
}


@pytest.mark.parametrize("name", FIGURES)
def test_every_kind_of_panel_is_drawn_the_same_in_every_run(
    name: str, tmp_path: Path
) -> None:
    figure = Figure("$x$", [FIGURES[name]], legend=[("a", BLUE), ("b", "orange")])  # type: ignore[list-item]
    write_figures({name: figure}, tmp_path)
    for ending, content in render_bytes(figure, ("png", "pdf", "svg")).items():
        assert (tmp_path / f"{name}.{ending}").read_bytes() == content
    root = ElementTree.fromstring(render_bytes(figure)["svg"])
    assert root.tag.endswith("svg")


def test_a_figure_stands_in_the_page_as_a_picture(tmp_path: Path) -> None:
    figure = Figure("By judge", [FIGURES["series"]])  # type: ignore[list-item]
    page = Page("p", "t", "s", [Section("a", "A", [figure])], figures={"f": figure})
    text = page.write(tmp_path).read_text(encoding="utf-8")
    drawn = base64.b64encode((tmp_path / "figures/f.svg").read_bytes()).decode()
    assert drawn in text and 'alt="By judge"' in text
