"""``medal train``: the short form of ``accelerate launch training/train.py``."""

from __future__ import annotations

import json

import typer

from medal_judges.cli.options import from_options
from medal_judges.report.console import Printout
from medal_judges.training.options import TrainOptions


@from_options
def train(options: TrainOptions) -> None:
    """Train a judge, save it, and check it.

    Example: medal train --config quickstart
    """
    from medal_judges.training.arguments import is_main
    from medal_judges.training.run import train as train_judge

    overrides = list(options.overrides)
    if options.out is not None:
        overrides.append(f"output_dir={json.dumps(str(options.out))}")
    folder = train_judge(options.config, overrides, overwrite=options.overwrite)
    if not is_main():
        return
    from medal_judges.training.held_out import summary_table

    table = summary_table(folder)
    if table is not None:
        Printout([table], [table.note]).show()
    typer.echo(f"judge saved and checked: {folder}")
