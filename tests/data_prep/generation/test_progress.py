"""What is told while a run goes on."""

from __future__ import annotations

import pytest
from medal_judges.data_prep.generation.active_dialogues import GenerationPlan
from medal_judges.data_prep.seeds.context import SeedContext

from medal_judges.data_prep.generation.counts import GenerationCounts, generation_bar


def counted() -> GenerationCounts:
    counts = GenerationCounts(accepted=7, rejected=5)
    counts.ended.update(user=1, cap=3)
    counts.first[0] = 2
    return counts


def test_a_log_gets_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    with generation_bar(12, 3) as advance:
        for _ in range(5):
            advance(counted(), 9)
    line = "4 of 6 dialogues; accepted 7, rejected 5, ended 1, under way 9\n"
    assert capsys.readouterr().err == line
    with generation_bar(12, 3, every=0) as advance:
        for _ in range(5):
            advance(counted(), 9)
    assert capsys.readouterr().err == 5 * line


def test_a_terminal_gets_a_bar(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    with generation_bar(12, 3) as advance:
        advance(counted(), 9)
    shown = capsys.readouterr().err
    assert "4/6" in shown and "rejected 5, ended 1, under way 9" in shown


def test_the_dialogues_of_other_chatbots_are_not_this_runs() -> None:
    context = SeedContext("s", "p", "female", None, "en", "Ireland")
    plan = GenerationPlan([context], ["u"], ["a", "b"], ["b"])
    assert [plan.speaks(id) for id in [*plan.order(), "x--u--b"]] == [False, True, False]
    assert plan.dialogues == 1
