"""DIET's Figure 3: shares of the follow-ups that were chosen, by hand."""

import pytest

from medal_judges.eval.benchmark.figures import follow_up_usage
from medal_judges.records.judgement import Judgement, known_details


def judged(id: str, *texts: str, selected: int | None = None, unread: int = 0) -> Judgement:
    chosen = len(texts) if selected is None and (texts or not unread) else selected
    details = known_details(raw=-3.0, selected=chosen, follow_ups=texts, unread_runs=unread)
    return Judgement(id, "judge:diet", {"overall": 3.0}, details={"overall": details})


ROWS = [
    *(judged("1", "Huh?", "No."), judged("2", "Huh?"), judged("3", selected=0)),
    *(judged("4", unread=3), Judgement("5", "judge:diet", {"overall": None}, failure="too long")),
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
