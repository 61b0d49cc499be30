"""Columns of a user's file: values in them, by name or path, and the map from fields to columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

from medal_judges.config import parse_yaml
from medal_judges.errors import ConfigError, RecordError, did_you_mean
from medal_judges.reading.names import (
    KEYS,
    Counts,
    Fields,
    Names,
    Record,
    find_key,
    words,
)
from medal_judges.records.labelled import Scale
from medal_judges.records.validation import as_text, number, text
from medal_judges.storage.jsonl import load_json

MISSING = object()
_SPEAKERS = ("user", "assistant", "system", "tool")
# What a column map can map. ``chatbot`` and ``user`` are names of models; ``order`` and ``time``
# order the turns if a row is a turn; ``annotator`` is the person whose ratings the row has; the
# others are fields of the line format.
_FIELDS = (
    *(
        "id",
        "messages",
        "role",
        "content",
        "time",
        "order",
        "prompt",
        "response",
        "system",
    ),
    *("lang", "chatbot", "user", "source", "split", "group", "annotator"),
)
_LABEL = re.compile(
    r"([^:@]+?)(?::(-?\d+(?:\.\d+)?)\.\.(-?\d+(?:\.\d+)?))?(?:@(.+))?\Z"
)
_SHOWN = 40  # columns in a message
_ROWS_WITHOUT_A_COLUMN = 1000  # JSON leaves out empty fields

_ANNOTATORS = ("annotator", "annotator_id", "rater", "rater_id", "worker", "worker_id")
# What spreadsheets, pandas, R and people write if there is no rating.
_NO_RATING = re.compile(
    r"#?n/?a|n\.a\.|<na>|nan|none|null|nil|missing|-{1,2}|[–—?]|\.{1,2}", re.I
)
_FLAGS = dict.fromkeys(words("true yes good up thumbs_up thumbsup like 👍"), 1.0)
_FLAGS |= dict.fromkeys(
    words("false no bad down thumbs_down thumbsdown dislike 👎"), 0.0
)
# Tones of skin and the mark of a coloured emoji; words of a rating are joined in several ways.
_TONES = re.compile("[\U0001f3fb-\U0001f3ff\ufe0f:]|(?<=thumbs)[ -]")
Rating = float | None  # None: the annotator gave none


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
        if column:
            return lookup(record, column)
        return None


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
        raise RecordError(
            "(cell)", "JSON that is not nested too deep", value
        ) from error


def json_or_text(value: Any) -> Any:
    """Returns the JSON object or list of a text, and any other value unchanged."""
    with suppress(RecordError):
        return parsed_cell(value, "{", "[")
    return value  # a text that begins with a bracket


def checked_columns(
    columns: ColumnMap, path: str, rows: Iterator[tuple[int, object]], *, table: bool
) -> Iterator[tuple[int, object]]:
    """Yields ``rows``, and raises ConfigError if a column of the map is in no row.

    A table shows this in its first row. JSON leaves out empty fields, so there it shows only after
    many rows or at the end.
    """
    unseen = {*columns.fields.values(), *columns.labels}
    if "messages" in columns.fields or not {"role", "content"} <= columns.fields.keys():
        # A speaker and a text stand inside of the messages.
        unseen -= {columns.fields.get(name) for name in ("role", "content")}
    names: dict[str, None] = {}
    count = 0
    for count, (row_number, record) in enumerate(rows, 1):
        if unseen and isinstance(record, Mapping):
            names |= dict.fromkeys(map(str, record))
            for column in [*unseen]:
                # in the line format
                label = lookup(record, f"labels.{column}", MISSING)
                if lookup(record, column, label) is not MISSING:
                    unseen.remove(column)
            if table or count >= _ROWS_WITHOUT_A_COLUMN:
                _require_none(unseen, path, names)
        yield row_number, record
    if count:
        _require_none(unseen, path, names)


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
        raise ConfigError(
            "column map: roles and labels are mappings such as Kunde: user"
        )
    fields |= _pairs("--column", column, "id=conversation_id")
    roles = roles | _pairs("--role", role, "Kunde=user")
    labels = labels | _pairs("--label", label, "Quality=overall:1..5")
    for name, value in fields.items():
        if name not in _FIELDS:
            hint = f"{did_you_mean(str(name), _FIELDS)}fields: {', '.join(_FIELDS)}"
            raise ConfigError(f"column map: no field {name!r}", hint=hint)
        if not isinstance(value, str) or not value:
            raise ConfigError(
                f"column map: {name!r} needs the name of a column, not {value!r}"
            )
    for word, value in roles.items():
        if value not in _SPEAKERS:
            problem = f"role {word!r}: {value!r} is none of {', '.join(_SPEAKERS)}"
            option = quote(f"{word}=user")
            raise ConfigError(problem, hint=f"--role {option} (in YAML: {word}: user)")
    roles = {str(word): value for word, value in roles.items()}
    return ColumnMap(fields, roles, *_rated_columns(labels))


def _stated_map(columns: Record | str | Path) -> Fields:
    if isinstance(columns, str | Path):
        try:
            yaml = Path(columns).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"the column map {columns} cannot be read: {error}"
            ) from error
        columns = parse_yaml(yaml, f"column map {columns}")
    if not isinstance(columns, Mapping):
        raise ConfigError(
            f"column map: expected a mapping such as id: ticket, not {columns!r}"
        )
    return dict(columns)


def _pairs(option: str, texts: Iterable[str], example: str) -> dict[str, str]:
    """Returns name -> value of texts such as ``id=ticket``.

    ``=`` may be a part of the name of a speaker or of a column, whether of ratings or of a field.
    """
    pairs = {}
    for pair in texts:
        if option == "--column":
            name, _, value = pair.partition("=")
        else:
            name, _, value = pair.rpartition("=")
        if not (name.strip() and value.strip()):
            raise ConfigError(f"{option} {pair!r}: not of the form {example}")
        pairs[name.strip()] = value.strip()
    return pairs


def _rated_columns(
    labels: Mapping[object, object],
) -> tuple[dict[str, tuple[str, Scale | None]], dict[str, str]]:
    """Returns column -> (dimension, scale), and column -> annotator."""
    rated: dict[str, tuple[str, Scale | None]] = {}
    raters: dict[str, str] = {}
    for name, target in labels.items():
        match = None
        if isinstance(target, str):
            match = _LABEL.match(target.strip())
        if match is None:
            problem = f"{target!r} is not of the form DIMENSION[:LOW..HIGH][@ANNOTATOR]"
            option = quote(f"{name}=overall:1..5")
            hint = f"--label {option} (in YAML: {name}: overall:1..5)"
            raise ConfigError(f"label {name!r}: {problem}", hint=hint)
        dimension, low, high, annotator = match.groups()
        scale = None
        if low is not None:
            scale = float(low), float(high)
            if not scale[0] < scale[1]:
                raise ConfigError(
                    f"label {name!r}: {scale[0]:g} is not below {scale[1]:g}"
                )
        rated[str(name)] = dimension.strip(), scale
        if annotator:
            raters[str(name)] = annotator.strip()
    people = {(annotator, rated[column][0]) for column, annotator in raters.items()}
    if raters and not len(rated) == len(raters) == len(people):
        problem = (
            "labels: @ANNOTATOR is on all columns or on none, once for each dimension"
        )
        hint = "--label R1=overall:1..5@R1 --label R2=overall:1..5@R2 (in YAML: R1: overall...)"
        raise ConfigError(problem, hint=hint)
    return rated, raters


# -- ratings ---------------------------------------------------------------------------------------


def labels_of(record: Record, columns: ColumnMap, folded: Counts) -> Fields:
    """Returns labels (dimension -> ratings), scales and annotators of the label columns, as in the
    line format. A cell holds a number, a list, or text with ; between numbers; an empty cell, or a
    word such as NA, is no rating. Raises RecordError, and ConfigError for a rating outside of the
    stated scale."""
    labels: dict[str, list[Rating]] = {}
    scales: Fields = {}
    annotators: list[Any] = list(dict.fromkeys(columns.raters.values()))
    for column, (dimension, stated_scale) in columns.labels.items():
        cell = lookup(record, column, lookup(record, f"labels.{column}"))
        ratings = _ratings(column, cell, folded)
        if stated_scale is not None:
            _require_on_scale(column, dimension, ratings, stated_scale)
        if column in columns.raters:
            if len(ratings) != 1:
                raise RecordError(
                    column, "one rating: the column is of one annotator", cell
                )
            by_annotator = labels.pop(dimension, [None] * len(annotators))
            by_annotator[annotators.index(columns.raters[column])] = ratings[0]
            ratings = by_annotator
        labels.setdefault(dimension, []).extend(ratings)
        # A row in the line format states its scales.
        scale = list(stated_scale or ()) or lookup(record, f"scales.{column}")
        scales[dimension] = _only_scale(column, dimension, scale, scales.get(dimension))
    # A missing rating keeps its place, which is that of its annotator in other rows.
    labels = {name: ratings for name, ratings in labels.items() if {*ratings} != {None}}
    rated: Fields = {
        "labels": labels,
        "scales": {name: scales[name] for name in labels},
    }
    if labels and not annotators:
        annotators = _annotators(record, columns, max(map(len, labels.values())))
    if labels and annotators:
        rated["annotators"] = [str(name).strip() for name in annotators]
    return rated


def _only_scale(
    column: str, dimension: str, scale: object, earlier_scale: object
) -> object:
    """Returns the scale of a dimension, which several columns may state. Raises RecordError if they
    differ."""
    if scale and earlier_scale and earlier_scale != scale:
        raise RecordError(column, f"one scale of {dimension} ({earlier_scale})", scale)
    return scale or earlier_scale


def _ratings(column: str, cell: object, folded: Counts) -> list[Rating]:
    """Returns the ratings in a cell; ``folded`` counts what stands for a missing one. Raises
    RecordError."""
    if isinstance(cell, str):
        cell = cell.split(";")
    if isinstance(cell, list):
        values = cell
    else:
        values = [cell]
    return [_rating(column, value, folded) for value in values]


def _rating(column: str, value: object, folded: Counts) -> Rating:
    expected = "a number, or several with ; between"
    if value is None:
        return None
    word = text(column, as_text(value), expected).strip()
    if not word:
        return None
    if _NO_RATING.fullmatch(word):
        folded[f"missing ratings ({word})"] += 1
        return None
    try:
        flag = _FLAGS.get(_TONES.sub("", word.lower()))
        rating = float(word.replace(",", ".")) if flag is None else flag
    except ValueError as error:
        raise RecordError(column, expected, word) from error
    return number(column, rating, expected)


def _require_on_scale(
    column: str, dimension: str, ratings: list[Rating], scale: Scale
) -> None:
    low, high = scale
    for rating in ratings:
        if rating is not None and not low <= rating <= high:
            wider = f"{min(low, rating):g}..{max(high, rating):g}"
            option = quote(f"{column}={dimension}:{wider}")
            raise ConfigError(
                f"column {column!r}: {rating:g} is outside of its scale, {low:g} to {high:g}",
                hint=f"--label {option} if the scale is wrong (in YAML: "
                f"{column}: {dimension}:{wider}); else correct the cell",
            )


def _annotators(record: Record, columns: ColumnMap, count: int) -> list[Any]:
    """Returns the names of a row's ``count`` annotators, if the row states that many.

    Raises RecordError if the annotator column that the user named has another number of them.
    """
    column = columns.column(record, "annotator", _ANNOTATORS)
    cell = as_text(lookup(record, column))
    if isinstance(cell, str):
        names: Any = cell.split(";")
    else:
        names = cell or ()
    if len(names) == count:
        return list(names)
    if "annotator" in columns.fields:
        raise RecordError(column, f"names of {count} annotators, with ; between", cell)
    return []
