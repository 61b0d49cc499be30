"""Judgements as parquet, CSV and data frames: nothing is lost, or the file says what."""

from __future__ import annotations

import csv
import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medal_judges import Judgement, Judgements, read_judgements
from medal_judges.errors import ConfigError, DataError, MissingExtraError, RecordError
from medal_judges.records.contributions import Contributions
from medal_judges.storage.judgement_files import is_table

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
PLAIN = Judgement("d1", "judge:length", {"overall": 3.25, "unsafe": None}, failure="no answer")


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
        scores={name: maybe(number_of()) for name in ("overall", "failure", "overall.low")},
        turn=maybe(draw.randrange(9)),
        distributions=maybe({"overall": chances}, {}),
        explanation=maybe(draw.choice(HOSTILE)),
        failure=maybe(draw.choice(HOSTILE)),
        truncated_turns=draw.randrange(2),
        usage=maybe({"tokens": 12.0, "money": number_of()}, {}),
        contributions=maybe({"overall": Contributions((0.5, number_of()), 3.0)}, {}),
        transient=draw.random() < 0.5,
        details=maybe(
            {"overall": {"value": number_of()} | maybe({"interval": [1.5, number_of()]}, {})}, {}
        ),
        unknown_language=maybe("fi"),
        meta={
            "version": maybe(draw.choice(HOSTILE)),
            "overall": maybe(draw.randrange(10**6)),
            "paid": maybe(draw.random() < 0.5),
            "mixed": draw.choice([1, "1", 2.5, None, {"a": [1]}, "true"]),
            "large": draw.choice([1 << 80, 3]),
            "none": None,
        },
    )


@pytest.mark.parametrize("name", ["x.parquet", "x.jsonl", "x.jsonl.gz"])
def test_everything_comes_back(tmp_path: Path, name: str) -> None:
    draw = random.Random(0)
    made = Judgements(random_judgement(draw, number) for number in range(5000))
    assert made.write(tmp_path / name) == 5000
    assert Judgements.read(tmp_path / name) == made
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz"])
def test_a_csv_gives_back_what_it_holds_and_says_what_not(tmp_path: Path, name: str) -> None:
    draw = random.Random(1)
    made = Judgements(random_judgement(draw, number) for number in range(2000))
    made.write(tmp_path / name)
    with pytest.raises(
        DataError, match="hold the distributions and contributions and details of its"
    ):
        list(read_judgements(tmp_path / name))
    for read, whole in zip(read_judgements(tmp_path / name, partial=True), made, strict=True):
        kept = {k: v if isinstance(v, str) else None for k, v in whole.meta.items()}
        assert {k: read.meta[k] if kept[k] is not None else None for k in kept} == kept
        lost = replace(whole, distributions={}, contributions={}, details={}, meta=read.meta)
        assert read == lost


def test_a_csv_of_a_judge_without_distributions_comes_back_whole(tmp_path: Path) -> None:
    made = Judgements([PLAIN, replace(PLAIN, id="d2", meta={})])
    made.write(tmp_path / "x.csv")
    assert Judgements.read(tmp_path / "x.csv") == made
    text = (tmp_path / "x.csv").read_text()
    assert text.splitlines()[0] == "id,turn,judge,overall,unsafe,failure,not_in_csv"
    assert text.splitlines()[1] == "d1,,judge:length,3.25,,no answer,"


def test_no_cell_is_a_formula(tmp_path: Path) -> None:
    rows = [replace(PLAIN, id=f"{text}{i}", failure=text) for i, text in enumerate(HOSTILE)]
    named = [replace(row, meta={"=evil()": text}) for row, text in zip(rows, HOSTILE, strict=True)]
    Judgements(named).write(tmp_path / "x.csv")
    with (tmp_path / "x.csv").open(newline="") as stream:
        cells = [cell for row in csv.reader(stream) for cell in row]
    assert not [c for c in cells if c.startswith(("=", "+", "-", "@", "\t", "\r"))]
    assert [*read_judgements(tmp_path / "x.csv")] == named


