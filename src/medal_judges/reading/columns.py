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
    Counts,
    Fields,
    Record,
    find_key,
    plain_name,
)
from medal_judges.records.dialogue import Role
from medal_judges.records.labelled import Scale
from medal_judges.records.validation import as_text, number, text
from medal_judges.storage.jsonl import load_json

MISSING = object()
_SPEAKERS = (*get_args(Role), "system", "tool")
# What a column map can map. ``chatbot`` and ``user`` are names of models.
_FIELDS = (*NAMES, "user", "source", "split", "group")
_LABEL = re.compile(r"([^:@]+)(?::(-?\d+(?:\.\d+)?)\.\.(-?\d+(?:\.\d+)?))?(?:@(.+))?\Z")
_SHOWN = 40  # columns in a message
_SHORT = 20  # characters of a text that is no turn: a state, a category
# Ids, hashes, addresses and times.
_NO_PROSE = re.compile(r"[!-~]*|\d{4}-\d\d-\d\d \d\d:[\d:.,]+ ?[+\-:\w]*")
# A field whose name has such a word holds metadata, which a judge does not read.
_METADATA = re.compile(
    r"(?:.*_)?(?:annotators?|author|comments?|country|date|email|evidence|feedback|headers?|heading"
    r"|ids?|labels?|metadata|name|notes?|rationale|region|state|subject"
    r"|summary|tags?|time|timestamp|title|url|user_agent)(?:_.*)?"
)
_PYTHON_LIST = re.compile(r"\s*[\[{][\s\[{]*'")
# What spreadsheets, pandas, R and people write if there is no rating.
_NO_RATING = re.compile(
    r"#?n/?a|n\.a\.|<na>|nan|none|null|nil|missing|-{1,2}|[–—?]|\.{1,2}", re.I
)
_FLAGS = dict.fromkeys(
    ["true", "yes", "good", "up", "thumbs_up", "thumbsup", "like", "👍"], 1.0
)
_FLAGS |= dict.fromkeys(
    ["false", "no", "bad", "down", "thumbs_down", "thumbsdown", "dislike", "👎"], 0.0
)
# Tones of skin and the mark of a coloured emoji; words of a rating are joined in several ways.
_TONES = re.compile("[\U0001f3fb-\U0001f3ff\ufe0f:]|(?<=thumbs)[ -]")
Rating = float | None  # None: the annotator gave none


class LabelColumn(NamedTuple):
    """What a column of ratings holds; ``scale`` and ``annotator`` are None if not stated."""

    dimension: str
    scale: Scale | None
    annotator: str | None


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """Maps columns of a user's file to fields, roles and labels.

    ``fields``: one of _FIELDS -> column, or a dotted path to a nested value (``meta.user.id``).
    ``roles``: a speaker's name in lower case -> role. ``labels``: column of ratings -> what it
    holds. Several columns of one dimension are several annotators.
    """

    fields: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, LabelColumn] = field(default_factory=dict)

    def column(self, record: Record, name: str) -> str:
        """Returns the column of the field ``name``: the mapped one, or one with a name of the
        field. Returns the empty text if the record has none."""
        column = self.fields.get(name)
        if column is None and name in NAMES:
            column = find_key(record, name)
        return column or ""

    def value(self, record: Record, name: str) -> Any:
        """Returns the value in the column of the field ``name``; None if there is no column."""
        return lookup(record, self.column(record, name))


def lookup(record: object, path: str, missing: Any = None) -> Any:
    """Returns the value at ``path``: a key (which may contain dots), or a dotted path of keys and
    list indices. Cells of JSON text along the path are parsed."""
    if isinstance(record, str):
        record = json_in(record)
    if isinstance(record, list):
        record = {str(index): value for index, value in enumerate(record)}
    if not isinstance(record, Mapping):
        return missing
    if path in record:
        return record[path]
    for end, letter in enumerate(path):
        if letter == "." and path[:end] in record:
            return lookup(record[path[:end]], path[end + 1 :], missing)
    return missing


def json_in(cell: Any) -> Any:
    """Returns the JSON object or list of a text, and any other value unchanged."""
    try:
        return parsed_cell(cell)
    except RecordError:
        return cell  # a text that begins with a bracket


def parsed_cell(cell: Any, field: str = "(cell)") -> Any:
    """Returns the JSON value of a text that begins with a bracket, and any other value unchanged.

    Raises RecordError, which names ``field``, for text that is not JSON.
    """
    if not isinstance(cell, str) or cell.lstrip()[:1] not in ("[", "{"):
        return cell
    try:
        return load_json(cell, nan_is_null=True)
    except RecordError as error:
        expected = error.expected
        if _PYTHON_LIST.match(cell):
            expected = "JSON, not Python's text of a list: export it with json.dumps"
        raise RecordError(field, expected, cell) from error
    except RecursionError as error:
        raise RecordError(field, "JSON that is not nested too deep", cell) from error


