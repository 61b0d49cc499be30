"""``medal configs``: lists, shows and copies what is shipped."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medal_judges.cli import PlainTyper
from medal_judges.cli.judges import print_listed
from medal_judges.config import about, config_text, shipped_file, shipped_names
from medal_judges.errors import ConfigError, did_you_mean
from medal_judges.storage.files import atomic_write

# Option that takes the names -> their folder under configs/.
CONFIGS = {
    "medal train --config": "train",
    "medal benchmark --config": "benchmark",
    "medal generate --config": "generate",
    "medal data followups --config": "followup_generation",
    "medal data translate --config": "native",
    "--judge": "judges",
    "medal curate": "curate",
    "medal annotate export --guidelines": "annotation",
    "--rubric, rubric=": "rubrics",
    "prompts=": "prompts",
    "followups=": "followups",
    "medal trial --config, bounds=, texts=": "trial",
    "python NAME.py EXPORT > chats.jsonl, as a copy": "convert",
    "accelerate launch --config_file, as a copy": "accelerate",
    "accelerate launch --deepspeed_config_file, as a copy": "deepspeed",
}
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="train/quickstart, judges/medal, ...")
]

app = PlainTyper(help="List, show or copy shipped configs.", no_args_is_help=False)


@app.callback(invoke_without_command=True)
def before(context: typer.Context) -> None:
    """The shipped configs, judges, rubrics and prompts. Options accept their names or a file."""
    if context.invoked_subcommand is None:
        list_configs()


@app.command("list")
def list_configs() -> None:
    """List all files, grouped by the option that accepts their names.

    Example: medal configs list
    """
    for command, folder in CONFIGS.items():
        typer.echo(f"{command}  (configs/{folder})")
        rows = [(name, about(folder, name)) for name in shipped_names(folder)]
        print_listed(("name", "what it is"), rows)


@app.command("show")
def show(name: Name) -> None:
    """Print a file.

    Example: medal configs show rubrics/medal
    """
    typer.echo(config_text(_shipped(name)), nl=False)


@app.command("copy")
def copy(
    name: Name,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="File to write; by default NAME with its ending."),
    ] = None,
) -> None:
    """Copy a file, so that you can change it.

    Example: medal configs copy train/quickstart --out mine.yaml
    """
    shipped = _shipped(name)
    target = out or Path(shipped_file(shipped).name)
    if target.exists():
        raise ConfigError(f"{target} already exists", hint="give another --out")
    typer.echo(atomic_write(target, config_text(shipped)))


def _shipped(name: str) -> str:
    """Returns ``folder/name`` of a shipped file. Raises ConfigError with the nearest name."""
    short = name.removeprefix("configs/").removesuffix(".yaml").removesuffix(".py")
    names: list[str] = []
    for folder in CONFIGS.values():
        names += [f"{folder}/{shipped}" for shipped in shipped_names(folder)]
    if short not in names:
        hint = f"{did_you_mean(short, names)}medal configs lists all"
        raise ConfigError(f"no shipped file has the name {name!r}", hint=hint)
    return short