def test_judgements_of_other_dimensions_make_no_table(tmp_path: Path) -> None:
    other = replace(PLAIN, id="d2", scores={"fun": 1.0})
    with pytest.raises(RecordError, match=r"the dimensions of the other rows \(overall, unsafe\)"):
        Judgements([PLAIN, other]).write(tmp_path / "x.parquet")
    with pytest.raises(RecordError, match="fields of the other rows"):
        Judgements([PLAIN, replace(PLAIN, meta={"version": 1})]).to_pandas()
    assert [*tmp_path.iterdir()] == []


def test_other_tables_are_refused(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"id": ["a"], "overall": [3.0]}), tmp_path / "x.parquet")
    (tmp_path / "x.csv").write_text("id;overall\na;3\n")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and no more")
    for name in ("x.parquet", "x.csv", "broken.parquet", "none.parquet", "none.csv"):
        with pytest.raises(DataError, match=name):
            list(read_judgements(tmp_path / name))
    with pytest.raises(ConfigError, match=r"ends in \.jsonl, \.jsonl\.gz, \.parquet"):
        is_table("x.xlsx")


def test_rows_of_a_damaged_csv_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    head = "id,turn,judge,overall,failure,not_in_csv\n"
    for row, problem in {
        "d2,,j,x,,": "scores.overall",
        "d2,1.5,j,3,,": "turn",
        "d2,,j,3,": "5 cells under 6 columns",
        "d1,,j,3,,": "no earlier row",
        ",,j,3,,": "'id'",
        'd2,,j,3,"': "not valid CSV",
    }.items():
        path.write_text(f"{head}d1,,j,3,,\n{row}\n")
        with pytest.raises(DataError, match=r"x\.csv:\d: .*" + problem):
            list(read_judgements(path))


def test_no_judgements_are_an_empty_table(tmp_path: Path) -> None:
    for name in ("x.parquet", "x.csv", "x.jsonl"):
        assert Judgements([]).write(tmp_path / name) == 0
        assert Judgements.read(tmp_path / name) == Judgements([])
    assert len(Judgements([]).to_pandas()) == 0


def test_a_data_frame_has_typed_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    second = Judgement(
        "d2",
        "judge:length",
        {"overall": None, "unsafe": 0.5},
        turn=3,
        distributions={"unsafe": (0.5, 0.5)},
        details={"unsafe": {"interval": [0.2, 0.8]}},
        meta={},
    )
    judgements = Judgements([PLAIN, second])
    frame = judgements.to_pandas()
    assert list(frame.columns) == [
        *("id", "turn", "judge", "overall", "unsafe", "unsafe.uncertainty"),
        *("unsafe.low", "unsafe.high", "failure"),
    ]
    assert frame["overall"].mean() == 3.25 and frame["turn"].max() == 3
    assert frame["unsafe.low"].tolist()[1] == 0.2 and frame["unsafe.high"].tolist()[1] == 0.8
    assert frame["unsafe.uncertainty"].isna().tolist() == [True, False]
    assert judgements[1:] == Judgements([second]) and judgements[-1] == second
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match="pandas"):
        judgements.to_pandas()


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    from medal_judges.storage.judgement_files import write_table

    class Failing:
        """Breaks off when it is gone through for the second time."""

        times = 0

        def __iter__(self) -> Iterator[Judgement]:
            self.times += 1
            yield PLAIN
            if self.times == 2:
                raise OSError("the disk is gone")

    for name in ("x.parquet", "x.csv"):
        (tmp_path / name).write_text("as it was")
        with pytest.raises(OSError, match="gone"):
            write_table(tmp_path / name, Failing())
        assert (tmp_path / name).read_text() == "as it was"
    assert len([*tmp_path.iterdir()]) == 2
