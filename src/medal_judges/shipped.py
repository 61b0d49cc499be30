"""What lies in configs/ and may be called by its short name: judges, and configs of a command."""

from __future__ import annotations

import logging
from importlib.resources import files
from pathlib import Path

JUDGES = "judges"
_YAML = (".yaml", ".yml")
logger = logging.getLogger(__name__)


def shipped_names(folder: str) -> list[str]:
    """Names of the YAML files of configs/FOLDER, without their ending, in alphabetical order."""
    place = files("medal_judges.configs") / folder
    if not place.is_dir():
        return []
    return sorted(p.name.removesuffix(".yaml") for p in place.iterdir() if p.name.endswith(".yaml"))


def about(folder: str, name: str) -> str:
    """The first sentence of the remark that a shipped file begins with; empty without one."""
    file = files("medal_judges.configs") / folder / f"{name}.yaml"
    remark = []
    for line in file.read_text(encoding="utf-8").splitlines():
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
            logger.warning(
                "%s: the judge saved in the folder %s/ here, not the shipped judge of that name "
                "(configs/judges/%s.yaml)", text, text, short,
            )  # fmt: skip
        return None
    if text.endswith(_YAML) and (Path(text).is_file() or not known):
        return text
    return f"configs/judges/{short}.yaml" if known else None
