"""Scores beside those of a reference: percentiles, what is ordinary, and references that are not of
the same judge."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import percentileofscore
from tests.scales import FUN, OVERALL, REPETITIVE

from medal_judges import Judge
from medal_judges.config import CONFIGS
from medal_judges.errors import DataError
from medal_judges.eval.scores.options import ScoreSelection
from medal_judges.eval.scores.relative import add_reference, make_reference
from medal_judges.eval.scores.scores import Scores, load_scores
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement
from medal_judges.storage.judgements import to_frame, write_judgements

from ...forked import medal

JUDGE = "judge:x|revision:1|version:0.1.0"


def judgements(
    scores: Sequence[float],
    judge: str = JUDGE,
    dimension: Dimension = OVERALL,
    turn: int | None = None,
) -> list[Judgement]:
    rows = []
    for i, score in enumerate(scores):
        values = {dimension.name: float(score)}
        row = Judgement(f"d{i}", judge, values, turn=turn, dimensions=(dimension,))
        rows.append(row)
    return rows


def scores_of(rows: Sequence[Judgement]) -> Scores:
    return load_scores(to_frame(rows), ScoreSelection(scores=("scores.jsonl",)))


@pytest.mark.parametrize("digits", [6, 1, 0])
def test_percentiles_are_those_of_scipy(digits: int) -> None:
    generator = np.random.default_rng(5)
    values = np.round(generator.uniform(1, 5, 2001), digits)
    reference = make_reference(scores_of(judgements(values)), "these")
    for score in (*np.unique(values)[::97], 1.0, 3.0, 5.0):
        expected = percentileofscore(values, score, kind="mean")
        assert reference.percentile("overall", score) == pytest.approx(
            expected, abs=1.1
        )


def test_the_middle_half_is_ordinary() -> None:
    reference = make_reference(scores_of(judgements(np.linspace(1, 5, 101))), "these")
    expected = "half of these score 2.00 to 4.00 (median 3.00)"
    for mean, word in (
        (1.99, "low"),
        (2.0, "ordinary"),
        (4.0, "ordinary"),
        (4.1, "high"),
    ):
        assert reference.sentence("overall", mean) == (
            f"overall {mean:.2f} is {word}: {expected}"
        )


REFUSED = {
    "another judge": (
        judgements([2.0] * 30, "judge:y|version:0.1.0"),
        "by judge:y, not",
    ),
    "another revision": (
        judgements([2.0] * 30, "judge:x|revision:2"),
        "revision:2, not",
    ),
    "answers": (judgements([2.0] * 30, turn=1), "judged turns scored by judge:x"),
    "another dimension": (
        judgements([2.0] * 30, dimension=FUN),
        "fewer than 20 scores of overall",
    ),
    "issues alone": (
        judgements([0.2] * 30, dimension=REPETITIVE),
        "fewer than 20 scores of overall",
    ),
    "few": (judgements([2.0] * 19), "fewer than 20 scores of overall"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_other_references_are_refused(case: str, tmp_path: Path) -> None:
    rows, problem = REFUSED[case]
    path = tmp_path / "reference.jsonl"
    write_judgements(path, rows)
    scores = scores_of(judgements([1.0, 2.0, 3.0]))
    with pytest.raises(DataError, match=problem):
        add_reference(scores, str(path), None)
    assert scores.reference is None


def test_another_version_of_the_package_is_the_same_judge(tmp_path: Path) -> None:
    path = tmp_path / "reference.jsonl"
    write_judgements(path, judgements([2.0] * 30, "judge:x|revision:1|version:0.2.0"))
    scores = scores_of(judgements([1.0, 2.0, 3.0]))
    add_reference(scores, str(path), None)
    assert [scores.percentile(x) for x in (1.0, 2.0, 3.0)] == [0, 50, 100]


def test_the_packaged_reference_is_of_the_packaged_judge() -> None:
    signature = str(Judge.from_pretrained("boxed").signature())
    rows = judgements([2.0, 3.0, 2.5], signature)
    scores = scores_of(rows)
    add_reference(scores, None, None)
    assert scores.reference is not None
    record = json.loads((CONFIGS / "references/boxed.json").read_text())
    # percentiles alone, no row
    assert set(record) == {"about", "judge", "unit", "quantiles"}
    (quantiles,) = record["quantiles"].values()
    assert len(quantiles) == 101 and quantiles == sorted(quantiles)
    assert quantiles[0] >= 1 and quantiles[-1] <= 5
    for rows in (judgements([2.0], signature, turn=1), judgements([2.0])):
        scores = scores_of(rows)
        add_reference(scores, None, None)
        assert scores.reference is None


def test_the_report_says_what_is_ordinary(
    tmp_path: Path, no_figure_files: None
) -> None:
    scores, reference = tmp_path / "scores.jsonl", tmp_path / "reference.jsonl"
    write_judgements(scores, judgements([2.6, 2.7, 2.8, 2.7, 2.7, 1.0]))
    write_judgements(reference, judgements(np.linspace(1, 5, 101)))
    relative = ("--relative-to", reference, "--out", tmp_path / "page")
    done = medal("report", scores, *relative)
    assert done.returncode == 0, done.stderr
    sentence = (
        "overall 2.42 is ordinary: half of the 101 conversations of reference.jsonl score "
        "2.00 to 4.00 (median 3.00)"
    )
    assert sentence in done.stdout
    page = (tmp_path / "page/report.html").read_text()
    assert f'<p class="said">{sentence}. 6 conversations' in page
    with (tmp_path / "page/tables/worst.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert rows[0]["id"] == "d5" and float(rows[0]["percentile"]) == pytest.approx(
        0, abs=1
    )
    done = medal("report", scores, "--relative-to", "-")
    assert done.returncode == 2 and "more than once" in done.stderr
