"""The table of docs/results/trial.md is what its script writes of trials."""

from __future__ import annotations

from pathlib import Path

from tests.trial_table import trial_rows, trials_of

from medal_judges.eval.trial.page import write_trial
from medal_judges.eval.trial.trial import Trial


def test_one_line_a_judge(finished: tuple[Trial, Path]) -> None:
    trial, out = finished
    write_trial(trial, out)
    results = trials_of([out / "trial.json"])
    assert list(results) == list(trial.results)
    rows = trial_rows(results)
    assert len(rows) == 1 + len(results) and len({len(row) for row in rows}) == 1
    (last,) = (" | ".join(row) for row in rows if row[0] == "`LastTurnOnly`")
    assert "3 red" in last and "place early (AUC 0.50)" in last
    (obedient,) = (" | ".join(row) for row in rows if row[0] == "`Obedient`")
    assert "instruction (harmed " in obedient
