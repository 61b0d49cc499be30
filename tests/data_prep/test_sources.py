"""Readers of public forms, against the rows of the line format where both are here."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medal_judges.data_prep.sources.public import read_chitchat
from medal_judges.data_prep.sources.registry import SOURCES, load_rows
from medal_judges.data_prep.sources.source import READERS, file_sha256
from medal_judges.errors import SourceError
from medal_judges.reading.dialogues import read_labelled
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.labelled import LabelledDialogue, choose_split, parse_labelled
from medal_judges.storage.jsonl import write_records

DATA = os.environ.get("MEDAL_JUDGES_DATA")
needs_data = pytest.mark.skipif(
    DATA is None, reason="MEDAL_JUDGES_DATA (human ratings) is not set"
)

RAW = ("raw_labels", "raw_scales", "run", "worker", "quality_control")
# (source, part) -> fields that the reader of the public file does not give
UNKNOWN: dict[tuple[str, str], set[str]] = {
    ("fed", "dialogue"): set(),
    ("fed", "turn"): set(),
    ("conture", "dialogue"): {"split", "group", "models", "defects"},
    ("conture", "turn"): {"split", "group", "models", "defects"},
    ("dialogue_eval", "dialogue"): {"split", *RAW},
    ("usr", "topical"): set(),
    ("xdial", "fed"): {"models", "defects", "parallel_id"},
}


def part_of(source: str, name: str) -> Any:
    return next(part for part in SOURCES[source].parts if part.name == name)


def unpacked(public_file: str, folder: Path) -> Path:
    target = folder / public_file
    packed = Path(str(DATA)) / "raw" / f"{public_file}.gz"
    target.write_bytes(gzip.decompress(packed.read_bytes()))
    return target


@needs_data
@pytest.mark.parametrize(("source", "name"), UNKNOWN)
def test_the_public_form_gives_the_rows_of_the_line_format(
    source: str, name: str, tmp_path: Path
):
    part = part_of(source, name)
    path = unpacked(part.public_file, tmp_path)
    assert file_sha256(path) == part.sha256
    found = [row.to_record() for row in READERS[part.read](path)]
    wanted = [
        row.to_record() for row in read_labelled(Path(str(DATA)) / part.line_file)
    ]
    for record in (*found, *wanted):
        for field in UNKNOWN[source, name]:
            record.pop(field, None)
    assert len(found) == len(wanted)
    for ours, theirs in zip(found, wanted, strict=True):
        parse_labelled(ours)  # what a reader makes is a row that loads
        labels, expected = ours.pop("labels"), theirs.pop("labels")
        assert ours == theirs
        assert labels.keys() == expected.keys()
        for dimension, ratings in expected.items():
            # Python 3.12 sums floats with another rounding than 3.11. No rating is NaN here.
            np.testing.assert_allclose(
                np.array(labels[dimension], dtype=float),
                np.array(ratings, dtype=float),
                rtol=1e-12,
            )


@needs_data
def test_public_splits_cut_no_group(tmp_path: Path) -> None:
    for source, names in (
        ("conture", ("dialogue", "turn")),
        ("dialogue_eval", ("dialogue",)),
    ):
        homes: dict[str, set[str | None]] = {}
        for name in names:
            part = part_of(source, name)
            for row in READERS[part.read](unpacked(part.public_file, tmp_path)):
                homes.setdefault(row.group, set()).add(row.split)
        assert all(len(splits) == 1 for splits in homes.values())
        assert {s for splits in homes.values() for s in splits} == {
            "train",
            "validation",
            "test",
        }


# --- sets of the Hub, on rows in their documented form ---


def hub_folder(
    monkeypatch: pytest.MonkeyPatch, folder: Path, files: dict[str, str]
) -> None:
    """``files`` as the folder that a download of a data set gives."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.setattr(
        "huggingface_hub.snapshot_download", lambda *_, **__: str(folder)
    )


CARD = """---
dataset_info:
  features:
  - {name: dialog_id, dtype: int64}
  - {name: dialog_history, dtype: string}
  - {name: response, dtype: string}
  - {name: overall_comment, dtype: string}
  - {name: score, dtype: int64}
  - {name: issues, list: [{name: comment, dtype: string}, {name: type, dtype: string}]}
  - {name: split, dtype: string}
---
"""


def soda(
    response: str, score: object, issues: object, split: str, history: str = ""
) -> str:
    row = {
        "dialog_id": 7,
        "dialog_history": history,
        "response": response,
        "issues": issues,
    }
    row |= {"overall_comment": "fine", "score": score, "split": split}
    return json.dumps(row) + "\n"


