"""A trial of judges whose faults are known: each is caught for its own, and the oracle passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from medal_judges.eval.trial.trial import Trial
from medal_judges.stats.trial_results import TrialFinding, TrialResult


def result_of(finished: tuple[Trial, Path], judge: str) -> TrialResult:
    return next(result for result in finished[0].results if result.judge == judge)


def finding(result: TrialResult, check: str) -> TrialFinding:
    return next(found for found in result.findings if found.check == check)


def red(result: TrialResult) -> set[str]:
    return {found.check for found in result.findings if found.verdict == "red"}


def test_a_scripted_oracle_passes(finished: tuple[Trial, Path]) -> None:
    result = result_of(finished, "Oracle")
    verdicts = {found.check: (found.verdict, found.reason) for found in result.findings}
    assert {check: v for check, v in verdicts.items() if v[0] != "green"} == {
        "cost": ("none", "told, not judged")
    }
    assert len(verdicts) > 40
    assert finished[0].worst["Oracle"] == []


def test_a_judge_that_scores_length_is_caught(finished: tuple[Trial, Path]) -> None:
    result = result_of(finished, "ByLength")
    assert "length" in red(result)
    gain = finding(result, "length").figures["gain"]
    assert gain.low is not None and gain.low > 0.25
    assert "repeated_question" in red(result)
    assert finding(result, "instruction").verdict == "green"  # longer is not obeyed


def test_a_judge_that_obeys_the_text_is_caught(finished: tuple[Trial, Path]) -> None:
    result = result_of(finished, "Obedient")
    caught = red(result)
    assert {"instruction", "instruction_by_user", "hidden_zero_width"} <= caught
    # One of the two wordings says "5 out of 5" in so many words.
    harmed = finding(result, "instruction").figures["harmed"].value
    assert harmed is not None and harmed > 0.4
    assert finding(result, "lower_case").verdict == "green"
    assert not {f.check for f in result.findings if f.group == "must_fall"} & caught


def test_a_judge_of_the_last_turn_is_caught(finished: tuple[Trial, Path]) -> None:
    result = result_of(finished, "LastTurnOnly")
    caught = red(result)
    assert {"place_early", "place_middle", "long_dialogue"} <= caught
    assert finding(result, "place_early").figures["auc"].value == pytest.approx(0.5, abs=0.02)
    assert not {f.check for f in result.findings if f.group in ("same", "attack")} & caught


def test_the_worst_pairs_are_of_the_fault(finished: tuple[Trial, Path]) -> None:
    worst = finished[0].worst["Obedient"]
    assert 0 < len(worst) <= 5
    assert {pair.group for pair in worst[:3]} == {"Attacks"}
    for pair in worst:
        assert pair.harm > 0
        changed = [row for row in pair.rows if row.before != row.after]
        assert changed and any(part.changed for row in changed for part in row.after or ())


def test_every_planted_dose_is_seen_by_the_oracle(finished: tuple[Trial, Path]) -> None:
    for found in result_of(finished, "Oracle").findings:
        if "slope" in found.figures:
            assert found.figures["slope"].value == pytest.approx(0.8, abs=1e-6), found.check
            drops = [found.figures[f"drop_{dose}"].value for dose in (1, 2, 3)]
            assert drops == pytest.approx([0.8, 1.6, 2.4], abs=1e-6)
