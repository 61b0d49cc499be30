"""A saved judge to the Hub: checked, with its card and its results of evaluations."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from medal_judges.models.base.golden import check_golden
from medal_judges.models.base.hub import judge_files, push_folder
from medal_judges.training.card.card import write_card
from medal_judges.training.card.eval_results import HubTask, write_eval_results


def push_judge_folder(
    folder: Path,
    repo_id: str,
    *,
    private: bool = True,
    revision: str | None = None,
    message: str | None = None,
    results: Path | None = None,
    tasks: Sequence[HubTask] = (),
) -> str:
    """Push the judge saved in ``folder``; returns the commit's address.

    Its golden scores are checked first, and its card is written again for this id and revision, in
    a copy: the folder stays as it is. ``tasks``: the sets of the results that are benchmarks of the
    Hub (eval_results.py). Raises JudgeLoadError, ConfigError (see ``read_metadata``)
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
        write_eval_results(copy, tasks, results)
        return push_folder(copy, repo_id, private=private, revision=revision, message=message)
