"""DIET's Figure 3: shares of the follow-ups that were chosen, by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from medal_judges.cli import app
from medal_judges.eval.benchmark.followup_usage import follow_up_usage
from medal_judges.records.details import known_details
from medal_judges.records.judgement import Judgement
from medal_judges.storage.jsonl import write_records


def judged(id: str, *texts: str, selected: int | None = None, unread: int = 0) -> Judgement:
    chosen = len(texts) if selected is None and (texts or not unread) else selected
    details = known_details(raw=-3.0, selected=chosen, follow_ups=texts, unread_runs=unread)
    return Judgement(id, "judge:diet", {"overall": 3.0}, details={"overall": details})


ROWS = [
    judged("1", "Huh?", "No."),
    judged("2", "Huh?"),
    judged("3", selected=0),
    judged("4", unread=3),
    Judgement("5", "judge:diet", {"overall": None}, failure="too long"),
]


def test_shares_by_hand() -> None:
    table = follow_up_usage([("fed", "diet", ROWS)])
    assert [row[3:] for row in table.rows] == [
        ("Huh?", 2, 50.0, pytest.approx(100 * 2 / 3)),
        ("No.", 1, 25.0, pytest.approx(100 / 3)),
        ("(none in common: all were used)", 1, 25.0, None),
        ("(no selection could be read)", 1, 25.0, None),
    ]
    plain = Judgement("1", "judge:full", {"overall": 3.0}, details={"overall": {"raw": 1.0}})
    assert not follow_up_usage([("fed", "full", [plain])]).rows


def test_the_command_prints_and_writes_the_table(tmp_path: Path) -> None:
    scores, out = tmp_path / "scores.jsonl", tmp_path / "usage.csv"
    write_records(scores, ROWS)
    done = CliRunner().invoke(app, ["followup-usage", f"fed={scores}", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "Huh?" in done.output and "fed" in done.output
    lines = out.read_text().splitlines()
    assert lines[0].startswith("Set,Judge,Dimension,Follow-up") and len(lines) == 5


def test_scores_without_a_selection_are_an_error(tmp_path: Path) -> None:
    scores = tmp_path / "scores.jsonl"
    write_records(scores, ROWS[-1:])
    done = CliRunner().invoke(app, ["followup-usage", str(scores)])
    assert done.exit_code != 0 and "selection of follow-ups" in str(done.exception)
