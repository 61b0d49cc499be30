"""README.md of a saved judge, from what is in its folder only; and its way to the Hub."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from medal_judges.files import atomic_write
from medal_judges.models.base.golden import check_golden
from medal_judges.models.base.hub import judge_files, push_folder
from medal_judges.stats.results import Estimate
from medal_judges.training.agreement import METRICS
from medal_judges.training.card.metadata import DataSource, read_metadata

CARD_NAME = "README.md"


def write_card(
    folder: Path,
    *,
    repo_id: str | None = None,
    revision: str | None = None,
    results: Path | None = None,
) -> None:
    """Write the card of the judge in ``folder``; its snippet loads ``repo_id`` at ``revision``
    where they are given, else the folder's name.

    Raises JudgeLoadError and ConfigError as ``read_metadata`` does.
    """
    judge = read_metadata(folder, results)
    environment = Environment(
        loader=PackageLoader("medal_judges.training.card"),
        trim_blocks=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters["figure"] = _figure
    sources: dict[str, DataSource] = {}
    for entry in judge.trained_on:
        sources.setdefault(entry.source.split(":")[0], entry)
    text = environment.get_template("card.md").render(
        judge=judge,
        hub=judge.hub_metadata().to_yaml(),
        folder=folder.name,
        repo_id=repo_id,
        revision=revision,
        metrics=METRICS,
        sources=sources,
    )
    atomic_write(folder / CARD_NAME, text)


def _figure(estimate: Estimate | None) -> str:
    """``0.42 [0.30, 0.55]``; where there is none, why."""
    if estimate is None:
        return ""
    if estimate.value is None:
        return f"none: {estimate.reason or 'undefined'}"
    if estimate.low is None:
        return f"{estimate.value:.2f} (no interval)"
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def push_judge_folder(
    folder: Path,
    repo_id: str,
    *,
    private: bool = True,
    revision: str | None = None,
    message: str | None = None,
    results: Path | None = None,
) -> str:
    """Push the judge saved in ``folder``; returns the commit's address.

    Its golden scores are checked first, and its card is written again for this id and revision, in
    a copy: the folder stays as it is. Raises JudgeLoadError, ConfigError (see ``read_metadata``)
    and HubError (see ``push_folder``).
    """
    check_golden(folder)
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / folder.resolve().name
        for path in judge_files(folder):
            target = copy / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
        write_card(copy, repo_id=repo_id, revision=revision, results=results)
        return push_folder(copy, repo_id, private=private, revision=revision, message=message)
