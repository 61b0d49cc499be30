"""Checks JSON values with pydantic. Every error is a RecordError that names the field."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache
from typing import Annotated, Any, TypeVar, cast

import pydantic
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StrictFloat,
    StrictInt,
    TypeAdapter,
)

from medal_judges.errors import RecordError

T = TypeVar("T")
_SURROGATE = re.compile("[\ud800-\udfff]")
VALID_TEXT = "text of valid Unicode (no half of a surrogate pair)"
LARGEST = 1e30  # sums and squares of smaller numbers are finite


def _require_finite(value: object) -> object:
    if isinstance(value, int | float) and not abs(value) < LARGEST:
        raise ValueError(f"expected a finite number below {LARGEST:g}")
    return value


# Types for the fields of dataclasses that `parse` reads. With plain float and int pydantic would
# read "3" and true as numbers.
Number = Annotated[float, Field(strict=True), BeforeValidator(_require_finite)]
End = Annotated[StrictInt | StrictFloat, BeforeValidator(_require_finite)]
Count = Annotated[int, Field(strict=True, ge=0)]
Flag = Annotated[bool, Field(strict=True)]
Numbers = Annotated[Sequence[Number], AfterValidator(tuple)]


def parse(kind: type[T], record: object, field: str = "") -> T:
    """Returns the JSON object ``record`` as an instance of the dataclass ``kind``, with validated
    fields.

    Absent and null fields get their defaults.

    Args:
        kind: A dataclass whose fields have types that pydantic can validate.
        field: Path of ``record`` within a larger object, such as ``messages[0]``. Errors name it.

    Raises:
        RecordError: A field is missing, malformed or unknown. The error names it.
    """
    adapter, names, required = _validator_and_fields(cast(Hashable, kind))
    if not isinstance(record, Mapping):
        raise RecordError(
            field or "(line)", f"an object with {', '.join(names)}", record
        )
    values = {k: v for k, v in record.items() if v is not None or k in required}
    try:
        parsed: T = adapter.validate_python([values])[0]
        return parsed
    except pydantic.ValidationError as error:
        problem = error.errors(include_url=False)[0]
    path = field
    for step in problem["loc"][1:]:
        path += f"[{step}]" if isinstance(step, int) else f".{step}"
    expected = problem["msg"]
    for start in ("Value error, ", "Input should be ", "expected "):
        expected = expected.removeprefix(start)
    raise RecordError(path.lstrip("."), expected, problem["input"])


@cache
def _validator_and_fields(kind: Any) -> tuple[TypeAdapter[Any], list[str], set[str]]:
    """Returns the validator of the dataclass ``kind``, the names of all its fields, and the names
    of its required fields."""
    names = []
    required = set()
    for field in fields(kind):
        names.append(field.name)
        if field.default is field.default_factory is MISSING:
            required.add(field.name)
    # A list, because pydantic takes no config beside a dataclass. With a maximum length it refuses
    # lone surrogates.
    config = pydantic.ConfigDict(extra="forbid", str_max_length=1 << 40)
    return TypeAdapter(list[kind], config=config), names, required


def parse_number(field: str, value: object, expected: str = "a finite number") -> float:
    """Returns ``value`` as a float.

    Args:
        field: What an error calls the value, such as ``turn``.
        expected: What an error says is expected.

    Raises:
        RecordError: ``value`` is no int or float, is NaN, or is not between -1e30 and 1e30.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RecordError(field, expected, value)
    if not abs(value) < LARGEST:
        raise RecordError(field, f"{expected} below {LARGEST:g}", value)
    return float(value)


def parse_text(field: str, value: object, expected: str = "a text") -> str:
    """Returns ``value`` if it is a text that UTF-8 can encode. The text may be empty.

    Args:
        field: What an error calls the value, such as ``content``.
        expected: What an error says is expected.

    Raises:
        RecordError: ``value`` is no text, or holds half a surrogate pair.
    """
    if not isinstance(value, str):
        raise RecordError(field, expected, value)
    if _SURROGATE.search(value):
        raise RecordError(field, VALID_TEXT, value)
    return value


def number_as_text(value: object) -> Any:
    """Returns ``value`` as text if it is a number or a boolean: ``2`` for 2.0, ``true`` for True.
    Returns any other value unchanged."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int | float):
        return str(value)
    return value


def require_valid_text(value: object, field: str = "") -> None:
    """Raises an error if the JSON value ``value`` holds text that UTF-8 cannot encode.

    Args:
        field: Path of ``value`` within a larger object, such as ``messages[0]``.

    Raises:
        RecordError: A text holds half a surrogate pair. The error names its path.
    """
    if isinstance(value, str):
        parse_text(field, value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            # the key itself can be broken
            name = f"{field}.{ascii(key)[1:-1]}".lstrip(".")
            parse_text(name, key)
            require_valid_text(item, name)
    elif isinstance(value, Sequence):
        for index, item in enumerate(value):
            require_valid_text(item, f"{field}[{index}]")
