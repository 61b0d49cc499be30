"""What the folder of a hybrid may say of a member in YAML, and what only its user may.

A judge folder can come from anybody. It names no server, key, cache, price list or machine, and no
file outside of itself: such settings are left out when a hybrid is saved and refused by name when
one is loaded. Who loads the hybrid gives them, under the member's name.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medal_judges.errors import JudgeLoadError
from medal_judges.models.llm.settings import OpenAILLM, llm_config

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
    settings: Mapping[str, Any], name: str, folder: Path | None
) -> tuple[dict[str, Any], dict[str, str]]:
    """(settings for config.json, what the user has to give: setting -> what was used).

    Files that are not shipped are copied to ``folder``, where one is given.
    """
    saved, needed = dict(settings), dict[str, str]()
    for key, value in settings.items():
        if key in _file_settings(settings) and isinstance(value, str):
            saved[key] = _kept_file(value, name, key, folder)
        elif key in _MODELS and isinstance(value, str) and not _is_hub_id(value):
            needed[key] = Path(value).name
        elif key == "llm":
            llm, told = _portable_llm(value)
            saved[key] = llm
            if told is not None:
                needed[key] = told
    select = settings.get("select")
    if isinstance(select, Mapping) and isinstance(select.get("prompt"), str):
        kept = _kept_file(select["prompt"], name, "select_prompt", folder)
        saved["select"] = {**select, "prompt": kept}
    return {k: v for k, v in saved.items() if k not in needed}, needed


def from_saved(
    saved: Mapping[str, Any], name: str, folder: Path, own: Mapping[str, Any]
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
    for key, value in settings.items():
        if key in _file_settings(settings) and isinstance(value, str):
            settings[key] = _opened_file(value, name, key, folder, where)
        elif key in _MODELS and isinstance(value, str) and not _is_hub_id(value):
            raise _refused(where, key, value)
        elif key == "llm":
            _require_portable_llm(value, where)
    select = settings.get("select")
    if isinstance(select, Mapping) and isinstance(select.get("prompt"), str):
        opened = _opened_file(select["prompt"], name, "select.prompt", folder, where)
        settings["select"] = {**select, "prompt": opened}
    return settings


def _file_settings(settings: Mapping[str, Any]) -> tuple[str, ...]:
    # ``pool`` is a way to put repeats together, but for the follow-up judge, whose pool is a file.
    return (*_FILES, "pool") if settings.get("family") == "followup" else _FILES


def _is_hub_id(value: str) -> bool:
    return bool(_HUB_ID.fullmatch(value)) and ".." not in value and not Path(value).exists()


def _portable_llm(llm: Any) -> tuple[Any, str | None]:
    """(``llm`` without the server's and the machine's settings, None), or (None, what it was) for
    a model that only the user can name."""
    if not isinstance(llm, str | Mapping):
        return None, str(getattr(llm, "name", type(llm).__name__))
    config = llm_config(llm)
    known = isinstance(llm, str) or all(key in (*_LLM, *_MACHINE) for key in llm)
    if isinstance(config, OpenAILLM) or not _is_hub_id(config.model) or not known:
        return None, f"{config.backend}:{Path(config.model).name}"
    if isinstance(llm, str):
        return llm, None
    return {key: value for key, value in llm.items() if key in _LLM}, None


def _require_portable_llm(llm: Any, where: str) -> None:
    if isinstance(llm, Mapping):
        for key, value in llm.items():
            if key not in _LLM:
                raise _refused(where, f"llm.{key}", value)
    if not isinstance(llm, str | Mapping):
        raise _refused(where, "llm", llm)
    config = llm_config(llm)
    if isinstance(config, OpenAILLM):
        raise _refused(where, "llm", f"{config.backend}:{config.model}")
    if not _is_hub_id(config.model):
        raise _refused(where, "llm.model", config.model)


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
