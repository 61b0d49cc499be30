"""Human ratings in columns of a user's file."""

from __future__ import annotations

import re
from typing import Any

from medal_judges.errors import ConfigError, RecordError
from medal_judges.reading.columns import ColumnMap, lookup
from medal_judges.reading.names import Counts, Fields, Record
from medal_judges.records.labelled import Scale
from medal_judges.records.validation import as_text, number, text

_ANNOTATORS = ("annotator", "annotator_id", "rater", "rater_id", "worker", "worker_id")
# What spreadsheets, pandas, R and people write if there is no rating.
_NO_RATING = re.compile(r"#?n/?a|n\.a\.|<na>|nan|none|null|nil|missing|-{1,2}|[–—?]|\.{1,2}", re.I)
_FLAGS = {"true": 1.0, "false": 0.0}
Rating = float | None  # None: the annotator gave none


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
                raise RecordError(column, "one rating: the column is of one annotator", cell)
            place = annotators.index(columns.raters[column])
            by_annotator = labels.pop(dimension, [None] * len(annotators))
            by_annotator[place : place + 1] = ratings
            ratings = by_annotator
        labels.setdefault(dimension, []).extend(ratings)
        # A row in the line format states its scales.
        scale = list(stated_scale) if stated_scale else lookup(record, f"scales.{column}")
        earlier = scales.get(dimension)
        if None not in (earlier, scale) and earlier != scale:
            raise RecordError(column, f"one scale of {dimension} ({earlier})", scale)
        scales[dimension] = scale or earlier
    # A missing rating keeps its place, which is that of its annotator in other rows.
    labels = {name: ratings for name, ratings in labels.items() if {*ratings} != {None}}
    if not labels:
        return {"labels": {}, "scales": {}}
    rated: Fields = {"labels": labels, "scales": {name: scales[name] for name in labels}}
    annotators = annotators or _annotators(record, columns, max(map(len, labels.values())))
    if annotators:
        rated["annotators"] = [str(name).strip() for name in annotators]
    return rated


def _ratings(column: str, cell: object, folded: Counts) -> list[Rating]:
    """Returns the ratings in a cell; ``folded`` counts what stands for a missing one. Raises
    RecordError."""
    values = cell.split(";") if isinstance(cell, str) else cell
    if not isinstance(values, list):
        values = [cell]
    return [_rating(column, value, folded) for value in values]


def _rating(column: str, value: object, folded: Counts) -> Rating:
    expected = "a number, or several with ; between"
    word = text(column, as_text("" if value is None else value), expected).strip()
    if not word:
        return None
    if _NO_RATING.fullmatch(word):
        folded[f"missing ratings ({word})"] += 1
        return None
    try:
        rating = float(_FLAGS.get(word.lower(), word.replace(",", ".")))
    except ValueError as error:
        raise RecordError(column, expected, word) from error
    return number(column, rating, expected)


def _require_on_scale(column: str, dimension: str, ratings: list[Rating], scale: Scale) -> None:
    low, high = scale
    for rating in ratings:
        if rating is None or low <= rating <= high:
            continue
        wider = f"{min(low, rating):g}..{max(high, rating):g}"
        raise ConfigError(
            f"column {column!r}: {rating:g} is outside of its scale, {low:g} to {high:g}",
            hint=f"--label {column}={dimension}:{wider} if the scale is wrong; else correct "
            "the cell",
        )


def _annotators(record: Record, columns: ColumnMap, count: int) -> list[Any]:
    """Returns the names of a row's ``count`` annotators, if it states as many. Raises RecordError
    if the user's own column has another number of them."""
    column = columns.column(record, "annotator", _ANNOTATORS)
    cell = as_text(lookup(record, column))
    names: Any = cell.split(";") if isinstance(cell, str) else cell or ()
    if len(names) == count:
        return list(names)
    if "annotator" in columns.fields:
        raise RecordError(column, f"names of {count} annotators, with ; between", cell)
    return []
