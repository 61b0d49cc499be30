"""ColumnMap: which column of a user's file holds what, where its names are not ours."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from medal_judges.errors import ConfigError, RecordError, did_you_mean
from medal_judges.reading.json_rows import NumberedRow
from medal_judges.records.rating import Scale
from medal_judges.records.validation import number, text

SpeakerRole = Literal["user", "assistant", "system", "tool"]
# What a column can hold. ``chatbot`` and ``user`` are names (of models), ``order`` and ``time``
# say which turn comes first where a row is a turn; all others are fields of the line format.
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
    """People's answers in ``column``, on ``dimension`` with its ``scale``, (lowest, highest), or
    None where it has no bounds. Several columns of one dimension are several annotators."""

    column: str
    dimension: str
    scale: Scale | None = None


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """``fields``: one of FIELDS to the user's column, a dotted path for a nested one
    (``meta.user.id``). ``roles``: what speakers are called there (``Kunde``) to user, assistant,
    system or tool. ``labels``: columns with people's answers."""

    fields: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, SpeakerRole] = field(default_factory=dict)
    labels: tuple[LabelColumn, ...] = ()

    @property
    def named(self) -> list[str]:
        """Every column that is named, in order."""
        return [*self.fields.values(), *(label.column for label in self.labels)]

    def get(self, record: Mapping[str, object], name: str) -> object:
        """The value of the field ``name`` in ``record`` where it is mapped; None otherwise."""
        column = self.fields.get(name)
        return None if column is None else lookup(record, column)

    def updated(self, other: ColumnMap) -> ColumnMap:
        """This map with what ``other`` says on top."""
        named = {label.column for label in other.labels}
        kept = tuple(label for label in self.labels if label.column not in named)
        return ColumnMap(
            {**self.fields, **other.fields}, {**self.roles, **other.roles}, kept + other.labels
        )

    def has(self, *names: str) -> bool:
        """Whether all of ``names`` are mapped."""
        fields = self.fields
        return bool(fields) and all(name in fields for name in names)


NO_COLUMNS = ColumnMap()


def lookup(record: Mapping[str, object], column: str) -> object:
    """The value of ``column``: a key as it stands (keys may hold dots), else a path of keys and
    list indices; JSON text on the way is read. None where there is none."""
    value = _walk(record, column)
    return None if value is _MISSING else value


def has_column(record: Mapping[str, object], column: str) -> bool:
    """Whether ``record`` has ``column``, if only as null."""
    return _walk(record, column) is not _MISSING


def _walk(record: object, path: str) -> object:
    if isinstance(record, str) and record.lstrip()[:1] in ("{", "["):
        try:
            record = json.loads(record)
        except (ValueError, RecursionError):
            return _MISSING
    if isinstance(record, list):
        head, _, rest = path.partition(".")
        if not head.isdecimal() or int(head) >= len(record):
            return _MISSING
        return _walk(record[int(head)], rest) if rest else record[int(head)]
    if not isinstance(record, Mapping):
        return _MISSING
    if path in record:
        return record[path]
    for end in (i for i, letter in enumerate(path) if letter == "."):
        if path[:end] in record:
            found = _walk(record[path[:end]], path[end + 1 :])
            if found is not _MISSING:
                return found
    return _MISSING


def parse_columns(
    columns: Mapping[str, object] | Iterable[str] | None = None,
    *,
    labels: Iterable[str] = (),
    roles: Iterable[str] = (),
) -> ColumnMap:
    """ColumnMap of texts such as ``id=conversation_id``, labels such as ``Qualität=overall:1..7``
    and roles such as ``Kunde=user``.

    ``columns`` may be a mapping of fields to columns, as YAML has it, with ``roles`` and ``labels``
    as mappings inside. Raises ConfigError for what is none of these.
    """
    fields: dict[str, object] = {}
    if isinstance(columns, Mapping):
        fields |= columns
    else:
        fields |= dict(_pair(each, "--column", "id=conversation_id") for each in columns or ())
    words = dict(_section(fields, "roles"))
    words |= dict(_pair(each, "--role", "Kunde=user") for each in roles)
    stated = [*_section(fields, "labels").items()]
    stated += [_pair(each, "--label", "Quality=overall:1..5") for each in labels]
    for name, column in fields.items():
        if name not in FIELDS:
            hint = f"{did_you_mean(str(name), FIELDS)}fields: {', '.join(FIELDS)}"
            raise ConfigError(f"no field {name!r} to give a column to", hint=hint)
        if not isinstance(column, str) or not column:
            raise ConfigError(f"the column of {name!r} is a name, not {column!r}")
    return ColumnMap(
        {name: str(column) for name, column in fields.items()},
        {str(word): _role(str(word), role) for word, role in words.items()},
        tuple(parse_label(str(column), said) for column, said in stated),
    )


