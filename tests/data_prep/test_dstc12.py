"""The track's reader, Table 2 and Equation 1 on sums made by hand, and the halves."""

import os
from collections import Counter

import pytest

from medal_judges.data_prep.sources import dstc12
from medal_judges.data_prep.sources.leaks import require_no_leaks
from medal_judges.data_prep.sources.registry import load_rows
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.labelled import LabelledDialogue

needs_data = pytest.mark.skipif(
    not os.environ.get("MEDAL_JUDGES_DATA"), reason="MEDAL_JUDGES_DATA names no folder"
)
TURNS = (
    Turn("user", "Do you like rain?"),
    Turn("assistant", "I do. It is good for my plants."),
)


def row(
    name: str, labels: dict[str, tuple[float | None, ...]], low: float
) -> LabelledDialogue:
    scales = dict.fromkeys(labels, (low, low + 2))
    scales |= {k: (0.0, 1.0) for k in labels if k == "consistent"}
    return LabelledDialogue(Dialogue(name, TURNS), labels, scales, group=name)


def test_annotators_then_parts_then_equation_one_then_rounding() -> None:
    found = dstc12.to_dstc12(
        row(
            "a",
            {
                "likeable": (
                    1,
                    2,
                    3,
                ),  # 2 of 1 to 3 is the middle: 6.5 of 1 to 12, up to 7
                "informative": (3, 3, 2),  # 5/6 of the way
                "coherent": (1, 1, 2),  # 1/6 of the way: with the above, 50 of 100
                "consistent": (1, 0, 0),  # a third: 1.67 of 5
                "topic_depth": (1, None, 2),  # 1.5: a quarter, 1.25 of 5
                "error_recovery": (None, None, None),
            },
            low=1,
        )
    )
    assert found.labels == {
        "empathy": (7,),
        "relevance": (50,),
        "trust": (2,),
        "talent": (1,),
    }
    assert found.scales["empathy"] == (1, 12) and found.aggregated


def test_every_dimension_is_halved_however_unequal_the_coverage() -> None:
    dimensions = list(dstc12.TABLE)
    rows = [
        row(
            f"r{i:03d}",
            {name: (1.0,) for k, name in enumerate(dimensions) if i % (k + 1) == 0},
            0,
        )
        for i in range(185)
    ]
    sides = {r.id: r.split for r in dstc12.assign_halves(rows)}
    assert [r.id for r in dstc12.assign_halves(rows)] == [r.id for r in rows]
    for name in dimensions:
        counts = Counter(sides[r.id] for r in rows if name in r.labels)
        assert abs(counts["train"] - counts["validation"]) <= 3, (name, counts)
    assert {r.id: r.split for r in dstc12.assign_halves(rows[::-1])} == sides
    assert {r.id: r.split for r in dstc12.assign_halves(rows, seed=1)} != sides


def test_the_group_is_the_unit_of_the_halves() -> None:
    twins = [row("a", {"overall": (1.0,)}, 0), row("b", {"overall": (1.0,)}, 0)]
    twins = [
        LabelledDialogue(r.dialogue, r.labels, r.scales, group="same") for r in twins
    ]
    assert len({r.split for r in dstc12.assign_halves(twins)}) == 1


@needs_data
def test_the_mapped_sets() -> None:
    halves = [load_rows(f"dstc12:conture:{split}") for split in ("train", "validation")]
    assert [len(rows) for rows in halves] == [60, 59]
    require_no_leaks(*halves)
    fed = load_rows("dstc12:fed")
    assert len(fed) == 125 and sum("skill" in r.labels for r in fed) == 124
    for r in [*halves[0], *fed]:
        for rating in r.ratings():
            low, high = dstc12.TRAIN_SCALES[rating.dimension]
            assert rating.scale == (low, high)
            assert all(low <= v <= high and v == int(v) for v in rating.given_values)
