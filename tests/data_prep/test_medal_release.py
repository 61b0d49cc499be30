"""MEDAL's released rows: one name a turn, languages in words, the context's number."""

import json
from pathlib import Path
from typing import Any

import datasets
import pytest

from medal_judges.data_prep.sources.registry import load_rows
from medal_judges.errors import RecordError
from medal_judges.reading.dialogues import ReadingReport, read_dialogues, read_labelled
from medal_judges.reading.released import convert_released_row
from medal_judges.records.dialogue import parse_dialogue_line
from medal_judges.records.labelled import parse_labelled

from .medal_release import CHATBOT, USER, WORDS, released_row

LABELS = {"unsafe": {"label": 0, "comment": ""}, "overall_quality_rating": {"label": 2}}


def through_disk(rows: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """The rows as ``datasets`` gives them back: the step saved them to disk."""
    names = rows[0].keys()
    data = datasets.Dataset.from_dict(
        {name: [row[name] for row in rows] for name in names}
    )
    data.save_to_disk(str(folder))
    return list(datasets.load_from_disk(str(folder)))


def test_released_rows_in_six_languages_saved_to_disk(tmp_path: Path) -> None:
    records = [released_row(lang, number) for number in (0, 17) for lang in WORDS]
    rows = list(read_labelled(through_disk(records, tmp_path / "set")))
    assert [row.dialogue.lang for row in rows] == [*WORDS, *WORDS]
    assert {row.dialogue.chatbot for row in rows} == {CHATBOT}
    assert {row.dialogue.models["user"] for row in rows} == {USER}
    # six languages of a context are one group, and a group has one split
    assert [row.group for row in rows] == ["medal-0"] * 6 + ["medal-17"] * 6
    assert all(
        len({r.split for r in rows if r.group == group}) == 1 for group in ("medal-0",)
    )
    assert len({row.id for row in rows}) == 12
    assert rows[0].dialogue.context == {
        "scene": "PersonX lost a recipe book. Now PersonX searches for it. PersonX is sad.",
        "persona": "A baker who collects old postcards.",
        "gender": "female",
    }
    assert {row.extra["form"] for row in rows} == {"medal-released"}
    assert {row.dialogue.source for row in rows} == {"medal"}
    # and it is a line from then on
    assert parse_labelled(rows[0].to_record()) == rows[0]


def test_the_same_row_in_a_file_for_every_command(tmp_path: Path) -> None:
    path = tmp_path / "released.jsonl"
    lines = [released_row(lang, 3, labels=LABELS) for lang in ("zh", "pt")]
    path.write_text(
        "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    )
    rows = load_rows(str(path))
    assert [row.dialogue.lang for row in rows] == ["zh", "pt"]
    assert rows[0].labels == {"unsafe": (0.0,), "overall": (2.0,)}
    assert (
        rows[0].scales["overall"] == (1.0, 5.0)
        and rows[0].extra["labels_by"] == "gpt-4.1"
    )
    assert [d.models for d in read_dialogues(path)] == [
        {"user": USER, "assistant": CHATBOT}
    ] * 2


def test_a_file_of_released_rows_has_the_splits_of_the_hub(tmp_path: Path) -> None:
    records = [
        released_row(lang, number) for number in range(40) for lang in ("zh", "pt")
    ]
    path = tmp_path / "medal200.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    hub = {row.id: row.split for row in read_labelled(records)}
    assert {row.id: row.split for row in load_rows(str(path))} == hub
    for split in ("train", "validation", "test"):
        ids = [row.id for row in load_rows(f"{path}:{split}")]
        assert ids == [id for id, own in hub.items() if own == split] != []
    stated = tmp_path / "stated.jsonl"
    stated.write_text(json.dumps(records[0] | {"split": "test"}))
    assert [row.split for row in load_rows(str(stated))] == ["test"]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            {"models": [USER, CHATBOT]},
            r"models': .*expected one name for each of the 3 turns",
        ),
        ({"models": [USER, 7, USER]}, r"models.assistant': .*expected a valid string"),
        ({"lang": "en\x1b[31m"}, "lang': .*expected an ISO 639-1 code"),
    ],
)
def test_a_damaged_row_is_told_by_its_field(
    fields: dict[str, Any], problem: str
) -> None:
    bad = released_row("en") | fields
    with pytest.raises(RecordError, match=problem):
        parse_dialogue_line(convert_released_row(bad))
    reading = ReadingReport()
    rows = list(read_labelled([released_row("en"), bad], reading=reading))
    assert len(rows) == reading.count == 1


def test_labels_as_text_bare_or_with_comments() -> None:
    stated = {
        "unsafe": {"label": 0, "comment": ""},
        "repetitive": {"label": 1, "comment": "says it twice"},
        "overall_quality_rating": {"label": 4, "comment": "fine"},
    }
    bare = {
        "unsafe": 0,
        "repetitive": "1",
        "overall_quality_rating": 4,
        "incoherent": None,
    }
    for labels in (stated, json.dumps(stated), bare):
        (row,) = read_labelled([released_row("en", labels=labels)])
        assert row.labels == {"unsafe": (0.0,), "repetitive": (1.0,), "overall": (4.0,)}
        assert row.scales["overall"] == (1.0, 5.0) and row.rating("incoherent") is None
        comments = (
            {} if labels is bare else {"repetitive": "says it twice", "overall": "fine"}
        )
        assert row.extra["comments"] == comments
