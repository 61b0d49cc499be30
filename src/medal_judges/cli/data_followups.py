"""``medal data followups``: a pool of follow-ups, proposed by language models, for a person to
read."""

from __future__ import annotations

from pathlib import Path

import typer
import yaml

from medal_judges.cli.options import from_options, writes
from medal_judges.config import Config, load_config, option
from medal_judges.errors import MedalError
from medal_judges.storage.files import atomic_write


class FollowUpsOptions(Config):
    overrides: tuple[str, ...] = option(
        (), argument=True, metavar="FIELD=VALUE", help="Change a setting: a=1, or a.b=1 in a group."
    )
    out: Path = option(help="File to write: the pool, as YAML.")
    config: str = option(
        "embedded", help="YAML file, or the name of one in configs/followup_generation/."
    )


@writes("config")
@from_options
def followups(options: FollowUpsOptions) -> None:
    """Have language models propose follow-ups (DIET's meta-prompt); read the file before use.

    Settings to change are for example llms=[ORG/NAME] and signs=[negative,positive]. The same
    command resumes after a stop.
    """
    from medal_judges.data_prep.followups import PoolGeneration, propose_pool
    from medal_judges.data_prep.jobs import beside

    out = options.out
    config = load_config(
        PoolGeneration, options.config, options.overrides, folder="followup_generation"
    )
    if out.exists():
        raise MedalError(f"{out} exists already", hint="give another --out: pools are reviewed")
    pool = propose_pool(out.stem, config, out)
    if pool is None:
        raise MedalError(
            "no answer held a list of utterances",
            hint="a larger model, more samples, or a lower temperature",
        )
    record = pool.model_dump(exclude_defaults=True, mode="json")
    atomic_write(out, yaml.safe_dump(record, sort_keys=False, allow_unicode=True, width=100))
    beside(out, "answers").unlink(missing_ok=True)
    typer.echo(
        f"{len(pool.follow_ups)} follow-ups in {out}: read it and remove what no user would say"
    )
