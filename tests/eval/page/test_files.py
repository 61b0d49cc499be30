"""The CSV tables equal the records; the PNG figures are there and show something."""

import csv
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tests.pages import page_text

from medal_judges.eval.benchmark.charts import bins, gap, off_scale, papers_figures
from medal_judges.eval.benchmark.page import benchmark_page
from medal_judges.eval.benchmark.results import FOLLOW_UPS, Benchmark
from medal_judges.eval.benchmark.view import View
from medal_judges.eval.metaeval.alignment import METRICS
from medal_judges.eval.metaeval.metaeval import Point, ResultRow
from medal_judges.records.labelled import Scale
from medal_judges.report.figure import Bars
from medal_judges.report.table import Table
from medal_judges.stats.estimate import Estimate


def _read(report: Path, name: str) -> list[dict[str, str]]:
    with (report / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _text(value: object) -> str:
    return "" if value is None else str(value)


def test_figures_equal_the_records(report: Path, benchmark_record: Benchmark) -> None:
    lines = iter(_read(report, "figures"))
    for row in benchmark_record.rows:
        for metric, found in row.metrics.items():
            line = next(lines)
            at = (line["judge"], line["set"], line["dimension"], line["metric"])
            assert at == (row.judge, row.set_name, row.dimension, metric)
            assert line["reason"] == _text(found.reason)
            # The numbers of a text are those that were written into it, to the last digit.
            printed = [line["value"], line["low"], line["high"]]
            assert ",".join(printed) == ",".join(
                map(_text, (found.value, found.low, found.high))
            )
            assert line["n"] == str(row.n) and float(line["coverage"]) == row.coverage
            assert line["under_floor"] == str(
                row.coverage is not None and row.coverage < 0.98
            )
    assert next(lines, None) is None


def test_slices_equal_the_records(report: Path, benchmark_record: Benchmark) -> None:
    rows = benchmark_record.rows
    sliced = [
        e.value for row in rows for part in row.slices.values() for e in part.values()
    ]
    printed = [line["value"] for line in _read(report, "slices")]
    assert ",".join(printed) == ",".join(map(_text, sliced))


def test_every_set_has_its_pictures(report: Path, benchmark_record: Benchmark) -> None:
    from PIL import Image

    pictures = {path.stem: path for path in (report / "figures").glob("*.png")}
    for ending in ("pdf", "svg"):
        assert {path.stem for path in (report / "figures").glob(f"*.{ending}")} == set(
            pictures
        )
    expected = {f"calibration-{slug}" for slug in ("fed", "dialogue-eval", "medal")}
    for row in benchmark_record.rows:  # a binary answer makes no scatter
        names = ("f1_present",) if row.kind == "binary" else ("scatter",)
        if row.kind != "binary" and row.set_name == "medal":  # in several languages
            names = ("scatter", "spearman", "pearson")
        at = f"{row.set_name}-{row.dimension}".replace("_", "-")
        expected |= {f"{name}-{at}" for name in ("leaderboard", *names)}
    # the only set with issues
    expected |= {f"{name}-medal" for name in (*METRICS, "rows")}
    assert set(pictures) == expected
    for path in pictures.values():
        with Image.open(path) as image:
            assert min(image.size) > 300
            assert len(image.convert("RGB").getcolors(1 << 24) or []) > 50


def test_figures_of_the_papers_have_the_numbers_of_the_records(
    benchmark_record: Benchmark,
) -> None:
    text = ("fed", "CRAFT", "overall", "Why?", 3, 75.0, 60.0)
    chosen = Table(FOLLOW_UPS, [""] * 7, [text, (*text[:3], "(none)", 1, 25.0, None)])
    found = papers_figures(View(benchmark_record.rows), [chosen])
    (bars,) = found["follow-ups-fed"].panels  # DIET, Figure 3
    assert isinstance(bars, Bars) and [(b.name, b.text) for b in bars.bars] == [
        ("Why?", "60.0")
    ]
    rows = [
        r
        for r in benchmark_record.rows
        if (r.set_name, r.dimension) == ("medal", "overall")
    ]
    arabic, *_, whole = found["spearman-medal-overall"].panels  # MEDAL, Figure 4
    assert (
        isinstance(whole, Table) and isinstance(arabic, Table) and arabic.title == "ar"
    )
    assert [line[1] for line in whole.rows] == [row.metrics["spearman"] for row in rows]
    assert [line[1] for line in arabic.rows] == [
        r.slices["lang:ar"]["spearman"] for r in rows
    ]


def test_tables_are_latex_that_compiles(report: Path, tmp_path: Path) -> None:
    files = sorted((report / "tables").glob("*.tex"))
    board = (report / "tables" / "leaderboard-fed-overall.tex").read_text()
    assert (
        r"human\_embedded (MiniLM) & \textbf{0." in board
        and r"repeated 3-grams & $-$0." in board
    )
    if shutil.which("pdflatex"):
        lines = [
            r"\documentclass{article}\usepackage{booktabs,graphicx}\begin{document}"
        ]
        lines += [rf"\input{{{path}}}\clearpage" for path in files]
        (tmp_path / "all.tex").write_text("\n".join([*lines, r"\end{document}"]))
        subprocess.run(
            ["pdflatex", "-halt-on-error", "all.tex"], cwd=tmp_path, check=True
        )


def _row(
    points: list[tuple[float, float]],
    kind: str = "ordinal",
    people: Scale | None = (1, 5),
    judge: Scale | None = (1, 5),
) -> ResultRow:
    made = [
        Point(str(i), None, h, s, "en", None, "g") for i, (h, s) in enumerate(points)
    ]
    n = len(made)
    row = ResultRow(
        "j", "s", "s", "dialogue", "d", kind, n, n, {"x": Estimate(None)}, points=made
    )
    return replace(row, human_scale=people, judge_scale=judge)


def test_bins_of_graded_answers_are_equal_and_split_no_tie() -> None:
    row = _row(
        [(float(i % 5), float(i)) for i in range(80)], people=(0, 80), judge=(0, 80)
    )
    assert [n for *_, n in bins(row)] == [10] * 8
    assert bins(row)[0] == (4.5, 2.0, 10)
    tied = bins(_row([(1.0, 2.0)] * 30 + [(2.0, 3.0)] * 10))
    assert tied == [(2.0, 1.0, 30), (3.0, 2.0, 10)]
    assert gap(tied) == 1.0


def test_bins_of_issues_are_tenths() -> None:
    row = _row([(0.0, 0.05), (1.0, 0.08), (1.0, 0.95), (1.0, 1.0)], "binary")
    assert [(human, n) for _, human, n in bins(row)] == [(0.5, 2), (1.0, 2)]
    assert [score for score, *_ in bins(row)] == pytest.approx([0.065, 0.975])


def test_a_length_in_words_is_not_on_the_scale() -> None:
    assert off_scale(_row([(1.0, 1.2), (5.0, 4.4)])) is None
    assert (
        off_scale(_row([(1.0, 120.0), (5.0, 300.0)]))
        == "its scores leave its own scale"
    )
    assert off_scale(_row([(0.0, 1.5)], "binary")) == "its scores are not probabilities"
    assert off_scale(_row([(1.0, 2.0)], judge=None)) == "its scale is not stated"
    assert (
        off_scale(_row([(1.0, 2.0)], people=None)) == "the labels' scale is not stated"
    )
    assert bins(_row([(1.0, 2.0)], judge=None)) == []


def test_a_judge_from_1_to_5_is_put_on_peoples_1_to_10_before_its_gap_is_taken() -> (
    None
):
    # people 1, 4, 7, 10 and the judge at the same places of its own scale: no gap at all
    same = [(1.0, 1.0), (4.0, 7 / 3), (7.0, 11 / 3), (10.0, 5.0)] * 5
    row = _row(same, people=(1, 10))
    assert gap(bins(row)) == pytest.approx(0)
    assert [score for score, *_ in bins(row)] == pytest.approx([1, 4, 7, 10])
    # what is 0.2 of a step too high from 1 to 5 is 9/4 of that from 1 to 10
    high = _row([(h, s + 0.2) for h, s in same], people=(1, 10))
    assert gap(bins(high)) == pytest.approx(0.2 * 9 / 4)
    page = page_text(lambda out: benchmark_page(Benchmark("t", [high])).write(out))
    assert "0.45 (from 1–5)" in page
