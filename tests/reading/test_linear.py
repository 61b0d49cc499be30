"""Readers of foreign text take linear time: sixteen times the text takes at most forty times as
long (the square of the text: 256 times)."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from medal_judges.reading.dialogues import ReadingReport, ReadOptions, stream_dialogues

from .written import in_csv, in_xlsx, save

PAIR = {"prompt": "Hi", "response": "Hello"}
TALK = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]


def line(messages: list[dict[str, object]]) -> bytes:
    return json.dumps({"id": "a", "messages": messages}).encode()


def answer(text: str) -> bytes:
    return line([TALK[0], {"role": "assistant", "content": text}])  # type: ignore[list-item]


# Name of the file -> its content at a size.
TEXTS: dict[str, Callable[[int], bytes]] = {
    "a rule and blanks.txt": lambda n: f"User: a\n---{' ' * 20 * n}x\nBot: b".encode(),
    "short turns.txt": lambda n: ("User: a\nBot: b\n" * n).encode(),
    "marks before a speaker.txt": lambda n: (
        f"User: a\nBot: b\n{chr(0x200E) * n}c".encode()
    ),
    "open tags.jsonl": lambda n: answer("<think" * n),
    "closing tags.jsonl": lambda n: answer("</think>" * n),
    "turns.jsonl": lambda n: line(TALK * n),
    "calls.jsonl": lambda n: line(
        [
            TALK[0],
            {"role": "assistant", "content": None, "tool_calls": [{}] * n},
            TALK[1],
        ]  # type: ignore[list-item]
    ),
    "columns.jsonl": lambda n: json.dumps(
        PAIR | {f"c{k}": k for k in range(n)}
    ).encode(),
    "equal ids.jsonl": lambda n: (
        json.dumps({"id": "a"} | PAIR).encode().ljust(80) * 0
        + b"\n".join([json.dumps({"id": "a"} | PAIR).encode()] * n)
    ),
    "an open quote.csv": lambda n: b'prompt,response\nHi,"Hello\n' + b"a,b\n" * n,
    "turns.csv": lambda n: in_csv([{"chat_id": "c", **m} for m in TALK * n]),
    "rows.xlsx": lambda n: in_xlsx([PAIR] * (n // 20)),
}


def seconds_to_read(path: Path) -> float:
    """Returns the time without garbage collection, as timeit does."""
    gc.disable()
    began = time.process_time()
    list(stream_dialogues(path, ReadOptions(), ReadingReport()))
    seconds = time.process_time() - began
    gc.enable()
    return seconds


@pytest.mark.parametrize("name", TEXTS)
def test_time_grows_as_the_text(name: str, tmp_path: Path) -> None:
    seconds = []
    for size in (1_000, 16_000):
        path = save(tmp_path, f"{size} {name}", TEXTS[name](size))
        seconds.append(min(seconds_to_read(path) for _ in range(3)))
    assert seconds[-1] < max(40 * seconds[0], 0.2), seconds
