"""Pushes a saved judge to the Hub with a model card, after its golden scores are checked."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from medal_judges.errors import ConfigError, JudgeLoadError
from medal_judges.models.base.hub import files_to_upload, is_hub_id, push_judge_folder
from medal_judges.models.model_files import PREFIX
from medal_judges.storage.files import read_json


def push_with_card(
    folder: Path, repo_id: str, *, public: bool = False, revision: str | None = None
) -> str:
    """Uploads a saved judge to the Hub with a model card, and returns the commit's URL.

    The judge is uploaded only if it still gives the scores in its golden.json.

    Args:
        folder: The judge's folder, which does not change.
        repo_id: The Hub id OWNER/NAME. The repository is created if it does not exist.
        public: If true, a new repository is public. If false, a new repository is private, and an
            existing one must be private.
        revision: A tag to create for the commit, such as ``v1``. None creates none.

    Raises:
        JudgeLoadError: ``folder`` has no judge, or its scores differ from golden.json.
        ConfigError: The judge's base model exists only as a folder on this machine.
        HubError: The upload fails, the tag exists, or the repository is public but ``public`` is
            false.
    """
    from medal_judges.models.base.golden import require_golden_scores
    from medal_judges.models.card.writer import write_card

    if not folder.is_dir():
        raise JudgeLoadError(
            f"no folder {folder}", hint="Give the folder that medal train wrote"
        )
    require_hub_base(folder)
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary) / folder.resolve().name
        for path in files_to_upload(folder):
            target = copy / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
        require_golden_scores(copy)
        write_card(copy, repo_id=repo_id, revision=revision)
        return push_judge_folder(copy, repo_id, private=not public, revision=revision)


def require_hub_base(folder: Path) -> None:
    """Raises ConfigError if the judge in ``folder`` needs a base model that exists only as a folder
    on this machine. The members of a hybrid (the judges that it combines) are checked too."""
    from medal_judges.models.base.saving import CONFIG_NAME

    for path in folder.rglob(CONFIG_NAME):
        config = read_json(path)
        model = config.get(config.get("family"))
        # Every other judge, alone or in a hybrid, is saved with its base or has a public one.
        if config.get("family") != "lora" or not isinstance(model, dict):
            continue
        base = str(model["base"])
        if not base.startswith(PREFIX) and not is_hub_id(base):
            raise ConfigError(
                f"the judge needs its base model {base}, a folder of this machine",
                hint="Upload the base (hf upload ORG/BASE FOLDER) and train with "
                "model.base=ORG/BASE",
            )