def _section(fields: dict[str, object], name: str) -> Mapping[str, object]:
    section = fields.pop(name, None) or {}
    if not isinstance(section, Mapping):
        raise ConfigError(f"{name} of a column map: expected a mapping, not {section!r}")
    return section


def _pair(said: str, option: str, example: str) -> tuple[str, str]:
    name, found, value = said.rpartition("=") if option != "--column" else said.partition("=")
    if not (found and name.strip() and value.strip()):
        raise ConfigError(f"{option} {said!r}: not of the form {example}")
    return name.strip(), value.strip()


def _role(word: str, role: object) -> SpeakerRole:
    for known in get_args(SpeakerRole):
        if role == known:
            return known  # type: ignore[no-any-return]
    raise ConfigError(
        f"role {word!r}: {role!r} is none of {', '.join(get_args(SpeakerRole))}",
        hint=f"--role {word}=user",
    )


def parse_label(column: str, said: object) -> LabelColumn:
    """LabelColumn of ``overall`` or ``overall:1..7``. Raises ConfigError."""
    match = _LABEL.match(said.strip()) if isinstance(said, str) else None
    if match is None:
        raise ConfigError(
            f"label {column!r}: {said!r} is not of the form DIMENSION or DIMENSION:LOW..HIGH",
            hint=f"--label {column}=overall:1..5",
        )
    if match["low"] is None:
        return LabelColumn(column, match["name"].strip())
    low, high = float(match["low"]), float(match["high"])
    if not low < high:
        raise ConfigError(f"label {column!r}: {low:g} is not below {high:g}")
    return LabelColumn(column, match["name"].strip(), (low, high))


def read_columns(path: str | Path) -> ColumnMap:
    """ColumnMap of a YAML file: fields, and ``roles`` and ``labels`` as sections. Raises
    ConfigError."""
    from medal_judges.config import parse_yaml

    try:
        said = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the column map {path} cannot be read: {error}") from error
    loaded = parse_yaml(said, f"column map {path}")
    if not isinstance(loaded, Mapping):
        raise ConfigError(f"column map {path}: expected a mapping such as id: conversation_id")
    return parse_columns(loaded)


def missing_column(column: str, there: Sequence[str], where: str) -> ConfigError:
    """The error for a column that is not there: those that are, and the nearest."""
    shown = ", ".join(map(str, there[:40])) + (", ..." if len(there) > 40 else "")
    hint = f"{did_you_mean(column, map(str, there))}columns there: {shown or 'none'}"
    return ConfigError(f"{where}: no column {column!r}", hint=hint)


class SeenColumns:
    """Raises ConfigError where a column of the map is in no row: at once in a table, elsewhere
    after many rows or at the end, since JSON leaves out what is empty."""

    def __init__(self, columns: ColumnMap, path: str, table: bool) -> None:
        self._unseen = set(columns.named)
        self._messages = columns.fields.get("messages", "messages")
        self._path = path
        # A table has its columns in every row; a speaker and a text may be inside of a cell.
        inside = {columns.fields.get(name) for name in ("role", "content")}
        self._at_once = self._unseen - inside if table else set()
        self._there: dict[str, None] = {}

    def checked(self, rows: Iterator[NumberedRow]) -> Iterator[NumberedRow]:
        read = 0
        for read, (place, record) in enumerate(rows, 1):
            if self._unseen and isinstance(record, Mapping):
                self._look(record)
                self._require(self._at_once if read < _MOST_UNSEEN else self._unseen)
            yield place, record
        if read:
            self._require(self._unseen)

    def _look(self, record: Mapping[str, object]) -> None:
        self._there |= dict.fromkeys(map(str, record))
        paths = ("messages", "conversation", "conversations", "dialogue", "turns")
        for path in (self._messages, *paths):
            first = lookup(record, f"{path}.0")
            if isinstance(first, Mapping):
                self._there |= dict.fromkeys(map(str, first))
                self._unseen = {name for name in self._unseen if not has_column(first, name)}
        self._unseen = {name for name in self._unseen if not has_column(record, name)}

    def _require(self, names: set[str]) -> None:
        for name in sorted(names & self._unseen):
            raise missing_column(name, list(self._there), self._path)


def label_values(label: LabelColumn, value: object) -> tuple[float | None, ...]:
    """The answers in a cell: a number, a number as text, a list of them, or text with ; between;
    nothing for an empty cell. Raises RecordError."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return ()
    if isinstance(value, str):
        cells = value.strip().strip("[]").replace(",", ";" if "[" in value else ".").split(";")
        values: Sequence[object] = [each.strip() or None for each in cells]
    else:
        values = value if isinstance(value, list | tuple) else [value]
    return tuple(None if each is None else _answer(label.column, each) for each in values)


def _answer(column: str, value: object) -> float:
    expected = "a number, or several with ; between"
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        try:
            return number(column, float(value), expected)
        except ValueError as error:
            raise RecordError(column, expected, text(column, value)) from error
    return number(column, value, expected)
