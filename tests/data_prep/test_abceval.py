"""ABC-Eval: behaviours into issues, turns into dialogues, worked out by hand."""

import os

import pytest

from medal_judges.data_prep.sources.abceval import to_dialogue_issues
from medal_judges.data_prep.sources.registry import load_rows
from medal_judges.records.labelled import LabelledDialogue

from ..talks import talk

needs_data = pytest.mark.skipif(
    "MEDAL_JUDGES_DATA" not in os.environ,
    reason="MEDAL_JUDGES_DATA (human ratings) is not set",
)

BEHAVIOURS = (
    "commonsense_contradiction",
    "incorrect_fact",
    "redundant",
    "irrelevant",
    "self_contradiction",
    "partner_contradiction",
    "lack_of_empathy",
    "empathetic",
    "ignore",
)


def abc_row(
    group: str,
    turns: int,
    marks: dict[str, tuple[float, float]],
    machine: dict[str, int | None],
) -> LabelledDialogue:
    """A row of ``turns`` turns; behaviours not in ``marks`` are 0 for both, in ``machine`` 0."""
    labels = {b: tuple(marks.get(b, (0.0, 0.0))) for b in BEHAVIOURS}
    return LabelledDialogue(
        talk(*(f"{group} {i}" for i in range(turns)), id=f"{group}-{turns}", lang="en"),
        labels,
        dict.fromkeys(labels, (0.0, 1.0)),
        "turn",
        "test",
        group,
        extra={"machine_labels": {b: {"gpt": machine.get(b, 0)} for b in BEHAVIOURS}},
    )


ABC = [
    abc_row(
        "x", 2, {"self_contradiction": (0, 1), "empathetic": (1, 1)}, {"redundant": 1}
    ),
    abc_row("x", 4, {"partner_contradiction": (1, 0), "redundant": (1, 1)}, {}),
    abc_row("y", 2, {"lack_of_empathy": (1, 0)}, {"lack_of_empathy": None}),
]


def test_abceval_behaviours_become_issues() -> None:
    first, second = to_dialogue_issues(ABC)
    nothing = (0.0, 0.0)
    assert first.labels == {
        "lacks_commonsense": nothing,
        "nonfactual": nothing,
        "repetitive": (1, 1),
        "irrelevant": nothing,
        # the chatbot contradicts itself (second annotator), then its partner (first)
        "incoherent": (1, 1),
        "lacks_empathy": nothing,
    }
    assert first.id == "x-4" and first.level == "dialogue"
    assert first.scales["incoherent"] == (0.0, 1.0)
    assert first.extra["machine_labels"]["repetitive"] == {"gpt": 1}
    assert second.labels["lacks_empathy"] == (1, 0)
    assert second.extra["machine_labels"]["lacks_empathy"] == {"gpt": None}


@needs_data
def test_abceval_on_the_real_rows() -> None:
    rows = load_rows("abceval")
    lifted = list(to_dialogue_issues(rows))
    assert len(lifted) == 54 and len({r.group for r in lifted}) == 54
    marks = {
        mark
        for row in lifted
        for by in row.extra["machine_labels"].values()
        for mark in by
    }
    assert marks == {"gpt", "specialized"}
    # counted from the rows alone: dialogues with any mark of redundant by each position
    for position in (0, 1):
        marked = {r.group for r in rows if r.labels["redundant"][position] == 1}
        assert marked == {
            r.group for r in lifted if r.labels["repetitive"][position] == 1
        }
