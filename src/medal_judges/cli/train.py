"""``medal train``: the short form of ``accelerate launch training/train.py``."""

from __future__ import annotations

import json

import typer

from medal_judges.cli.options import from_options
from medal_judges.models.base.hub import require_writable
from medal_judges.report.console import print_tables
from medal_judges.training.options import TrainOptions


@from_options
def train(options: TrainOptions) -> None:
    """Train a judge, save it, and check it in a fresh process."""
    if options.push is not None:
        require_writable(options.push)  # before hours of work, not after
    from medal_judges.training.run import is_main
    from medal_judges.training.run import train as train_judge

    overrides = [*options.overrides]
    if options.out is not None:
        overrides.append(f"output_dir={json.dumps(str(options.out))}")
    folder = train_judge(
        options.config, overrides, resume=options.resume, overwrite=options.overwrite
    )
    if not is_main():
        return
    from medal_judges.training.agreement import summary_table

    if table := summary_table(folder):
        print_tables([table], [table.note])
    typer.echo(f"judge saved and checked in a fresh process: {folder}")
    if options.push is not None:
        from medal_judges.training.card.push import PushOptions, push_judge

        address = push_judge(
            PushOptions(
                judge=folder,
                repo_id=options.push,
                public=options.public,
                revision=options.revision,
                no_trial=True,
            )
        )
        typer.echo(f"pushed: {address}")
