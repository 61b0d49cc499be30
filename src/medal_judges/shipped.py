"""The configs that ship under configs/, by their short names: judges, and configs of commands."""

from __future__ import annotations

import logging
from importlib.resources import files
from pathlib import Path

CONFIGS = Path(str(files("medal_judges.configs")))
JUDGES = "judges"
BOXED = "boxed"  # the judge whose weights are in the package, and the default
logger = logging.getLogger(__name__)


def judge_names() -> list[str]:
    """Returns the names of all shipped judges, first the judge with weights."""
    return [BOXED, *shipped_names(JUDGES)]


def boxed_folder(name: str | Path = BOXED) -> Path | None:
    """Returns the folder of the judge in the package if ``name`` is its name, else None; also None
    if a judge is saved in a folder of that name here."""
    if str(name) != BOXED or _is_saved_here(BOXED, "the package's"):
        return None
    return Path(str(files("medal_judges.models") / BOXED))


def _is_saved_here(name: str, other: str) -> bool:
    """Whether a judge is saved in the folder ``name``; if so, logs that ``other`` is not used."""
    if not (Path(name) / "config.json").is_file():
        return False
    if other:
        logger.warning("%s: using the judge saved in the folder %s/, not %s", name, name, other)
    return True


def shipped_names(folder: str) -> list[str]:
    """Returns the sorted names of the files in configs/FOLDER; YAML files without their ending."""
    place = CONFIGS / folder
    names = [each.name for each in place.iterdir()] if place.is_dir() else []
    return sorted(n.removesuffix(".yaml") for n in names if n.endswith((".yaml", ".json")))


def shipped_file(name: str) -> Path:
    """Returns the path of ``FOLDER/NAME`` in configs/, NAME as in ``shipped_names``."""
    return CONFIGS / (name if name.endswith(".json") else f"{name}.yaml")


def about(folder: str, name: str) -> str:
    """Returns the first sentence of the comment at the top of a shipped file, or an empty text."""
    remark = []
    for line in shipped_file(f"{folder}/{name}").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        remark.append(line.removeprefix("#").strip())
    first, stop, _ = " ".join(remark).partition(". ")
    return first + stop.strip()


def judge_file(name: str | Path) -> str | None:
    """Returns the YAML file of a judge, by its path or by the name of a shipped judge
    (``contrast``, ``contrast.yaml``, ``judges/contrast``); None for a folder or a hub id.

    A judge saved in a folder of that name comes first, then a file here, then a shipped file.
    """
    text = str(name)
    short = text.removeprefix("configs/").removeprefix("judges/").removesuffix(".yaml")
    shipped = f"configs/judges/{short}.yaml" if short in shipped_names(JUDGES) else None
    if _is_saved_here(text, shipped or ""):
        return None
    if text.endswith((".yaml", ".yml")) and (Path(text).is_file() or shipped is None):
        return text
    return shipped
