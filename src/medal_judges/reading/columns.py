"""ColumnMap: which column of a user's file holds which field."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from medal_judges.config import parse_yaml
from medal_judges.errors import ConfigError, RecordError, did_you_mean
from medal_judges.records.labelled import Scale
from medal_judges.records.validation import number, text

Fields = dict[str, Any]  # of one row, values as in JSON
SPEAKERS = ("user", "assistant", "system", "tool")
# ``chatbot`` and ``user`` are names of models, ``order`` and ``time`` order the turns if a row is a
# turn; all others are fields of the line format.
FIELDS = (
    *("id", "messages", "role", "content", "time", "order", "prompt", "response", "system"),
    *("lang", "chatbot", "user", "source", "split", "group"),
)
_LABEL = re.compile(r"([^:]+?)(?::(-?\d+(?:\.\d+)?)\.\.(-?\d+(?:\.\d+)?))?\Z")
_MISSING = object()


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """``fields``: one of FIELDS -> column, a dotted path for a nested one (``meta.user.id``).
    ``roles``: a speaker's name (``Kunde``) -> role. ``labels``: column of ratings -> (dimension,
    scale or None); several columns of one dimension are several annotators."""

    fields: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, tuple[str, Scale | None]] = field(default_factory=dict)

    def get(self, record: Mapping[str, object], name: str) -> object:
        """Returns the value of the field ``name`` in ``record``; None if it is not mapped."""
        column = self.fields.get(name)
        return None if column is None else lookup(record, column)


def lookup(record: object, path: str, missing: Any = None) -> Any:
    """Returns the value at ``path``: a key (keys may hold dots), else a path of keys and list
    indices; JSON text on the way is parsed."""
    if isinstance(record, str) and record.lstrip()[:1] in ("{", "["):
        try:
            record = json.loads(record)
        except (ValueError, RecursionError):
            return missing
    if isinstance(record, list):
        record = {str(index): value for index, value in enumerate(record)}
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


def find_key(record: Mapping[str, object], names: Iterable[str]) -> str | None:
    """Returns the key of ``record`` that is the first of ``names``, however it is spelled; one with
    a value comes before one without."""
    plain = _plain_names(tuple(record))
    there = [plain[name] for name in names if name in plain]
    filled = (key for key in there if record[key] is not None)
    return next(filled, there[0] if there else None)


def parsed_cell(value: Any, *begins: str) -> Any:
    """Returns the JSON value of text that begins with one of ``begins``; any other value as it is.
    Raises RecordError."""
    if not isinstance(value, str) or not value.lstrip().startswith(begins):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise RecordError("(cell)", "valid JSON", value) from error


@lru_cache(maxsize=512)
def _plain_names(keys: tuple[str, ...]) -> Mapping[str, str]:
    """``conversation_id`` -> ``conversationId``, ``Conversation ID`` or ``conversation-id``."""
    plain: dict[str, str] = {}
    for key in keys:
        if isinstance(key, str):
            words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key.strip())
            plain.setdefault(re.sub(r"[\s\-]+", "_", words).lower(), key)
    return plain | {key: key for key in keys if isinstance(key, str)}


def make_column_map(
    columns: Mapping[str, object] | str | Path,
    column: Iterable[str] = (),
    label: Iterable[str] = (),
    role: Iterable[str] = (),
) -> ColumnMap:
    """Returns the map of ``columns``, a mapping (or a YAML file of one) with ``roles`` and
    ``labels`` inside, with texts on top: columns such as ``id=conversation_id``, labels such as
    ``Qualität=overall:1..7`` and roles such as ``Kunde=user``. Raises ConfigError."""
    if isinstance(columns, str | Path):
        try:
            stated = Path(columns).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"the column map {columns} cannot be read: {error}") from error
        columns = parse_yaml(stated, f"column map {columns}")
    if not isinstance(columns, Mapping):
        raise ConfigError(f"column map: expected a mapping such as id: ticket, not {columns!r}")
    fields: dict[str, Any] = dict(columns)
    roles, labels = fields.pop("roles", None) or {}, fields.pop("labels", None) or {}
    if not (isinstance(roles, dict) and isinstance(labels, dict)):
        raise ConfigError("column map: roles and labels are mappings such as Kunde: user")
    roles, labels = dict(roles), dict(labels)
    for given, option, target, example in (
        (column, "--column", fields, "id=conversation_id"),
        (role, "--role", roles, "Kunde=user"),
        (label, "--label", labels, "Quality=overall:1..5"),
    ):
        for pair in given:
            split = pair.partition if option == "--column" else pair.rpartition
            name, _, value = map(str.strip, split("="))
            if not (name and value):
                raise ConfigError(f"{option} {pair!r}: not of the form {example}")
            target[name] = value
    for name, value in fields.items():
        if name not in FIELDS:
            hint = f"{did_you_mean(str(name), FIELDS)}fields: {', '.join(FIELDS)}"
            raise ConfigError(f"column map: no field {name!r}", hint=hint)
        if not isinstance(value, str) or not value:
            raise ConfigError(f"column map: the column of {name!r} is a name, not {value!r}")
    for word, value in roles.items():
        if value not in SPEAKERS:
            hint = f"--role {word}=user"
            problem = f"role {word!r}: {value!r} is none of {', '.join(SPEAKERS)}"
            raise ConfigError(problem, hint=hint)
    rated: dict[str, tuple[str, Scale | None]] = {}
    for name, value in labels.items():
        match = _LABEL.match(value.strip()) if isinstance(value, str) else None
        if match is None:
            problem = f"{value!r} is not of the form DIMENSION or DIMENSION:LOW..HIGH"
            raise ConfigError(f"label {name!r}: {problem}", hint=f"--label {name}=overall:1..5")
        scale = None if match[2] is None else (float(match[2]), float(match[3]))
        if scale is not None and not scale[0] < scale[1]:
            raise ConfigError(f"label {name!r}: {scale[0]:g} is not below {scale[1]:g}")
        rated[str(name)] = (match[1].strip(), scale)
    return ColumnMap(fields, {str(word): value for word, value in roles.items()}, rated)


def labels_of(
    record: Mapping[str, object], columns: ColumnMap
) -> tuple[dict[str, list[float | None]], dict[str, list[float] | None]]:
    """Returns labels and scales in the columns of ratings. A cell holds a number, a list, or text
    with ; between; an empty one no rating. Raises RecordError."""
    labels: dict[str, list[float | None]] = {}
    scales: dict[str, list[float] | None] = {}
    for column, (dimension, bounds) in columns.labels.items():
        cell = lookup(record, column)
        cells = cell.split(";") if isinstance(cell, str) else cell
        ratings = [_rating(column, each) for each in (cells if isinstance(cells, list) else [cell])]
        if all(rating is None for rating in ratings):
            continue
        labels.setdefault(dimension, []).extend(ratings)
        scale, other = bounds and list(bounds), scales.get(dimension)
        if other is not None and scale is not None and other != scale:
            raise RecordError(column, f"one scale of {dimension} ({other})", scale)
        scales[dimension] = scale or other
    return labels, scales


def _rating(column: str, cell: object) -> float | None:
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        return None
    expected = "a number, or several with ; between"
    try:
        value = float(cell.replace(",", ".")) if isinstance(cell, str) else cell
    except ValueError as error:
        raise RecordError(column, expected, text(column, cell)) from error
    return float(value) if isinstance(value, bool) else number(column, value, expected)


def checked_columns(
    columns: ColumnMap, path: str, rows: Iterator[tuple[int, object]], *, table: bool
) -> Iterator[tuple[int, object]]:
    """Yields ``rows``. Raises ConfigError if a column of the map is in no row: at once in a table,
    elsewhere after many rows or at the end, because JSON leaves out what is empty."""
    unseen, there = {*columns.fields.values(), *columns.labels}, dict[str, None]()
    if "messages" in columns.fields or not {"role", "content"} <= columns.fields.keys():
        # A speaker and a text stand inside of the messages.
        unseen -= {columns.fields.get(name) for name in ("role", "content")}
    read = 0

    def require_none_unseen() -> None:
        for column in sorted(unseen):
            shown = ", ".join([*there][:40]) + (", ..." if len(there) > 40 else "")
            hint = f"{did_you_mean(column, there)}columns in the file: {shown or 'none'}"
            raise ConfigError(f"{path}: no column {column!r}", hint=hint)

    for read, (place, record) in enumerate(rows, 1):
        if unseen and isinstance(record, Mapping):
            there |= dict.fromkeys(map(str, record))
            unseen = {name for name in unseen if lookup(record, name, _MISSING) is _MISSING}
            if table or read >= 1000:
                require_none_unseen()
        yield place, record
    if read:
        require_none_unseen()
