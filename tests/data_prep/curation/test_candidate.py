"""Labels become categories and a level: several answers, missing ones, other faults."""

from __future__ import annotations

import pytest

from medal_judges.data_prep.curation.pool import Candidate, LeftOut, draw, label_rules
from medal_judges.errors import ConfigError

from .rows import labelled


@pytest.mark.parametrize(
    ("answers", "aggregate", "present"),
    [
        ([1, 0, 0], "majority", False),
        ([1, 1, 0], "majority", True),
        ([1, 0], "majority", True),  # a tie
        ([1, None, 0, 0], "any", True),
        ([1, 1, 0], "all", False),
        ([1, None, 1], "all", True),
    ],
)
def test_several_answers_to_an_issue(
    answers: list[float | None], aggregate: str, present: bool
) -> None:
    found = label_rules("medal", aggregate).read(labelled("x", labels={"unsafe": answers}))
    assert isinstance(found, Candidate)
    assert found.categories == (("unsafe",) if present else ("clean",))


@pytest.mark.parametrize(
    ("answers", "level"),
    [([5], 5), ([4, 5], 4), ([4, 5, 5], 5), ([1, 2], 1), ([None, 3], 3), ([2.6], 3), ([2.5], 2)],
)
def test_several_overall_scores(answers: list[float | None], level: int) -> None:
    found = label_rules().read(labelled("x", overall=answers))
    assert isinstance(found, Candidate) and found.level == level


def test_another_fault_is_not_clean_and_no_issue() -> None:
    found = label_rules().read(labelled("x", labels={"other": [1]}))
    assert isinstance(found, Candidate)
    assert found.categories == () and not found.clean


def test_missing_labels_leave_a_row_out_with_their_names() -> None:
    reading = label_rules()
    none = reading.read(labelled("x", labels={"unsafe": [None], "repetitive": []}))
    assert isinstance(none, LeftOut)
    assert none.reason == "missing_label" and none.detail == "no answer for unsafe, repetitive"
    no_overall = reading.read(labelled("x", overall=None))
    assert isinstance(no_overall, LeftOut) and no_overall.detail == "no answer for overall"
    without_other = reading.read(labelled("x", labels={"other": []}))
    assert isinstance(without_other, Candidate) and without_other.clean


def test_a_row_without_labels_is_not_called_clean() -> None:
    row = labelled("x", overall=None, labels={"unsafe": [None]})
    found = label_rules().unchecked(row)
    assert found.categories == () and found.level is None


def test_a_rubric_without_overall_is_refused() -> None:
    with pytest.raises(ConfigError, match="overall"):
        label_rules("engagingness")


def test_draws_are_uniform_and_their_own_for_each_seed() -> None:
    values = [draw(0, f"k{i}") for i in range(2000)]
    assert 0.47 < sum(values) / 2000 < 0.53 and min(values) >= 0 and max(values) < 1
    assert draw(0, "k") == draw(0, "k") != draw(1, "k")
