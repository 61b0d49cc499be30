"""What ``--help`` prints: plain text in full lines, the same with every version of Typer.

Typer's own tables cut names and make explanations three words wide in a terminal of 80 characters.
Here a name is whole, and its explanation stands beside or below it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

# Names of a kind of value in versions of Typer -> the word here; then bounds of numbers.
_VALUES = (
    (re.compile(r"<list\[(.*)\]>"), r"<\1>"),
    (re.compile(r"<(?:int|int range)>|\bINTEGER(?: RANGE)?\b"), "N"),
    (re.compile(r"<(?:float|float range)>|\bFLOAT(?: RANGE)?\b"), "X"),
    (re.compile(r"<str>"), "TEXT"),
    (re.compile(r"<(?:path|Path|file|directory)>"), "PATH"),
    (re.compile(r"<bool>"), ""),
    (re.compile(r"[<\[]([\w-]+(?:\|[\w-]+)+)[>\]]"), r"\1"),
)
_BOUNDS = (
    (re.compile(r"(-?[\d.]+)<=x<=(-?[\d.]+)(?=\])"), r"\1 to \2"),
    (re.compile(r"x>=(-?[\d.]+)(?=\])"), r"at least \1"),
)


def help_panels(command: Any, context: object) -> dict[str, list[tuple[str, str]]]:
    """Returns heading -> (name with its value, explanation) of the options and arguments under it.

    Any: Typer brings its own classes of commands, which older versions of it take from click.
    """
    panels: dict[str, list[tuple[str, str]]] = {}
    for parameter in sorted(command.get_params(context), key=lambda p: p.opts[0].startswith("-")):
        record = parameter.get_help_record(context)
        if record is None:  # hidden
            continue
        name, words = record[0], " ".join(record[1].replace("\\[", "[").split())
        option = parameter.opts[0].startswith("-")
        if not option:  # an argument is its own placeholder
            name = (parameter.metavar or parameter.name.upper()).split(" <")[0]
        for pattern, word in _VALUES:
            name = pattern.sub(word, name)
        for pattern, word in _BOUNDS:
            words = pattern.sub(word, words)
        panel = getattr(parameter, "rich_help_panel", None)
        heading = panel or ("Options" if option else "Arguments")
        panels.setdefault(heading, []).append((name.strip(), words))
    return panels


class _PlainHelp:
    def format_options(self, ctx: Any, formatter: Any) -> None:
        panels = help_panels(self, ctx)
        for name in self.list_commands(ctx) if isinstance(self, TyperGroup) else ():
            command = cast(Any, self).get_command(ctx, name)
            heading = getattr(command, "rich_help_panel", None) or "Commands"
            purpose = " ".join((command.help or "").split("\n\n")[0].split())
            panels.setdefault(heading, []).append((name, purpose))
        for heading, records in panels.items():
            with formatter.section(heading):
                formatter.write_dl(records)


class PlainCommand(_PlainHelp, TyperCommand):
    """A command with that help."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces = []
        for piece in super().collect_usage_pieces(ctx):
            # Newer versions of Typer mark names, and put brackets around brackets.
            piece = re.sub(r"^\[(\[.*)\](?:\.\.\.)?$", r"\1", re.sub(r"[{](.+)[}]", r"\1", piece))
            pieces.append(re.sub(r"^\[?[a-z_]+\]?$", lambda name: name[0].upper(), piece))
        return pieces


class PlainGroup(_PlainHelp, TyperGroup):
    """A group of commands with that help, each under the heading of its panel."""


class PlainTyper(typer.Typer):
    """A Typer whose commands, and itself if it is a group, have that help."""

    def __init__(self, **named: Any) -> None:
        plain = {"cls": PlainGroup, "rich_markup_mode": None, "add_completion": False}
        super().__init__(**{**plain, "pretty_exceptions_enable": False, **named})

    def command(
        self, name: str | None = None, *, example: str | None = None, **named: Any
    ) -> Callable[[Any], Any]:
        """As Typer's; ``example`` is printed below the help."""
        epilog = f"Example: {example}" if example else None
        return super().command(name, cls=PlainCommand, epilog=epilog, **named)
