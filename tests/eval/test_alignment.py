"""Joining judgements with ratings: nothing is dropped in silence."""

import numpy as np
import pytest
from tests.scales import OVERALL
from tests.talks import talk

from medal_judges.errors import MedalError
from medal_judges.eval.metaeval.alignment import align
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.judgement import Judgement, unscored
from medal_judges.records.labelled import LabelledDialogue, Level

TURNS = (Turn("user", "hello"), Turn("assistant", "hi"))


def row(id: str, *values: float | None, level: Level = "dialogue") -> LabelledDialogue:
    dialogue = Dialogue(id, TURNS, "en", models={"assistant": "bot"})
    return LabelledDialogue(
        dialogue, {"overall": values}, {"overall": (1, 5)}, level, group=id
    )


def judged(id: str, score: float | None, turn: int | None = None) -> Judgement:
    return Judgement(id, "judge:x", {"overall": score}, turn=turn, failure="silent")


def test_joined_by_id_in_row_order() -> None:
    found = align(
        [row("a", 1, 3), row("b", 4)], [judged("b", 0.5), judged("a", 0.25)], "overall"
    )
    assert found.human.tolist() == [2, 4]
    assert found.score.tolist() == [0.25, 0.5]
    assert np.array_equal(found.values, [[1, 3], [4, np.nan]], equal_nan=True)
    assert found.total == 2


def test_missing_and_unscored_count_against_coverage() -> None:
    rows = [row("a", 1), row("b", 2), row("c", 3), row("d", None), row("e")]
    found = align(
        rows, [judged("a", 1.0), judged("b", None), judged("d", 1.0)], "overall"
    )
    assert (len(found.rows), found.total) == (1, 3)  # d and e have no human answer


def test_unknown_ids_are_named() -> None:
    strangers = [judged(f"x{i}", 1.0) for i in range(7)]
    with pytest.raises(
        MedalError, match=r"7 judgements .*: x0, x1, x2, x3, x4, \.\.\."
    ):
        align([row("a", 1)], [judged("a", 1.0), *strangers], "overall")


def test_rows_left_out_of_the_set_may_be_judged() -> None:
    found = align(
        [row("a", 1)],
        [judged("a", 1.0), judged("b", 1.0)],
        "overall",
        left_out=[row("b", 2)],
    )
    assert [r.id for r in found.rows] == ["a"]


def test_duplicates_are_errors() -> None:
    with pytest.raises(MedalError, match="two judgements of a"):
        align([row("a", 1)], [judged("a", 1.0), judged("a", 2.0)], "overall")
    with pytest.raises(MedalError, match="occur twice in the set: a"):
        align([row("a", 1), row("a", 2)], [], "overall")


def test_turn_rows_need_judgements_of_that_turn() -> None:
    rows = [row("a", 2, level="turn")]
    assert align(rows, [judged("a", 1.0, turn=1)], "overall").score.tolist() == [1]
    with pytest.raises(MedalError, match="another level"):
        align(rows, [judged("a", 1.0)], "overall")


def test_a_turn_row_without_an_assistant_turn_is_unscored_not_unknown() -> None:
    judgement = unscored(
        talk("Hi!", id="a"), "judge:x", [OVERALL], "no assistant turn to judge"
    )
    found = align([row("a", 2, level="turn")], [judgement], "overall")
    assert (len(found.rows), found.total) == (0, 1)
