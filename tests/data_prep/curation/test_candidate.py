"""Labels become categories and a level: several answers, missing ones, other faults."""

import pytest

from medal_judges.data_prep.curation.pool import draw, label_rules
from medal_judges.errors import ConfigError

from .rows import labelled


@pytest.mark.parametrize(
    ("answers", "present"),
    [([1, 0, 0], False), ([1, 1, 0], True), ([1, 0], True), ([1, None, 0, 0], False)],
)
def test_several_answers_to_an_issue(answers: list[float | None], present: bool) -> None:
    found = label_rules().read(labelled("x", labels={"unsafe": answers}))
    assert found.categories == (("unsafe",) if present else ("clean",))


@pytest.mark.parametrize(
    ("answers", "level"),
    [([5], 5), ([4, 5], 4), ([4, 5, 5], 5), ([1, 2], 1), ([None, 3], 3), ([2.6], 3), ([2.5], 2)],
)
def test_several_overall_scores(answers: list[float | None], level: int) -> None:
    found = label_rules().read(labelled("x", overall=answers))
    assert found.level == level


def test_another_fault_is_not_clean_and_no_issue() -> None:
    found = label_rules().read(labelled("x", labels={"other": [1]}))
    assert found.categories == () and not found.clean


def test_missing_labels_are_named() -> None:
    rules = label_rules()
    row = labelled("x", labels={"unsafe": [None], "repetitive": []})
    assert rules.missing(row) == ["unsafe", "repetitive"]
    assert rules.missing(labelled("x", overall=None)) == ["overall"]
    without_other = labelled("x", labels={"other": []})
    assert rules.missing(without_other) == [] and rules.read(without_other).clean


def test_a_row_without_labels_is_not_called_clean() -> None:
    row = labelled("x", overall=None, labels={"unsafe": [None]})
    found = label_rules().read(row)
    assert found.categories == () and found.level is None


def test_a_rubric_without_overall_is_refused() -> None:
    with pytest.raises(ConfigError, match="overall"):
        label_rules("engagingness")


def test_draws_are_uniform_and_their_own_for_each_seed() -> None:
    values = [draw(0, f"k{i}") for i in range(2000)]
    assert 0.47 < sum(values) / 2000 < 0.53 and min(values) >= 0 and max(values) < 1
    assert draw(0, "k") == draw(0, "k") != draw(1, "k")
