"""The command ``medal``: each room brings its own commands, imported without heavy libraries."""

from __future__ import annotations

import errno
import logging
import sys
from typing import Annotated

import typer

from medal_judges import __version__
from medal_judges.cli.agreement import agreement
from medal_judges.cli.annotate import app as annotate_app
from medal_judges.cli.benchmark import benchmark
from medal_judges.cli.calibrate import calibrate
from medal_judges.cli.curate import curate
from medal_judges.cli.data import app as data_app
from medal_judges.cli.doctor import doctor
from medal_judges.cli.export import export
from medal_judges.cli.followup_usage import followup_usage
from medal_judges.cli.generate import generate
from medal_judges.cli.label import label
from medal_judges.cli.listing import configs, judges
from medal_judges.cli.push import push
from medal_judges.cli.score import score
from medal_judges.cli.train import train
from medal_judges.errors import MedalError

_NO_ROOM = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC), errno.EFBIG)

app = typer.Typer(
    name="medal",
    help="Train, benchmark and run judges of multilingual open-domain dialogue.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(data_app, name="data")
app.add_typer(annotate_app, name="annotate")
app.command()(generate)
app.command()(curate)
app.command()(train)
app.command()(calibrate)
app.command()(score)
app.command()(label)
app.command()(benchmark)
app.command()(agreement)
app.command()(followup_usage)
app.command()(doctor)
app.command()(export)
app.command()(push)
app.command()(judges)
app.command()(configs)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"medal-judges {__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True)] = False,
) -> None:
    """Options that stand before the command."""
    logging.basicConfig(
        level=logging.DEBUG if debug else logging.WARNING, format="%(levelname)s: %(message)s"
    )


def no_room(error: OSError) -> str:
    """The message for a full disk: a write that fails does not always name its file."""
    where = error.filename2 or error.filename
    return (
        f"no space left to write{f' {where}' if where else ''}: {error.strerror}\n"
        "  what was finished before is kept: make space and run the same command again"
    )


def main() -> None:
    """Entry point: a MedalError, or a path that cannot be read or written, is one clear message
    and an exit code, not a traceback."""
    debug = "--debug" in sys.argv
    if debug:  # taken anywhere on the line: people add it at the end
        sys.argv = [sys.argv[0], "--debug", *(a for a in sys.argv[1:] if a != "--debug")]
    try:
        app()
    except MedalError as error:
        if debug:
            raise
        typer.echo(f"error: {error}", err=True)
        sys.exit(getattr(error, "exit_code", 2))
    except OSError as error:
        if debug:
            raise
        if error.errno in _NO_ROOM:
            typer.echo(f"error: {no_room(error)}", err=True)
            sys.exit(2)
        if error.filename is None:
            raise
        hint = "give another path, or --debug to see where it was used"
        typer.echo(f"error: {error.filename}: {error.strerror}\n  {hint}", err=True)
        sys.exit(2)
    except (KeyboardInterrupt, SystemExit) as ended:  # newer typers make the one of the other
        if isinstance(ended, SystemExit) and ended.code != 130:
            raise
        typer.echo("stopped; run the same command again to resume", err=True)
        sys.exit(130)
