"""The table of docs/results/trial.md is what its script writes of trials."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.trial_table import rewrite, trial_markdown, trials_of

from medal_judges.errors import ConfigError
from medal_judges.eval.trial.report import write_trial
from medal_judges.eval.trial.trial import Trial


def test_one_line_a_judge(finished: tuple[Trial, Path]) -> None:
    trial, out = finished
    write_trial(trial, out)
    results = trials_of([out / "trial.json"])
    assert list(results) == list(trial.results)
    lines = trial_markdown(results).splitlines()
    assert len(lines) == 2 + len(results) and len({line.count("|") for line in lines}) == 1
    (last,) = (line for line in lines if "`LastTurnOnly`" in line)
    assert "3 red" in last and "place early (AUC 0.50)" in last
    (obedient,) = (line for line in lines if "`Obedient`" in line)
    assert "instruction (harmed " in obedient


def test_the_document_has_its_place() -> None:
    text = Path("docs/results/trial.md").read_text(encoding="utf-8")
    assert "| one |" in rewrite(text, "| one |")
    with pytest.raises(ConfigError, match="to write between"):
        rewrite("no marks", "| one |")
