"""What the folder of a hybrid may say of a member in YAML, and what only its user may.

A judge folder can come from anybody. It names no server, key, cache, price list or machine, and no
file outside of itself: such settings are left out when a hybrid is saved and refused by name when
one is loaded. Who loads the hybrid gives them, under the member's name.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from medal_judges.errors import JudgeLoadError
from medal_judges.models.llm.protocol import LanguageModel
from medal_judges.models.llm.settings import llm_config

MEMBERS = "members"
FORBIDDEN_FAMILIES = ("hybrid",)  # a hybrid is saved as a folder of its own
# Settings that name a file: shipped with the package, or copied into the folder.
_FILES = ("prompt", "rubric", "examples", "summary_prompt", "steps")
_MODELS = ("model", "tokenizer")
# Of an ``llm``: what its numbers depend on and a folder may say.
_LLM = ("backend", "model", "dtype", "revision", "context", "share_prefix", "thinking")
# Of the machine, left out: the numbers do not depend on them.
_MACHINE = ("device", "token_budget", "cache", "tensor_parallel_size", "gpu_memory_utilization")
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_SHIPPED = re.compile(r"[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*")
_FILE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
_HUB_ID = re.compile(r"embedded:[A-Za-z0-9_-]+|[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


def require_name(name: object, folder: Path) -> None:
    """Raise JudgeLoadError for a member's name that could lead out of the folder."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise JudgeLoadError(
            f"{folder}: a member is called {name!r}",
            hint="a name has letters, digits, _ and - only; this folder was not written by "
            "medal-judges, or was changed",
        )


def member_folder(folder: Path, name: str) -> Path:
    """Where the member ``name`` is saved. Raises JudgeLoadError where that is no part of
    ``folder``."""
    place = folder / MEMBERS / name
    if not place.resolve().is_relative_to(folder.resolve()):
        raise JudgeLoadError(f"{folder}: the member {name} is a link that leads out of the folder")
    return place


def to_saved(
    settings: Mapping[str, object], name: str, folder: Path | None
) -> tuple[dict[str, Any], dict[str, str]]:
    """(settings for config.json, what the user has to give: setting -> what was used).

    Files that are not shipped are copied to ``folder``, where one is given.
    """
    saved, needed = dict(settings), dict[str, str]()
    for place, value in _files(settings):
        _put(saved, place, _kept_file(value, name, "_".join(place), folder))
    for key in _MODELS:
        model = settings.get(key)
        if isinstance(model, str) and not _is_hub_id(model):
            needed[key] = Path(model).name
    if "llm" in settings:
        llm = settings["llm"]
        kept = (
            {k: v for k, v in llm.items() if k not in _MACHINE} if isinstance(llm, Mapping) else llm
        )
        if _foreign(kept) is None:
            saved["llm"] = kept
        elif isinstance(llm, str | Mapping):
            config = llm_config(llm)
            needed["llm"] = f"{config.backend}:{Path(config.model).name}"
        else:
            needed["llm"] = llm.name if isinstance(llm, LanguageModel) else type(llm).__name__
    return {k: v for k, v in saved.items() if k not in needed}, needed


def from_saved(
    saved: Mapping[str, Any], name: str, folder: Path, own: Mapping[str, object]
) -> dict[str, Any]:
    """The settings in ``saved`` (config.json's of a member), files as paths in ``folder``.

    ``own`` is what the user gives. Raises JudgeLoadError that names a setting which a folder may
    not have, and one that the user has to give.
    """
    settings: dict[str, Any] = dict(saved["settings"])
    where = f"{folder}: member {name}"
    if settings.get("family") in FORBIDDEN_FAMILIES:
        raise JudgeLoadError(f"{where}: a {settings['family']} judge in settings")
    for key, used in dict(saved.get("needs") or {}).items():
        if key not in own:
            raise JudgeLoadError(
                f"{where} was made with {key}: {used}, and a saved judge holds no server settings "
                "and no path outside its folder",
                hint=f"give it: {name}.{key}=... on the command line, or "
                f'Judge.from_pretrained(folder, {name}={{"{key}": ...}})',
            )
    for place, value in list(_files(settings)):
        _put(settings, place, _opened_file(value, name, ".".join(place), folder, where))
    foreign = [(key, settings[key]) for key in _MODELS if isinstance(settings.get(key), str)]
    foreign = [(key, value) for key, value in foreign if not _is_hub_id(value)]
    if "llm" in settings and (setting := _foreign(settings["llm"])) is not None:
        foreign.append(setting)
    if foreign:
        raise _refused(where, *foreign[0])
    return settings


