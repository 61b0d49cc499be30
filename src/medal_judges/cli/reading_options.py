"""Options of every command that reads chats, and the one object that they become."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from medal_judges.reading.options import ReadOptions
from medal_judges.reading.report import ReadingReport

_PANEL = "Reading (docs/howto/formats.md)"
_OPTIONS: dict[str, tuple[Any, object]] = {
    "format": (
        Annotated[
            str | None,
            typer.Option(
                "--format",
                help="What the file is, where its content does not say: csv, openai, csv+turns.",
                rich_help_panel=_PANEL,
            ),
        ],
        None,
    ),
    "column": (
        Annotated[
            list[str] | None,
            typer.Option(
                "--column",
                metavar="FIELD=COLUMN",
                help="Which column is what: id=ticket, role=speaker, ...; may be repeated.",
                rich_help_panel=_PANEL,
            ),
        ],
        None,
    ),
    "columns": (
        Annotated[
            Path | None,
            typer.Option(
                "--columns", help="YAML of columns, roles and labels.", rich_help_panel=_PANEL
            ),
        ],
        None,
    ),
    "column_label": (
        Annotated[
            list[str] | None,
            typer.Option(
                "--label",
                metavar="COLUMN=DIMENSION[:LOW..HIGH]",
                help="A column of people's answers, with its scale; may be repeated.",
                rich_help_panel=_PANEL,
            ),
        ],
        None,
    ),
    "speaker": (
        Annotated[
            list[str] | None,
            typer.Option(
                "--role",
                metavar="WORD=ROLE",
                help="What a speaker is called there: Kunde=user; may be repeated.",
                rich_help_panel=_PANEL,
            ),
        ],
        None,
    ),
    "assistant": (
        Annotated[
            str | None,
            typer.Option(
                "--assistant",
                help="Who is judged, where several answer in one chat.",
                rich_help_panel=_PANEL,
            ),
        ],
        None,
    ),
    "strict": (
        Annotated[
            bool,
            typer.Option(
                "--strict",
                help="Stop at the first bad row; else it is left out, counted and listed.",
                rich_help_panel=_PANEL,
            ),
        ],
        False,
    ),
}


def reads_chats(*, labels: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command with a parameter of type ReadOptions: on the command line that is --format,
    --column, --columns, --role, --assistant, --strict and, with ``labels``, --label."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True)
        given = {k: v for k, v in _OPTIONS.items() if labels or k != "column_label"}
        (taken,) = (p.name for p in own.parameters.values() if p.annotation is ReadOptions)
        parameters = [p for name, p in own.parameters.items() if name != taken]
        parameters += [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
            )
            for name, (annotation, default) in given.items()
        ]

        @wraps(command)
        def with_options(*args: object, **named: Any) -> None:
            named[taken] = _options(**{name: named.pop(name) for name in given})
            command(*args, **named)

        # What typer reads: the command's own parameters, then ours.
        with_options.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        with_options.__annotations__ = {p.name: p.annotation for p in parameters}
        return with_options

    return decorate


def _options(
    *,
    format: str | None,
    column: list[str] | None,
    columns: Path | None,
    speaker: list[str] | None,
    assistant: str | None,
    strict: bool,
    column_label: list[str] | None = None,
) -> ReadOptions:
    from medal_judges.reading.columns import parse_columns, read_columns

    stated = parse_columns(column, labels=column_label or (), roles=speaker or ())
    if columns is not None:
        stated = read_columns(columns).updated(stated)
    return ReadOptions(format, stated, assistant, strict=strict)


def reading_report(
    chats: ReadOptions, listed: Path | None = None, inputs: Iterable[str | Path] = ()
) -> ReadingReport:
    """Where rows are counted: bad ones are listed in the file ``listed``, without one all on
    standard error."""
    from medal_judges.storage.files import require_other_file

    if listed is None or chats.strict:
        return ReadingReport(keep=None, strict=chats.strict)
    require_other_file(listed, inputs, option="the list of bad rows")
    return ReadingReport(listed)


def show_reading(reading: ReadingReport, *, always: bool = False) -> None:
    """The summary on standard error: ``always``, or where not every row was taken as it stood."""
    if always or not reading.quiet:
        typer.echo(reading.summary(), err=True)
