"""``medal data followups``: a pool of follow-ups, proposed by language models, for a person to
read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
import yaml

from medal_judges.cli import options as opt
from medal_judges.config import load_config
from medal_judges.errors import MedalError
from medal_judges.storage.files import atomic_write


@opt.writes("config")
def followups(
    out: Annotated[Path, typer.Option("--out", help="File to write: the pool, as YAML.")],
    overrides: opt.Overrides = None,
    config: Annotated[
        str,
        typer.Option(
            "--config", help="YAML file, or the name of one in configs/followup_generation/."
        ),
    ] = "embedded",
) -> None:
    """Have language models propose follow-ups (DIET's meta-prompt); read the file before use.

    Settings to change are for example llms=[ORG/NAME] and signs=[negative,positive].
    """
    from medal_judges.models.followup.pool import PoolGeneration, make_pool, propose

    settings = load_config(PoolGeneration, config, overrides or [], folder="followup_generation")
    if out.exists():
        raise MedalError(f"{out} is there already", hint="give another --out: pools are reviewed")
    proposed = propose(settings)
    if not proposed:
        raise MedalError(
            "no answer held a list of utterances",
            hint="a larger model, more samples, or a lower temperature",
        )
    pool = make_pool(out.stem, proposed, settings)
    record = pool.model_dump(exclude_defaults=True, mode="json")
    text = yaml.safe_dump(record, sort_keys=False, allow_unicode=True, width=100)
    atomic_write(out, text)
    typer.echo(f"{len(proposed)} follow-ups in {out}: read it, take out what no user would say")