def has_prose(name: str, value: object) -> bool:
    """Says whether a field, or a field within it, holds a text longer than 20 characters.

    Ids, times and metadata do not count.
    """
    if _METADATA.fullmatch(plain_name(name)):
        return False
    value = json_in(value)
    if isinstance(value, Mapping):
        return any(has_prose(str(key), field) for key, field in value.items())
    if isinstance(value, list):
        return any(has_prose(name, item) for item in value)
    text = ""
    if isinstance(value, str):
        text = value.strip()
    return len(text) > _SHORT and _NO_PROSE.fullmatch(text) is None


@dataclass
class ColumnCheck:
    """Looks for the columns of a map in the rows of a file.

    A table shows in its first row that a column is missing. JSON leaves out empty fields, so there
    it shows at the end.
    """

    columns: ColumnMap
    path: str
    is_table: bool
    names: dict[str, None] = field(default_factory=dict)  # columns of the file

    def __post_init__(self) -> None:
        self.unseen = {*self.columns.fields.values(), *self.columns.labels}
        # A speaker and a text can stand inside of messages, which are empty in some rows.
        self.inside = {self.columns.fields.get(name) for name in ("role", "content")}

    def add(self, record: Record) -> None:
        """Looks in a row. Raises ConfigError if it shows that a column is missing."""
        self.names |= dict.fromkeys(map(str, record))
        holders = [record, record.get("labels")]
        messages = json_in(self.columns.value(record, "messages"))
        if isinstance(messages, list):
            holders += messages
        for column in [*self.unseen]:
            if any(
                lookup(holder, column, MISSING) is not MISSING for holder in holders
            ):
                self.unseen.remove(column)
        if self.is_table and self.unseen - self.inside:
            self.finish()

    def finish(self) -> None:
        """Raises ConfigError if a column is in no row."""
        if self.unseen and self.names:
            column = min(self.unseen)
            names = ", ".join([*self.names][:_SHOWN])
            hint = f"{did_you_mean(column, self.names)}columns in the file: {names}"
            raise ConfigError(f"{self.path}: no column {column!r}", hint=hint)


# -- what a user states ----------------------------------------------------------------------------


def make_column_map(
    columns: Record,
    column: Iterable[str] = (),
    label: Iterable[str] = (),
    role: Iterable[str] = (),
) -> ColumnMap:
    """Returns the map of ``columns``, which can contain ``roles`` and ``labels``.

    The texts replace single entries: columns such as ``id=conversation_id``, labels
    such as ``Qualität=overall:1..7``, roles such as ``Kunde=user``. Raises ConfigError."""
    fields = dict(columns)
    roles, labels = fields.pop("roles", None) or {}, fields.pop("labels", None) or {}
    if not (isinstance(roles, dict) and isinstance(labels, dict)):
        raise ConfigError(
            "column map: roles and labels are mappings such as Kunde: user"
        )
    for pair in column:
        name, _, value = pair.partition("=")
        fields[name.strip()] = value.strip()
    # The name of a speaker or of a column of ratings may contain an equals sign.
    for pair in role:
        name, _, value = pair.rpartition("=")
        roles = roles | {name.strip(): value.strip()}
    for pair in label:
        name, _, value = pair.rpartition("=")
        labels = labels | {name.strip(): value.strip()}
    _require_known(fields, roles)
    roles = {str(word).lower(): value for word, value in roles.items()}
    return ColumnMap(fields, roles, _label_columns(labels))


def _require_known(fields: Record, roles: Record) -> None:
    """Raises ConfigError for an unknown field or role, and for one without a value."""
    for name, value in fields.items():
        if name not in _FIELDS:
            hint = f"{did_you_mean(str(name), _FIELDS)}fields: {', '.join(_FIELDS)}"
            raise ConfigError(f"column map: no field {name!r}", hint=hint)
        if not isinstance(value, str) or not value:
            problem = f"column map: {name!r} needs the name of a column, not {value!r}"
            raise ConfigError(problem, hint=f"--column {name}=COLUMN")
    for word, value in roles.items():
        if value not in _SPEAKERS or not word:
            problem = f"role {word!r}: {value!r} is none of {', '.join(_SPEAKERS)}"
            raise ConfigError(problem, hint="--role Kunde=user (in YAML: Kunde: user)")


