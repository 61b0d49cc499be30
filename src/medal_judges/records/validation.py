"""Checks JSON values with pydantic. Every error is a RecordError that names the field."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache
from typing import Annotated, Any, TypeVar, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
)

from medal_judges.errors import RecordError

T = TypeVar("T")
VALID_TEXT = "text of valid Unicode (no half of a surrogate pair)"
FINITE = "a finite number below 1e308"


def _small(value: object) -> object:
    """Refuses an integer that no float can hold."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**308:
        raise ValueError(f"expected {FINITE}")
    return value


# Types of the fields of dataclasses that `parse` reads. Without them pydantic would take "3" and
# true for numbers.
Number = Annotated[float, Field(strict=True, allow_inf_nan=False), BeforeValidator(_small)]
Count = Annotated[int, Field(strict=True, ge=0)]
Flag = Annotated[bool, Field(strict=True)]
Numbers = Annotated[Sequence[Number], AfterValidator(tuple)]
# What was expected, for the kinds of errors that pydantic describes in its own words.
_EXPECTED = {
    "float_type": "a finite number",
    "finite_number": "a finite number",
    "int_type": "a whole number from 0",
    "greater_than_equal": "a whole number from 0",
    "bool_type": "true or false",
    "string_type": "a text",
    "string_unicode": VALID_TEXT,
    "list_type": "a list",
    "tuple_type": "a list",
    "sequence_str": "a list",
    "is_instance_of": "a list",
    "dict_type": "an object",
    "mapping_type": "an object",
    "dataclass_type": "an object",
    "too_short": "a non-empty list",
    "missing": "a value",
}


def parse(kind: type[T], record: object, place: str = "") -> T:
    """Returns ``record``, a JSON object at ``place``, as the dataclass ``kind``.

    A field that is absent or null gets its default. Raises RecordError that names the field, also
    for an unknown field.
    """
    names = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    if not isinstance(record, Mapping):
        raise RecordError(place or "(line)", f"an object with {', '.join(names)}", record)
    adapter, required = _adapter(cast(Hashable, kind))
    given = {k: v for k, v in record.items() if v is not None or k in required}
    try:
        found: T = adapter.validate_python([given])[0]
        return found
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
    path, loc, got = place, problem["loc"][1:], problem["input"]
    for part in loc:
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    expected = _EXPECTED.get(problem["type"], problem["msg"])
    if problem["type"] == "missing":
        got = None
    elif problem["type"] == "unexpected_keyword_argument":
        expected = f"one of {', '.join(names)}" if len(loc) == 1 else "no such field"
    for start in ("Value error, ", "Input should be ", "expected "):
        expected = expected.removeprefix(start)
    raise RecordError(path.lstrip("."), expected, got)


@cache
def _adapter(kind: Any) -> tuple[TypeAdapter[Any], frozenset[str]]:
    """Returns what reads ``kind`` and the names of its fields without a default."""
    required = frozenset(
        each.name
        for each in fields(kind)
        if each.default is MISSING and each.default_factory is MISSING
    )
    # A list, because pydantic takes no config beside a dataclass. With a maximum length it refuses
    # lone surrogates.
    config = ConfigDict(extra="forbid", str_max_length=1 << 40)
    return TypeAdapter(list[kind], config=config), required


def number(field: str, value: object, expected: str = "a finite number") -> float:
    """Returns ``value`` as a float; refuses true, false, NaN, infinity and larger integers."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RecordError(field, expected, value)
    try:
        converted = float(value)
    except OverflowError as error:
        raise RecordError(field, f"{expected} below 1e308", value) from error
    if not math.isfinite(converted):
        raise RecordError(field, expected, value)
    return converted


def text(field: str, value: object, expected: str = "a text") -> str:
    """Returns ``value`` if it is text that UTF-8 can hold; it may be empty."""
    if not isinstance(value, str):
        raise RecordError(field, expected, value)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise RecordError(field, VALID_TEXT, value) from error
    return value


def optional_text(record: Mapping[str, object], key: str) -> str | None:
    """Returns the text under ``key``, None if it is absent or null."""
    value = record.get(key)
    return None if value is None else text(key, value, "a text or null")


def mapping(
    record: Mapping[str, object], key: str, expected: str = "an object or null"
) -> dict[str, Any]:
    """Returns the object under ``key``, an empty one if it is absent or null."""
    value = record.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RecordError(key, expected, value)
    return value


def require_valid_text(value: object, field: str = "") -> None:
    """Raises RecordError with the field's path for a lone surrogate anywhere in ``value``.

    JSON can hold one as an escape, but neither UTF-8 nor a tokenizer can.
    """
    if isinstance(value, str):
        text(field, value)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            name = f"{field}.{ascii(key)[1:-1]}".lstrip(".")  # the key itself can be broken
            text(name, key)
            require_valid_text(inner, name)
    elif isinstance(value, Sequence):
        for index, inner in enumerate(value):
            require_valid_text(inner, f"{field}[{index}]")
