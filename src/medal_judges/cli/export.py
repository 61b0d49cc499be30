"""``medal export``: a judge as a plain model of transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medal_judges.cli import options as opt
from medal_judges.errors import ConfigError
from medal_judges.models.base.judge import Judge


@opt.writes()
def export(
    judge: Annotated[str, typer.Argument(help="Folder or hub id of a saved encoder judge.")],
    out: Annotated[Path, typer.Option("--out", help="Folder to write.")],
    revision: opt.Revision = None,
) -> None:
    """Write a regression judge of one dimension (net: sequence) as a model of transformers."""
    from medal_judges.models.encoder.hf_export import export_judge

    if out.exists() and any(out.iterdir()):
        raise ConfigError(f"{out} is not empty", hint="give a new folder")
    loaded = Judge.from_pretrained(judge, revision=revision, device="cpu")
    worst = export_judge(loaded, out)
    typer.echo(f"{out}: agrees with the judge on its golden dialogues to {worst:.1e}")
