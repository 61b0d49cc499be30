"""``medal configs``: lists, shows and copies what is shipped."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medal_judges.cli import PlainTyper
from medal_judges.cli.judges import print_table
from medal_judges.config import config_text, shipped_names, shipped_path, top_sentence
from medal_judges.errors import ConfigError
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
    str,
    typer.Argument(
        metavar="NAME", help="A name of medal configs list, such as train/quickstart."
    ),
]

app = PlainTyper(help="List, show or copy shipped configs.", no_args_is_help=True)


@app.command("list")
def list_configs() -> None:
    """List the shipped configs, judges, rubrics and prompts, grouped by the option that accepts
    their names.

    Example: medal configs list
    """
    for command, folder in CONFIGS.items():
        typer.echo(f"{command}  (configs/{folder})")
        rows = [(name, top_sentence(folder, name)) for name in shipped_names(folder)]
        print_table(("name", "what it is"), rows)


@app.command("show")
def show(name: Name) -> None:
    """Print a shipped file: a config, judge, rubric or prompt.

    Example: medal configs show rubrics/medal
    """
    typer.echo(config_text(name), nl=False)


@app.command("copy")
def copy(
    name: Name,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="PATH", help="File to write.  [default: NAME.yaml]"
        ),
    ] = None,
) -> None:
    """Copy a shipped file, so that you can change it.

    Example: medal configs copy train/quickstart --out mine.yaml
    """
    text = config_text(name)
    target = out or Path(shipped_path(name).name)
    if target.exists():
        raise ConfigError(f"{target} already exists. Type another --out")
    typer.echo(atomic_write(target, text))
