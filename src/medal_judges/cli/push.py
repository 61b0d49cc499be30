"""``medal push``: a saved judge to the Hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medal_judges.errors import JudgeLoadError


def push(
    judge: Annotated[str, typer.Argument(help="Folder of a saved judge.")],
    repo_id: Annotated[str, typer.Argument(metavar="ORG/NAME", help="Where to on the Hub.")],
    public: Annotated[
        bool, typer.Option("--public", help="Visible to everyone; a new one is private otherwise.")
    ] = False,
    revision: Annotated[
        str | None, typer.Option("--revision", help="Tag of this version, such as v1.0.")
    ] = None,
    message: Annotated[str | None, typer.Option("--message", help="Of the commit.")] = None,
    results: Annotated[
        str | None, typer.Option("--results", help="results.json of a benchmark, for the card.")
    ] = None,
    eval_result: Annotated[
        list[str] | None,
        typer.Option(
            "--eval-result",
            metavar="SET=OWNER/DATASET[:TASK]",
            help="A set of --results that is a benchmark of the Hub, for .eval_results/; may be "
            "repeated. TASK is {dimension} when not given.",
        ),
    ] = None,
    no_trial: Annotated[
        bool, typer.Option("--no-trial", help="Push a judge that has not been on trial.")
    ] = False,
) -> None:
    """Check a judge, write its card, and upload it. Without --no-trial its folder must have a
    trial of it (medal trial FOLDER --save)."""
    from medal_judges.training.card.eval_results import HubTask
    from medal_judges.training.card.push import push_judge_folder
    from medal_judges.training.card.trial import require_trial

    tasks = [HubTask.parse(text) for text in eval_result or ()]
    if not Path(judge).is_dir():
        raise JudgeLoadError(f"no folder {judge}", hint="give the folder that medal train wrote")
    if not no_trial:
        require_trial(Path(judge))
    address = push_judge_folder(
        Path(judge),
        repo_id,
        private=not public,
        revision=revision,
        message=message,
        results=Path(results) if results else None,
        tasks=tasks,
    )
    typer.echo(f"{'public' if public else 'private'}: {address}")
    at = f" --revision {revision}" if revision else ""
    typer.echo(f"check it anywhere: medal doctor {repo_id}{at}")
