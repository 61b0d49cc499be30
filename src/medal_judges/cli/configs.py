"""``medal configs``: what is shipped to read, and to copy as the beginning of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medal_judges.cli.help_text import PlainTyper
from medal_judges.cli.listing import print_listed
from medal_judges.config import config_text
from medal_judges.errors import ConfigError, did_you_mean
from medal_judges.shipped import about, shipped_names
from medal_judges.storage.files import atomic_write

# What takes the names -> folder under configs/ that has them.
CONFIGS = {
    "medal train --config": "train",
    "medal benchmark --config": "benchmark",
    "medal generate --config": "generate",
    "medal data followups --config": "followup_generation",
    "medal data translate, compare-native --config": "native",
    "--judge": "judges",
    "rubric=": "rubrics",
    "prompt=": "prompts",
    "medal trial --config, bounds=, texts=": "trial",
    "accelerate launch --config_file, as a copy": "accelerate",
    "accelerate launch --deepspeed_config_file, as a copy": "deepspeed",
}
Name = Annotated[str, typer.Argument(metavar="NAME", help="train/quickstart, judges/medal, ...")]

app = PlainTyper(help="What is shipped: list, show, copy.", no_args_is_help=False)


@app.callback(invoke_without_command=True)
def before(context: typer.Context) -> None:
    """The shipped configs, judges, rubrics and prompts: options take their names, or a file."""
    if context.invoked_subcommand is None:
        list_configs()


@app.command("list", example="medal configs list")
def list_configs() -> None:
    """All of them, by what takes their names."""
    for command, folder in CONFIGS.items():
        typer.echo(f"{command}  (configs/{folder})")
        rows = [(name, about(folder, name)) for name in shipped_names(folder)]
        print_listed(("name", "what it is"), rows)


@app.command("show", example="medal configs show rubrics/medal")
def show(name: Name) -> None:
    """Print one as it is shipped."""
    typer.echo(_text(name), nl=False)


@app.command("copy", example="medal configs copy train/quickstart --out mine.yaml")
def copy(
    name: Name,
    out: Annotated[
        Path | None, typer.Option("--out", help="File to write; by default NAME, with .yaml.")
    ] = None,
) -> None:
    """Write one to a file here, to change it."""
    text = _text(name)
    short = _short(name).rsplit("/", 1)[-1]
    target = out or Path(short if short.endswith(".json") else f"{short}.yaml")
    if target.exists():
        raise ConfigError(f"{target} is there already", hint="give another --out")
    typer.echo(atomic_write(target, text))


def _short(name: str) -> str:
    return name.removeprefix("configs/").removesuffix(".yaml")


def _text(name: str) -> str:
    """The shipped file of ``folder/name``, or of ``name`` where one folder alone has it. Raises
    ConfigError that offers the nearest, or names the folders."""
    known = [f"{folder}/{each}" for folder in CONFIGS.values() for each in shipped_names(folder)]
    names = {each.split("/", 1)[1] for each in known}
    short = _short(name)
    fits = [each for each in known if short in (each, each.split("/", 1)[1])]
    if len(fits) == 1:
        return config_text(fits[0])
    if fits:
        raise ConfigError(f"{name!r} is the name of several", hint=f"one of {', '.join(fits)}")
    raise ConfigError(
        f"nothing of the name {name!r} is shipped",
        hint=f"{did_you_mean(short, [*known, *names])}medal configs lists all",
    )
