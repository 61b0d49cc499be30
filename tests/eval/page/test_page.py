"""The page of a benchmark and the files beside it."""

import csv
from pathlib import Path

import pytest
from tests.pages import Tree

from medal_judges.eval.benchmark.page import benchmark_page
from medal_judges.eval.benchmark.results import Benchmark

from .conftest import HOSTILE, JUDGES


@pytest.fixture(scope="module")
def html(report: Path) -> str:
    return (report / "report.html").read_text(encoding="utf-8")


def test_sections_ids_and_hostile_names(html: str) -> None:
    tree = Tree(html)
    ids = [attributes["id"] for _, attributes in tree.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    wanted = {"leaderboard", "languages", "systems", "tables", "signatures"}
    assert wanted <= set(ids)
    assert "<script>document.title" not in html and "onerror=alert(1)>" not in html
    assert any(HOSTILE in text for text in tree.text)
    assert "http://" not in html.replace("http://www.w3.org", "")


def test_under_the_floor_is_marked_and_has_no_number(html: str) -> None:
    assert "coverage 50.0% is below the minimum of 98.0%: no estimate" in html


def test_every_metric_is_in_the_csv_files(
    report: Path, benchmark_record: Benchmark
) -> None:
    with (report / "tables/figures.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    expected = [
        (row.set_name, row.dimension, name, estimate.value)
        for row in benchmark_record.rows
        for name, estimate in row.metrics.items()
    ]
    found = []
    for line in lines:
        value = float(line["value"].lstrip("'")) if line["value"] else None
        found.append((line["set"], line["dimension"], line["metric"], value))
    assert found == expected
    assert len({line["judge"] for line in lines}) == len(JUDGES)
    with (report / "tables/languages.csv").open(encoding="utf-8", newline="") as file:
        assert {line["language"] for line in csv.DictReader(file)} == {"de", "en"}


def test_same_benchmark_same_bytes(
    report: Path, benchmark_record: Benchmark, tmp_path: Path
) -> None:
    benchmark_page(benchmark_record).write(tmp_path)
    for path in sorted(report.rglob("*.*")):
        again = tmp_path / path.relative_to(report)
        assert again.read_bytes() == path.read_bytes(), path.name
