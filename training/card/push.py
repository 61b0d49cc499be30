"""Pushes a saved judge to the Hub, checked and with its card."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

from medal_judges.config import Config, option
from medal_judges.errors import ConfigError, JudgeLoadError
from medal_judges.models.base.hub import (
    is_hub_id,
    judge_files,
    push_folder,
    require_writable,
)
from medal_judges.models.model_files import PREFIX
from medal_judges.storage.files import read_json


class PushOptions(Config):
    """Options of ``medal push``."""

    judge: Path = option(argument=True, help="Folder of a saved judge.")
    repo_id: str = option(
        argument=True, metavar="ORG/NAME", help="Repository on the Hub."
    )
    public: bool = option(
        False, help="Make a new repository public; the default is private."
    )
    revision: str | None = option(None, help="Tag of this version, such as v1.0.")
    message: str | None = option(None, help="Message of the commit.")
    results: Path | None = option(
        None, help="results.json of a benchmark, for the card."
    )
    base: str | None = option(
        None,
        metavar="ORG/BASE",
        help="The judge's base model on the Hub, if it was trained on a folder of this machine.",
    )
    no_trial: bool = option(False, help="Push a judge without a trial.")
    dry_run: bool = option(
        False, help="Check the judge and list what would be uploaded."
    )


def push_judge(options: PushOptions) -> str:
    """Push the judge saved in ``options.judge``; returns the commit's address, of a dry run the
    files with their sizes.

    Its golden scores are checked first. Its card is written for this repository and revision in a
    copy: the folder is not changed. Raises JudgeLoadError, ConfigError (see ``read_metadata``,
    ``require_trial``, ``name_base``) and HubError (see ``push_folder``).
    """
    from medal_judges.models.base.golden import check_golden
    from medal_judges.training.card.card import require_trial, write_card

    folder = options.judge
    if not folder.is_dir():
        raise JudgeLoadError(
            f"no folder {folder}", hint="give the folder that medal train wrote"
        )
    if not options.dry_run:
        require_writable(options.repo_id)  # before the judge is loaded and checked
    if not options.no_trial:
        require_trial(folder)
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary) / folder.resolve().name
        for path in judge_files(folder):
            target = copy / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
        results = None
        if options.results is not None:
            results = Path(shutil.copy2(options.results, temporary))
        name_base(copy, options.base, results)
        check_golden(copy)
        write_card(
            copy, repo_id=options.repo_id, revision=options.revision, results=results
        )
        if options.dry_run:
            sizes = (
                (path.stat().st_size, path.relative_to(copy))
                for path in judge_files(copy)
            )
            return "\n".join(
                f"{size:>13,} bytes  {path.as_posix()}" for size, path in sizes
            )
        return push_folder(
            copy,
            options.repo_id,
            private=not options.public,
            revision=options.revision,
            message=options.message,
        )


def name_base(copy: Path, base: str | None, results: Path | None) -> None:
    """Names ``base``, a model of the Hub, instead of a folder of this machine, in the files of the
    judge in ``copy`` and in ``results``. Raises ConfigError if it is missing, and if the judge
    needs none."""
    from medal_judges.models.base.golden import compare, read_golden
    from medal_judges.models.base.saving import GOLDEN_NAME
    from medal_judges.training.card.card import TRIAL_NAME

    folders = base_folders(copy)
    if not folders:
        if base is not None:
            problem = "the judge needs no base model from a folder of this machine"
            raise ConfigError(problem, hint="leave --base out")
        return
    if base is None or not is_hub_id(base):
        names = ", ".join(sorted(folders))
        raise ConfigError(
            f"the judge needs its base model {names}, a folder of this machine",
            hint="upload the base (hf upload ORG/BASE FOLDER), then: medal push FOLDER ORG/NAME "
            "--base ORG/BASE",
        )
    before = read_golden(copy)["signature"]
    names_here = folders | {Path(folder).resolve().name for folder in folders}
    for path in copy.rglob("*.json"):
        for name in names_here:
            value = json.dumps(name, ensure_ascii=False)
            for key in ("base", "base_model_name_or_path"):
                _replace(path, f'"{key}": {value}', f'"{key}": "{base}"')
    # The base is part of a signature; benchmark and trial were of this very judge.
    old, new = (
        "|".join(text.split("|")[1:3]) for text in (before, compare(copy).signature)
    )
    for file in (copy / GOLDEN_NAME, copy / TRIAL_NAME, results):
        if file is not None and file.is_file():
            _replace(file, old, new)


def base_folders(folder: Path) -> set[str]:
    """Returns the base models, folders of this machine, that the judge in ``folder`` does not
    bring with it."""
    from medal_judges.models.base.saving import CONFIG_NAME

    folders = set()
    for path in folder.rglob(CONFIG_NAME):
        config = read_json(path)
        model = config.get(config.get("family"))
        if not isinstance(model, dict) or model.get(
            "save_base", config["family"] != "lora"
        ):
            continue
        base = model["base"]
        if not base.startswith(PREFIX) and not is_hub_id(base):
            folders.add(base)
    return folders


def _replace(path: Path, old: str, new: str) -> None:
    path.write_text(
        path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8"
    )
