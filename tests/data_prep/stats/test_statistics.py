"""MEDAL's Table 2, shares, means and figures, worked by hand."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from medal_judges.data_prep.corpus_stats.report import (
    text_statistics_table,
)
from medal_judges.data_prep.corpus_stats.statistics import (
    CorpusStatistics,
    compute_statistics,
)
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.report.table import Table
from medal_judges.stats.intervals import Estimate, wilson_interval

MakeRow = Callable[..., LabelledDialogue]


def measured(rows: Sequence[LabelledDialogue]) -> CorpusStatistics:
    return compute_statistics(rows, "s", lemmas=False)


def plain(table: Table) -> dict[str, list[object]]:
    """Cells by the name of the row, estimates as their values rounded to four places."""
    cells: dict[str, list[object]] = {}
    for name, *values in table.rows:
        cells[str(name)] = [
            value.value and round(value.value, 4)
            if isinstance(value, Estimate)
            else value
            for value in values
        ]
    return cells


@pytest.fixture
def four(make_row: MakeRow) -> CorpusStatistics:
    """Two English dialogues, a Chinese one and a Japanese one."""
    return measured(
        [
            make_row("1", ["one two three", "one two", "three"]),  # 3 + 2 + 1 words
            make_row("2", ["", "a b c d"], bot="bot-b"),  # 0 + 4 words
            make_row("3", ["你好 吗?", "好!"], lang="zh", bot="bot-b"),  # 4 + 2
            make_row("4", ["はい。"], lang="ja"),  # 3 characters, no answer
        ]
    )


def test_texts_by_language(four: CorpusStatistics) -> None:
    table = text_statistics_table(four, "Language")
    assert table.columns == [
        *("Language", "Dialogues", "Turns", "Words, user", "Words, assistant"),
        *("Characters, user", "Characters, assistant", "MTLD, user", "MTLD, assistant"),
    ]
    # Users of dialogue 1: one two three three, three types in four tokens.
    diversity = round(4 / ((1 - 3 / 4) / 0.28), 4)
    assert plain(table) == {
        "en": [2, 2.5, 1.3333, 3.0, None, None, diversity, None],
        "ja": [1, 1.0, None, None, 3.0, None, None, None],
        "zh": [1, 2.0, None, None, 4.0, 2.0, None, None],
        "all": [4, 2.0, 1.3333, 3.0, 3.5, 2.0, diversity, None],
    }
    reasons = [
        cell.reason
        for row in table.rows
        for cell in row
        if isinstance(cell, Estimate) and cell.value is None
    ]
    assert all(reasons)


def test_shares_of_independent_rows(make_row: MakeRow) -> None:
    """bot-a: 1 of 4 unsafe, one row without an answer; bot-b: 2 of 2."""
    answers = [("a", [1]), ("a", [0]), ("a", [0]), ("a", [0]), ("a", [None])]
    answers += [("b", [1]), ("b", [1])]
    rows = [
        make_row(str(i), ["x"], bot=f"bot-{bot}", labels={"unsafe": value})
        for i, (bot, value) in enumerate(answers)
    ]
    stats = measured([*rows, make_row("none", ["x"], bot="bot-c")])
    figure = stats.estimate(stats.select_rows(chatbot="bot-a"), "unsafe")
    assert figure.value == 0.25
    assert stats.estimate(stats.select_rows(chatbot="bot-b"), "unsafe").value == 1
    assert stats.estimate(stats.rows, "unsafe").value == 0.5
    assert stats.estimate(stats.select_rows(chatbot="bot-c"), "unsafe").value is None
    assert stats.issues == stats.shares == ["unsafe"]


def test_rows_of_a_group_are_left_out_together(make_row: MakeRow) -> None:
    """40 groups whose 25 rows agree are worth 40 rows, not 1,000."""
    rng = np.random.default_rng(3)
    rows = []
    present = 0
    for group in range(40):
        value = float(rng.random() < 0.3)
        present += int(value)
        for i in range(25):
            labels = {"unsafe": [value]}
            rows.append(
                make_row(f"{group}-{i}", ["x"], group=f"g{group}", labels=labels)
            )
    stats = measured(rows)
    figure = stats.estimate(stats.rows, "unsafe")
    assert figure.low is not None and figure.high is not None
    low, high = wilson_interval(present, 40)
    assert figure.high - figure.low == pytest.approx(high - low, rel=0.15)
