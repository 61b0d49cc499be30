"""Files of judgements: lines give back everything, a table has the columns of the frame."""

import csv
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas
import pytest
from tests.scales import SCALES

from medal_judges import (
    Judgement,
    read_frame,
    read_judgements,
    to_frame,
    write_judgements,
)
from medal_judges.errors import DataError
from medal_judges.records.judgement import Contributions
from medal_judges.storage.judgements import holds_judgements

HOSTILE = (
    "=1+1",
    "-5abc",
    "+x",
    "@sum",
    "a,b",
    'he said "no"',
    "two\nlines",
    "你好 🙂",
    "\ttab",
    "'",
)
PLAIN = Judgement(
    "d1", "judge:length", {"overall": 3.25, "unsafe": None}, failure="no answer"
)


def random_judgement(draw: random.Random, number: int) -> Judgement:
    """A judgement with everything that one can hold, each part sometimes missing."""

    def maybe(value: Any, absent: Any = None) -> Any:
        return value if draw.random() < 0.7 else absent

    def number_of() -> float:
        return draw.choice([draw.random(), 1e-17, 5.0, 1 / 3])

    chances = tuple(number_of() for _ in range(5))
    return Judgement(
        id=f"{draw.choice(HOSTILE)}{number}",
        judge="judge:x|base:ä",
        scores={
            name: maybe(number_of()) for name in ("overall", "failure", "overall.low")
        },
        turn=maybe(draw.randrange(9)),
        distributions=maybe({"overall": chances}, {}),
        explanation=maybe(draw.choice(HOSTILE)),
        failure=maybe(draw.choice(HOSTILE)),
        truncated_turns=draw.randrange(2),
        usage=maybe({"tokens": 12.0, "money": number_of()}, {}),
        contributions=maybe({"overall": Contributions((0.5, number_of()), 3.0)}, {}),
        transient=draw.random() < 0.5,
        details=maybe(
            {
                "overall": {"value": number_of()}
                | maybe({"interval": [1.5, number_of()]}, {})
            },
            {},
        ),
        unknown_language=maybe("fi"),
        chat=maybe("0123456789ab"),
        input=maybe("ba9876543210"),
        dimensions=draw.choice([(), SCALES, SCALES, SCALES]),
        meta={
            "version": maybe(draw.choice(HOSTILE)),
            "overall": maybe(draw.randrange(10**6)),
            "paid": maybe(draw.random() < 0.5),
            "mixed": draw.choice([1, "1", 2.5, None, {"a": [1]}, "true"]),
            "large": draw.choice([1 << 80, 3]),
            "none": None,
        },
    )


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz"])
def test_everything_comes_back(tmp_path: Path, name: str) -> None:
    draw = random.Random(0)
    made = [random_judgement(draw, number) for number in range(5000)]
    assert write_judgements(tmp_path / name, iter(made)) == 5000
    assert [*read_judgements(tmp_path / name)] == made
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert holds_judgements(tmp_path / name)
    frame = read_frame(tmp_path / name)
    assert frame.equals(to_frame(made)) and frame.attrs == to_frame(made).attrs
    assert write_judgements(tmp_path / "x.parquet", made) == 5000
    table = pandas.read_parquet(tmp_path / "x.parquet")
    assert [*table.columns] == [*frame.columns]
    assert table["overall"].equals(frame["overall"])


def test_a_csv_has_the_columns_of_the_table_and_no_formula(tmp_path: Path) -> None:
    rows = [
        replace(PLAIN, id=f"{text}{i}", failure=text) for i, text in enumerate(HOSTILE)
    ]
    named = [
        replace(row, meta={"=evil()": text})
        for row, text in zip(rows, HOSTILE, strict=True)
    ]
    assert write_judgements(tmp_path / "x.csv", named) == len(HOSTILE)
    with (tmp_path / "x.csv").open(newline="") as stream:
        head, *cells = list(csv.reader(stream))
    assert head == ["id", "turn", "judge", "overall", "unsafe", "failure", "'=evil()"]
    assert cells[0] == ["'=1+10", "", "judge:length", "3.25", "", "'=1+1", "'=1+1"]
    assert not [
        c
        for row in cells
        for c in row
        if c.startswith(("=", "+", "-", "@", "\t", "\r"))
    ]
    # a table is read from the lines beside it
    assert not holds_judgements(tmp_path / "x.csv")
    for read in (read_frame, lambda path: list(read_judgements(path))):
        with pytest.raises(DataError, match=r"x\.csv\.jsonl: no such file"):
            read(tmp_path / "x.csv")
    write_judgements(tmp_path / "x.csv.jsonl", named)
    assert holds_judgements(tmp_path / "x.csv")
    assert [*read_judgements(tmp_path / "x.csv")] == named


def test_a_table_has_typed_columns() -> None:
    second = Judgement(
        "d2",
        "judge:length",
        {"overall": None, "unsafe": 0.5},
        turn=3,
        distributions={"unsafe": (0.5, 0.5)},
        details={"unsafe": {"interval": [0.2, 0.8]}},
        meta={"version": 2},
    )
    frame = to_frame([PLAIN, second])
    assert list(frame.columns) == [
        *("id", "turn", "judge", "overall", "unsafe"),
        *("unsafe.low", "unsafe.high", "failure", "version"),
    ]
    assert frame["overall"].mean() == 3.25 and frame["turn"].max() == 3
    assert (
        frame["unsafe.low"].tolist()[1] == 0.2
        and frame["unsafe.high"].tolist()[1] == 0.8
    )
    assert str(frame["version"].dtype) == "Int64"
    dimensions = {"overall": "overall", "unsafe": "unsafe"}
    assert frame.attrs == {
        "dimensions": dimensions,
        "meta": {"version": "version"},
        "rubric": [],
    }
