"""The share of bad scores: it shows what a mean hides, and is refused if it says nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_ind
from tests.typed import Done, medal

from medal_judges.errors import ConfigError
from medal_judges.eval.scores.bad import BadScores, find_bad_scores
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement
from medal_judges.storage.judgements import write_judgements

OVERALL = Dimension("overall", "continuous", 1, 5)
RUDE = Dimension("rude", "ordinal", 0, 10, good="low")
RESOLVED = Dimension("resolved", "binary", 0, 1)
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


def test_by_default_the_worst_tenth_of_the_first_system_is_bad(
    write: Write, tmp_path: Path
) -> None:
    files = [write("old", planted(100, 6, 5)), write("new", planted(100, 28, 2))]
    done = compare(*files, "--out", tmp_path / "out", "--fail-if-more-bad", 0)
    assert done.code == 1
    share = record(tmp_path / "out")[1]
    by_name = {system["system"]: system["judge"] for system in share["systems"]}
    assert by_name["old"]["value"] == pytest.approx(0.1, abs=0.011)
    assert by_name["new"]["value"] > 0.27


def test_the_gate_of_a_report_is_on_the_share(write: Write, tmp_path: Path) -> None:
    words = ["report", write("log", planted(150, 42, 2)), "--bad", "overall=1.5"]
    for limit, code in ((0.15, 1), (0.3, 4), (0.4, 0)):
        gate = ["--fail-over", f"bad={limit}", "--junit", tmp_path / "gates.xml"]
        done = medal(*words, *gate)
        assert done.code == code
        assert "gate overall below 1.5 28.0% [21" in done.out
        junit = (tmp_path / "gates.xml").read_text()
        assert f"--fail-over overall below 1.5={limit}" in junit.replace("&lt;", "<")
    done = medal(*words, "--fail-under", "bad=0.1")
    assert done.code == 2 and "--bad overall=1.5 --fail-over bad=0.1" in done.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("overal=1.5", "did you mean 'overall'?"),
        ("overall=6", "so no score is below 6"),
        ("overall=0.5", "overall is between 1 and 5"),
        ("overall=1", "so no score is below 1"),
        ("overall=inf", "overall is between 1 and 5"),
        ("overall", "expected DIMENSION=NUMBER"),
        ("overall=nan", "expected DIMENSION=NUMBER"),
        ("rude=10", "so no score is above 10"),
    ],
)
def test_a_threshold_that_says_nothing_is_refused(text: str, message: str) -> None:
    scales = {"overall": OVERALL, "rude": RUDE}
    scores = {"overall": np.full(9, 3.0), "rude": np.full(9, 3.0)}
    with pytest.raises(ConfigError) as refused:
        find_bad_scores([text], scales, scores)
    assert message in str(refused.value)


def test_where_low_is_good_a_high_score_is_bad() -> None:
    rng = np.random.default_rng(0)
    scores = rng.uniform(0, 10, 500)
    (bad,) = find_bad_scores([], {"rude": RUDE}, {"rude": scores}).values()
    assert bad.name.startswith("rude above ")
    assert bad.flags(scores).mean() == pytest.approx(0.1, abs=0.011)
    assert bad.threshold == pytest.approx(np.quantile(scores, 0.9), abs=0.1)
    mirrored = Dimension("kind", "ordinal", 0, 10)
    (same,) = find_bad_scores([], {"kind": mirrored}, {"kind": 10 - scores}).values()
    assert 10 - same.threshold == pytest.approx(bad.threshold, abs=0.1)


@pytest.mark.parametrize(
    ("levels", "threshold", "share"),
    [
        ([1, 1, 2, 3, 3, 4, 4, 5, 5, 5], 2.0, 0.2),
        ([1] * 9 + [5], 3.0, 0.9),
        # 2 below 2 are nearer to a tenth of 21 than 7 below 2.5.
        ([1, 1, 2, 2, 2, 2, 2] + [4] * 14, 2.0, 2 / 21),
        ([2] * 10, 2.0, 0.0),
    ],
)
def test_the_default_threshold_parts_two_levels(
    levels: Sequence[float], threshold: float, share: float
) -> None:
    scores = np.array([*levels, math.nan])
    scale = Dimension("overall", "ordinal", 1, 5)
    (bad,) = find_bad_scores([], {"overall": scale}, {"overall": scores}).values()
    assert bad.threshold == pytest.approx(threshold)
    assert np.nanmean(bad.flags(scores)) == pytest.approx(share)
    assert np.isnan(bad.flags(scores)[-1])


def test_scores_that_a_batch_can_move_are_on_one_side_of_a_threshold() -> None:
    bad = BadScores(OVERALL, 1.5)
    assert bad.flags(np.array([1.5 - 2e-6, 1.5, 1.5 + 2e-6, 1.49])).tolist() == [
        0,
        0,
        0,
        1,
    ]


def test_equal_files_pass_and_too_few_chats_do_not(write: Write) -> None:
    gate = ["--bad", "overall=1.5", "--fail-if-more-bad", 0]
    scores = planted(60, 0, 1)
    log = write("log", scores)
    assert compare(f"a={log}", f"b={log}", *gate).code == 0
    # None of 60 is bad in either, and the chats differ: nothing is certain.
    done = compare(log, write("next", planted(60, 0, 2)), *gate)
    assert done.code == 4 and "0.0 pts [−" in done.out
    few = [write("one", scores[:5]), write("two", planted(60, 0, 2)[:5])]
    assert compare(*few, *gate).code == 4
    assert compare(*few, *gate[:-1], 0.5).code == 0
    tiny = compare(few[0], write("three", scores[:4]), *gate)
    assert tiny.code == 2 and "4 dialogues of one of the two, fewer than 5" in tiny.err


def test_all_bad_against_none_bad(write: Write) -> None:
    files = [write("good", np.full(30, 4.0)), write("awful", np.full(30, 1.2))]
    gate = ["--bad", "overall=1.5", "--fail-if-more-bad"]
    done = compare(*files, *gate, 0.5)
    assert done.code == 1 and "awful is worse than good by 100.0 pts [9" in done.out
    assert compare(*reversed(files), *gate, 0).code == 0


def test_missing_scores_count_for_coverage_and_not_as_bad(write: Write) -> None:
    scores: list[float | None] = [*planted(60, 6, 1)]
    scores[:10] = [None] * 10
    files = [write("old", planted(60, 6, 2)), write("new", scores)]
    gate = ["--bad", "overall=1.5", "--fail-if-more-bad", 0.5]
    done = compare(*files, *gate)
    assert done.code == 3 and "50 of 60 of new" in done.err
    assert compare(*files, *gate, "--min-coverage", 0.8).code == 0


def test_a_yes_or_no_dimension_has_a_share_only_if_it_is_stated(write: Write) -> None:
    rng = np.random.default_rng(0)
    files = [write(name, rng.uniform(0, 1, 50), RESOLVED) for name in ("a", "b")]
    assert "resolved below" not in compare(*files).out
    done = compare(*files, "--fail-if-more-bad", 0)
    assert done.code == 2 and "no dimension has scores of both" in done.err
    assert "resolved below 0.5: " in compare(*files, "--bad", "resolved=0.5").out
    assert (
        "resolved below 0.5" in medal("report", files[0], "--bad", "resolved=0.5").out
    )


def test_labels_on_another_scale_correct_the_share(
    write: Write, tmp_path: Path
) -> None:
    """The judge finds no bad chat in ``new``; people call half of its chats bad."""
    files = [write("old", planted(80, 8, 1)), write("new", planted(80, 0, 2))]
    lines = []
    for name in ("old", "new"):
        for i in range(40):
            label = 8.0
            if name == "new" and i % 2:
                label = 1.0
            lines.append(
                {
                    "id": f"{name}{i}",
                    "dialogue": [{"role": "user", "content": "Hi"}],
                    "labels": {"overall": [label]},
                    "scales": {"overall": [0, 10]},
                }
            )
    human = tmp_path / "human.jsonl"
    human.write_text("".join(json.dumps(line) + "\n" for line in lines))
    words = [*files, "--bad", "overall=1.5", "--out", tmp_path / "out"]
    assert compare(*words, "--human", human, "--fail-if-more-bad", 0.1).code == 1
    share = record(tmp_path / "out")[1]
    assert share["basis"] == "people"
    by_name = {system["system"]: system["corrected"] for system in share["systems"]}
    assert by_name["old"]["value"] == pytest.approx(0, abs=0.01)
    assert by_name["new"]["value"] == pytest.approx(0.5, abs=0.01)
