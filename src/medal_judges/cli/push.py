"""``medal push``: uploads a saved judge to the Hub."""

from __future__ import annotations

import typer

from medal_judges.cli.options import from_options
from medal_judges.models.card.push import PushOptions, push_judge


@from_options
def push(options: PushOptions) -> None:
    """Check a judge, write its card, and upload it. The card shows the trial that medal trial
    FOLDER --save has left.

    Example: medal push runs/mine ORG/NAME
    """
    pushed = push_judge(options)
    who = "private"
    if options.public:
        who = "public"
    typer.echo(f"{who}: {pushed}")
    at = ""
    if options.revision:
        at = f" --revision {options.revision}"
    typer.echo(f"to check it on any machine: medal doctor {options.repo_id}{at}")
