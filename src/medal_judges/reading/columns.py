"""Columns of a user's file: values in them, the map from fields to columns, and ratings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from shlex import quote
from typing import Any, NamedTuple, get_args

from medal_judges.errors import ConfigError, RecordError, did_you_mean
from medal_judges.reading.names import (
    NAMES,
    Fields,
    Record,
    find_key,
)
from medal_judges.records.dialogue import Role
from medal_judges.records.labelled import Scale
from medal_judges.records.validation import number_as_text, parse_number, parse_text
from medal_judges.storage.jsonl import parse_json

MISSING = object()
_SPEAKERS = (*get_args(Role), "system", "tool")
# What a column map can map. ``chatbot`` and ``user`` are names of models.
_FIELDS = (*NAMES, "user", "source", "split", "group")
_LABEL = re.compile(r"([^:@]+)(?::(-?\d+(?:\.\d+)?)\.\.(-?\d+(?:\.\d+)?))?\Z")
_SHOWN = 40  # columns in a message
# Four words with spaces between them, or a dozen characters of Chinese or Japanese.
_PROSE = re.compile(r"(?:\w+[,.;:]? ){3}\w|[\u3040-\u9fff]{12}")
_PYTHON_LIST = re.compile(r"\s*[\[{][\s\[{]*'\w+':")
# What spreadsheets, pandas, R and people write if there is no rating.
_NO_RATING = ("na", "n/a", "#n/a", "nan", "none", "null", "-", "?", "")
_FLAGS = {"true": 1.0, "yes": 1.0, "👍": 1.0, "false": 0.0, "no": 0.0, "👎": 0.0}
Rating = float | None  # None: the annotator gave none


class LabelColumn(NamedTuple):
    """The meaning of a column of human ratings in a file of chats.

    Attributes:
        dimension: The rated aspect of the dialogue, such as ``overall``.
        scale: (lowest, highest) possible rating, such as ``(1.0, 5.0)``. None if it is not stated.
    """

    dimension: str
    scale: Scale | None


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """What a file of chats calls its fields, speakers and columns of ratings.

    Attributes:
        fields: Field -> its column: ``{"id": "ticket"}``. A nested value has a path:
            ``meta.user.id``.
        roles: Speaker's name in lower case -> role: ``{"kunde": "user"}``.
        labels: Column of ratings -> its dimension and scale:
            ``{"Note": LabelColumn("overall", (1, 5))}``.
    """

    fields: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, LabelColumn] = field(default_factory=dict)

    def column(self, record: Record, name: str) -> str:
        """Returns the column that holds the field ``name``, or an empty string if there is none.

        It is the column that ``fields`` has for ``name``. Otherwise it is a key of ``record`` with
        a usual name, such as ``ticket_id`` for ``id``.

        Args:
            record: A row, or an object in it.
            name: The field, such as ``id``.
        """
        column = self.fields.get(name)
        if column is None and name in NAMES:
            column = find_key(record, name)
        return column or ""

    def value(self, record: Record, name: str) -> Any:
        """Returns the value of the field ``name``, such as ``id``, in ``record``. Returns None if
        ``record`` has no such field."""
        return lookup(record, self.column(record, name))

    def require_columns(self, names: Iterable[object], path: str) -> None:
        """Checks that a file has all columns that the map names.

        Args:
            names: The columns of the file.
            path: The file, for the error message.

        Raises:
            ConfigError: A column of ``fields`` or ``labels`` is not in ``names``.
        """
        columns = [*map(str, names)]
        for column in (*self.fields.values(), *self.labels):
            if column not in columns and column.partition(".")[0] not in columns:
                listing = ", ".join(columns[:_SHOWN])
                hint = f"{did_you_mean(column, columns)}Use one of: {listing}"
                raise ConfigError(f"{path}: no column {column!r}", hint=hint)


def lookup(record: object, path: str, missing: Any = None) -> Any:
    """Returns the value of ``record`` at ``path``, or ``missing`` if there is none.

    Args:
        record: A mapping. In any other value there is nothing at ``path``.
        path: A key, or the keys of nested mappings joined by dots: ``meta.user.id``.
        missing: The value to return if there is none.
    """
    if not isinstance(record, Mapping):
        return missing
    if path in record:
        return record[path]
    first, _, inner_path = path.partition(".")
    if first in record and inner_path:
        return lookup(record[first], inner_path, missing)
    return missing


def parse_if_json(cell: Any, field: str = "") -> Any:
    """Returns the object or list in ``cell`` if it is a string with JSON. Returns any other
    value unchanged.

    Args:
        cell: The value, of any type.
        field: Name of the cell in errors. If it is empty, malformed JSON is returned unchanged.

    Raises:
        RecordError: ``field`` is given, and a string that begins with a bracket is not JSON.
    """
    if not isinstance(cell, str) or cell.lstrip()[:1] not in ("[", "{"):
        return cell
    try:
        refuse_python_literal(cell, field)
        return parse_json(cell, nan_is_null=True)
    except (RecordError, RecursionError) as error:
        if not field:
            return cell
        expected = getattr(error, "expected", "JSON that is not nested too deep")
        raise RecordError(field, expected, cell) from error


def refuse_python_literal(cell: str, field: str) -> None:
    """Raises RecordError if ``cell`` is a list or dict in Python's notation, such as ``{'a': 1}``,
    and not in JSON. The error names ``field``."""
    if _PYTHON_LIST.match(cell):
        expected = "JSON, not Python's text of a list: export it with json.dumps"
        raise RecordError(field, expected, cell)


def has_prose(value: object) -> bool:
    """Returns whether ``value`` contains at least four words in a row, or 12 characters of Chinese
    or Japanese. Nested values count too."""
    return _PROSE.search(str(value)) is not None


# -- what a user states ----------------------------------------------------------------------------


def make_column_map(
    columns: Record,
    column: Iterable[str] = (),
    label: Iterable[str] = (),
    role: Iterable[str] = (),
) -> ColumnMap:
    """Makes a ColumnMap from a config's columns and the options of a command line.

    Args:
        columns: Field -> column: ``{"id": "ticket"}``. May also hold ``roles`` and ``labels``:
            ``{"roles": {"Kunde": "user"}, "labels": {"Quality": "overall:1..5"}}``.
        column: Strings FIELD=COLUMN, such as ``id=ticket``, which override ``columns``.
        label: Strings COLUMN=DIMENSION:LOW..HIGH, such as ``Quality=overall:1..5``, which override
            ``columns["labels"]``.
        role: Strings NAME=ROLE, such as ``Kunde=user``, which override ``columns["roles"]``.

    Raises:
        ConfigError: A field or role is unknown or has no value, or a label is malformed.
    """
    fields = dict(columns)
    roles, labels = fields.pop("roles", None) or {}, fields.pop("labels", None) or {}
    if not (isinstance(roles, dict) and isinstance(labels, dict)):
        problem = "column map: roles and labels are mappings"
        raise ConfigError(problem, hint="Write {Kunde: user} or {Note: overall:1..5}")
    roles, labels = dict(roles), dict(labels)
    for entries, pairs in ((fields, column), (roles, role), (labels, label)):
        for pair in pairs:
            # The name of a speaker or of a column of ratings may contain an equals sign.
            name, _, value = pair.rpartition("=")
            entries[name.strip()] = value.strip()
    _require_valid_fields_and_roles(fields, roles)
    roles = {str(word).lower(): value for word, value in roles.items()}
    return ColumnMap(fields, roles, _parse_label_columns(labels))


def _require_valid_fields_and_roles(fields: Record, roles: Record) -> None:
    """Raises ConfigError if a field or a role is unknown, or a column or a speaker's name
    is missing.

    Args:
        fields: Field -> column: ``{"id": "ticket"}``.
        roles: Speaker's name -> role: ``{"Kunde": "user"}``.
    """
    for name, value in fields.items():
        if name not in _FIELDS:
            hint = f"{did_you_mean(str(name), _FIELDS)}Use one of: {', '.join(_FIELDS)}"
            raise ConfigError(f"column map: no field {name!r}", hint=hint)
        if not isinstance(value, str) or not value:
            problem = f"column map: {name!r} needs the name of a column, not {value!r}"
            raise ConfigError(problem, hint=f"Type --column {name}=COLUMN")
    for word, value in roles.items():
        if value not in _SPEAKERS or not word:
            problem = (
                f"role {word!r}: expected one of {', '.join(_SPEAKERS)}, not {value!r}"
            )
            raise ConfigError(
                problem, hint="Type --role Kunde=user (in YAML: Kunde: user)"
            )


def _parse_label_columns(labels: Mapping[object, object]) -> dict[str, LabelColumn]:
    """Parses ``labels``, the user's columns of ratings: ``{"Note": "overall:1..5"}``.

    Returns:
        Column -> its dimension and scale.

    Raises:
        ConfigError: A value is not of the form DIMENSION[:LOW..HIGH].
    """
    rated: dict[str, LabelColumn] = {}
    for name, target in labels.items():
        match = _LABEL.match(str(target).strip())
        if match is None or not name:
            problem = f"{target!r} is not of the form DIMENSION[:LOW..HIGH]"
            hint = f"Type --label {quote(f'{name}=overall:1..5')} (in YAML: {name}: overall:1..5)"
            raise ConfigError(f"label {name!r}: {problem}", hint=hint)
        dimension, low, high = match.groups()
        scale = None
        if low is not None:
            scale = float(low), float(high)
            if not scale[0] < scale[1]:
                raise ConfigError(
                    f"label {name!r}: type the lower end first, not {low}..{high}"
                )
        rated[str(name)] = LabelColumn(dimension.strip(), scale)
    return rated


# -- ratings ---------------------------------------------------------------------------------------


def read_labels(record: Record, columns: ColumnMap) -> Fields:
    """Returns the human ratings in ``record``, a row of a file.

    A cell holds a number, a list of numbers, or a string such as ``4;NA;5``.

    Args:
        record: The row.
        columns: What the file calls its columns. Its field ``labels`` has the columns of ratings.

    Returns:
        An empty dict if there is no rating. Otherwise a dict with ``labels`` (dimension -> list of
        ratings, None for a missing one) and ``scales`` (dimension -> [lowest, highest] or None).
        ``annotators`` is the list of their names, if they are known.

    Raises:
        RecordError: A cell is malformed, or two columns give one dimension different scales. Also
            if ``columns`` names a column of annotators that does not have one name for each rating.
    """
    labels: dict[str, list[Rating]] = {}
    scales: Fields = {}
    for column, (dimension, stated_scale) in columns.labels.items():
        labels.setdefault(dimension, []).extend(_read_ratings(record, column))
        # A row in the line format states its scales.
        scale = list(stated_scale or ()) or lookup(record, f"scales.{column}")
        earlier = scales.get(dimension)
        if scale and earlier and earlier != scale:
            raise RecordError(column, f"one scale of {dimension} ({earlier})", scale)
        scales[dimension] = scale or earlier
    # A missing rating keeps its place, which is its annotator's in other rows.
    for name in [*labels]:
        if {*labels[name]} == {None}:
            del labels[name]
            del scales[name]
    if not labels:
        return {}
    rated: Fields = {"labels": labels, "scales": scales}
    annotators = _annotator_names(record, columns, max(map(len, labels.values())))
    if annotators:
        rated["annotators"] = annotators
    return rated


def _read_ratings(record: Record, column: str) -> list[Rating]:
    """Returns the ratings in ``column`` of ``record``, one for each annotator. A missing rating
    is None.

    In files of the annotation tool Argilla, ratings that were not submitted count as missing.
    """
    cell = lookup(record, column, lookup(record, f"labels.{column}"))
    if isinstance(cell, str):
        cell = cell.split(";")
    if not isinstance(cell, list):
        cell = [cell]
    states = lookup(record, f"{column}.status")
    if not isinstance(states, list) or len(states) != len(cell):
        states = ["submitted"] * len(cell)
    ratings: list[Rating] = []
    for value, state in zip(cell, states, strict=True):
        if value is None or state != "submitted":
            ratings.append(None)
        else:
            ratings.append(_parse_rating(column, value))
    return ratings


def _parse_rating(column: str, value: object) -> Rating:
    """Returns the number in ``value``, a cell of ``column``: 1 for ``yes`` or 👍, and None for a
    word such as NA. Raises RecordError for any other text."""
    expected = "a number, or several with ; between"
    word = parse_text(column, number_as_text(value), expected).strip().lower()
    if word in _NO_RATING:
        return None
    if word in _FLAGS:
        return _FLAGS[word]
    try:
        rating = float(word.replace(",", "."))
    except ValueError as error:
        raise RecordError(column, expected, word) from error
    return parse_number(column, rating, expected)


def _annotator_names(record: Record, columns: ColumnMap, count: int) -> list[str]:
    """Returns the names of the annotators in ``record``, in the order of their ratings. An empty
    list means that they are unknown.

    Args:
        columns: The user's map, which may name the column of annotators.
        count: Number of ratings of a dimension. There must be as many names.

    Raises:
        RecordError: The user named a column of annotators, and it does not have ``count`` names.
    """
    names = number_as_text(columns.value(record, "annotator"))
    if isinstance(names, str):
        names = names.split(";")
    if isinstance(names, list) and len(names) == count:
        return [str(name).strip() for name in names]
    if "annotator" in columns.fields:
        expected = f"names of {count} annotators, with ; between"
        raise RecordError(columns.fields["annotator"], expected, names)
    return []