def _label_columns(labels: Mapping[object, object]) -> dict[str, LabelColumn]:
    rated: dict[str, LabelColumn] = {}
    for name, target in labels.items():
        match = _LABEL.match(str(target).strip())
        if match is None or not name:
            problem = f"{target!r} is not of the form DIMENSION[:LOW..HIGH][@ANNOTATOR]"
            option = quote(f"{name or 'COLUMN'}=overall:1..5")
            hint = f"--label {option} (in YAML: {name}: overall:1..5)"
            raise ConfigError(f"label {name!r}: {problem}", hint=hint)
        dimension, low, high, annotator = match.groups()
        scale = None
        if low is not None:
            scale = float(low), float(high)
            if not scale[0] < scale[1]:
                raise ConfigError(f"label {name!r}: {low} is not below {high}")
        rated[str(name)] = LabelColumn(dimension.strip(), scale, annotator)
    named = [label for label in rated.values() if label.annotator]
    people = {(label.annotator, label.dimension) for label in named}
    if named and len(rated) != len(people):
        problem = (
            "labels: @ANNOTATOR is on all columns or on none, once for each dimension"
        )
        hint = "--label R1=overall:1..5@R1 --label R2=overall:1..5@R2 (in YAML: R1: overall...)"
        raise ConfigError(problem, hint=hint)
    return rated


# -- ratings ---------------------------------------------------------------------------------------


def labels_of(record: Record, columns: ColumnMap, folded: Counts) -> Fields:
    """Returns labels (dimension -> ratings), scales and annotators of the label columns, as in the
    line format.

    A cell holds a number, a list, or text with ; between numbers. An empty cell, or a word such as
    NA, is no rating, and ``folded`` counts it. Raises RecordError.
    """
    labels: dict[str, list[Rating]] = {}
    scales: Fields = {}
    names = [label.annotator for label in columns.labels.values() if label.annotator]
    annotators: list[Any] = list(dict.fromkeys(names))
    for column, (dimension, stated_scale, annotator) in columns.labels.items():
        ratings = _ratings(record, column, folded)
        if annotator:
            if len(ratings) != 1:
                expected = "one rating: the column is of one annotator"
                raise RecordError(column, expected, ratings)
            by_annotator = labels.setdefault(dimension, [None] * len(annotators))
            by_annotator[annotators.index(annotator)] = ratings[0]
        else:
            labels.setdefault(dimension, []).extend(ratings)
        # A row in the line format states its scales.
        scale = list(stated_scale or ()) or lookup(record, f"scales.{column}")
        scales[dimension] = _only_scale(column, dimension, scale, scales.get(dimension))
    # A missing rating keeps its place, which is its annotator's in other rows.
    for name in [*labels]:
        if {*labels[name]} == {None}:
            del labels[name]
            del scales[name]
    rated: Fields = {"labels": labels, "scales": scales}
    if labels and not annotators:
        annotators = _annotators(record, columns, max(map(len, labels.values())))
    if labels and annotators:
        rated["annotators"] = [str(name).strip() for name in annotators]
    return rated


def _only_scale(column: str, dimension: str, scale: object, earlier: object) -> object:
    """Returns the scale of a dimension, which several columns may state. Raises RecordError if they
    differ."""
    if scale and earlier and earlier != scale:
        raise RecordError(column, f"one scale of {dimension} ({earlier})", scale)
    return scale or earlier


def _ratings(record: Record, column: str, folded: Counts) -> list[Rating]:
    """Returns the ratings in a column. Argilla's responses that are not submitted are missing; a
    second column has their states."""
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
        if isinstance(value, Mapping) and "value" in value:
            value, state = value["value"], value.get("status", state)
        if state != "submitted":
            folded[f"{state} ratings"] += 1
            value = None
        ratings.append(_rating(column, value, folded))
    return ratings


def _rating(column: str, value: object, folded: Counts) -> Rating:
    expected = "a number, or several with ; between"
    word = ""
    if value is not None:
        word = text(column, as_text(value), expected).strip()
    if not word:
        return None
    if _NO_RATING.fullmatch(word):
        folded[f"missing ratings ({word})"] += 1
        return None
    rating = _FLAGS.get(_TONES.sub("", word.lower()))
    if rating is None:
        try:
            rating = float(word.replace(",", "."))
        except ValueError as error:
            raise RecordError(column, expected, word) from error
    return number(column, rating, expected)


def _annotators(record: Record, columns: ColumnMap, count: int) -> list[Any]:
    """Returns the names of a row's ``count`` annotators, if the row states that many.

    Raises RecordError if the annotator column that the user named has another number of them.
    """
    names = as_text(columns.value(record, "annotator"))
    if isinstance(names, str):
        names = names.split(";")
    if isinstance(names, list) and len(names) == count:
        return names
    if "annotator" in columns.fields:
        expected = f"names of {count} annotators, with ; between"
        raise RecordError(columns.fields["annotator"], expected, names)
    return []
