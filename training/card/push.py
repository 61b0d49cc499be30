"""Pushes a saved judge to the Hub, checked and with its card."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from medal_judges.config import Config, option
from medal_judges.errors import JudgeLoadError
from medal_judges.models.base.hub import judge_files, push_folder, require_writable


class PushOptions(Config):
    """Options of ``medal push``."""

    judge: Path = option(argument=True, help="Folder of a saved judge.")
    repo_id: str = option(argument=True, metavar="ORG/NAME", help="Repository on the Hub.")
    public: bool = option(False, help="Make a new repository public; the default is private.")
    revision: str | None = option(None, help="Tag of this version, such as v1.0.")
    message: str | None = option(None, help="Message of the commit.")
    results: Path | None = option(None, help="results.json of a benchmark, for the card.")
    no_trial: bool = option(False, help="Push a judge without a trial.")
    dry_run: bool = option(False, help="Check the judge and list what would be uploaded.")


def push_judge(options: PushOptions) -> str:
    """Push the judge saved in ``options.judge``; returns the commit's address, of a dry run the
    files with their sizes.

    Its golden scores are checked first. Its card is written for this repository and revision in a
    copy: the folder is not changed. Raises JudgeLoadError, ConfigError (see ``read_metadata``,
    ``require_trial``) and HubError (see ``push_folder``).
    """
    from medal_judges.models.base.golden import check_golden
    from medal_judges.training.card.card import require_trial, write_card

    folder = options.judge
    if not folder.is_dir():
        raise JudgeLoadError(f"no folder {folder}", hint="give the folder that medal train wrote")
    if not options.dry_run:
        require_writable(options.repo_id)  # before the judge is loaded and checked
    if not options.no_trial:
        require_trial(folder)
    check_golden(folder)
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / folder.resolve().name
        for path in judge_files(folder):
            target = copy / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
        write_card(
            copy, repo_id=options.repo_id, revision=options.revision, results=options.results
        )
        if options.dry_run:
            sizes = ((path.stat().st_size, path.relative_to(copy)) for path in judge_files(copy))
            return "\n".join(f"{size:>13,} bytes  {path.as_posix()}" for size, path in sizes)
        return push_folder(
            copy,
            options.repo_id,
            private=not options.public,
            revision=options.revision,
            message=options.message,
        )
