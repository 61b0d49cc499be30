"""A trial of judges whose faults are known: each is caught for its own, and the oracle passes."""

import math
from pathlib import Path

import pytest
from tests.trial_table import trial_rows, trials_of

from medal_judges.eval.trial.config import TrialConfig
from medal_judges.eval.trial.findings import TrialFinding, TrialResult
from medal_judges.eval.trial.trial import Trial, TrialJudge, run_trial, trial_page
from medal_judges.models.base.judge import ScoreRequest
from medal_judges.records.dimension import load_rubric
from medal_judges.records.judgement import Judgement

from .judges import Oracle


def result_of(finished: tuple[Trial, Path], judge: str) -> TrialResult:
    return next(result for result in finished[0].results if result.judge == judge)


def finding(result: TrialResult, check: str) -> TrialFinding:
    return next(found for found in result.findings if found.check == check)


def red(result: TrialResult) -> set[str]:
    return {found.check for found in result.findings if found.verdict == "red"}


def test_a_scripted_oracle_passes(finished: tuple[Trial, Path]) -> None:
    result = result_of(finished, "Oracle")
    others = {
        found.check: found.reason
        for found in result.findings
        if found.verdict != "green"
    }
    assert others == {"cost": "reported without a verdict"}
    assert len(result.findings) > 40
    assert finished[0].worst["Oracle"] == []
    for found in result.findings:
        if "slope" in found.figures:  # every planted dose is seen
            assert found.figures["slope"].value == pytest.approx(0.8, abs=1e-6), (
                found.check
            )
            drops = [found.figures[f"drop_{dose}"].value for dose in (1, 2, 3)]
            assert drops == pytest.approx([0.8, 1.6, 2.4], abs=1e-6)


def test_a_judge_that_scores_length_is_caught(finished: tuple[Trial, Path]) -> None:
    result = result_of(finished, "ByLength")
    assert {"length", "repeated_question"} <= red(result)
    gain = finding(result, "length").figures["gain"]
    assert gain.low is not None and gain.low > 0.25
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
    worst = finished[0].worst["Obedient"]
    assert 0 < len(worst) <= 5
    assert {pair["group"] for pair in worst[:3]} == {"Attacks"}
    for pair in worst:
        assert pair["harm"] > 0
        changed = [
            row["after"] for row in pair["rows"] if row["before"] != row["after"]
        ]
        assert any(marked for after in changed for _, marked in after or ())


def test_a_judge_of_the_last_turn_is_caught(finished: tuple[Trial, Path]) -> None:
    result = result_of(finished, "LastTurnOnly")
    caught = red(result)
    assert {"place_early", "place_middle", "long_dialogue"} <= caught
    assert finding(result, "place_early").figures["auc"].value == pytest.approx(
        0.5, abs=0.02
    )
    assert (
        not {f.check for f in result.findings if f.group in ("same", "attack")} & caught
    )


def test_the_table_of_the_documents_has_one_line_a_judge(
    finished: tuple[Trial, Path],
) -> None:
    trial, out = finished
    trial_page(trial).write(out)
    results = trials_of([out / "trial.json"])
    assert list(results) == list(trial.results)
    for result in results:
        own = out / "judgements" / result.judge / "trial.json"
        assert trials_of([own]) == [result]
    rows = trial_rows(results)
    assert len(rows) == 1 + len(results) and len({len(row) for row in rows}) == 1
    (last,) = (" | ".join(row) for row in rows if row[0] == "`LastTurnOnly`")
    assert "3 red" in last and "place early (AUC 0.50)" in last


class Silent(Oracle):
    """Scores no dialogue."""

    def quality(self, request: ScoreRequest) -> float:
        return math.nan


class Issues(Oracle):
    """Has no overall, and gives everything the same score."""

    dimensions = tuple(d for d in load_rubric("medal") if d.is_issue)

    def _prediction(self, request: ScoreRequest) -> Judgement:
        return Judgement(scores={d.name: 0.25 for d in self.dimensions})


def test_judges_without_scores_or_with_one_score_for_all(tmp_path: Path) -> None:
    config = TrialConfig(dialogues=6, own=4, languages=("en", "de"), doses=(1, 3))
    judges = [
        TrialJudge("silent", Silent(tmp_path)),
        TrialJudge("issues", Issues(tmp_path)),
    ]
    trial = run_trial(judges, tmp_path, config)
    silent, issues = trial.results
    verdicts = {found.check: found.verdict for found in silent.findings}
    assert verdicts.pop("unscored") == "red"
    # nothing was scored: no figure, no verdict
    assert set(verdicts.values()) == {"none"}
    assert issues.quality.startswith("the mean of uninterpretable")
    assert {f.check for f in issues.findings if f.verdict == "red"} >= {
        "unsafe",
        "place_early",
    }
    assert {f.verdict for f in issues.findings if f.group in ("no_gain", "attack")} == {
        "green"
    }
    page = trial_page(trial).write(tmp_path).read_text(encoding="utf-8")
    assert "No pair went the wrong way." in page and "nan" not in page.lower().split()
