"""Shares, means, their intervals and levels, by hand and against statsmodels."""

from collections.abc import Callable

import numpy as np
import pytest

from medal_judges.data_prep.corpus_stats.report import label_table
from medal_judges.data_prep.corpus_stats.statistics import (
    ALL,
    CorpusStatistics,
    Distribution,
    ScaledDimension,
    Subset,
)
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import wilson

MakeRow = Callable[..., LabelledDialogue]

UNSAFE = ScaledDimension("unsafe", (0, 1))
OVERALL = ScaledDimension("overall", (1, 5))


def found(rows: list[LabelledDialogue]) -> CorpusStatistics:
    return CorpusStatistics(rows, "s", lemmas=False)


def given(findings: CorpusStatistics, subset: Subset) -> int:
    return int(np.isfinite(findings.answers(subset, UNSAFE)).sum())


def test_shares_of_independent_rows(make_row: MakeRow) -> None:
    """bot-a: 1 of 4 unsafe, one of the four without an answer; bot-b: 2 of 2."""
    answers = [("a", [1]), ("a", [0]), ("a", [0]), ("a", [0]), ("a", [None])]
    answers += [("b", [1]), ("b", [1])]
    rows = [
        make_row(str(i), ["x"], bot=f"bot-{bot}", labels={"unsafe": value})
        for i, (bot, value) in enumerate(answers)
    ]
    all_rows = found([*rows, make_row("none", ["x"], bot="bot-c")])
    a = all_rows.figure(Subset(chatbot="bot-a"), UNSAFE)
    assert (a.value, given(all_rows, Subset(chatbot="bot-a"))) == (0.25, 4)
    assert (a.low, a.high) == wilson(1, 4)
    assert all_rows.figure(Subset(chatbot="bot-b"), UNSAFE).value == 1
    assert all_rows.figure(ALL, UNSAFE).value == 0.5
    c = all_rows.figure(Subset(chatbot="bot-c"), UNSAFE)
    assert (c.value, c.reason) == (None, "no label")
    assert all_rows.figure(Subset("xx"), UNSAFE).reason == "no dialogue"


def test_several_answers_are_their_mean_and_present_from_a_half(
    make_row: MakeRow,
) -> None:
    values: list[list[float | None]] = [
        [1, 0],
        [0, 0, 1],
        [None, 1],
        [0, None],
        [1, 1, 0],
    ]
    rows = [
        make_row(str(i), ["x"], labels={"unsafe": v, "overall": [5, 4]})
        for i, v in enumerate(values)
    ]
    findings = found(rows)
    assert findings.figure(ALL, UNSAFE).value == 3 / 5  # 0.5, 1 and 2/3 are present
    assert findings.figure(ALL, OVERALL).value == 4.5
    table = label_table(findings, "Issues", "Language", findings.langs, [UNSAFE])
    assert "5 rows have several answers: their mean, 1 from 0.5 on." in table.note


def test_rows_of_a_group_are_left_out_together(make_row: MakeRow) -> None:
    """40 groups whose 25 rows agree are worth 40 rows: the interval is Wilson's of 40, not of
    1,000, up to the difference between the two methods."""
    rng = np.random.default_rng(3)
    rows = []
    present = 0
    for group in range(40):
        value = float(rng.random() < 0.3)
        present += int(value)
        for i in range(25):
            rows.append(
                make_row(
                    f"{group}-{i}", ["x"], group=f"g{group}", labels={"unsafe": [value]}
                )
            )
    findings = found(rows)
    figure = findings.figure(ALL, UNSAFE)
    assert given(findings, ALL) == 1000
    assert figure.low is not None and figure.high is not None
    width = figure.high - figure.low
    of_groups, of_rows = wilson(present, 40), wilson(25 * present, 1000)
    assert width == pytest.approx(of_groups[1] - of_groups[0], rel=0.15)
    assert width > 4 * (of_rows[1] - of_rows[0])
    # whatever the order of the rows
    assert found([*rows[::-1]]).figure(ALL, UNSAFE) == figure


def test_a_share_of_nothing_still_has_a_width(make_row: MakeRow) -> None:
    rows = [
        make_row(f"{g}-{i}", ["x"], group=str(g), labels={"unsafe": [0]})
        for g in range(10)
        for i in range(3)
    ]
    figure = found(rows).figure(ALL, UNSAFE)
    assert figure.value == 0
    assert (figure.low, figure.high) == wilson(0, 10)


def test_a_single_group_has_no_interval(make_row: MakeRow) -> None:
    rows = [make_row(str(i), ["x"], group="g", labels={"overall": [i]}) for i in (1, 4)]
    figure = found(rows).figure(ALL, OVERALL)
    assert figure == Estimate(2.5)


def test_other_scales_are_other_dimensions(make_row: MakeRow) -> None:
    rows = [
        make_row("1", ["x"], labels={"overall": [5]}),
        make_row("2", ["x"], labels={"overall": [4]}, scales={"overall": [0, 4]}),
        make_row("3", ["x"], labels={"overall": [0.3]}, scales={"overall": None}),
        make_row("4", ["x"], labels={"consistent": [1], "calm": [0.4], "unsafe": [0]}),
    ]
    findings = found(rows)
    names = [findings.label(d) for d in findings.graded]
    assert names == [
        "overall (1–5)",
        "overall (0–4)",
        "overall (no stated scale)",
        "calm (0–1)",
    ]
    assert [findings.figure(ALL, d).value for d in findings.graded] == [5, 4, 0.3, 0.4]
    assert [d.name for d in findings.issues] == ["unsafe"]
    assert [d.name for d in findings.other_shares] == ["consistent"]


def test_levels_by_hand(make_row: MakeRow) -> None:
    answers: list[tuple[str, list[float | None]]] = [
        ("de", [5]),
        ("de", [4, 5]),
        ("de", [1]),
        ("de", [3, 3, 4]),
        ("en", [2, 3]),
    ]
    rows = [
        make_row(str(i), ["x"], lang=lang, labels={"overall": value})
        for i, (lang, value) in enumerate(answers)
    ]
    findings = found([*rows, make_row("none", ["x"], lang="fr")])
    assert findings.distribution(Subset("de"), OVERALL) == Distribution(
        (1, 2, 3, 4, 5), (1, 0, 1, 0, 2), (0.25, 0, 0.25, 0, 0.5)
    )
    assert findings.distribution(Subset("en"), OVERALL) == Distribution(
        (1, 2, 3, 4, 5), (0, 0, 1, 0, 0), (0, 0, 1, 0, 0)
    )
    assert findings.distribution(ALL, OVERALL) == Distribution(
        (1, 2, 3, 4, 5), (1, 0, 2, 0, 2), (0.2, 0, 0.4, 0, 0.4)
    )
    assert findings.distribution(Subset("fr"), OVERALL).counts == (0,) * 5


@pytest.mark.parametrize(
    "scale, reason", [(None, "no scale"), ([0, 100], "whole levels")]
)
def test_no_levels_without_a_short_scale(
    make_row: MakeRow, scale: list[float] | None, reason: str
):
    row = make_row("1", ["x"], labels={"overall": [3]}, scales={"overall": scale})
    findings = found([row])
    assert reason in str(findings.distribution(ALL, findings.graded[0]))
