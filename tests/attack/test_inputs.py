"""Files that are wrong in every way, given to every command that reads dialogues: a result, or an
error with a message; never a traceback, a hang, or a number that is none."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from medal_judges.cli import app
from medal_judges.errors import MedalError

from .every_command import READERS, Files, row

TURNS = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
ROW: dict[str, Any] = {
    "id": "a",
    "lang": "en",
    "dialogue": TURNS,
    "models": {"assistant": "bot"},
    "labels": {"overall": [3, 4]},
    "scales": {"overall": [1, 5]},
}
GOOD = json.dumps(ROW)


def line(**changed: Any) -> bytes:
    return json.dumps(ROW | changed).encode() + b"\n"


def said(*contents: Any, role: Any = "assistant") -> bytes:
    return line(dialogue=[{"role": "user", "content": "x"}, {"role": role, "content": contents[0]}])


FILES: dict[str, bytes] = {
    "empty": b"",
    "blank lines": b"\n\n \n",
    "cut JSON": GOOD.encode()[:-20],
    "BOM": b"\xef\xbb\xbf" + line(),
    "UTF-16": GOOD.encode("utf-16"),
    "UTF-16 without a mark": GOOD.encode("utf-16-le"),
    "CRLF": line().replace(b"\n", b"\r\n") + line(id="b").replace(b"\n", b"\r\n"),
    "NUL": line().replace(b"hello", b"he\x00llo"),
    "NUL escaped": said("a\x00b"),
    "lone surrogate": line().replace(b"hello", b"\\ud800"),
    "surrogate in an id": line().replace(b'"id": "a"', b'"id": "\\udc00"'),
    "no UTF-8": line().replace(b"hello", b"\xff\xfe"),
    "nested": b"[" * 10_000 + b"\n",
    "nested in a row": b'{"id": "a", "dialogue": ' + b"[" * 10_000 + b"\n",
    "nested objects": b'{"a":' * 10_000 + b"1" + b"}" * 10_000 + b"\n",
    "numbers as text": line(labels={"overall": ["3", "4"]}),
    "NaN": line().replace(b"[3, 4]", b"[NaN, 4]"),
    "Infinity": line().replace(b"[3, 4]", b"[Infinity, 4]"),
    "1e400": line().replace(b"[3, 4]", b"[1e400, 4]"),
    "an integer of 5,000 digits": line().replace(b"[3, 4]", b"[" + b"9" * 5000 + b", 4]"),
    "outside the scale": line(labels={"overall": [1e9, -5]}),
    "a scale backwards": line(scales={"overall": [5, 1]}),
    "a scale of one point": line(scales={"overall": [3, 3]}),
    "scale of text": line(scales={"overall": ["low", "high"]}),
    "no labels": line(labels={}),
    "labels a list": line(labels=[1, 2]),
    "an id of control characters": line(id="\x1b[31m\x07\r\n\x08"),
    "an id that is a path": line(id="../../../etc/passwd"),
    "an id that is a formula": line(id='=cmd|" /C calc"!A0'),
    "an empty id": line(id=""),
    "an id of 100,000 characters": line(id="x" * 100_000),
    "an id that is a number": line(id=5),
    "the same id twice": line() + line(),
    "10,000 turns": line(dialogue=TURNS * 5000),
    "a turn of 1 MB": said("word " * 200_000),
    "no turns": line(dialogue=[]),
    "turns null": line(dialogue=None),
    "turns of text": line(dialogue="hello"),
    "empty contents": said(""),
    "content null": said(None),
    "content a number": said(5),
    "content an object": said({"text": "x"}),
    "unknown role": said("x", role="wizard"),
    "role null": said("x", role=None),
    "role a list": said("x", role=["user"]),
    "users only": line(dialogue=[TURNS[0]] * 3),
    "assistant only": line(dialogue=[TURNS[1]]),
    "unknown language": line(lang="xx"),
    "language a number": line(lang=5),
    "models of text": line(models="bot"),
    "a list of rows": b"[" + line().strip() + b"]",
    "a text": b'"hello"\n',
    "null": b"null\n",
    "two values on a line": line().strip() + line(),
    "keys twice": b'{"id": "a", "id": "b", "dialogue": []}\n',
    "binary": bytes(range(256)) * 40,
    "gzip without the name": gzip.compress(line()),
    "zip": b"PK\x03\x04" + b"\x00" * 100,
    "sqlite": b"SQLite format 3\x00" + b"\x00" * 100,
    "pickle": b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94.",
}


def outcome(command: str, path: Path, files: Files) -> str | None:
    """The message of the error that is meant for such a file; None where there is a result. Exit
    codes that are no error stand for themselves."""
    done = CliRunner().invoke(app, files.arguments(command, path, path.with_name("out")))
    if done.exception is None or isinstance(done.exception, SystemExit):
        return None if done.exit_code == 0 else f"exit code {done.exit_code}"
    assert isinstance(done.exception, MedalError), (command, repr(done.exception)[:500])
    assert len(str(done.exception)) < 4000
    return str(done.exception)


def refused(name: str) -> None:
    raise AssertionError(f"{name} is no number of JSON")


def numbers_are_numbers(folder: Path) -> None:
    for path in folder.rglob("*.json*"):
        if path.name.startswith("in."):
            continue
        for text in path.read_text(encoding="utf-8").split("\n") if path.suffix == ".jsonl" else ():
            if text:
                json.loads(text, parse_constant=refused)


@pytest.mark.parametrize("kind", FILES)
def test_every_file_to_the_scorer(kind: str, tmp_path: Path, files: Files) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(FILES[kind])
    outcome("score", path, files)
    numbers_are_numbers(tmp_path)
    assert path.read_bytes() == FILES[kind]


@pytest.mark.slow
@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("among", [False, True], ids=["alone", "among sound rows"])
def test_every_file_to_every_command(
    command: str, kind: str, among: bool, tmp_path: Path, files: Files
) -> None:
    path, content = tmp_path / "in.jsonl", FILES[kind]
    if among:
        sound = "".join(json.dumps(row(n)) + "\n" for n in range(12)).encode()
        content = sound + content.rstrip(b"\n") + b"\n" + sound.replace(b'"d', b'"e')
    path.write_bytes(content)
    outcome(command, path, files)
    numbers_are_numbers(tmp_path)
    assert path.read_bytes() == content


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda each: (
        st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=8), each, max_size=3)
    ),
    max_leaves=6,
)
ROWS = st.fixed_dictionaries(
    {},
    optional={
        "id": VALUES | st.just("a"),
        "lang": VALUES | st.just("en"),
        "dialogue": VALUES
        | st.lists(
            st.fixed_dictionaries(
                {},
                optional={
                    "role": st.sampled_from(["user", "assistant", "system", "tool"]) | VALUES,
                    "content": VALUES,
                },
            ),
            max_size=4,
        ),
        "models": VALUES,
        "labels": VALUES | st.dictionaries(st.text(max_size=5), VALUES, max_size=2),
        "scales": VALUES,
        "source": VALUES,
        "meta": VALUES,
    },
)


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(made=st.lists(ROWS | VALUES, max_size=3))
def test_any_rows_at_all(made: list[Any], tmp_path: Path) -> None:
    from medal_judges.records.labelled import parse_labelled

    for each in made:
        text = json.dumps(each)
        try:
            read = parse_labelled(json.loads(text))
        except MedalError:
            continue
        for values in read.labels.values():
            assert all(math.isfinite(value) for value in values if value is not None)
        assert parse_labelled(json.loads(json.dumps(read.to_record()))).id == read.id
