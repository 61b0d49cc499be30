"""JSON objects in an answer: strict, or as models write them (comments, quotes, loose commas).

Every reader here takes time in proportion to the text, whatever the text is: nothing is read twice
from the same place more than a fixed number of times, and no other parser sees foreign text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

MOST_CHARACTERS = 20_000  # of an answer that is not strict JSON; a longer one is not read
_MOST_STRICT = 1_000_000
_MOST_STARTS = 20  # opening braces that are tried
_DEEPEST = 20
_TOKEN = re.compile(
    r'(?P<string>"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\')|(?P<comment>//[^\n]*|/\*.*?\*/|\#[^\n]*)'
    r"|(?P<unclosed>[\"']|/\*)|(?P<open>[{\[])|(?P<close>[}\]])|(?P<comma>,)|(?P<space>\s+)|:"
    r"|(?P<share>\d+(?:\.\d+)?\s?/\s?\d+)|(?P<number>-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)|(?P<word>\w+)|.",
    re.DOTALL,
)
_WORDS = {"True": "true", "False": "false", "None": "null"}
_BLANK = re.compile(r"\s*")
_DECODER = json.JSONDecoder()


class NotJson(ValueError):
    """The text is no JSON value of the kind asked for."""


@dataclass(frozen=True, slots=True)
class ObjectIn:
    """An object and where it stands in the text."""

    value: dict[str, Any]
    start: int
    end: int


def strict_json(text: str) -> Any:
    """The value of ``text``, which is one JSON value and nothing else. Raises NotJson.

    A key that stands twice with two values, and numbers that JSON does not know, are refused.
    """
    if len(text) > _MOST_STRICT:
        raise NotJson(f"{len(text)} characters")
    return _loads(text, strict=True)


def _loads(text: str, *, strict: bool) -> Any:
    try:
        return json.loads(text, strict=strict, object_pairs_hook=_object, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error)) from error


def objects_in(text: str) -> Iterator[ObjectIn]:
    """The outermost objects that stand in ``text``, also those that only nearly are JSON. None in
    a text of more than MOST_CHARACTERS."""
    if len(text) > MOST_CHARACTERS:
        return
    start = text.find("{")
    for _ in range(_MOST_STARTS):
        if start < 0:
            return
        end = _closing(text, start)
        if end is None:
            return
        try:
            value = _relaxed(text[start:end])
        except NotJson:
            start = text.find("{", start + 1)
            continue
        yield ObjectIn(value, start, end)
        start = text.find("{", end)


def first_entries(text: str) -> tuple[dict[str, Any], int]:
    """The entries of an object that ``text`` begins with and that breaks off or breaks down later,
    and where the last of them ends. Only whole entries, with the comma behind them, count."""
    entries: dict[str, Any] = {}
    done = _skip(text, 1)
    for key, value, _, end in _members(text, 0):
        comma = _skip(text, end)
        if text[comma : comma + 1] != ",":
            break
        if key in entries and entries[key] != value:
            raise NotJson(f"the key {key!r} stands twice, with two values")
        entries[key] = value
        done = _skip(text, comma + 1)
    return entries, done


def locate(text: str, start: int, path: Sequence[str]) -> tuple[int, int] | None:
    """Where the value at ``path`` stands in the strict JSON object that opens at ``start``; None in
    one that is not strict."""
    span = (start, start)
    for wanted in path:
        members = _members(text, span[0])
        value = next(((begin, end) for key, _, begin, end in members if key == wanted), None)
        if value is None:
            return None
        span = value
    return span


def _members(text: str, start: int) -> Iterator[tuple[str, Any, int, int]]:
    """(key, value, where the value begins and ends) of the strict JSON object at ``start``, up to
    the first member that is none."""
    position = start
    while text[position : position + 1] in ("{", ","):
        position = _skip(text, position + 1)
        if text[position : position + 1] != '"':
            return
        try:
            key, position = _value_at(text, position)
            position = _skip(text, position)
            if text[position : position + 1] != ":":
                return
            begin = _skip(text, position + 1)
            value, end = _value_at(text, begin)
        except NotJson:
            return
        yield key, value, begin, end
        position = _skip(text, end)


def _skip(text: str, position: int) -> int:
    """Where the blanks at ``position`` end."""
    m = _BLANK.match(text, position)
    return m.end() if m else position


def _value_at(text: str, position: int) -> tuple[Any, int]:
    """The JSON value at ``position`` (blanks aside) and where it ends. Raises NotJson."""
    position = _skip(text, position)
    try:
        return _DECODER.raw_decode(text, position)
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error)) from error


def _closing(text: str, start: int) -> int | None:
    """Where the object that opens at ``start`` has closed; None where it never does."""
    depth = 0
    for m in _TOKEN.finditer(text, start):
        if m["unclosed"]:
            return None
        depth += (m["open"] is not None) - (m["close"] is not None)
        if depth > _DEEPEST:
            return None
        if depth == 0 and m["close"]:
            return m.end()
    return None


def _relaxed(text: str) -> dict[str, Any]:
    try:
        value = _loads(text, strict=False)
    except NotJson:
        value = _loads(_rewritten(text), strict=False)
    if not isinstance(value, dict):
        raise NotJson("not an object")
    return value


def _rewritten(text: str) -> str:
    """``text`` once comments and loose commas are out of it, words of Python are those
    of JSON, and keys and strings have double quotes. A share such as 8/10 becomes a text."""
    parts: list[str] = []
    comma = False  # whether one waits to see what follows
    for m in _TOKEN.finditer(text):
        if m["space"] or m["comment"]:
            parts.append(" ")
            continue
        if comma and not m["close"]:
            parts.append(",")
        comma = m["comma"] is not None
        if not comma:
            parts.append(_token(m))
    return "".join(parts)


def _token(m: re.Match[str]) -> str:
    if m["share"]:
        return json.dumps(m[0])
    if m["word"]:
        word = _WORDS.get(m[0], m[0])
        return word if word in _WORDS.values() else json.dumps(word)
    if m["string"] and m[0][0] == "'":
        return '"' + re.sub(r"\\.|\"", _escaped, m[0][1:-1], flags=re.DOTALL) + '"'
    return m[0]


def _escaped(m: re.Match[str]) -> str:
    return {"\\'": "'", '"': '\\"'}.get(m[0], m[0])


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made: dict[str, object] = {}
    for key, value in pairs:
        if key in made and made[key] != value:
            raise NotJson(f"the key {key!r} stands twice, with two values")
        made[key] = value
    return made


def _refuse(name: str) -> None:
    raise NotJson(f"{name} is no number of JSON")
