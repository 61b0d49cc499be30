"""A judge's folder to the Hub: checked, described, scanned, uploaded, tagged."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from medal_judges.models.base.golden import check_golden
from medal_judges.models.base.hub import judge_files, push_folder
from medal_judges.training.card.card import write_card


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

    Its golden scores are checked first, and its card is written anew for this id and revision, in
    a copy: the folder stays as it is. Raises JudgeLoadError, ConfigError (see ``read_facts``) and
    HubError (see ``push_folder``).
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
