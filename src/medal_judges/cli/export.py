"""``medal export``: a judge as a plain model of transformers."""

from __future__ import annotations

from typing import Annotated

import typer


def export(
    judge: Annotated[str, typer.Argument(help="Folder or hub id of a saved encoder judge.")],
    folder: Annotated[str, typer.Argument(help="Where the model of transformers is written.")],
    revision: Annotated[str | None, typer.Option("--revision", help="Of a hub judge.")] = None,
) -> None:
    """Write a regression judge of one dimension (net: sequence) as a model of transformers."""
    from pathlib import Path

    from medal_judges.errors import ConfigError
    from medal_judges.models.base.judge import Judge
    from medal_judges.models.encoder.hf_export import export_judge

    target = Path(folder)
    if target.exists() and any(target.iterdir()):
        raise ConfigError(f"{folder} is not empty", hint="give a new folder")
    loaded = Judge.from_pretrained(judge, revision=revision, device="cpu")
    worst = export_judge(loaded, target)
    typer.echo(f"{folder}: agrees with the judge on its golden dialogues to {worst:.1e}")
