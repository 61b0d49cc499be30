"""Checked fields of a JSON object: each function returns the value or raises RecordError."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from medal_judges.errors import RecordError

VALID_TEXT = "text of valid Unicode (no half of a surrogate pair)"


def number(field: str, value: object, expected: str = "a finite number") -> float:
    """``value`` as a float. True and false are no numbers; NaN, infinity and integers too large for
    a float are refused."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RecordError(field, expected, value)
    try:
        converted = float(value)
    except OverflowError as error:
        raise RecordError(field, f"{expected} below 1e308", value) from error
    if not math.isfinite(converted):
        raise RecordError(field, expected, value)
    return converted


def whole_number(field: str, value: object, expected: str = "a whole number from 0") -> int:
    """``value`` as an int of at least 0; 3.0 and true are refused."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise RecordError(field, expected, value)
    return value


def text(field: str, value: object, expected: str = "a text") -> str:
    """``value`` as text that can be written as UTF-8; may be empty."""
    if not isinstance(value, str):
        raise RecordError(field, expected, value)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise RecordError(field, VALID_TEXT, value) from error
    return value


def optional_text(record: Mapping[str, object], key: str) -> str | None:
    """The text under ``key``, None where it is absent or null."""
    value = record.get(key)
    return None if value is None else text(key, value, "a text or null")


def mapping(
    record: Mapping[str, object], key: str, expected: str = "an object or null"
) -> dict[str, Any]:
    """The object under ``key``, empty where it is absent or null."""
    value = record.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RecordError(key, expected, value)
    return value


def numbers(
    field: str, values: object, expected: str = "a list of finite numbers"
) -> tuple[float, ...]:
    """``values`` as floats."""
    if not isinstance(values, list):
        raise RecordError(field, expected, values)
    return tuple(number(field, value, expected) for value in values)


def require_valid_text(value: object, field: str = "") -> None:
    """Raise RecordError, with the field's path, for a lone surrogate anywhere in ``value``.

    JSON may hold one as an escape; it loads, but neither UTF-8 nor a tokenizer can take it.
    """
    if isinstance(value, str):
        text(field, value)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            name = ascii(key)[1:-1]  # a key can be the broken text itself
            text(f"{field}.{name}".lstrip("."), key)
            require_valid_text(inner, f"{field}.{name}".lstrip("."))
    elif isinstance(value, Sequence):
        for index, inner in enumerate(value):
            require_valid_text(inner, f"{field}[{index}]")
