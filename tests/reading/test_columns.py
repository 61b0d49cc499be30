"""Column maps: other names, nested fields, roles, labels, and what is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from medal_judges.errors import ConfigError, DataError
from medal_judges.eval.benchmark.config import SetConfig
from medal_judges.eval.benchmark.results import BenchmarkSet
from medal_judges.eval.benchmark.sets import load_set
from medal_judges.reading.columns import make_column_map
from medal_judges.reading.dialogues import ReadingReport, read_dialogues, read_labelled
from medal_judges.training.config import DataEntry
from medal_judges.training.rows import load_entry

from .written import CONTAINERS, in_csv, save

TICKETS = [
    {
        "Ticket": "7",
        "Wer": "Kunde",
        "Was": "Guten Tag",
        "Wann": "2026-01-01",
        "Qualität": 5,
    },
    {"Ticket": "7", "Wer": "Bot", "Was": "Hallo!", "Wann": "2026-01-01", "Qualität": 5},
    {
        "Ticket": "8",
        "Wer": "kunde",
        "Was": "Hilfe",
        "Wann": "2026-01-02",
        "Qualität": None,
    },
    {
        "Ticket": "8",
        "Wer": "Bot",
        "Was": "Gern.",
        "Wann": "2026-01-02",
        "Qualität": None,
    },
]
COLUMNS = {"id": "Ticket", "role": "Wer", "content": "Was", "time": "Wann"}
ROLES = {"Kunde": "user", "Bot": "assistant"}


@pytest.mark.parametrize("container", ["csv", "xlsx", "parquet", "jsonl"])
def test_columns_roles_and_labels(container: str, tmp_path: Path) -> None:
    path = save(tmp_path, "tickets", CONTAINERS[container](TICKETS))
    columns = COLUMNS | {"roles": ROLES, "labels": {"Qualität": "overall:1..7"}}
    seven, eight = read_labelled(path, columns=columns)
    assert [(t.role, t.content) for t in seven.dialogue.turns] == [
        ("user", "Guten Tag"),
        ("assistant", "Hallo!"),
    ]
    assert seven.dialogue.meta == {"time": "2026-01-01"}
    assert (seven.labels, seven.scales) == (
        {"overall": (5.0,)},
        {"overall": (1.0, 7.0)},
    )
    assert eight.labels == {} and eight.dialogue.turns[0].role == "user"


def test_labels_of_several_annotators(tmp_path: Path) -> None:
    rows = [{"prompt": "Hi", "response": "Hello", "A": "4,5", "B": "3; 2", "C": ""}]
    path = save(tmp_path, "rated.csv", CONTAINERS["csv"](rows))
    labels = {name: "overall:1..5" for name in "ABC"}
    (row,) = read_labelled(path, columns={"labels": labels})
    assert row.labels == {"overall": (4.5, 3.0, 2.0, None)} and row.scales == {
        "overall": (1.0, 5.0)
    }
    with pytest.raises(DataError, match=r"rated.csv:2: field 'labels.overall'"):
        list(read_labelled(path, columns={"labels": {"A": "overall:5..7"}}))
    with pytest.raises(DataError, match="one scale of overall"):
        list(
            read_labelled(
                path, columns={"labels": {"A": "overall:1..5", "B": "overall:1..7"}}
            )
        )


def test_nested_fields(tmp_path: Path) -> None:
    request = {
        "body": {"messages": [{"who": {"kind": "human"}, "said": {"text": "Hi"}}]}
    }
    rows = [
        {
            "log": {"a.b": 1, "request": request},
            "bot": {"name": "x"},
            "u": {"id": 3},
        }
    ]
    columns = {
        "messages": "log.request.body.messages",
        "role": "who.kind",
        "content": "said.text",
        "id": "u.id",
        "chatbot": "bot.name",
    }
    for name in ("jsonl", "parquet"):
        (dialogue,) = read_dialogues(
            save(tmp_path, name, CONTAINERS[name](rows)), columns=columns
        )
        assert (dialogue.id, dialogue.chatbot) == ("3", "x")
        assert [turn.content for turn in dialogue.turns] == ["Hi"]


@pytest.mark.parametrize("container", ["csv", "jsonl", "parquet"])
def test_a_column_that_is_not_there_is_named_with_its_nearest(
    container: str, tmp_path: Path
) -> None:
    path = save(tmp_path, "tickets", CONTAINERS[container](TICKETS))
    columns = COLUMNS | {"role": "Were", "roles": ROLES}
    for reading in (None, ReadingReport()):
        with pytest.raises(ConfigError) as caught:
            list(read_dialogues(path, columns=columns, reading=reading))
        said = str(caught.value)
        assert (
            "no column 'Were'" in said
            and "Did you mean 'Wer'?" in said
            and "Ticket" in said
        )


def test_a_speaker_nobody_knows_leaves_out_the_chat_and_says_what_to_type(
    tmp_path: Path,
) -> None:
    path = save(tmp_path, "tickets", CONTAINERS["csv"](TICKETS))
    reading = ReadingReport()
    columns = COLUMNS | {"roles": {"Bot": "assistant"}}
    assert not list(read_dialogues(path, columns=columns, reading=reading))
    assert reading.count == 2 and "--role Kunde=user" in reading.messages[0]


WRONG: list[tuple[Any, str]] = [
    ({"idd": "x"}, "no field 'idd'(.|\n)*Did you mean 'id'"),
    ({"id": 3}, "'id' needs the name of a column"),
    ({"roles": {"x": "boss"}}, "expected one of user, .*, not 'boss'"),
    ({"roles": ["x"]}, "are mappings"),
    ({"labels": {"x": "overall:7..1"}}, "type the lower end first, not 7..1"),
    ({"labels": {"x": "a:b:c"}}, "not of the form DIMENSION"),
]


@pytest.mark.parametrize("columns, problem", WRONG, ids=range(len(WRONG)))
def test_a_wrong_map_is_refused(columns: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        make_column_map(columns)


def test_fields_of_a_line_that_the_format_does_not_know(tmp_path: Path) -> None:
    said = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": ""}]
    line = {
        "id": "a",
        "dialogue": said,
        "version": "v2",
        "meta": {"time": 3},
        "labels": {"x": [1]},
    }
    path = save(tmp_path, "chats", CONTAINERS["jsonl"]([line]))
    (dialogue,) = read_dialogues(path)
    assert (
        dialogue.meta == {"version": "v2", "time": 3}
        and dialogue.turns[1].content == ""
    )
    (row,) = read_labelled(path)
    assert row.extra == {"version": "v2"} and row.dialogue.meta == {"time": 3}


RATED = [
    {
        "Frage": "Hi",
        "Antwort": f"Hello {n}",
        "Note": 1 + n % 5,
        "Split": "test" if n % 2 else None,
    }
    for n in range(8)
]
PAIRS = {"prompt": "Frage", "response": "Antwort", "labels": {"Note": "overall:1..5"}}


@pytest.mark.parametrize("container", ["csv", "xlsx", "parquet"])
def test_training_and_benchmarks_read_tables(container: str, tmp_path: Path) -> None:
    path = save(tmp_path, f"rated.{container}", CONTAINERS[container](RATED))
    rows = load_entry(DataEntry(source=str(path), columns=PAIRS), "train", seed=0)
    assert [row.labels["overall"][0] for row in rows] == [1 + n % 5 for n in range(8)]
    config = SetConfig(
        name="x", source=str(path), columns=PAIRS, dimensions={"overall": "o"}
    )
    loaded = load_set(config)
    assert isinstance(loaded, BenchmarkSet) and len(loaded.rows) == 8
    split = PAIRS | {"split": "Split"}
    half = load_entry(DataEntry(source=f"{path}:test", columns=split), "train", seed=0)
    assert len(half) == (4 if path.suffix else 8)


def test_a_row_for_each_annotator_is_refused(tmp_path: Path) -> None:
    rows = [
        {"id": "d1", "prompt": "Hi", "response": "Hello", "rating": n} for n in (4, 5)
    ]
    path = save(tmp_path, "a.csv", in_csv(rows))
    with pytest.raises(DataError, match=r"3.*a column for each annotator"):
        list(read_labelled(path, label=("rating=overall:1..5",)))


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_annotators_are_named_by_a_column(tmp_path: Path, form: str) -> None:
    row = {"id": "d1", "prompt": "Hi", "response": "So", "by": "ann;bob", "Q1": 1}
    wide: Any = {"label": ("Q1=overall:1..5", "Q2=overall:1..5")}
    path = save(tmp_path, f"y.{form}", CONTAINERS[form]([row | {"Q2": 4}]))
    (labelled,) = read_labelled(path, **wide, column=("annotator=by",))
    assert labelled.labels == {"overall": (1, 4)}
    assert labelled.extra["annotators"] == ["ann", "bob"]
    path = save(tmp_path, f"z.{form}", CONTAINERS[form]([row | {"by": "ann", "Q2": 4}]))
    with pytest.raises(DataError, match="names of 2 annotators"):
        list(read_labelled(path, **wide, column=("annotator=by",)))


def test_a_label_column_joins_the_labels_of_the_line_format() -> None:
    turns = [
        {"role": "user", "content": "Is it open?"},
        {"role": "assistant", "content": "Yes."},
    ]
    line = {
        "id": "a",
        "turns": turns,
        "labels": {"overall": [4]},
        "scales": {"overall": [1, 5]},
    }
    labels = {"stars": "helpful:1..7"}
    (row,) = read_labelled([line | {"stars": 6}], columns={"labels": labels})
    assert row.labels == {"overall": (4,), "helpful": (6,)}
    assert row.scales == {"overall": (1, 5), "helpful": (1, 7)}
