"""``medal push``: a saved judge to the Hub."""

from __future__ import annotations

import typer

from medal_judges.cli.options import from_options
from medal_judges.training.card.push import PushOptions, push_judge


@from_options
def push(options: PushOptions) -> None:
    """Check a judge, write its card, and upload it. Without --no-trial its folder must have a
    trial of it (medal trial FOLDER --save)."""
    address = push_judge(options)
    typer.echo(f"{'public' if options.public else 'private'}: {address}")
    at = f" --revision {options.revision}" if options.revision else ""
    typer.echo(f"check it anywhere: medal doctor {options.repo_id}{at}")
