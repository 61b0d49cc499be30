"""A hostile support log is scored with nothing lost uncounted."""

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from medal_judges import read_judgements

from ..forked import medal

Row = dict[str, Any]
CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "find", "arguments": '{"order": 7}'},
}
# What a chat may have between its first and its last message, and how it is counted.
BETWEEN: dict[str, list[Row]] = {
    "tool calls": [
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": "sent", "tool_call_id": "c1"},
    ],
    "parts shown as [image]": [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
    ],
}
BROKEN: tuple[Callable[[Row], bytes], ...] = (
    lambda row: json.dumps(row).encode()[:-9],
    lambda row: b"2026-11-22 09:14:03 ERROR upstream timed out",
    lambda row: b"[" * 5000,
    lambda row: b"null",
    lambda row: json.dumps(row | {"id": True}).encode(),
    lambda row: json.dumps(row).encode().replace(b"order", b"\xff"),
    lambda row: json.dumps(row | {"messages": []}).encode(),
    lambda row: json.dumps(row).replace('"user"', '"narrator"').encode(),
)


def write_log(path: Path, count: int) -> Counter[str]:
    """Writes ``count`` chats, of which one in ten is broken. Returns what reading has to count."""
    counted: Counter[str] = Counter()
    lines = []
    for number in range(count):
        question = {
            "role": "user",
            "content": f"Where is my order {number}? 😡 <b>!</b>",
        }
        answer = {"role": "assistant", "content": "It left our \x1b[31m warehouse."}
        row = {"id": f"ticket-{number}", "version": number % 3, "messages": [question]}
        if number % 10 == 4:
            lines.append(BROKEN[number // 10 % len(BROKEN)](row))
            continue
        if number % 15 == 2:
            counted["unanswered"] += 1
        else:
            kind = list(BETWEEN)[number % len(BETWEEN)]
            counted[kind] += 1
            row["messages"] += [*BETWEEN[kind], answer]
        if number % 15 == 3:
            del row["id"]
            counted["ids made"] += 1
        elif number % 15 == 5:
            row["id"] = "ticket-0"
            counted["ids numbered"] += 1
        lines.append(json.dumps(row, ensure_ascii=number % 2 == 0).encode())
        lines += [b""] * (number % 40 == 0)
    path.write_bytes(b"\n".join(lines) + b"\n")
    return counted


def test_nothing_is_lost_uncounted(tmp_path: Path) -> None:
    source, out = tmp_path / "log.jsonl", tmp_path / "out.parquet"
    counted = write_log(source, 400)
    how = ("--judge", "length", "--min-coverage", "0.8", "--keep", "version")
    done = medal("score", source, *how, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stderr
    judgements = list(read_judgements(out))
    listed = [json.loads(line) for line in (tmp_path / "out.skipped.jsonl").open()]
    assert (len(judgements), len(listed)) == (360, 40)
    lines = source.read_bytes().split(b"\n")
    assert all(row["file"] == str(source) and lines[row["line"] - 1] for row in listed)
    assert len({judgement.id for judgement in judgements}) == 360
    assert {judgement.meta["version"] for judgement in judgements} == {0, 1, 2}
    unscored = [judgement for judgement in judgements if not judgement.scored]
    assert len(unscored) == counted.pop("unanswered")
    for what, count in counted.items():
        found = re.search(rf"(\d+) {re.escape(what)}", done.stderr)
        assert found is not None and int(found[1]) == count, what
