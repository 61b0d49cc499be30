"""Checked fields of a JSON object: each function returns the value or raises RecordError."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, partial
from types import NoneType
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from medal_judges.errors import RecordError

T = TypeVar("T")
Reader = Callable[..., Any]  # (name of the field, value) -> the value, checked

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


def flag(field: str, value: object, expected: str = "true or false") -> bool:
    """``value`` as true or false."""
    if not isinstance(value, bool):
        raise RecordError(field, expected, value)
    return value


def parse_record(kind: type[T], place: str, record: object, **given: object) -> T:
    """``record``, a JSON object at ``place``, as the dataclass ``kind``: each field by its type.

    A field that is absent or null keeps its default; ``given`` fields are not read. Raises
    RecordError that names the field, also for one that ``kind`` does not have.
    """
    readers: Mapping[str, tuple[Reader, bool]] = _readers(cast(Hashable, kind))
    if not isinstance(record, Mapping):
        raise RecordError(place, f"an object with {', '.join(readers)}", record)
    if unknown := [name for name in record if name not in readers]:
        expected = f"one of {', '.join(readers)}"
        raise RecordError(f"{place}.{unknown[0]}", expected, record[unknown[0]])
    for name, (read, required) in readers.items():
        value = record.get(name)
        if name not in given and (required or value is not None):
            given[name] = read(f"{place}.{name}" if place else name, value)
    return kind(**given)


@cache
def _readers(kind: Any) -> dict[str, tuple[Reader, bool]]:
    """(how it is read, whether it has no default) of each field."""
    hints = get_type_hints(kind)
    return {f.name: (_reader(hints[f.name]), f.default is f.default_factory) for f in fields(kind)}


@cache
def _reader(hint: Any) -> Reader:
    """How a value of the type ``hint`` is read: a number, text, flag, Literal, tuple, mapping,
    dataclass, one of these or None, or anything (Any)."""
    inner = get_args(hint)
    if NoneType in inner:
        (other,) = (each for each in inner if each is not NoneType)
        read = partial(_SIMPLE[other], expected=_OR_NULL[other])
        return lambda field, value: None if value is None else read(field, value)
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    if isinstance(hint, type) and is_dataclass(hint):
        return partial(parse_record, hint)
    if get_origin(hint) is Literal:
        return partial(_choice, inner)
    each = _each_value if get_origin(hint) in (Mapping, dict) else _each
    return partial(each, _reader(inner[1] if each is _each_value else inner[0]))


def _choice(known: tuple[str, ...], field: str, value: object) -> object:
    if value not in known:
        raise RecordError(field, f"one of {', '.join(map(repr, known))}", value)
    return value


def _each(read: Reader, field: str, value: object) -> tuple[object, ...]:
    if not isinstance(value, list):
        raise RecordError(field, "a list", value)
    return tuple([read(field, each) for each in value])


def _each_value(read: Reader, field: str, value: object) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise RecordError(field, "an object or null", value)
    return {key: read(f"{field}.{key}", each) for key, each in value.items()}


def _as_it_is(field: str, value: object) -> object:
    return value


_SIMPLE: dict[Any, Reader] = {
    float: number,
    int: whole_number,
    str: text,
    bool: flag,
    Any: _as_it_is,
}
_OR_NULL = {
    float: "a number or null",
    int: "a whole number from 0 or null",
    str: "a text or null",
    bool: "true, false or null",
}


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
