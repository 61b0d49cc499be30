"""``medal train``: the short form of ``accelerate launch -m medal_judges.training``."""

from __future__ import annotations

from typing import Annotated

import typer


def train(
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[FIELD=VALUE]...", help="Settings to change.")
    ] = None,
    config: Annotated[
        str, typer.Option("--config", help="YAML file, or the name of one in configs/train/.")
    ] = "configs/train/quickstart.yaml",
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the newest checkpoint.")
    ] = False,
) -> None:
    """Train a judge; its folder is output_dir."""
    from medal_judges.config import load_config
    from medal_judges.training.config import TrainConfig

    loaded = load_config(TrainConfig, config, overrides or [])

    from medal_judges.training.run import train_judge

    folder = train_judge(loaded, resume=resume)
    typer.echo(f"judge saved and checked in a fresh process: {folder}")
