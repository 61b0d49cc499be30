"""The share of bad scores: it shows what a mean hides, and is refused if it says nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_ind
from tests.typed import Done, medal

from medal_judges.eval.scores.bad import BadScoreLimit
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement
from medal_judges.storage.judgements import write_judgements

OVERALL = Dimension("overall", "continuous", 1, 5)
Numbers = Sequence[float | None] | np.ndarray
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(
        name: str,
        numbers: Numbers,
        dimension: Dimension = OVERALL,
        days: Sequence[int] | np.ndarray = (),
        judge: str = "judge:x",
    ) -> Path:
        judgements = []
        for i, number in enumerate(numbers):
            meta = {}
            if len(days):
                meta["day"] = f"2026-03-{1 + days[i]:02}"
            score = None if number is None else float(number)
            failure = "no answer" if number is None else None
            judgements.append(
                Judgement(
                    f"{name}{i}",
                    judge,
                    {dimension.name: score},
                    failure=failure,
                    meta=meta,
                    dimensions=(dimension,),
                )
            )
        path = tmp_path / f"{name}.jsonl"
        write_judgements(path, judgements)
        return path

    return written


def planted(rows: int, bad: int, seed: int, mean: float = 3.0) -> np.ndarray:
    """Scores with this mean, ``bad`` of them below 1.5 and all others above 1.6."""
    rng = np.random.default_rng(seed)
    scores = np.concatenate([rng.uniform(1, 1.4, bad), rng.normal(0, 0.4, rows - bad)])
    good = scores[bad:]
    good += (rows * mean - scores[:bad].sum() - good.sum()) / len(good)
    assert good.min() > 1.6 and good.max() < 5
    return rng.permutation(scores)


def compare(*words: object) -> Done:
    return medal("compare", *words)


def record(out: Path) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = json.loads((out / "compare.json").read_text())[
        "results"
    ]
    return results


def test_bad_chats_that_rise_from_6_to_28_percent_fail_a_gate_that_the_mean_passes_by(
    write: Write, tmp_path: Path
) -> None:
    last, this = planted(150, 9, 1), planted(150, 42, 2)
    files = [write("lastweek", last), write("thisweek", this)]
    done = compare(*files, "--fail-if-worse", 0)
    assert done.code == 4 and "cannot be told apart" in done.out
    assert "margin 0.00: undecided" in done.out
    gates = ["--bad", "overall=1.5", "--fail-if-more-bad", 0, "--junit"]
    done = compare(*files, *gates, tmp_path / "gates.xml", "--out", tmp_path / "out")
    assert done.code == 1
    assert "lastweek is better than thisweek by 22.0 pts [" in done.out
    assert 'failures="1"' in (tmp_path / "gates.xml").read_text()
    mean, share = record(tmp_path / "out")
    assert mean["bad"] is None and share["bad"]["threshold"] == pytest.approx(1.5)
    assert mean["pairs"][0]["difference"]["value"] == pytest.approx(0)
    welch = ttest_ind(last < 1.5, this < 1.5, equal_var=False)
    difference = share["pairs"][0]["difference"]
    assert difference["value"] == pytest.approx(9 / 150 - 42 / 150)
    assert difference["p_value"] == pytest.approx(welch.pvalue, rel=0.05)
    interval = welch.confidence_interval()
    ends = difference["low"], difference["high"]
    assert ends == pytest.approx((interval.low, interval.high), abs=1e-4)
    shares = [system["judge"]["value"] for system in share["systems"]]
    assert shares == pytest.approx([9 / 150, 42 / 150])


def test_the_gate_of_a_report_is_on_the_share(write: Write, tmp_path: Path) -> None:
    words = ["report", write("log", planted(150, 42, 2)), "--bad", "overall=1.5"]
    for limit, code in ((0.15, 1), (0.3, 4), (0.4, 0)):
        gate = ["--fail-over", f"bad={limit}", "--junit", tmp_path / "gates.xml"]
        done = medal(*words, *gate)
        assert done.code == code
        assert "gate overall below 1.5 is 28.0% [21" in done.out
        junit = (tmp_path / "gates.xml").read_text()
        assert f"--fail-over overall below 1.5={limit}" in junit.replace("&lt;", "<")
    done = medal(*words, "--fail-under", "bad=0.1")
    assert done.code == 2 and "--bad overall=1.5 --fail-over bad=0.1" in done.err


def test_scores_that_a_batch_can_move_are_on_one_side_of_a_threshold() -> None:
    bad = BadScoreLimit(OVERALL, 1.5)
    assert bad.flags(np.array([1.5 - 2e-6, 1.5, 1.5 + 2e-6, 1.49])).tolist() == [
        0,
        0,
        0,
        1,
    ]
