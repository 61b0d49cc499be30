"""The same chats written in every form and container that is read."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq

from medal_judges.reading.messages import read_messages
from medal_judges.records.dialogue import Dialogue

Row = dict[str, Any]
LANGUAGES = {"en": "English", "de": "German", "zh": "Chinese", "ar": "Arabic"}
SAID = (
    "Hello there!",
    'He said "no", then; left,\tas ever.',
    "Zeile eins\nZeile zwei",
    "你好，最近怎么样？",
    "مرحبا، كيف حالك؟",
    "👩‍👩‍👧‍👦 fine 🏳️‍🌈",
    "<b>bold</b> &amp; [image] =1+1",
    "It is what it is, and it was what it was, and that is all.",
    "  padded  ",
)


def chats(count: int = 50) -> list[Row]:
    """Chats with what real logs hold: system prompts, runs of one speaker, empty turns, a chat that
    ends on the user's turn, one that the assistant opens, missing ids and twice the same id."""
    made = []
    for n in range(count):
        first = n % 3 == 0
        messages = (
            [{"role": "system", "content": f"You are bot {n % 4}."}] if n % 2 else []
        )
        for k in range(3 + n % 6):
            role = ("assistant", "user")[(k + first) % 2]
            messages.append(
                {"role": role, "content": f"{SAID[(n + k) % len(SAID)]} ({n}.{k})"}
            )
        if n % 5 == 0:
            messages.append({"role": "user", "content": ""})
        if n % 7 == 0:
            messages.append(
                {"role": messages[-1]["role"], "content": "And one more thing."}
            )
        made.append(
            {
                "id": None
                if n % 10 == 9
                else f"chat-{n - n % 25 if n % 25 == 1 else n}",
                "lang": list(LANGUAGES)[n % 4],
                "messages": messages,
                "model": f"bot-{n % 4}",
                "version": f"v{n % 3}",
                "time": f"2026-0{1 + n % 9}-01T10:00:00+00:00",
            }
        )
    return made


def folded(chat: Row) -> Dialogue:
    """The dialogue that a chat is."""
    return read_messages(
        chat["messages"],
        id=chat["id"],
        lang=chat["lang"],
        models={"assistant": chat["model"]},
        meta={"version": chat["version"], "time": chat["time"]},
    )


def _beside(chat: Row, id_name: str = "id") -> Row:
    """The fields beside the messages."""
    own = {} if chat["id"] is None else {id_name: chat["id"]}
    return own | {
        "model": chat["model"],
        "version": chat["version"],
        "time": chat["time"],
    }


def as_line(chat: Row) -> Row:
    record = folded(chat).to_record()
    if chat["id"] is None:
        del record["id"]
    return record


def as_openai(chat: Row) -> Row:
    parts = [
        {
            "role": "developer" if m["role"] == "system" else m["role"],
            "content": [{"type": "text", "text": m["content"]}],
        }
        for m in chat["messages"]
    ]
    return _beside(chat) | {"lang": chat["lang"], "messages": parts}


def as_anthropic(chat: Row) -> Row:
    system = [m["content"] for m in chat["messages"] if m["role"] == "system"]
    rest = [
        {
            "role": m["role"],
            "content": [
                {"type": "thinking", "thinking": "hm"},
                {"type": "text", "text": m["content"]},
            ],
        }
        for m in chat["messages"]
        if m["role"] != "system"
    ]
    blocks = [{"type": "text", "text": text} for text in system]
    return _beside(chat) | {
        "language": chat["lang"],
        "system": blocks or None,
        "messages": rest,
    }


def as_sharegpt(chat: Row) -> Row:
    names = {"user": "human", "assistant": "gpt", "system": "system"}
    said = [{"from": names[m["role"]], "value": m["content"]} for m in chat["messages"]]
    return _beside(chat) | {"lang": chat["lang"], "conversations": said}


def as_wildchat(chat: Row) -> Row:
    said = [m | {"language": "English", "redacted": False} for m in chat["messages"]]
    return _beside(chat, "conversation_hash") | {
        "language": LANGUAGES[chat["lang"]],
        "conversation": said,
    }


def as_lmsys(chat: Row) -> Row:
    said = {"language": LANGUAGES[chat["lang"]], "conversation": chat["messages"]}
    return _beside(chat, "conversation_id") | said


def as_responses(chat: Row) -> Row:
    kinds = {"user": "input_text", "system": "input_text", "assistant": "output_text"}
    items = [
        {
            "type": "message",
            "role": m["role"],
            "content": [{"type": kinds[m["role"]], "text": m["content"]}],
        }
        for m in chat["messages"]
    ]
    return _beside(chat) | {
        "lang": chat["lang"],
        "input": items[:-1],
        "output": items[-1:],
    }


ROWS: dict[str, Callable[[Row], Row]] = {
    "line": as_line,
    "openai": as_openai,
    "anthropic": as_anthropic,
    "sharegpt": as_sharegpt,
    "wildchat": as_wildchat,
    "lmsys": as_lmsys,
    "responses": as_responses,
}


def turn_rows(chat: Row, key: str) -> list[Row]:
    """The rows of a chat where a row is a turn; ``key`` is its conversation's id."""
    beside = {k: chat[k] for k in ("model", "version", "time")} | {"lang": chat["lang"]}
    return [
        {"conversation_id": key, "speaker": m["role"], "text": m["content"]} | beside
        for m in chat["messages"]
    ]


# -- containers ------------------------------------------------------------------------------------


def in_jsonl(rows: list[Row]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def in_json(rows: list[Row]) -> bytes:
    return json.dumps(rows, ensure_ascii=False, indent=2).encode()


def _cells(rows: list[Row]) -> tuple[list[str], list[list[Any]]]:
    names = list(dict.fromkeys(name for row in rows for name in row))

    def cell(value: Any) -> Any:
        return (
            json.dumps(value, ensure_ascii=False)
            if isinstance(value, dict | list)
            else value
        )

    return names, [[cell(row.get(name)) for name in names] for row in rows]


def in_csv(rows: list[Row], delimiter: str = ",") -> bytes:
    names, cells = _cells(rows)
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter)
    writer.writerow(names)
    writer.writerows(cells)
    return b"\xef\xbb\xbf" + text.getvalue().encode()


def in_xlsx(rows: list[Row]) -> bytes:
    names, cells = _cells(rows)
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    for row in [names, *cells]:
        sheet.append(row)
        for cell in sheet[sheet.max_row]:
            if isinstance(cell.value, str):
                cell.data_type = "s"  # "=1+1" is text
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def in_parquet(rows: list[Row]) -> bytes:
    out = io.BytesIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    filled = [{name: row.get(name) for name in names} for row in rows]
    pq.write_table(pa.Table.from_pylist(filled), out, row_group_size=20)
    return out.getvalue()


CONTAINERS: dict[str, Callable[[list[Row]], bytes]] = {
    "jsonl": in_jsonl,
    "json": in_json,
    "csv": in_csv,
    "tsv": lambda rows: in_csv(rows, "\t"),
    "semicolons.csv": lambda rows: in_csv(rows, ";"),
    "xlsx": in_xlsx,
    "parquet": in_parquet,
}


PACKED: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress}


def save(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path
