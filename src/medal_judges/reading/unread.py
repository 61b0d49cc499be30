"""Finds fields of a row that hold text and that no reader uses, because a question or an answer may
be lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from contextlib import suppress

from medal_judges.errors import RecordError
from medal_judges.reading.columns import ColumnMap, parsed_cell
from medal_judges.reading.names import Counts, Record, plain_name

_SHORT = 20  # characters of a text that is no turn: a state, a category
_MOST_FIELDS = 1000  # hostile keys
_SHOWN = 5
# Ids, hashes, addresses and times.
_NO_PROSE = re.compile(r"[!-~]*|\d{4}-\d\d-\d\d \d\d:[\d:.,]+ ?[+\-:\w]*")
# A field whose name has such a word holds metadata, which a judge does not read.
_METADATA = re.compile(
    r"(?:.*_)?(?:annotators?|author|comments?|country|date|email|evidence|feedback|headers?|heading"
    r"|ids?|labels?|metadata|name|notes?|rationale|region|state|subject"
    r"|summary|tags?|time|timestamp|title|url|user_agent)(?:_.*)?"
)


def _has_text(name: str, value: object) -> bool:
    """Says whether a field, or a field within it, holds a text longer than 20 characters.

    Ids, times and metadata do not count.
    """
    if _METADATA.fullmatch(plain_name(name)):
        return False
    with suppress(RecordError):  # a text that begins with a bracket
        value = parsed_cell(value, "{", "[")
    if isinstance(value, Mapping):
        return any(_has_text(str(key), field) for key, field in value.items())
    if isinstance(value, list | tuple):
        return any(_has_text(name, item) for item in value)
    text = ""
    if isinstance(value, str):
        text = value.strip()
    return len(text) > _SHORT and _NO_PROSE.fullmatch(text) is None


def count_unread(
    unread: Counts, chat: object, metadata: Record, columns: ColumnMap
) -> None:
    """Counts the fields of a row that hold text and are in the ``metadata`` of its dialogue."""
    mapped = {*columns.fields.values(), *columns.labels}
    mapped |= {path.partition(".")[0] for path in mapped}
    if isinstance(chat, Mapping):
        add_unread(unread, chat, metadata.keys() - mapped)


def add_unread(unread: Counts, record: Record, names: Set[str]) -> None:
    """Counts those of the fields that hold text."""
    if len(unread) >= _MOST_FIELDS:
        return
    with suppress(RecursionError):  # nested too deep for a turn
        fields = [name for name in record if name in names]
        unread.update(name for name in fields if _has_text(str(name), record[name]))


def unread_note(unread: Counts, path: str, copied: Iterable[str]) -> str | None:
    """Returns ``not read: output (60 rows) in chats.jsonl``; None if all columns are read or
    ``copied`` to the scores."""
    for name in copied:
        unread.pop(name, None)
    fields = [f"{name} ({count:,} rows)" for name, count in unread.most_common()]
    if len(fields) > _SHOWN:
        fields[_SHOWN:] = [f"{len(fields) - _SHOWN} other fields"]
    if fields:
        return f"not read: {', '.join(fields)} in {path}"
    return None
