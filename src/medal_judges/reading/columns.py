"""ColumnMap: which column of a user's file holds which field."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from medal_judges.config import parse_yaml
from medal_judges.errors import ConfigError, RecordError, did_you_mean
from medal_judges.reading.text_rows import NumberedRow
from medal_judges.records.rating import Scale
from medal_judges.records.validation import number, text

SpeakerRole = Literal["user", "assistant", "system", "tool"]
# ``chatbot`` and ``user`` are names of models, ``order`` and ``time`` order the turns if a row is a
# turn; all others are fields of the line format.
FIELDS = (
    *("id", "messages", "role", "content", "time", "order", "prompt", "response", "system"),
    *("lang", "chatbot", "user", "source", "split", "group"),
)
_LABEL = re.compile(
    r"(?P<name>[^:]+?)(?::(?P<low>-?\d+(?:\.\d+)?)\.\.(?P<high>-?\d+(?:\.\d+)?))?\Z"
)
_MISSING = object()
_MOST_UNSEEN = 1000  # rows after which a column that no row had is an error


@dataclass(frozen=True, slots=True)
class LabelColumn:
    """Ratings in ``column`` on ``dimension``, with (lowest, highest) or None for no bounds. Several
    columns of one dimension are several annotators."""

    column: str
    dimension: str
    scale: Scale | None = None


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """``fields``: one of FIELDS -> column, a dotted path for a nested one (``meta.user.id``).
    ``roles``: a speaker's name (``Kunde``) -> role. ``labels``: columns of ratings."""

    fields: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, SpeakerRole] = field(default_factory=dict)
    labels: tuple[LabelColumn, ...] = ()

    def get(self, record: Mapping[str, object], name: str) -> object:
        """Returns the value of the field ``name`` in ``record``; None if it is not mapped."""
        column = self.fields.get(name)
        return None if column is None else lookup(record, column)

    def has(self, *names: str) -> bool:
        """Whether all of ``names`` are mapped."""
        return bool(self.fields) and all(name in self.fields for name in names)

    def updated(self, other: ColumnMap) -> ColumnMap:
        """Returns this map with ``other`` on top."""
        named = {label.column for label in other.labels}
        labels = tuple(label for label in self.labels if label.column not in named)
        return ColumnMap(
            {**self.fields, **other.fields}, {**self.roles, **other.roles}, labels + other.labels
        )

    def without(self, *names: str) -> ColumnMap:
        """Returns this map without the fields ``names``."""
        return replace(self, fields={k: v for k, v in self.fields.items() if k not in names})


def lookup(record: object, path: str, missing: Any = None) -> Any:
    """Returns the value at ``path``: a key (keys may hold dots), else a path of keys and list
    indices; JSON text on the way is parsed."""
    if isinstance(record, str) and record.lstrip()[:1] in ("{", "["):
        try:
            record = json.loads(record)
        except (ValueError, RecursionError):
            return missing
    if isinstance(record, list):
        head, _, rest = path.partition(".")
        if not head.isdecimal() or int(head) >= len(record):
            return missing
        return lookup(record[int(head)], rest, missing) if rest else record[int(head)]
    if not isinstance(record, Mapping):
        return missing
    if path in record:
        return record[path]
    for end in (i for i, letter in enumerate(path) if letter == "."):
        if path[:end] in record:
            found = lookup(record[path[:end]], path[end + 1 :], _MISSING)
            if found is not _MISSING:
                return found
    return missing


def read_columns(path: str | Path) -> ColumnMap:
    """Returns the map of a YAML file: fields, and ``roles`` and ``labels`` as sections."""
    try:
        stated = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the column map {path} cannot be read: {error}") from error
    loaded = parse_yaml(stated, f"column map {path}")
    if not isinstance(loaded, Mapping):
        raise ConfigError(f"column map {path}: expected a mapping such as id: conversation_id")
    return parse_columns(loaded)


