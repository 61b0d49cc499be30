"""``medal data stats``: what it reads, prints and writes; sets of people where they are here."""

import csv
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from medal_judges.cli.data import app
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.storage.jsonl import write_records

pytestmark = pytest.mark.usefixtures("no_figure_files")
MakeRow = Callable[..., LabelledDialogue]


def medal(*words: object) -> Result:
    env = {"COLUMNS": "160", "TERM": "dumb", "NO_COLOR": "1"}
    return CliRunner().invoke(app, ["stats", *map(str, words)], env=env)


def test_files_and_a_split_are_one_set(make_row: MakeRow, tmp_path: Path) -> None:
    one, two = tmp_path / "one.jsonl.gz", tmp_path / "two.jsonl"
    write_records(one, [make_row("1", ["a b"], labels={"unsafe": [1]}, split="train")])
    rows = [
        make_row(str(i), ["c"], split=split) for i, split in ((2, "test"), (3, "train"))
    ]
    write_records(two, rows)
    found = medal(one, f"{two}:test", "--out", tmp_path / "out", "--no-lemmas")
    assert found.exit_code == 0, found.output
    assert (
        "Dialogues and texts by language" in found.output and "unsafe" in found.output
    )
    page = (tmp_path / "out" / "stats.html").read_text(encoding="utf-8")
    assert "Statistics of one.jsonl.gz, two.jsonl:test" in page
    assert str(tmp_path) not in page
    sheet = tmp_path / "out" / "tables" / "labels-by-language.csv"
    with sheet.open(encoding="utf-8") as file:
        whole = [row for row in csv.DictReader(file) if row["Language"] == "all"]
    assert whole[0]["unsafe"].startswith("1.0")


DATA = os.environ.get("MEDAL_JUDGES_DATA")
people = pytest.mark.skipif(
    not DATA, reason="MEDAL_JUDGES_DATA names no folder of rated dialogues"
)


@people
@pytest.mark.parametrize(
    "spec, dialogues, turns",  # as the sets' own description counts them
    [("fed", 125, 13.72), ("conture", 119, 17.92), ("dstc9", 2000, 28.39)],
)
def test_sets_of_people(
    spec: str, dialogues: int, turns: float, tmp_path: Path
) -> None:
    found = medal(spec, "--out", tmp_path, "--no-lemmas")
    assert found.exit_code == 0, found.exception
    sheet = tmp_path / "tables" / "dialogues-and-texts-by-language.csv"
    with sheet.open(encoding="utf-8") as file:
        *_, whole = csv.DictReader(file)
    assert (int(whole["Dialogues"]), round(float(whole["Turns"]), 2)) == (
        dialogues,
        turns,
    )
