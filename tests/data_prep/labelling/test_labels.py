"""From judgements to labels, and deviations over repeats."""

from pathlib import Path

import pytest

from medal_judges.data_prep.labelling import (
    LabelCounts,
    label_and_write_rows,
    user_faults,
    with_labels,
    with_user_check,
)
from medal_judges.errors import MedalError
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.dimension import load_rubric
from medal_judges.records.judgement import Judgement, empty_judgement
from medal_judges.records.labelled import LabelledDialogue

NAMES = ("unsafe", "overall")
ASKED = tuple(d for d in load_rubric("medal") if d.name in NAMES)
TURNS = (Turn("user", "Hi"), Turn("assistant", "Hello"))
ROW = LabelledDialogue(
    Dialogue("a", TURNS, "en"), {}, {}, group="g", extra={"ended": "cap"}
)


def test_a_failure_leaves_the_row_as_it_was_with_its_reason() -> None:
    failed = empty_judgement(ROW.dialogue, "judge:x", ASKED, "the server is down")
    told = with_labels(ROW, failed, ASKED)
    assert told.labels == {}
    assert told.extra == {"ended": "cap", "label_failure": "the server is down"}
    assert told.dialogue is ROW.dialogue and told.group == "g"


def test_a_user_is_malformed_from_one_half() -> None:
    check = Judgement("a", "judge:u", {"role_confusion": 0.5, "wrong_language": 0.4})
    assert user_faults(check) == ("role_confusion",)
    assert with_user_check(ROW, check).extra["malformed"] == {
        "reasons": ["role_confusion"],
        "comments": {},
        "by": "judge:u",
    }
    half = Judgement(
        "a", "judge:u", {"role_confusion": None, "wrong_language": 0}, failure="cut"
    )
    assert user_faults(half) == ()
    assert with_user_check(ROW, half).extra["user_check"] == {
        "by": "judge:u",
        "failure": "cut",
    }


def test_a_row_without_a_judgement_is_refused_and_others_do_not_count(
    tmp_path: Path,
) -> None:
    checks = {
        name: Judgement(name, "judge:u", {"role_confusion": 0.0}) for name in ("a", "b")
    }
    summary = LabelCounts(ASKED)
    with pytest.raises(MedalError, match="'a'"):
        label_and_write_rows([ROW], {"b": checks["b"]}, {}, tmp_path, summary)
    assert list(tmp_path.iterdir()) == []  # whole files or none
    # The judgement of a row that the file no longer has is no row.
    labels = {"a": Judgement("a", "judge:x", {"unsafe": 1.0, "overall": 2.0})}
    label_and_write_rows([ROW], checks, labels, tmp_path, summary)
    assert summary.kinds == {"labelled": 1} and len(summary.users) == 1
