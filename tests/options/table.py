"""The table of options: every option of every command is typed by a test that asserts its effect.

``row("score", "--judge")`` marks such a test. While it runs, ``medal`` notes what is typed, and the
test fails if its options are not (conftest.py). ``test_table.py`` compares the rows with the
options of the real application.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, NamedTuple

import pytest
from typer.main import get_command

from medal_judges.cli import COMMANDS, app, command_of, main

ROWS: set[tuple[str, str]] = set()
TYPED: list[list[str]] = []  # the command lines of the running test


def row(command: str, *options: str) -> pytest.MarkDecorator:
    """Marks the test that types these options of ``command`` ("" for ``medal`` itself)."""
    ROWS.update((command, option) for option in options)
    return pytest.mark.option_row(command, options)


def is_typed(command: str, option: str, words: Sequence[str]) -> bool:
    """Whether the command line ``words`` is of ``command`` and has ``option``."""
    names = command.split()
    spellings = [word.partition("=")[0] for word in words if word.startswith("-")]
    return list(words[: len(names)]) == names and option in spellings


def options_of_the_application() -> set[tuple[str, str]]:
    """Every (command, option) that can be typed; ``--x`` and ``--no-x`` are two options."""
    parameters = [("", parameter) for parameter in get_command(app).params]
    for name in COMMANDS:
        parameters += _parameters(name, command_of(name))
    return {
        (command, option)
        for command, parameter in parameters
        for option in (*parameter.opts, *parameter.secondary_opts)
        if option.startswith("-")
    }


def _parameters(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    for parameter in command.params:
        yield name, parameter
    for word, inner in getattr(command, "commands", {}).items():
        yield from _parameters(f"{name} {word}", inner)


class Done(NamedTuple):
    """A command that has ended: its exit code, and what it wrote."""

    code: int
    out: str
    err: str


def medal(*words: object, stdin: bytes = b"") -> Done:
    """Runs ``medal`` in this process, from its ``main``: with the real errors and exit codes."""
    typed = [str(word) for word in words]
    TYPED.append(typed)
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    before = sys.argv, sys.stdin
    sys.argv, sys.stdin = (
        ["medal", *typed],
        io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"),
    )
    code = 0
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    finally:
        sys.argv, sys.stdin = before
    return Done(code, _written(out), _written(err))


def works(*words: object, stdin: bytes = b"") -> Done:
    """``medal`` for a command line that has to work."""
    done = medal(*words, stdin=stdin)
    assert done.code == 0, (words, done)
    return done


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()
