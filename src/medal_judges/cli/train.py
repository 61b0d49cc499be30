"""``medal train``: the short form of ``accelerate launch -m medal_judges.training``."""

from __future__ import annotations

from typing import Annotated

import typer

from medal_judges.cli import options as opt
from medal_judges.models.base.hub import require_writable
from medal_judges.report.console import print_tables


def train(
    overrides: opt.Overrides = None,
    config: Annotated[
        str, typer.Option("--config", help="YAML file, or the name of one in configs/train/.")
    ] = "configs/train/quickstart.yaml",
    out: Annotated[
        str | None,
        typer.Option("--out", help="Folder to write: the judge; else the config's output_dir."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume from the newest checkpoint.")
    ] = False,
    push: Annotated[
        str | None,
        typer.Option("--push", metavar="ORG/NAME", help="Push the judge when it is done."),
    ] = None,
    public: Annotated[bool, typer.Option("--public", help="With --push: visible to all.")] = False,
    revision: Annotated[str | None, typer.Option("--revision", help="With --push: a tag.")] = None,
) -> None:
    """Train a judge, save it, and check it in a fresh process."""
    if push is not None:
        require_writable(push)  # before hours of work, not after
    from medal_judges.training.run import is_main
    from medal_judges.training.run import train as train_judge

    changed = [*(overrides or []), *([f"output_dir={out}"] if out else [])]
    folder = train_judge(config, changed, resume=resume)
    if not is_main():
        return
    from medal_judges.training.agreement import summary_table

    if table := summary_table(folder):
        print_tables([table], [table.note])
    typer.echo(f"judge saved and checked in a fresh process: {folder}")
    if push is not None:
        from medal_judges.training.card.push import push_judge_folder

        address = push_judge_folder(folder, push, private=not public, revision=revision)
        typer.echo(f"pushed: {address}")
