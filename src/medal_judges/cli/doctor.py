"""``medal doctor``: checks whether a saved judge gives its scores on this machine."""

from __future__ import annotations

import typer

from medal_judges.cli.options import with_options
from medal_judges.config import DEVICE, judge_yaml, option
from medal_judges.errors import ConfigError
from medal_judges.inference.judge_choice import choose_judge
from medal_judges.models.base.golden import compare_with_golden
from medal_judges.models.base.saving import find_or_download_judge


@with_options()
def doctor(
    judge: str = option(
        argument=True,
        metavar="FOLDER",
        help="Folder of a saved judge, or Hub id (ORG/NAME@REVISION).",
    ),
    device: str | None = DEVICE,
) -> None:
    """Check whether a saved judge gives the same scores on this machine as where it was saved. The
    exit status is 1 if they differ.

    Example: medal doctor runs/mine
    """
    if judge_yaml(judge) is not None:
        raise ConfigError(
            f"{judge} is a YAML file. Give the folder or Hub id of a saved judge"
        )
    choice = choose_judge(judge)
    folder = find_or_download_judge(choice.source, choice.revision)
    check = compare_with_golden(folder, device=device)
    typer.echo(
        f"largest difference: {check.deviation:.2e} of the scale {check.where}".rstrip()
    )
    if not check.holds:
        typer.echo(
            f"error: {judge} gives other scores here than where it was saved "
            f"({check.golden['tolerance']:.0e} of the scale is allowed)",
            err=True,
        )
        raise typer.Exit(1)
    typer.echo("the judge gives the same scores here as where it was saved")
