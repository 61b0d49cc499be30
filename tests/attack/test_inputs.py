"""Files that are wrong in every way, given to every command that reads dialogues: a result, or an
error with a message; never a traceback, a hang, an escape sequence, or NaN in a file."""

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
from medal_judges.errors import DataError, MedalError
from medal_judges.reading.dialogues import read_dialogues
from medal_judges.records.labelled import parse_labelled

from .every_command import READERS, Files, row, sampled

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
RED = "\x1b[31m"


def line(**changed: Any) -> bytes:
    return json.dumps(ROW | changed).encode() + b"\n"


def said(content: Any, role: Any = "assistant") -> bytes:
    return line(
        dialogue=[{"role": "user", "content": "x"}, {"role": role, "content": content}]
    )


TEXT = b"".join(line(id=f"d{n}") for n in range(600))
WHOLE = gzip.compress(TEXT)


def flipped(place: int) -> bytes:
    data = bytearray(WHOLE)
    data[place] ^= 0xFF
    return bytes(data)


FILES: dict[str, bytes] = {
    "empty": b"",
    "BOM": b"\xef\xbb\xbf" + line(),
    "UTF-16": GOOD.encode("utf-16"),
    "lone surrogate": line().replace(b"hello", b"\\ud800"),
    "no UTF-8": line().replace(b"hello", b"\xff\xfe"),
    "nested": b"[" * 10_000 + b"\n",
    "NaN": line().replace(b"[3, 4]", b"[NaN, 4]"),
    "an integer of 5,000 digits": line().replace(b"3", b"9" * 5000),
    "an id that is a formula": line(id='=cmd|" /C calc"!A0'),
    "an id of 100,000 characters": line(id="x" * 100_000),
    "the same id twice": line() + line(),
    "10,000 turns": line(dialogue=TURNS * 5000),
    "a turn of 1 MB": said("word " * 200_000),
    "no turns": line(dialogue=[]),
    "empty contents": said(""),
    "unknown role": said("x", role="wizard"),
    "gzip without the name": gzip.compress(line()),
    "sqlite": b"SQLite format 3\x00" + b"\x00" * 100,
    "gzip cut": WHOLE[: len(WHOLE) // 2],
    "gzip with a wrong checksum": flipped(-6),
    "gzip and more": WHOLE + b"and more",
    "gzip of another method": flipped(2),
    "escape sequences in names": line(
        id=f"a{RED}", models={"assistant": RED}, labels={RED: [3]}, meta={RED: RED}
    ),
    "pickle": b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94.",
}


def in_the_suite(command: str, kind: str, among: bool) -> bool:
    score = command == "score" and not among and sampled(4, kind)
    return score or sampled(96, command, kind, among)


CASES = [
    pytest.param(*case, marks=() if in_the_suite(*case) else pytest.mark.nightly)
    for case in (
        (c, kind, among) for c in READERS for kind in FILES for among in (False, True)
    )
]


@pytest.mark.parametrize(("command", "kind", "among"), CASES)
def test_every_file_to_every_command(
    command: str,
    kind: str,
    among: bool,
    tmp_path: Path,
    files: Files,
    no_figure_files: None,
) -> None:
    path, content = tmp_path / "in.jsonl", FILES[kind]
    if among:  # sound rows
        sound = "".join(json.dumps(row(n)) + "\n" for n in range(12)).encode()
        content = sound + content.rstrip(b"\n") + b"\n" + sound.replace(b'"d', b'"e')
    path.write_bytes(content)
    done = CliRunner().invoke(
        app, files.arguments(command, path, path.with_name("out"))
    )
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        assert isinstance(done.exception, MedalError), repr(done.exception)[:500]
        assert len(str(done.exception)) < 4000
    assert "\x1b" not in done.output + str(done.exception)
    assert path.read_bytes() == content
    for written in {*tmp_path.rglob("*.jsonl")} - {path}:
        for text in filter(None, written.read_text(encoding="utf-8").split("\n")):
            json.loads(text, parse_constant=refused)


def refused(name: str) -> None:
    raise AssertionError(f"{name} is no number of JSON")


def test_a_terminal_gets_no_control(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(line(id="a\x9b31m\x7f"))
    done = CliRunner().invoke(app, ["score", str(path), "--judge", "length"])
    assert json.loads(done.stdout.split("\n")[0])["id"] == "a\x9b31m\x7f"
    assert not {"\x9b", "\x7f"} & {*done.output}


@pytest.mark.parametrize(
    "kind", ["gzip cut", "gzip and more", "gzip of another method"]
)
def test_a_damaged_gzip_is_an_error_with_or_without_strict(
    tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "in.jsonl.gz"
    path.write_bytes(FILES[kind])
    for more in ([], ["--strict"], ["--out", str(tmp_path / "out.jsonl")]):
        done = CliRunner().invoke(app, ["score", str(path), "--judge", "length", *more])
        assert isinstance(done.exception, DataError), (done.output, done.exception)
        assert done.exception.path == str(path)
    for place in range(20, len(WHOLE), len(WHOLE) // 8):
        path.write_bytes(flipped(place))
        with pytest.raises(DataError):
            list(read_dialogues(path))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda each: (
        st.lists(each, max_size=3)
        | st.dictionaries(st.text(max_size=8), each, max_size=3)
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
                    "role": st.sampled_from(["user", "assistant", "system", "tool"])
                    | VALUES,
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
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(made=st.lists(ROWS | VALUES, max_size=3))
def test_any_rows_at_all(made: list[Any], tmp_path: Path) -> None:
    for each in made:
        text = json.dumps(each)
        try:
            read = parse_labelled(json.loads(text))
        except MedalError:
            continue
        for values in read.labels.values():
            assert all(math.isfinite(value) for value in values if value is not None)
        assert parse_labelled(json.loads(json.dumps(read.to_record()))).id == read.id
