"""A figure is drawn once: what the page shows is what the files have."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from medal_judges.report.drawing import svg
from medal_judges.report.figure import (
    Axis,
    Bar,
    Bars,
    BarSegment,
    Dot,
    Figure,
    Line,
    Plot,
)
from medal_judges.report.figure_files import write_figures
from medal_judges.report.table import Heat, IntervalBar, Table
from medal_judges.stats.estimate import Estimate

ESTIMATE = Estimate(0.5, 0.25, 0.75)
PLOT = Plot(
    "p",
    Axis("x", (0.0, 10.0)),
    Axis("y", (0.0, 100.0)),
    [
        Line([(0.0, 0.0), (5.0, None), (6.0, 60.0), (10.0, 100.0)]),
        [Dot(5.0, 50.0, 1, "<&>")],
    ],
    "description",
)
BARS = Bars(
    "b", [Bar("日本語", [BarSegment(1.0, ("pos", 40)), BarSegment(1.0, 0)])], 4.0, "d"
)
INTERVALS = Table(
    "t",
    ["System", "Mean", ""],
    [(name, ESTIMATE, IntervalBar(ESTIMATE, (0, 1))) for name in "ab"],
)
HEAT = Table(
    "h",
    ["Name", "en", "de"],
    [("a", Heat("1", 0.5), Heat("2", 1.0, "neg"))],
    style="heat",
)


def elements(
    panel: Plot | Bars | Table | IntervalBar, tag: str
) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(svg(panel)).iter(tag))


def test_values_stand_where_the_axes_say() -> None:
    (dot,) = elements(PLOT, "circle")
    # the middle of both axes
    assert (dot.attrib["cx"], dot.attrib["cy"]) == ("139.0", "90.0")
    assert dot[0].text == "<&>"
    # The missing point leaves a gap: of three segments only the last is drawn.
    (line,) = (mark for mark in elements(PLOT, "line") if mark.get("class") == "trend")
    assert (line.attrib["x2"], line.attrib["y2"]) == ("232.0", "8.0")
    first, second = elements(BARS, "rect")
    assert float(second.attrib["x"]) == float(first.attrib["x"]) + float(
        first.attrib["width"]
    )
    assert first.attrib["style"] == "--s:40%" and second.attrib["class"] == "share"


def test_a_table_in_a_file_has_the_intervals_of_the_page() -> None:
    names = [text.text for text in elements(INTERVALS, "text")]
    assert names[:3] == ["System", "a", "b"] and "0.50 [0.25, 0.75]" in names
    for mark in ("line", "circle"):
        assert len(elements(INTERVALS, mark)) == 2 * len(
            elements(IntervalBar(ESTIMATE, (0, 1)), mark)
        )
    assert [box.attrib["class"] for box in elements(HEAT, "rect")] == [
        "bin pos",
        "bin neg",
    ]


@pytest.mark.filterwarnings("ignore:Glyph")
def test_files_have_every_shape_and_are_the_same_twice(tmp_path: Path) -> None:
    panels = {"plot": PLOT, "bars": BARS, "intervals": INTERVALS, "heat": HEAT}
    figures = {name: Figure(name, [panel]) for name, panel in panels.items()}
    for folder in ("one", "two"):
        write_figures(figures, tmp_path / folder)
    for name, panel in panels.items():
        for ending in ("png", "pdf", "svg"):
            once, twice = (
                (tmp_path / f / f"{name}.{ending}").read_bytes() for f in ("one", "two")
            )
            assert once == twice
        written = ElementTree.parse(tmp_path / "one" / f"{name}.svg")
        shapes = [
            part for part in written.iter() if part.get("id", "").startswith("patch_")
        ]
        drawn = sum(len(elements(panel, tag)) for tag in ("line", "circle", "rect"))
        assert len(shapes) == drawn + 1  # and the background
