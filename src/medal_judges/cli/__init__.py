"""The command ``medal``: its commands, each imported when it runs, their help, and how errors are
printed.

The help is plain text in full lines, the same with every version of Typer. Typer's own tables cut
names and make explanations three words wide in a terminal of 80 characters.
"""

from __future__ import annotations

import errno
import gc
import logging
import os
import re
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any, NamedTuple, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from medal_judges import __version__
from medal_judges.errors import MedalError, did_you_mean, visible
from medal_judges.report.console import quiet_foreign_logs
from medal_judges.secrets import SecretFilter

STOPPED = "stopped; run the same command again to resume"


class Command(NamedTuple):
    """A command. Its module in this folder has a function of the same name, or a Typer ``app``."""

    purpose: str
    example: str


# Job -> its commands, as `medal --help` groups them.
JOBS = {
    "Score and report": {
        "score": Command(
            "Score dialogues.", "medal score chats.jsonl --out scores.jsonl"
        ),
        "report": Command(
            "Report how good scored chats are and which to read; gates for CI.",
            "medal report scores.jsonl --chats chats.jsonl --out report",
        ),
        "compare": Command(
            "Compare systems by their scores, with intervals.",
            "medal compare v1.jsonl v2.jsonl --out compared",
        ),
        "serve": Command("Score dialogues over HTTP.", "medal serve boxed --port 8000"),
    },
    "Judges": {
        "train": Command("Train a judge.", "medal train --config quickstart"),
        "init": Command("Write a small example project.", "medal init mine"),
        "judges": Command("List the shipped judges.", "medal judges"),
        "align": Command(
            "Make a judge agree with your labels, and show whether it does.",
            "medal align boxed --labels mine.csv --out aligned",
        ),
        "doctor": Command(
            "Check this machine or a saved judge.", "medal doctor runs/mine"
        ),
        "push": Command(
            "Upload a saved judge to the Hub.", "medal push runs/mine ORG/NAME"
        ),
        "configs": Command(
            "List, show or copy what is shipped: configs, rubrics, prompts.",
            "medal configs copy train/quickstart",
        ),
    },
    "Benchmark": {
        "benchmark": Command(
            "Compare judges with human ratings; write a page.",
            "medal benchmark --config human --judge mine=runs/mine",
        ),
        "trial": Command(
            "Test how a judge reacts to edits of dialogues.",
            "medal trial runs/mine length --out trial",
        ),
        "agreement": Command(
            "Measure how well annotators agree.",
            "medal agreement fed:dialogue --out agreement",
        ),
    },
    "Make data": {
        "data": Command(
            "Get and prepare data: sources, seeds, injected issues, translations.",
            "medal data list",
        ),
        "generate": Command(
            "Generate dialogues between simulated users and chatbots.",
            "medal generate --config quickstart --dry-run",
        ),
        "label": Command(
            "Label dialogues with a judge; separate malformed users.",
            "medal label dialogues.jsonl --out labelled",
        ),
        "curate": Command(
            "Select the dialogues that people annotate.",
            "medal curate labelled/labelled.jsonl --n 100 --out curated",
        ),
        "annotate": Command(
            "Export packages for annotators, import their answers.",
            "medal annotate export curated/selection.jsonl --out annotation",
        ),
    },
}
COMMANDS = {name: command for job in JOBS.values() for name, command in job.items()}


# -- help ------------------------------------------------------------------------------------------

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
    """Returns heading -> (name with its value, explanation) of options and arguments.

    The types are Any because Typer replaces classes of click in some versions.
    """
    panels: dict[str, list[tuple[str, str]]] = {}
    for parameter in sorted(
        command.get_params(context), key=lambda p: p.opts[0].startswith("-")
    ):
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
    """A command with plain help."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces = []
        for usage in super().collect_usage_pieces(ctx):
            # Newer versions of Typer mark names, and put brackets around brackets.
            usage = re.sub(r"[{](.+)[}]", r"\1", usage)
            usage = re.sub(r"^\[(\[.*)\](?:\.\.\.)?$", r"\1", usage)
            pieces.append(
                re.sub(r"^\[?[a-z_]+\]?$", lambda name: name[0].upper(), usage)
            )
        return pieces


class PlainGroup(_PlainHelp, TyperGroup):
    """A group of commands with plain help, each command under the heading of its panel."""


class PlainTyper(typer.Typer):
    """A Typer whose commands have plain help."""

    def __init__(self, **named: Any) -> None:
        defaults: dict[str, Any] = {
            "cls": PlainGroup,
            "rich_markup_mode": None,
            "add_completion": False,
            "pretty_exceptions_enable": False,
        }
        super().__init__(**{**defaults, **named})

    def command(
        self, name: str | None = None, *, example: str | None = None, **named: Any
    ) -> Callable[[Any], Any]:
        """Like Typer's method; ``example`` is printed below the help."""
        epilog = None
        if example:
            epilog = f"Example: {example}"
        return super().command(name, cls=PlainCommand, epilog=epilog, **named)


# -- commands --------------------------------------------------------------------------------------


def command_of(name: str) -> Any:
    """Imports the module of a command and returns its Typer command or group, with all options.

    The type is Any because Typer replaces classes of click in some versions.
    """
    module = import_module(f"{__name__}.{name}")
    command = getattr(module, "app", None)
    if command is None:
        command = PlainTyper()
        command.command(name, example=COMMANDS[name].example)(getattr(module, name))
    return get_command(command)


