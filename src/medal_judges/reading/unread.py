"""Fields of a row that hold text and that no reader uses: a question or an answer may be lost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress

from medal_judges.errors import RecordError
from medal_judges.reading.forms import ColumnMap, parsed_cell
from medal_judges.reading.names import plain_name

_SHORT = 20  # characters of a text that is no turn: a state, a category
_MOST_FIELDS = 1000  # hostile keys
# Ids, hashes, addresses and times.
_NO_PROSE = re.compile(r"[!-~]*|\d{4}-\d\d-\d\d \d\d:[\d:.,]+ ?[+\-:\w]*")
# A field whose name has such a word holds metadata, which a judge does not read.
_METADATA = re.compile(
    r"(?:.*_)?(?:annotators?|author|comments?|country|date|email|evidence|feedback|headers?|heading"
    r"|ids?|labels?|metadata|name|notes?|rationale|region|state|tags?|time|timestamp|title|url)(?:_.*)?"
)


def fields_of_text(record: Mapping[str, object]) -> list[str]:
    """Returns the names of the fields that hold a text longer than 20 characters, also within
    lists and objects. Ids, times and metadata are left out."""
    names = []
    for name, value in record.items():
        if _has_text(value) and _METADATA.fullmatch(plain_name(str(name))) is None:
            names.append(str(name))
    return names


def _has_text(value: object) -> bool:
    with suppress(RecordError):  # a text that begins with a bracket
        value = parsed_cell(value, "{", "[")
    if isinstance(value, str):
        text = value.strip()
        return len(text) > _SHORT and _NO_PROSE.fullmatch(text) is None
    if isinstance(value, Mapping):
        return bool(fields_of_text(value))
    return isinstance(value, list | tuple) and any(map(_has_text, value))


def count_unread(
    unread: Counter[str], chat: object, metadata: Mapping[str, object], columns: ColumnMap
) -> None:
    """Counts in ``unread`` the fields of a row that are in the ``metadata`` of its dialogue, and
    that hold text."""
    if not isinstance(chat, Mapping):
        return
    mapped = {*columns.fields.values(), *columns.labels}
    mapped |= {path.partition(".")[0] for path in mapped}
    copied = chat.keys() & metadata.keys() - mapped
    if len(unread) < _MOST_FIELDS:
        unread.update(fields_of_text({name: chat[name] for name in copied}))


def unread_note(unread: Counter[str], path: str) -> str:
    """Returns ``not read: output (60 rows) in chats.jsonl``."""
    fields = [f"{name} ({count:,} rows)" for name, count in unread.most_common(5)]
    if (more := len(unread) - len(fields)) > 0:
        fields.append(f"{more} other fields")
    return f"not read: {', '.join(fields)} in {path}"
