"""``reads_chats``, until every command has an options object with ``reading: ReadOptions``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from medal_judges.cli.options import _built, _parameters
from medal_judges.reading.options import ReadOptions, ReadOptionsWithoutLabels
from medal_judges.reading.report import ReadingReport
from medal_judges.reading.report import reading_report as reading_report


def reads_chats(*, labels: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command with a parameter of type ReadOptions, as options of the command line."""
    kind = ReadOptions if labels else ReadOptionsWithoutLabels

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True)
        (taken,) = (p.name for p in own.parameters.values() if p.annotation is ReadOptions)
        added = [*_parameters(kind)]
        parameters = [p for name, p in own.parameters.items() if name != taken] + added

        @wraps(command)
        def with_options(*args: object, **named: Any) -> None:
            named[taken] = _built(kind, {p.name: named.pop(p.name) for p in added})
            command(*args, **named)

        with_options.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        with_options.__annotations__ = {p.name: p.annotation for p in parameters}
        return with_options

    return decorate


def show_reading(reading: ReadingReport, *, always: bool = False) -> None:
    """``reading.show``."""
    reading.show(always=always)
