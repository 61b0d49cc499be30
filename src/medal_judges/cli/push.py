"""``medal push``: uploads a saved judge to the Hub."""

from __future__ import annotations

from pathlib import Path

import typer

from medal_judges.cli.options import with_options
from medal_judges.config import option
from medal_judges.models.card.push import push_with_card


@with_options()
def push(
    judge: Path = option(
        argument=True, metavar="FOLDER", help="Folder of a saved judge."
    ),
    repo_id: str = option(
        argument=True, metavar="ORG/NAME", help="Repository on the Hub."
    ),
    public: bool = option(
        False, help="Make a new repository public. Without it, it is private."
    ),
    revision: str | None = option(None, help="Tag of this version, such as v1.0."),
) -> None:
    """Check a judge, write its card, and upload it to the Hub. If you ran medal trial FOLDER --save
    before, the card shows its results.

    Example: medal push runs/mine ORG/NAME
    """
    pushed = push_with_card(judge, repo_id, public=public, revision=revision)
    who = "private"
    if public:
        who = "public"
    typer.echo(f"{who}: {pushed}")
    if revision:
        repo_id += f"@{revision}"
    typer.echo(f"to check it on any machine: medal doctor {repo_id}")
