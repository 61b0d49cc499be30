"""The configs that ship under configs/, by their short names: judges, and configs of commands."""

from __future__ import annotations

import logging
from importlib.resources import files
from pathlib import Path

JUDGES = "judges"
BOXED = "boxed"  # the judge whose weights are in the package, and the default
_YAML = (".yaml", ".yml")
logger = logging.getLogger(__name__)


def judge_names() -> list[str]:
    """Returns the names of all shipped judges, first the one with weights."""
    return [BOXED, *shipped_names(JUDGES)]


def boxed_folder(name: str | Path = BOXED) -> Path | None:
    """Returns the folder of the judge in the package if ``name`` is its name, else None. A saved
    judge in a folder of that name here comes first."""
    if str(name) != BOXED or _is_saved_here(BOXED, "the package's"):
        return None
    return Path(str(files("medal_judges.models") / BOXED))


def _is_saved_here(name: str, other: str) -> bool:
    """Whether a judge is saved in a folder ``name``; the log then says that it is not ``other``."""
    if not (Path(name) / "config.json").is_file():
        return False
    if other:
        logger.warning("%s: using the judge saved in the folder %s/, not %s", name, name, other)
    return True


def shipped_names(folder: str) -> list[str]:
    """Returns the sorted names of the files in configs/FOLDER; YAML files without their ending."""
    place = files("medal_judges.configs") / folder
    if not place.is_dir():
        return []
    names = [each.name for each in place.iterdir()]
    return sorted(n.removesuffix(".yaml") for n in names if n.endswith((".yaml", ".json")))


def shipped_file(name: str) -> Path:
    """Returns the path of ``FOLDER/NAME`` in configs/, NAME as in ``shipped_names``."""
    ending = "" if name.endswith(".json") else ".yaml"
    return Path(str(files("medal_judges.configs"))) / f"{name}{ending}"


def project_files() -> dict[str, bytes]:
    """Returns what ``medal init`` writes: name -> content of each file of configs/project/."""
    place = files("medal_judges.configs") / "project"
    return {each.name: each.read_bytes() for each in place.iterdir() if each.is_file()}


def about(folder: str, name: str) -> str:
    """Returns the first sentence of the comment at the top of a shipped file, or nothing."""
    remark = []
    for line in shipped_file(f"{folder}/{name}").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        remark.append(line.removeprefix("#").strip())
    text = " ".join(remark)
    end = text.find(". ")
    return text if end < 0 else text[: end + 1]


def judge_file(name: str | Path) -> str | None:
    """Returns the YAML file of a judge: a file, or a shipped judge by its name (``contrast``,
    ``contrast.yaml``, ``judges/contrast``); None for a folder or a hub id.

    A saved judge in a folder of that name comes first, then a file here, then a shipped file.
    """
    text = str(name)
    short = text.removeprefix("configs/").removeprefix("judges/").removesuffix(".yaml")
    known = short in shipped_names(JUDGES)
    if _is_saved_here(text, f"configs/judges/{short}.yaml" if known else ""):
        return None
    if text.endswith(_YAML) and (Path(text).is_file() or not known):
        return text
    return f"configs/judges/{short}.yaml" if known else None
