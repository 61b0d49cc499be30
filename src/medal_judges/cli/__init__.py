"""The command ``medal``: its commands, each imported when it runs, and how errors are shown."""

from __future__ import annotations

import errno
import logging
import sys
from dataclasses import dataclass
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperCommand
from typer.main import get_command

from medal_judges import __version__
from medal_judges.cli.help_text import PlainCommand, PlainGroup, PlainTyper
from medal_judges.errors import MedalError, did_you_mean
from medal_judges.records.foreign_text import visible
from medal_judges.report.foreign_logs import quiet_foreign_logs

_NO_SPACE = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC), errno.EFBIG)


@dataclass(frozen=True, slots=True)
class Command:
    """A command: the ``module`` of this folder that has it (a function of its name, or a Typer
    ``app``), what it is for, and an example."""

    module: str
    purpose: str
    example: str


# Job -> its commands, as `medal --help` groups them.
JOBS = {
    "Score and report": {
        "score": Command("score", "Judge dialogues.", "medal score chats.jsonl --out scores.jsonl"),
        "report": Command(
            "report",
            "How good scored chats are, and which to read; gates for CI.",
            "medal report scores.jsonl --chats chats.jsonl --out report",
        ),
        "compare": Command(
            "compare",
            "Which of several systems is better, and how sure that is.",
            "medal compare v1.jsonl v2.jsonl --out compared",
        ),
        "serve": Command(
            "serve", "Judge dialogues that come over HTTP.", "medal serve boxed --port 8000"
        ),
    },
    "Judges": {
        "train": Command("train", "Train a judge.", "medal train --config quickstart"),
        "init": Command("init", "Write a small project to begin with.", "medal init mine"),
        "judges": Command("listing", "List the shipped judges.", "medal judges"),
        "calibrate": Command(
            "calibrate",
            "Put a follow-up judge's raw values on a human scale.",
            "medal calibrate contrast --data dstc9:validation --out mine.yaml",
        ),
        "doctor": Command(
            "doctor",
            "Check this machine, a saved judge or a language model.",
            "medal doctor runs/mine",
        ),
        "push": Command(
            "push", "Upload a saved judge to the Hub.", "medal push runs/mine ORG/NAME"
        ),
        "configs": Command(
            "configs",
            "List, show or copy what is shipped: configs, rubrics, prompts.",
            "medal configs copy train/quickstart",
        ),
    },
    "Benchmark": {
        "benchmark": Command(
            "benchmark",
            "Compare judges with people on sets; write the page.",
            "medal benchmark --config human --judge mine=runs/mine",
        ),
        "trial": Command(
            "trial",
            "Put judges on trial: what moves them, and what does not.",
            "medal trial runs/mine length --out trial",
        ),
        "agreement": Command(
            "agreement",
            "How well annotators agree with one another.",
            "medal agreement fed:dialogue --out agreement",
        ),
    },
    "Make data": {
        "data": Command(
            "data",
            "Sources of labelled dialogues; seeds, injected issues, translations.",
            "medal data list",
        ),
        "generate": Command(
            "generate",
            "Generate dialogues between simulated users and chatbots.",
            "medal generate --config quickstart --dry-run",
        ),
        "label": Command(
            "label",
            "Label dialogues by a judge; malformed users apart.",
            "medal label dialogues.jsonl --out labelled",
        ),
        "curate": Command(
            "curate",
            "Select the dialogues that people annotate.",
            "medal curate labelled/labelled.jsonl --n 100 --out curated",
        ),
        "annotate": Command(
            "annotate",
            "Annotation by people: packages out, answers back.",
            "medal annotate export curated/selection.jsonl --out annotation",
        ),
    },
}
COMMANDS = {name: command for job in JOBS.values() for name, command in job.items()}


def command_of(name: str) -> Any:
    """The command of that name with its options, or a group with its commands: imports its module.

    Any: Typer brings its own classes of commands, which older ones of it take from click.
    """
    module = import_module(f"{__name__}.{COMMANDS[name].module}")
    command = getattr(module, "app", None)
    if command is None:
        command = PlainTyper()
        function = getattr(module, name.replace("-", "_"))
        command.command(name, example=COMMANDS[name].example)(function)
    return get_command(command)


