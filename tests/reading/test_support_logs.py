"""A hostile file of 5,000 support logs: everything is judged, or left out and counted."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from medal_judges.cli import app
from medal_judges.errors import DataError, MedalError
from medal_judges.judgement_files import read_judgements
from medal_judges.reading.dialogues import read_dialogues
from medal_judges.reading.report import ReadingReport

from .written import SAID

BROKEN = (
    '{"id": "x", "messages": [{"role": "user", "content": "hi"',
    '{"id": "x", "messages": []}',
    '{"id": "x", "messages": "gone"}',
    '{"id": "x", "messages": [{"role": "boss", "content": "hi"}]}',
    '{"id": "x", "messages": [{"role": "user", "content": {"type": "hologram"}}]}',
    '{"id": "x", "messages": [{"role": "user", "content": "\\ud800"}]}',
    '{"id": "x", "messages": [{"role": "user", "content": ""}]}',
    '{"id": true, "messages": [{"role": "user", "content": "hi"}]}',
    '{"subject": "no chat", "status": "open"}',
    '{"id": "x", "score": NaN, "messages": []}',
    "[" * 5000,
    "\x00\x1b[2J",
    "null",
)
CALL = {"id": "1", "type": "function", "function": {"name": "find", "arguments": '{"q": 1}'}}


def log(n: int, rng: random.Random) -> dict[str, Any]:
    """A support log: a system prompt, tools, parts, HTML, emoji, other scripts, empty turns."""
    said = iter([SAID[(n + k) % len(SAID)] for k in range(20)])
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You are <b>helpful</b>."}]
    for _ in range(rng.randint(1, 4)):
        picture = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]
        text = [{"type": "text", "text": next(said)}]
        messages.append({"role": "user", "content": text + picture * (n % 7 == 0)})
        if n % 3 == 0:
            messages.append({"role": "assistant", "content": None, "tool_calls": [CALL]})
            messages.append({"role": "tool", "tool_call_id": "1", "content": "[1, 2]"})
        messages.append({"role": "assistant", "content": "" if n % 11 == 0 else next(said)})
    if n in (77, 777):
        messages[-1]["content"] = "lang " * 200_000  # a megabyte
    ids = {} if n % 13 == 0 else {"id": f"log-{n // 2 if n % 17 == 0 else n}"}
    return ids | {"messages": messages, "version": f"v{n % 3}", "user": {"id": n % 40}}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = random.Random(0)
    lines = [
        BROKEN[n % len(BROKEN)]
        if n % 33 == 5  # 3%
        else json.dumps(log(n, rng), ensure_ascii=n % 2 == 0)
        for n in range(5000)
    ]
    path = tmp_path_factory.mktemp("logs") / "support.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode("utf-8", "surrogatepass"), 1))
    return path


def test_nothing_is_lost_uncounted(hostile: Path, tmp_path: Path) -> None:
    out = tmp_path / "scores.jsonl"
    asked = ["score", hostile, "--judge", "length", "--out", out, "--min-coverage", "0.8"]
    done = CliRunner().invoke(app, list(map(str, asked)))
    assert done.exit_code == 0, (done.output, done.exception)
    judged = list(read_judgements(out))
    listed = (tmp_path / "scores.skipped.jsonl").read_text(encoding="utf-8").splitlines()
    broken = sum(n % 33 == 5 for n in range(5000))
    assert len(listed) == broken and len(judged) == 5000 - broken
    assert len({judgement.id for judgement in judged}) == len(judged)
    assert all(json.loads(line)["line"] % 33 == 6 for line in listed)  # lines from 1
    for said in ("4,848 dialogues read (OpenAI messages)", "152 bad rows left out", "folded:"):
        assert said in done.stderr, done.stderr
    assert "gaps [image]" in done.stderr and "ids made from the content" in done.stderr
    assert "ids numbered" in done.stderr and "\x1b[2J" not in done.output


def test_strict_stops_at_the_first(hostile: Path, tmp_path: Path) -> None:
    asked = ["score", hostile, "--judge", "length", "--out", tmp_path / "o.jsonl", "--strict"]
    done = CliRunner().invoke(app, list(map(str, asked)))
    assert isinstance(done.exception, DataError) and ":6: " in str(done.exception)
    assert "read as JSON lines, OpenAI messages" in str(done.exception)


def test_the_same_reading_twice_gives_the_same_ids(hostile: Path) -> None:
    first, second = ReadingReport(), ReadingReport()
    one = [d.id for d in read_dialogues(hostile, reading=first)]
    assert one == [d.id for d in read_dialogues(hostile, reading=second)]
    assert first == second


def test_a_data_set_that_is_not_there() -> None:
    with pytest.raises(MedalError, match="hf:nobody/nothing:train"):
        list(read_dialogues("hf:nobody/nothing:train"))
