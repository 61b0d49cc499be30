"""``medal train``: the short form of ``accelerate launch training/train.py``."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from medal_judges.cli.options import with_options
from medal_judges.config import OVERRIDES, option
from medal_judges.report.console import Printout


@with_options()
def train(
    overrides: tuple[str, ...] = OVERRIDES,
    config: str = option(
        "configs/train/quickstart.yaml",
        help="YAML file, or the name of one in configs/train/.",
    ),
    out: Path | None = option(
        None, help="Folder to write.  [default: output_dir of the config]"
    ),
    overwrite: bool = option(
        False,
        help="Start again from the beginning and replace --out. Without it a run is resumed.",
    ),
) -> None:
    """Train a judge on labelled chats, save it, and check that it loads with the same scores.

    Example: medal train --config quickstart
    """
    from medal_judges.training.arguments import is_main_process
    from medal_judges.training.run import train as train_judge

    settings = list(overrides)
    if out is not None:
        settings.append(f"output_dir={json.dumps(str(out))}")
    folder = train_judge(config, settings, overwrite=overwrite)
    if not is_main_process():
        return
    from medal_judges.training.held_out import agreement_table

    table = agreement_table(folder)
    if table is not None:
        Printout([table], [table.note]).show()
    typer.echo(f"judge saved and checked: {folder}")
