"""The options of ``medal annotate``."""

from __future__ import annotations

import json
from pathlib import Path

import yaml
from openpyxl import load_workbook

from .files import COUNT, RECORDS, Files, read, write
from .table import medal, row, works


def project(out: Path) -> dict[str, list[str]]:
    """Annotator -> the keys of their dialogues."""
    loaded: dict[str, list[str]] = json.loads((out / "project.json").read_text())[
        "assignments"
    ]
    return loaded


@row("annotate export", "--out", "--annotator", "--per-dialogue", "--seed")
def test_who_annotates_what(files: Files, tmp_path: Path) -> None:
    people = ["--annotator", "ana", "--annotator", "ben"]
    words = ["annotate", "export", files.chats, "--form", "xlsx", *people]
    done = works(*words, "--out", tmp_path / "two", "--per-dialogue", 2)
    assert (
        f"ana: {COUNT} dialogues" in done.out and f"ben: {COUNT} dialogues" in done.out
    )
    done = medal(*words, "--out", tmp_path / "german", "--annotator", "cid:de")
    assert done.code == 2 and "no dialogue is left for cid" in done.err
    assert "languages of the dialogues: en" in done.err
    works(*words, "--out", tmp_path / "one", "--per-dialogue", 1)
    one = project(tmp_path / "one")
    assert len(one["ana"]) + len(one["ben"]) == COUNT
    works(*words, "--out", tmp_path / "seed", "--per-dialogue", 1, "--seed", 3)
    assert project(tmp_path / "seed") != one


@row("annotate export", "--form", "--human-likeness", "--rubric", "--guidelines")
def test_what_annotators_get(files: Files, tmp_path: Path) -> None:
    words = ["annotate", "export", files.chats, "--annotator", "ana", "--out"]
    works(*words, tmp_path / "both")
    works(*words, tmp_path / "xlsx", "--form", "xlsx", "--human-likeness")
    sheet = Path("package", "sheets", "ana.xlsx")
    assert (tmp_path / "both" / "package" / "label_studio").is_dir()
    assert not (tmp_path / "xlsx" / "package" / "label_studio").exists()
    asked = [
        json.loads((tmp_path / n / "project.json").read_text())
        for n in ("both", "xlsx")
    ]
    names = [{dimension["name"] for dimension in each["dimensions"]} for each in asked]
    assert names[1] - names[0] == {"user_human_likeness"}
    assert load_workbook(tmp_path / "xlsx" / sheet)["answers"].max_row == COUNT + 1
    rubric = tmp_path / "rubric.yaml"
    rubric.write_text("dimensions: [{name: overall, kind: ordinal, low: 1, high: 5}]")
    guidelines = yaml.safe_load(works("configs", "show", "annotation/guidelines").out)
    first = next(key for key, value in guidelines.items() if isinstance(value, str))
    guidelines[first] = "Please read each dialogue twice."
    mine = tmp_path / "guidelines.yaml"
    mine.write_text(yaml.safe_dump(guidelines))
    works(*words, tmp_path / "mine", "--rubric", rubric, "--guidelines", mine)
    dimensions = json.loads((tmp_path / "mine" / "project.json").read_text())[
        "dimensions"
    ]
    assert [dimension["name"] for dimension in dimensions] == ["overall"]
    texts = [path.read_text() for path in (tmp_path / "mine" / "package").rglob("*.md")]
    assert any("read each dialogue twice" in text for text in texts)


@row("annotate import", "--out", "--name", "--strict")
def test_import(tmp_path: Path) -> None:
    chats = write(tmp_path / "chats.jsonl", RECORDS[:3])
    folder = tmp_path / "project"
    works(
        "annotate",
        "export",
        chats,
        "--annotator",
        "ana",
        "--form",
        "xlsx",
        "--out",
        folder,
    )
    filled = tmp_path / "ana@example.org.xlsx"
    book = load_workbook(folder / "package" / "sheets" / "ana.xlsx")
    sheet = book["answers"]
    for rule in sheet.data_validations.dataValidation:
        for (cell,) in sheet[str(rule.sqref)]:
            cell.value = rule.formula1.strip('"').split(",")[0]
    book.save(filled)
    words = ["annotate", "import", folder, filled, "--out", tmp_path / "rows.jsonl"]
    works(*words)
    assert {
        name for r in read(tmp_path / "rows.jsonl") for name in r["annotators"]
    } == {"ana"}
    column = next(cell.column for cell in sheet[1] if cell.value == "annotator")
    sheet.cell(2, column).value = "Ana Silva"
    book.save(filled)
    done = works(*words)
    assert "problems in the answers" in done.err
    (tmp_path / "rows.jsonl").unlink()
    done = medal(*words, "--strict")
    assert done.code == 2 and "problems in the answers" in done.err
    assert not (tmp_path / "rows.jsonl").exists()
    works(*words, "--strict", "--name", "Ana Silva=ana")
    assert len(read(tmp_path / "rows.jsonl")) == 3