class _Commands(PlainGroup):
    """The commands of ``medal``. The module of a command is imported when it runs, not for the list
    of ``medal --help``."""

    def list_commands(self, ctx: object) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:
        for job, commands in JOBS.items():
            command = commands.get(cmd_name)
            if command is not None:
                return PlainCommand(
                    cmd_name,
                    callback=None,
                    help=command.purpose,
                    rich_help_panel=job,
                    rich_markup_mode=None,
                )
        return None

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str, Any, list[str]]:
        if args[0] not in COMMANDS:
            ctx.fail(
                f"No such command {args[0]!r}. {did_you_mean(args[0], COMMANDS)}".strip()
            )
        return args[0], command_of(args[0]), args[1:]


app = PlainTyper(
    name="medal",
    cls=_Commands,
    help="Train, benchmark and run judges of multilingual open-domain dialogue.",
    no_args_is_help=True,
    epilog="\n\n".join(
        f"{job}: {next(iter(commands.values())).example}"
        for job, commands in JOBS.items()
    ),
)


class _PlainFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


@app.callback(invoke_without_command=True)
def before_commands(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.")
    ] = False,
) -> None:
    """Handles the options before the command."""
    if version:
        typer.echo(f"medal-judges {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        context.fail("Missing command.")
    handler = logging.StreamHandler()
    handler.setFormatter(_PlainFormatter("%(levelname)s: %(message)s"))
    handler.addFilter(SecretFilter())
    level = logging.WARNING
    if debug:
        level = logging.DEBUG
    logging.basicConfig(level=level, handlers=[handler])
    if not debug:
        quiet_foreign_logs()


_MAKE_SPACE = "finished work is saved: make space and run the same command again"
# As safetensors and torch.save report a full disk, a limit of file sizes and a full quota.
_FULL_DISK = re.compile(r"\(os error (27|28|122)\)|inline_container.*unexpected pos")


def _is_memory_error(error: BaseException) -> bool:
    """Whether the error says that memory is exhausted, as Python or a library reports it. Errors
    that servers report do not count."""
    if isinstance(error, MemoryError):
        return True
    is_of_library = type(error).__name__ == "SafetensorError"
    if not is_of_library and not isinstance(
        error, OSError | ImportError | RuntimeError
    ):
        return False
    message = str(error).lower()
    phrases = (
        "failed to map segment",
        "cannot allocate memory",
        "can't allocate memory",
    )
    return any(phrase in message for phrase in phrases)


def _with_causes(error: BaseException) -> list[BaseException]:
    """Returns the error, its cause, the cause of that one and so on. A circle of causes, which a
    library may build, ends at the first error that is there already."""
    errors: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in errors:
        errors.append(cause)
        cause = cause.__cause__ or cause.__context__
    return errors


def _message(error: Exception) -> tuple[str, int] | None:
    """Returns the message and the exit status of an error that the user can fix; None for a bug."""
    for cause in _with_causes(error):
        if _is_memory_error(cause):
            hint = "raise the limit (ulimit -v), or use a smaller judge; the same command resumes"
            return f"out of memory: {str(cause) or type(cause).__name__}\n  {hint}", 2
        if _FULL_DISK.search(str(cause)):
            return f"no space left to write: {cause}\n  {_MAKE_SPACE}", 2
    if isinstance(error, MedalError):
        return str(error), getattr(error, "exit_code", 2)
    if isinstance(error, OSError):
        # a failed write does not always name its file
        path = error.filename2 or error.filename
        if error.errno in (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", None)):
            problem = "no space left to write"
            if path:
                problem += f" {path}"
            return f"{problem}: {error.strerror}\n  {_MAKE_SPACE}", 2
        if path is not None:
            hint = "give another path, or --debug to see where it was used"
            return f"{error.filename}: {error.strerror}\n  {hint}", 2
    return None


def _stop(kind: int, frame: object) -> None:
    """Says that the run was stopped, and lets the signal end it."""
    with suppress(OSError):
        os.write(2, f"{STOPPED}\n".encode())  # the signal may have come in a write
    signal.signal(kind, signal.SIG_DFL)
    os.kill(os.getpid(), kind)


def main() -> None:
    """Runs the command line. An error that the user can fix is printed without a traceback."""
    signal.signal(signal.SIGTERM, _stop)
    # imports make many objects and free few: saves half a second
    gc.set_threshold(50_000, 20, 20)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by who started the command
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # a console of another encoding stops no run
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    debug = "--debug" in sys.argv
    if debug:  # anywhere on the line: people add it at the end
        sys.argv = [
            sys.argv[0],
            "--debug",
            *(a for a in sys.argv[1:] if a != "--debug"),
        ]
    try:
        app()
    except Exception as error:
        message_and_status = _message(error)
        if debug or message_and_status is None:
            raise
        message, status = message_and_status
        typer.echo(f"error: {message}", err=True)
        sys.exit(status)
    except (KeyboardInterrupt, SystemExit) as ended:
        # newer typers turn the first into the second
        if isinstance(ended, SystemExit) and ended.code != 130:
            raise
        typer.echo(STOPPED, err=True)
        sys.exit(130)
