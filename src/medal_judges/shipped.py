"""What lies in configs/ and may be called by its short name: judges, and configs of a command."""

from __future__ import annotations

import logging
from importlib.resources import files
from pathlib import Path

JUDGES = "judges"
BOXED = "boxed"  # the judge whose weights are in the package, and the default
_YAML = (".yaml", ".yml")
logger = logging.getLogger(__name__)


def judge_names() -> list[str]:
    """Every judge that ships: the one with weights, then those described in configs/judges/."""
    return [BOXED, *shipped_names(JUDGES)]


def boxed_folder(name: str | Path = BOXED) -> Path | None:
    """The folder of the judge in the package, where ``name`` is its name; None for any other.

    A judge saved in a folder of that name here comes before it; the log says so.
    """
    if str(name) != BOXED:
        return None
    if (Path(BOXED) / "config.json").is_file():
        _warn_of_folder(BOXED, "the package's")
        return None
    return Path(str(files("medal_judges.models") / BOXED))


def _warn_of_folder(name: str, other: str) -> None:
    logger.warning(
        "%s: the judge saved in the folder %s/ here, not the shipped judge of that name (%s)",
        name, name, other,
    )  # fmt: skip


def shipped_names(folder: str) -> list[str]:
    """Names of the YAML files of configs/FOLDER, without their ending, and of its JSON files with
    it, in alphabetical order."""
    place = files("medal_judges.configs") / folder
    if not place.is_dir():
        return []
    names = [each.name for each in place.iterdir()]
    return sorted(n.removesuffix(".yaml") for n in names if n.endswith((".yaml", ".json")))


def shipped_file(name: str) -> Path:
    """The file of ``FOLDER/NAME`` in configs/, NAME as shipped_names has it."""
    ending = "" if name.endswith(".json") else ".yaml"
    return Path(str(files("medal_judges.configs"))) / f"{name}{ending}"


def project_files() -> dict[str, bytes]:
    """What ``medal init`` writes: name -> content of each file of configs/project/."""
    place = files("medal_judges.configs") / "project"
    return {each.name: each.read_bytes() for each in place.iterdir() if each.is_file()}


def about(folder: str, name: str) -> str:
    """The first sentence of the remark that a shipped file begins with; empty without one."""
    remark = []
    for line in shipped_file(f"{folder}/{name}").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        remark.append(line.removeprefix("#").strip())
    text = " ".join(remark)
    end = text.find(". ")
    return text if end < 0 else text[: end + 1]


def judge_file(name: str | Path) -> str | None:
    """The YAML file of a judge that is described by one: a file as it is named, and for the name of
    a shipped judge (``contrast``, ``contrast.yaml``, ``judges/contrast``) that one's.

    None for anything else: a folder, an id of the Hub. A saved judge's folder of the same name here
    comes before the shipped judge, and a file here before a shipped file; the log says so.
    """
    text = str(name)
    inside = text.removeprefix("configs/").removeprefix("judges/")
    short = inside.removesuffix(".yaml")
    known = short in shipped_names(JUDGES)
    if (Path(text) / "config.json").is_file():
        if known:
            _warn_of_folder(text, f"configs/judges/{short}.yaml")
        return None
    if text.endswith(_YAML) and (Path(text).is_file() or not known):
        return text
    return f"configs/judges/{short}.yaml" if known else None
