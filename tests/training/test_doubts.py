"""Rows that say nothing are named."""

from medal_judges.records.dimension import Dimension
from medal_judges.training.doubts import warnings_about_rows
from medal_judges.training.rows import RunRows, TrainingExample

from ..talks import talk

OVERALL = Dimension("overall", "ordinal", 1, 5)


def row(id: str, rating: float | None, text: str = "") -> TrainingExample:
    human = {} if rating is None else {"overall": rating}
    dialogue = talk("hi", text or f"answer {id}", id=id)
    return TrainingExample(dialogue, "mine", {}, human=human)


def rows(count: int) -> list[TrainingExample]:
    return [row(f"r{n}", 1 + n % 5) for n in range(count)]


def told(train: list[TrainingExample], **parts: list[TrainingExample]) -> list[str]:
    facts = [{"part": "validation", "source": "empty.jsonl", "rows": 0}]
    run = RunRows(train, parts.get("validation", []), [], parts.get("test", []))
    assert warnings_about_rows(RunRows(train, [], facts), [OVERALL])[0].startswith(
        "validation: empty"
    )
    return warnings_about_rows(run, [OVERALL])


def test_rows_that_say_nothing_are_named() -> None:
    assert told(rows(10)) == []
    (equal,) = told([row(f"r{n}", 3) for n in range(9)])
    assert equal == "all 9 training labels of overall are 3: r0, r1, r2, ..."
    (lone,) = told(rows(1))
    assert lone == "one training row has a label of overall: r0"
    (silent,) = told([*rows(9), row("x", None), row("y", None)])
    assert silent == "2 training rows have no label: x, y"
    opposite = [row("a", 1, "the same"), row("b", 5, "the same")]
    (twice,) = told([*rows(9), *opposite])
    assert twice.endswith("opposite labels of overall: a, b")
    near = [row("a", 3, "the same"), row("b", 4, "the same")]
    assert told([*rows(9), *near]) == []
    (repeated,) = told(rows(9), validation=rows(9), test=rows(6))
    assert repeated == "6 test rows are validation rows: r0, r1, r2, ..."