def test_soda_eval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [{"type": "Gender Pronoun", "comment": "he, not she"}]
    rows = {
        "train": soda("Ann: Hi: you", 5, [], "train"),
        "val": soda(
            "Bo: He left.", 2, found, "val", "Ann: Hi: you\nBo: Yes?\nAnn: And?\n"
        ),
        "test": soda("Ann: Hm", None, None, "test", "Bo: x"),
    }
    files = {f"data/{k}-0.jsonl": v for k, v in rows.items()} | {"README.md": CARD}
    hub_folder(monkeypatch, tmp_path, files)
    test, train, validation = sorted(
        load_rows("soda_eval"), key=lambda row: str(row.split)
    )
    assert [(t.role, t.content) for t in validation.dialogue.turns] == [
        ("user", "Hi: you"),
        ("assistant", "Yes?"),
        ("user", "And?"),
        ("assistant", "He left."),
    ]
    assert validation.labels == {"overall": (2.0,), "gender_pronoun": (1.0,)}
    assert train.labels == {"overall": (5.0,), "gender_pronoun": (0.0,)}
    assert (
        test.labels["overall"] == (None,) and len({r.group for r in (train, test)}) == 1
    )
    assert validation.extra["comments"] == {
        "overall": "fine",
        "gender_pronoun": "he, not she",
    }
    assert validation.extra["labels_by"] == "GPT-4" and validation.level == "turn"
    assert [row.id for row in load_rows("soda_eval:validation")] == ["soda-eval-7-3"]
    (tmp_path / "data/train-0.jsonl").write_text(soda("Ann: Hi", 5, [], "dev"))
    with pytest.raises(SourceError, match=r"soda_eval: not in the public form"):
        load_rows("soda_eval:train")


# --- chitchat ---


def test_chitchat_joins_messages_of_one_sender(tmp_path: Path) -> None:
    def message(sender: str, text: str) -> dict[str, str]:
        return {"sender": sender, "text": text, "timestamp": "2018-01-01"}

    data = {
        "one": {
            "messages": [
                [message("p", "Hi"), message("p", " there ")],
                [message("q", "Hello")],
                [message("q", "How are you?"), message("p", "")],
            ],
            "ratings": {"witty": "3", "upbeat": 10, "interesting": None, "other": 4},
            "prompt": "Your first job",
        },
        "nobody answered": {"messages": [[message("p", "Hi"), message("p", "Hello?")]]},
        "nothing": {"messages": []},
    }
    path = tmp_path / "dataset.json"
    path.write_text(json.dumps(data))
    (row,) = read_chitchat(path)
    assert [(t.role, t.content) for t in row.dialogue.turns] == [
        ("user", "Hi\nthere"),
        ("assistant", "Hello\nHow are you?"),
        ("user", ""),
    ]
    assert row.labels == {"witty": (3.0,), "upbeat": (10.0,)}
    assert row.scales["witty"] == (1.0, 10.0)
    assert row.dialogue.context == {"scene": "Your first job"}
    assert row.id == row.group == "chitchat-one"
    # no sender is kept
    assert "p" not in json.dumps(row.to_record()["models"]).split('"')


# --- a file of the project's own line format ---


def test_a_file_is_a_source_and_a_colon_in_its_path_is_no_split(tmp_path: Path) -> None:
    rows = [
        LabelledDialogue(Dialogue(f"{n}", (Turn("user", "x"),)), {}, {}, split=split)
        for n, split in enumerate(["train", "train", "test"])
    ]
    folder = tmp_path / "a:b"
    path = folder / "rows.jsonl.gz"
    write_records(path, rows)
    assert len(load_rows(str(path))) == 3
    assert [r.id for r in load_rows(f"{path}:train")] == ["0", "1"]
    with pytest.raises(
        SourceError, match=r"no row is validation. Use one of its splits: test, train"
    ):
        load_rows(f"{path}:validation")
    with pytest.raises(SourceError, match=r"Did you mean 'train'\?"):
        load_rows(f"{path}:trian")


# key -> first digits of what `printf '0:KEY' | sha256sum` says: splits may never move
KEYS = {
    "a": "9df3",
    "b": "e021",
    "c": "be08",
    "dialogue-7": "5edb",
    "été": "a82d",
    "10": "6ac5",
}


@pytest.mark.parametrize(("key", "digits"), KEYS.items())
def test_the_split_of_a_key_is_that_of_its_hash(key: str, digits: str) -> None:
    place = int(digits, 16) / 16**4
    wanted = "train" if place < 0.8 else "validation" if place < 0.9 else "test"
    assert choose_split(key, seed=0) == wanted
