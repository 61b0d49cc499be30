"""The command ``medal``: its commands, each imported when it runs, and how errors are printed."""

from __future__ import annotations

import errno
import gc
import logging
import os
import re
import signal
import sys
from contextlib import suppress
from functools import partial
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

import medal_judges
from medal_judges.errors import MedalError, did_you_mean
from medal_judges.secrets import SecretFilter

STOPPED = "stopped. Type the same command again to resume"
# Command -> its purpose. Its module in this folder has a function of the same name, or a Typer
# ``app``.
COMMANDS = {
    "score": "Give each chat of a file its scores.",
    "report": "Summarise scored chats, list those to read, and stop a bad release.",
    "compare": "Compare versions or chatbots by their scores, with intervals.",
    "serve": "Score chats that arrive over HTTP.",
    "train": "Train a judge on labelled chats.",
    "init": "Write a small example project that you can change.",
    "judges": "List the judges that are shipped.",
    "align": "Make a judge agree with your labels, and show whether it does.",
    "doctor": "Check that a saved judge gives the same scores on this machine.",
    "push": "Upload a saved judge to the Hugging Face Hub.",
    "configs": "List, show or copy what is shipped: configs, rubrics, prompts.",
    "benchmark": "Measure how well judges agree with people, and write a page.",
    "trial": "Test how a judge reacts to small edits of chats.",
    "agreement": "Measure how well annotators agree.",
    "data": "Download and prepare data sets of chats.",
    "generate": "Generate chats between simulated users and chatbots.",
    "label": "Label chats with a judge, for training or annotation.",
    "curate": "Select the chats that people annotate.",
    "annotate": "Export packages for annotators, import their answers.",
}
# Plain text: Typer's tables need a second to import and cut names in a terminal of 80 characters.
PlainTyper = partial(
    typer.Typer,
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def load_command(name: str) -> Any:
    """Imports the module of the command ``name``, such as ``score``, and returns its Click command
    or group."""
    module = import_module(f"{__name__}.{name}")
    command = getattr(module, "app", None)
    if command is None:
        command = PlainTyper()
        command.command(name)(getattr(module, name))
    return get_command(command)


class _Commands(TyperGroup):
    """The commands of ``medal``, each imported when it runs."""

    def list_commands(self, ctx: object) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:
        """Returns the command with its help but without its options, for the list of commands. None
        for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        return TyperCommand(cmd_name, help=COMMANDS[cmd_name], rich_markup_mode=None)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str, Any, list[str]]:
        """Returns the name of the command in ``args``, the imported command, and the arguments
        after it."""
        if args[0] not in COMMANDS:
            guess = did_you_mean(args[0], COMMANDS)
            ctx.fail(f"No such command {args[0]!r}. {guess}".strip())
        return args[0], load_command(args[0]), args[1:]


app = PlainTyper(
    name="medal",
    cls=_Commands,
    help=medal_judges.__doc__,
    no_args_is_help=True,
    epilog="Example: medal score chats.jsonl --out scores.jsonl",
)


@app.callback(invoke_without_command=True)
def handle_global_options(
    context: typer.Context,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.")
    ] = False,
) -> None:
    """Handles the two options that stand before the command, --debug and --version. Sets up
    logging."""
    if version:
        typer.echo(f"medal-judges {medal_judges.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        context.fail("Missing command.")
    from medal_judges.report.console import hide_library_noise

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    handler.addFilter(SecretFilter())
    level = logging.WARNING
    if debug:
        level = logging.DEBUG
    logging.basicConfig(level=level, handlers=[handler])
    if not debug:
        hide_library_noise()


# As safetensors and torch.save report a full disk, a limit of file sizes and a full quota.
_FULL_DISK = re.compile(r"\(os error (27|28|122)\)|inline_container.*unexpected pos")
_FULL = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", None))


def _user_error_text(error: Exception) -> str | None:
    """Returns the text of an ``error`` that the user can fix, or None for a bug of the program."""
    if isinstance(error, MedalError):
        return str(error)
    if isinstance(error, MemoryError) or "t allocate memory" in str(error):
        return f"out of memory: {error}\n  Use a smaller judge, or raise the limit (ulimit -v)"
    is_full = isinstance(error, OSError) and error.errno in _FULL
    if is_full or _FULL_DISK.search(f"{error} {error.__context__}"):
        return f"no space left to write: {error}\n  Free some space and type the same command again"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return None


def _handle_stop(kind: int, frame: object) -> None:
    """Prints that the run was stopped, and then ends the process by the signal ``kind``."""
    with suppress(OSError):
        os.write(2, f"{STOPPED}\n".encode())  # the signal may have come in a write
    signal.signal(kind, signal.SIG_DFL)
    os.kill(os.getpid(), kind)


def main() -> None:
    """Runs the command line. An error that the user can fix is printed without a traceback."""
    signal.signal(signal.SIGTERM, _handle_stop)
    # imports make many objects and free few: saves half a second
    gc.set_threshold(50_000, 20, 20)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by who started the command
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # a console of another encoding stops no run
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if sys.flags.optimize > 1:
        sys.exit("error: transformers does not work under python -OO. Leave -OO out")
    debug = "--debug" in sys.argv
    try:
        app()
    except Exception as error:
        message = _user_error_text(error)
        if debug or message is None:
            raise
        typer.echo(f"error: {message}", err=True)
        sys.exit(getattr(error, "exit_code", 2))
    except (KeyboardInterrupt, SystemExit) as error:
        # newer typers turn the first into the second
        if isinstance(error, SystemExit) and error.code != 130:
            raise
        typer.echo(STOPPED, err=True)
        sys.exit(130)