def parse_columns(
    columns: Mapping[str, object] | Iterable[str] = (),
    *,
    labels: Iterable[str] = (),
    roles: Iterable[str] = (),
) -> ColumnMap:
    """Returns the map of a mapping with ``roles`` and ``labels`` inside, or of texts such as
    ``id=conversation_id``, labels such as ``Qualität=overall:1..7`` and roles such as
    ``Kunde=user``. Raises ConfigError."""
    if isinstance(columns, Mapping):
        fields = dict(columns)
    else:
        fields = dict(_pair(each, "--column", "id=conversation_id") for each in columns)
    sections = {name: fields.pop(name, None) or {} for name in ("roles", "labels")}
    for name, section in sections.items():
        if not isinstance(section, Mapping):
            raise ConfigError(f"{name} of a column map: expected a mapping, not {section!r}")
    words = dict(sections["roles"]) | dict(_pair(each, "--role", "Kunde=user") for each in roles)
    rated = dict(sections["labels"])
    rated |= dict(_pair(each, "--label", "Quality=overall:1..5") for each in labels)
    for name, column in fields.items():
        if name not in FIELDS:
            hint = f"{did_you_mean(str(name), FIELDS)}fields: {', '.join(FIELDS)}"
            raise ConfigError(f"no field {name!r} to give a column to", hint=hint)
        if not isinstance(column, str) or not column:
            raise ConfigError(f"the column of {name!r} is a name, not {column!r}")
    for word, role in words.items():
        if role not in get_args(SpeakerRole):
            known = ", ".join(get_args(SpeakerRole))
            hint = f"--role {word}=user"
            raise ConfigError(f"role {word!r}: {role!r} is none of {known}", hint=hint)
    return ColumnMap(
        {name: str(column) for name, column in fields.items()},
        {str(word): role for word, role in words.items()},
        tuple(_label(str(column), stated) for column, stated in rated.items()),
    )


def _pair(stated: str, option: str, example: str) -> tuple[str, str]:
    name, _, value = stated.partition("=") if option == "--column" else stated.rpartition("=")
    if not (name.strip() and value.strip()):
        raise ConfigError(f"{option} {stated!r}: not of the form {example}")
    return name.strip(), value.strip()


def _label(column: str, stated: object) -> LabelColumn:
    match = _LABEL.match(stated.strip()) if isinstance(stated, str) else None
    if match is None:
        problem = f"{stated!r} is not of the form DIMENSION or DIMENSION:LOW..HIGH"
        raise ConfigError(f"label {column!r}: {problem}", hint=f"--label {column}=overall:1..5")
    if match["low"] is None:
        return LabelColumn(column, match["name"].strip())
    low, high = float(match["low"]), float(match["high"])
    if not low < high:
        raise ConfigError(f"label {column!r}: {low:g} is not below {high:g}")
    return LabelColumn(column, match["name"].strip(), (low, high))


def label_values(label: LabelColumn, value: object) -> tuple[float | None, ...]:
    """Returns the ratings in a cell: a number, a list, or text with ; between; none for an empty
    cell. Raises RecordError."""
    expected = "a number, or several with ; between"
    if value is None or (isinstance(value, str) and not value.strip()):
        return ()
    if isinstance(value, str):
        cells = value.strip().strip("[]").replace(",", ";" if "[" in value else ".").split(";")
        value = [each.strip() or None for each in cells]
    values: list[float | None] = []
    for each in value if isinstance(value, list | tuple) else [value]:
        if isinstance(each, str):
            try:
                each = float(each)
            except ValueError as error:
                raise RecordError(label.column, expected, text(label.column, each)) from error
        if each is None or isinstance(each, bool):
            values.append(None if each is None else float(each))
        else:
            values.append(number(label.column, each, expected))
    return tuple(values)


def checked_columns(
    columns: ColumnMap, path: str, rows: Iterator[NumberedRow], *, table: bool
) -> Iterator[NumberedRow]:
    """Yields ``rows``. Raises ConfigError if a column of the map is in no row: at once in a table,
    elsewhere after many rows or at the end, because JSON leaves out what is empty."""
    unseen = {*columns.fields.values(), *(label.column for label in columns.labels)}
    # A table has its columns in every row; a speaker and a text can be inside of a cell.
    inside = {columns.fields.get(name) for name in ("role", "content")}
    at_once = unseen - inside if table else set()
    places = ("messages", "conversation", "conversations", "dialogue", "turns")
    there: dict[str, None] = {}

    def require(names: set[str]) -> None:
        for column in sorted(names & unseen):
            shown = ", ".join([*there][:40]) + (", ..." if len(there) > 40 else "")
            hint = f"{did_you_mean(column, there)}columns there: {shown or 'none'}"
            raise ConfigError(f"{path}: no column {column!r}", hint=hint)

    read = 0
    for read, (place, record) in enumerate(rows, 1):
        if unseen and isinstance(record, Mapping):
            messages = (columns.fields.get("messages", "messages"), *places)
            firsts = [lookup(record, f"{name}.0") for name in messages]
            for part in (record, *(first for first in firsts if isinstance(first, Mapping))):
                there |= dict.fromkeys(map(str, part))
                unseen = {n for n in unseen if lookup(part, n, _MISSING) is _MISSING}
            require(at_once if read < _MOST_UNSEEN else unseen)
        yield place, record
    if read:
        require(unseen)