class _Lazy(PlainCommand):
    """A command whose module is imported when it runs, not when ``medal --help`` lists it."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        assert self.name is not None
        return command_of(self.name).make_context(info_name, args, parent, **extra)


class _Commands(PlainGroup):
    def list_commands(self, ctx: object) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:
        for job, commands in JOBS.items():
            if command := commands.get(cmd_name):
                return _Lazy(
                    cmd_name,
                    callback=None,
                    help=command.purpose,
                    rich_help_panel=job,
                    rich_markup_mode=None,
                )
        ctx.fail(f"No such command {cmd_name!r}. {did_you_mean(cmd_name, COMMANDS)}".strip())
        return None


app = PlainTyper(
    name="medal",
    cls=_Commands,
    help="Train, benchmark and run judges of multilingual open-domain dialogue.",
    no_args_is_help=True,
    epilog="\n\n".join(
        f"{job}: {next(iter(commands.values())).example}" for job, commands in JOBS.items()
    ),
)


class _PlainFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"medal-judges {__version__}")
        raise typer.Exit


@app.callback()
def before_commands(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Options that stand before the command."""
    handler = logging.StreamHandler()
    handler.setFormatter(_PlainFormatter("%(levelname)s: %(message)s"))
    logging.basicConfig(level=logging.DEBUG if debug else logging.WARNING, handlers=[handler])
    if not debug:
        quiet_foreign_logs()


def no_space(error: OSError) -> str:
    """The message for a full disk: a write that fails does not always name its file."""
    where = error.filename2 or error.filename
    return (
        f"no space left to write{f' {where}' if where else ''}: {error.strerror}\n"
        "  what was finished before is kept: make space and run the same command again"
    )


def _memory_error(error: BaseException | None) -> BaseException | None:
    """What lies behind ``error`` where that is a limit of memory: Python's own error, or that of a
    library whose file, tensor or thread did not fit. What a server says is none."""
    parts = ("failed to map segment", "cannot allocate memory", "can't allocate memory")
    while error is not None:
        ours = isinstance(error, OSError | ImportError | RuntimeError)
        ours = ours or type(error).__name__ == "SafetensorError"
        if isinstance(error, MemoryError) or (ours and any(p in str(error).lower() for p in parts)):
            return error
        error = error.__cause__ or error.__context__
    return None


def _told(error: Exception) -> tuple[str, int] | None:
    """What to print of an error that a user can do something about, and the exit code."""
    if (limit := _memory_error(error)) is not None:
        hint = "raise the limit (ulimit -v), or take a smaller judge; the same command resumes"
        said = str(limit) or type(limit).__name__
        return f"this process gets no more memory: {said}\n  {hint}", 2
    if isinstance(error, MedalError):
        return f"{error}\n  more: {error.page}", getattr(error, "exit_code", 2)
    if isinstance(error, OSError) and error.errno in _NO_SPACE:
        return no_space(error), 2
    if isinstance(error, OSError) and error.filename is not None:
        hint = "give another path, or --debug to see where it was used"
        return f"{error.filename}: {error.strerror}\n  {hint}", 2
    return None


def _take_all_text() -> None:
    """Let no text stop a run because the console, or the file behind it, has another encoding than
    UTF-8 (on Windows often cp1252): what that lacks is written as its number."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def main() -> None:
    """Entry point: a MedalError, or a path that cannot be read or written, is one clear message
    and an exit code, not a traceback."""
    _take_all_text()
    debug = "--debug" in sys.argv
    if debug:  # taken anywhere on the line: people add it at the end
        sys.argv = [sys.argv[0], "--debug", *(a for a in sys.argv[1:] if a != "--debug")]
    try:
        app()
    except Exception as error:
        told = None if debug else _told(error)
        if told is None:
            raise
        typer.echo(f"error: {told[0]}", err=True)
        sys.exit(told[1])
    except (KeyboardInterrupt, SystemExit) as ended:  # newer typers make the one of the other
        if isinstance(ended, SystemExit) and ended.code != 130:
            raise
        typer.echo("stopped; run the same command again to resume", err=True)
        sys.exit(130)
