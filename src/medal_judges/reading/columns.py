"""Columns of a user's file: values in them, by name or path, and the map from fields to columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medal_judges.config import parse_yaml
from medal_judges.errors import ConfigError, RecordError, did_you_mean
from medal_judges.reading.names import KEYS, Fields, Names, Record, find_key
from medal_judges.records.labelled import Scale
from medal_judges.storage.jsonl import load_json

MISSING = object()
_SPEAKERS = ("user", "assistant", "system", "tool")
# What a column map can map. ``chatbot`` and ``user`` are names of models; ``order`` and ``time``
# order the turns if a row is a turn; ``annotator`` is the person whose ratings the row has; the
# others are fields of the line format.
_FIELDS = (
    *("id", "messages", "role", "content", "time", "order", "prompt", "response", "system"),
    *("lang", "chatbot", "user", "source", "split", "group", "annotator"),
)
_LABEL = re.compile(r"([^:@]+?)(?::(-?\d+(?:\.\d+)?)\.\.(-?\d+(?:\.\d+)?))?(?:@(.+))?\Z")
_SHOWN = 40  # columns in a message
_ROWS_WITHOUT_A_COLUMN = 1000  # JSON leaves out empty fields


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """Maps columns of a user's file to fields, roles and labels.

    ``fields``: one of _FIELDS -> column, or a dotted path to a nested value (``meta.user.id``).
    ``roles``: a speaker's name (``Kunde``) -> role. ``labels``: column of ratings -> (dimension,
    scale or None); several columns of one dimension are several annotators. ``raters``: column of
    ratings -> its annotator's name, for all columns or for none.
    """

    fields: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, tuple[str, Scale | None]] = field(default_factory=dict)
    raters: Mapping[str, str] = field(default_factory=dict)

    def column(self, record: Record, name: str, keys: Names | None = None) -> str:
        """Returns the column of the field ``name``: the mapped one, else the first of ``keys`` (by
        default those of KEYS) that the record has, else the empty text."""
        if keys is None:
            keys = KEYS.get(name, ())
        return self.fields.get(name) or find_key(record, keys) or ""

    def value(self, record: Record, name: str, keys: Names | None = None) -> Any:
        """Returns the value in the column of the field ``name``; None if there is no column."""
        column = self.column(record, name, keys)
        return lookup(record, column) if column else None


def lookup(record: object, path: str, missing: Any = None) -> Any:
    """Returns the value at ``path``: a key (which may contain dots), else a dotted path of keys and
    list indices. Cells of JSON text along the path are parsed."""
    if isinstance(record, str) and record.lstrip()[:1] in ("{", "["):
        try:
            record = load_json(record)
        except (RecordError, RecursionError):
            return missing
    if isinstance(record, list):
        record = {str(index): value for index, value in enumerate(record)}
    if not isinstance(record, Mapping):
        return missing
    if path in record:
        return record[path]
    for end, letter in enumerate(path):
        if letter == "." and path[:end] in record:
            value = lookup(record[path[:end]], path[end + 1 :], MISSING)
            if value is not MISSING:
                return value
    return missing


def parsed_cell(value: Any, *begins: str) -> Any:
    """Returns the JSON value of a text that begins with one of ``begins``, and any other value
    unchanged. Raises RecordError."""
    if not isinstance(value, str) or not value.lstrip().startswith(begins):
        return value
    try:
        return load_json(value)
    except RecordError as error:
        raise RecordError("(cell)", error.expected, value) from error
    except RecursionError as error:
        raise RecordError("(cell)", "JSON that is not nested too deep", value) from error


def checked_columns(
    columns: ColumnMap, path: str, rows: Iterator[tuple[int, object]], *, table: bool
) -> Iterator[tuple[int, object]]:
    """Yields ``rows``. Raises ConfigError if a column of the map is in no row: after the first row
    of a table, otherwise after many rows or at the end, because JSON leaves out empty fields."""
    unseen = {*columns.fields.values(), *columns.labels}
    if "messages" in columns.fields or not {"role", "content"} <= columns.fields.keys():
        # A speaker and a text stand inside of the messages.
        unseen -= {columns.fields.get(name) for name in ("role", "content")}
    names: dict[str, None] = {}
    count = 0
    for count, (number, record) in enumerate(rows, 1):
        if unseen and isinstance(record, Mapping):
            names |= dict.fromkeys(map(str, record))
            unseen = {column for column in unseen if not _has_column(record, column)}
            if table or count >= _ROWS_WITHOUT_A_COLUMN:
                _require_none(unseen, path, names)
        yield number, record
    if count:
        _require_none(unseen, path, names)


def _has_column(record: Record, column: str) -> bool:
    """Says whether a record has a column, among its labels in the line format too."""
    paths = (column, f"labels.{column}")
    return any(lookup(record, path, MISSING) is not MISSING for path in paths)


def _require_none(unseen: Iterable[str], path: str, names: Iterable[str]) -> None:
    for column in sorted(unseen):
        columns = [*names]
        if len(columns) > _SHOWN:
            columns[_SHOWN:] = ["..."]
        hint = f"{did_you_mean(column, names)}columns in the file: {', '.join(columns) or 'none'}"
        raise ConfigError(f"{path}: no column {column!r}", hint=hint)


# -- what a user states ----------------------------------------------------------------------------


def make_column_map(
    columns: Record | str | Path,
    column: Iterable[str] = (),
    label: Iterable[str] = (),
    role: Iterable[str] = (),
) -> ColumnMap:
    """Returns the map of ``columns``, a mapping (or a YAML file of one) that can contain ``roles``
    and ``labels``. The texts replace single entries: columns such as ``id=conversation_id``, labels
    such as ``Qualität=overall:1..7``, roles such as ``Kunde=user``. Raises ConfigError."""
    fields = _stated_map(columns)
    roles, labels = fields.pop("roles", None) or {}, fields.pop("labels", None) or {}
    if not (isinstance(roles, dict) and isinstance(labels, dict)):
        raise ConfigError("column map: roles and labels are mappings such as Kunde: user")
    fields |= _pairs("--column", column, "id=conversation_id")
    roles = roles | _pairs("--role", role, "Kunde=user")
    labels = labels | _pairs("--label", label, "Quality=overall:1..5")
    for name, value in fields.items():
        if name not in _FIELDS:
            hint = f"{did_you_mean(str(name), _FIELDS)}fields: {', '.join(_FIELDS)}"
            raise ConfigError(f"column map: no field {name!r}", hint=hint)
        if not isinstance(value, str) or not value:
            raise ConfigError(f"column map: {name!r} needs the name of a column, not {value!r}")
    for word, value in roles.items():
        if value not in _SPEAKERS:
            problem = f"role {word!r}: {value!r} is none of {', '.join(_SPEAKERS)}"
            raise ConfigError(problem, hint=f"--role {word}=user")
    roles = {str(word): value for word, value in roles.items()}
    return ColumnMap(fields, roles, *_rated_columns(labels))


def _stated_map(columns: Record | str | Path) -> Fields:
    if isinstance(columns, str | Path):
        try:
            yaml = Path(columns).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"the column map {columns} cannot be read: {error}") from error
        columns = parse_yaml(yaml, f"column map {columns}")
    if not isinstance(columns, Mapping):
        raise ConfigError(f"column map: expected a mapping such as id: ticket, not {columns!r}")
    return dict(columns)


def _pairs(option: str, texts: Iterable[str], example: str) -> dict[str, str]:
    """Returns name -> value of texts such as ``id=ticket``. The name of a column of ratings or of a
    speaker may contain ``=``, and so may the column of a field."""
    pairs = {}
    for text in texts:
        name, _, value = text.partition("=") if option == "--column" else text.rpartition("=")
        if not (name.strip() and value.strip()):
            raise ConfigError(f"{option} {text!r}: not of the form {example}")
        pairs[name.strip()] = value.strip()
    return pairs


def _rated_columns(
    labels: Mapping[object, object],
) -> tuple[dict[str, tuple[str, Scale | None]], dict[str, str]]:
    """Returns column -> (dimension, scale), and column -> annotator."""
    rated: dict[str, tuple[str, Scale | None]] = {}
    raters: dict[str, str] = {}
    for name, target in labels.items():
        match = _LABEL.match(target.strip()) if isinstance(target, str) else None
        if match is None:
            problem = f"{target!r} is not of the form DIMENSION[:LOW..HIGH][@ANNOTATOR]"
            raise ConfigError(f"label {name!r}: {problem}", hint=f"--label {name}=overall:1..5")
        dimension, low, high, annotator = match.groups()
        scale = None
        if low is not None:
            scale = float(low), float(high)
            if not scale[0] < scale[1]:
                raise ConfigError(f"label {name!r}: {scale[0]:g} is not below {scale[1]:g}")
        rated[str(name)] = dimension.strip(), scale
        if annotator:
            raters[str(name)] = annotator.strip()
    people = {(annotator, rated[column][0]) for column, annotator in raters.items()}
    if raters and not len(rated) == len(raters) == len(people):
        problem = "labels: @ANNOTATOR is on all columns or on none, once for each dimension"
        raise ConfigError(problem, hint="--label R1=overall:1..5@R1 --label R2=overall:1..5@R2")
    return rated, raters
