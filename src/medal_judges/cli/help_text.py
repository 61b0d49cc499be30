"""What ``--help`` prints: plain text in full lines, the same with every version of Typer.

Typer's own tables give each option five columns; in a terminal of 80 characters names were cut and
explanations were three words wide. Here a name stands whole, and its explanation beside or below.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Protocol, cast

import typer
from typer.core import TyperCommand, TyperGroup

# What versions of Typer call a kind of value -> the word for it here.
_VALUES = (
    (re.compile(r"<list\[(.*)\]>"), r"<\1>"),
    (re.compile(r"<(?:int|int range)>|\bINTEGER(?: RANGE)?\b"), "N"),
    (re.compile(r"<(?:float|float range)>|\bFLOAT(?: RANGE)?\b"), "X"),
    (re.compile(r"<str>"), "TEXT"),
    (re.compile(r"<(?:path|Path|file|directory)>"), "PATH"),
    (re.compile(r"<bool>"), ""),
    (re.compile(r"[<\[]([\w-]+(?:\|[\w-]+)+)[>\]]"), r"\1"),
)
# What they write of a number's bounds -> the same in words.
_BOUNDS = (
    (re.compile(r"(-?[\d.]+)<=x<=(-?[\d.]+)(?=\])"), r"\1 to \2"),
    (re.compile(r"x>=(-?[\d.]+)(?=\])"), r"at least \1"),
)


class HelpParameter(Protocol):
    """An option or argument: of Typer's own class, or in older versions of it of click's. So are a
    command, and a context (here an object)."""

    name: Any
    opts: list[str]
    metavar: str | None
    get_help_record: Callable[..., tuple[str, str] | None]


class HelpCommand(Protocol):
    get_params: Callable[..., Any]


def help_record(parameter: HelpParameter, context: object) -> tuple[str, str] | None:
    """(Name with its value, explanation) of an option or argument; None where it is hidden."""
    record = parameter.get_help_record(context)
    if record is None:
        return None
    name, told = record[0], record[1].replace("\\[", "[")
    if not parameter.opts[0].startswith("-"):  # an argument is its own placeholder
        name = (parameter.metavar or parameter.name.upper()).split(" <")[0]
    for pattern, word in _VALUES:
        name = pattern.sub(word, name)
    told = " ".join(told.split())
    for pattern, word in _BOUNDS:
        told = pattern.sub(word, told)
    return name.strip(), told


def help_panels(command: HelpCommand, context: object) -> dict[str, list[tuple[str, str]]]:
    """Heading -> records of the options and arguments under it, in their order."""
    panels: dict[str, list[tuple[str, str]]] = {}
    named_last = sorted(command.get_params(context), key=lambda p: p.opts[0].startswith("-"))
    for parameter in named_last:
        if (record := help_record(parameter, context)) is not None:
            kind = "Options" if parameter.opts[0].startswith("-") else "Arguments"
            heading = getattr(parameter, "rich_help_panel", None) or kind
            panels.setdefault(heading, []).append(record)
    return panels


def _usage(pieces: list[str]) -> list[str]:
    """Pieces of a usage line without the marks that newer versions of Typer set around a name, and
    without a second pair of brackets around a placeholder that has its own."""
    plain = [re.sub(r"[{](.+)[}]", r"\1", piece) for piece in pieces]
    plain = [re.sub(r"^\[(\[.*)\](?:\.\.\.)?$", r"\1", piece) for piece in plain]
    return [re.sub(r"^\[?[a-z_]+\]?$", lambda name: name[0].upper(), piece) for piece in plain]


def _command_panels(group: TyperGroup, context: Any) -> dict[str, list[tuple[str, str]]]:
    """Heading -> (name, purpose) of the commands of a group."""
    panels: dict[str, list[tuple[str, str]]] = {}
    for name in group.list_commands(context):
        command: Any = group.get_command(context, name)
        heading = getattr(command, "rich_help_panel", None) or "Commands"
        told = " ".join((command.help or "").split("\n\n")[0].split())
        panels.setdefault(heading, []).append((name, told))
    return panels


class _PlainHelp:
    def format_options(self, ctx: Any, formatter: Any) -> None:
        panels = help_panels(cast(HelpCommand, self), ctx)
        if isinstance(self, TyperGroup):
            panels |= _command_panels(self, ctx)
        for heading, records in panels.items():
            with formatter.section(heading):
                formatter.write_dl(records)


class PlainCommand(_PlainHelp, TyperCommand):
    """A command with that help."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return _usage(super().collect_usage_pieces(ctx))


class PlainGroup(_PlainHelp, TyperGroup):
    """A group of commands with that help; its commands stand under the headings of their panels."""


class PlainTyper(typer.Typer):
    """A Typer whose commands, and itself where it is a group, have that help."""

    def __init__(self, **named: object) -> None:
        plain = {"cls": PlainGroup, "rich_markup_mode": None, "add_completion": False}
        own = plain | {"pretty_exceptions_enable": False} | named
        super().__init__(**own)  # type: ignore[arg-type]

    def command(
        self, name: str | None = None, *, example: str | None = None, **named: object
    ) -> Callable[[Any], Any]:
        """As Typer's; ``example`` is shown below the help."""
        told = f"Example: {example}" if example else None
        return super().command(name, cls=PlainCommand, epilog=told, **named)  # type: ignore[arg-type]