def _files(settings: Mapping[str, object]) -> Iterator[tuple[tuple[str, ...], str]]:
    """(place, value) of each setting that names a file."""
    # ``pool`` is a way to put repeats together, but for the follow-up judge, whose pool is a file.
    names = (*_FILES, "pool") if settings.get("family") == "followup" else _FILES
    for name in names:
        if isinstance(value := settings.get(name), str):
            yield (name,), value
    select = settings.get("select")
    if isinstance(select, Mapping) and isinstance(select.get("prompt"), str):
        yield ("select", "prompt"), select["prompt"]


def _put(settings: dict[str, Any], place: tuple[str, ...], value: str) -> None:
    """Set the setting at ``place``, groups copied."""
    first, *rest = place
    settings[first] = {**settings[first], rest[0]: value} if rest else value


def _is_hub_id(value: str) -> bool:
    return bool(_HUB_ID.fullmatch(value)) and ".." not in value and not Path(value).exists()


def _foreign(llm: object) -> tuple[str, object] | None:
    """(setting, value) of an ``llm`` that a folder may not hold: a server, a path, a setting of the
    machine; None where there is no such."""
    if not isinstance(llm, str | Mapping):
        return "llm", llm
    for key, value in llm.items() if isinstance(llm, Mapping) else ():
        if key not in _LLM:
            return f"llm.{key}", value
    config = llm_config(llm)
    if config.api:
        return "llm", f"{config.backend}:{config.model}"
    return None if _is_hub_id(config.model) else ("llm.model", config.model)


def _refused(where: str, key: str, value: object) -> JudgeLoadError:
    return JudgeLoadError(
        f"{where} sets {key} to {value!r:.80}: a judge folder decides no server, key or cache, and "
        "no path outside itself",
        hint="do not use this folder unless you know who made it; to use the member with settings "
        "of your own, remove this one from config.json and give yours when you load the judge",
    )


def _is_own(path: Path, folder: Path) -> bool:
    """Whether ``path`` is a file of ``folder``; the Hub's cache keeps a judge's files as links."""
    from huggingface_hub.constants import HF_HUB_CACHE

    homes = (folder.resolve(), Path(HF_HUB_CACHE).resolve())
    return path.is_file() and any(path.resolve().is_relative_to(home) for home in homes)


def _kept_file(value: str, name: str, key: str, folder: Path | None) -> str:
    """``value`` where it names a shipped file, else its copy's place in the folder."""
    source = Path(value)
    if not source.is_file():
        return value
    inside = f"{MEMBERS}/{name}/{key}{''.join(source.suffixes[-2:])}"
    if folder is not None:
        target = folder / inside
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    return inside


def _opened_file(value: str, name: str, key: str, folder: Path, where: str) -> str:
    inside = f"{MEMBERS}/{name}/"
    if value.startswith(inside):
        place = member_folder(folder, name) / value.removeprefix(inside)
        if _FILE.fullmatch(place.name) and value == inside + place.name and _is_own(place, folder):
            return str(place)
        raise _refused(where, key, value)
    if not _SHIPPED.fullmatch(value) or Path(value).exists():
        raise _refused(where, key, value)
    return value
