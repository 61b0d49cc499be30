"""The members of a hybrid: any saved judges, and how they are saved with it and loaded again.

A judge folder can come from anybody. It names no server, key, cache, price list or machine, and no
file outside itself: such settings are left out when a hybrid is saved, and refused when a folder
with them is loaded. The user who loads the hybrid gives them under the member's name.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from medal_judges.config import Config, judge_file, read_yaml
from medal_judges.errors import JudgeLoadError
from medal_judges.models.base.hub import is_hub_id
from medal_judges.models.base.judge import Judge
from medal_judges.models.base.saving import (
    OPTIONS,
    judge_of_settings,
    placed,
    save_judge,
)
from medal_judges.models.base.trained import TrainedConfig
from medal_judges.models.llm.protocol import LanguageModel
from medal_judges.models.llm.settings import llm_config
from medal_judges.models.model_files import PREFIX
from medal_judges.records.judgement import Judgement

HybridKind = Literal["select", "stack"]
_NAME = re.compile(r"[A-Za-z0-9_-]+")


class MemberConfig(Config):
    """One judge of a hybrid: ``path`` is a folder, a hub id (at ``revision``) or a YAML file of
    configs/judges/.

    ``options`` go to ``Judge.from_pretrained``. ``dimensions`` maps the hybrid's name of a
    dimension to the member's name, if they differ.
    """

    path: str
    revision: str | None = None
    options: Mapping[str, Any] = {}
    dimensions: Mapping[str, str] = {}


class _Members(Config):
    kind: HybridKind
    members: Mapping[str, MemberConfig] = Field(min_length=1)

    @model_validator(mode="after")
    def _members_fit(self) -> _Members:
        # A name is a folder of the saved judge and a part of its signature.
        for name in self.members:
            if not _NAME.fullmatch(name):
                raise ValueError(
                    f"member {name!r}: a name has letters, digits, _ and - only"
                )
        return self


class HybridConfig(_Members, TrainedConfig):
    """How training combines ``members`` into one judge: ``kind`` is ``select`` or ``stack``.

    ``select``: each dimension is scored by the member that agrees best with people on the fitting
    rows (ORALIS, section 4.5). ``stack``: a ridge regression on the members' standardised scores
    with scikit-learn's penalty ``alpha`` (``auto``: chosen by cross-validation over the fitting
    rows); with ``nonnegative`` no weight is below 0.
    """

    family: Literal["hybrid"] = "hybrid"
    kind: HybridKind = "stack"
    alpha: Annotated[float, Field(ge=0)] | Literal["auto"] = "auto"
    nonnegative: bool = True


class HybridSettings(_Members):
    """A hybrid judge as a YAML file of configs/judges/, with nothing fitted.

    ``select`` needs ``choices`` (dimension: member); ``stack`` needs ``weights`` (member: number),
    with which the members' scores, scaled to [0, 1], are averaged in every dimension.
    """

    name: str
    rubric: str
    dimensions: tuple[str, ...] = ()
    choices: Mapping[str, str] | None = None
    weights: Mapping[str, float] | None = None

    @model_validator(mode="after")
    def _settings_fit(self) -> HybridSettings:
        needed = "choices" if self.kind == "select" else "weights"
        for setting in ("choices", "weights"):
            if (getattr(self, setting) is not None) != (setting == needed):
                raise ValueError(f"kind {self.kind} needs {needed}, and only that")
        weights = self.weights or {}
        for name in (*(self.choices or {}).values(), *weights):
            if name not in self.members:
                raise ValueError(
                    f"no member {name!r}; there are {', '.join(self.members)}"
                )
        if weights and (min(weights.values()) < 0 or sum(weights.values()) <= 0):
            raise ValueError("weights of a mean must be 0 or more, and one above 0")
        return self


MEMBERS = "members"
# Settings that name a file: shipped with the package, or copied into the folder.
_FILES = ("prompts", "followups", "rubric", "examples", "steps")
_MODELS = ("model", "tokenizer")
# Settings of an ``llm`` that its numbers depend on and a folder may have.
_LLM = ("backend", "model", "dtype", "revision", "context", "thinking")
# Settings of the machine, left out: the numbers do not depend on them.
_MACHINE = (
    *("device", "token_budget", "cache"),
    *("tensor_parallel_size", "gpu_memory_utilization", "enforce_eager"),
)
_SHIPPED = re.compile(r"[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*")
_FILE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class Member:
    """One judge of a hybrid. ``dimensions`` maps the hybrid's name of a dimension to the judge's
    name, if they differ. ``settings``: the settings and options of a judge that is a YAML file;
    None for a judge that is saved as a folder."""

    name: str
    judge: Judge
    dimensions: Mapping[str, str]
    settings: Mapping[str, Any] | None = None

    def own_name(self, dimension: str) -> str:
        """Returns the judge's name for the hybrid's ``dimension``."""
        return self.dimensions.get(dimension, dimension)

    def has(self, dimension: str) -> bool:
        """Returns whether the judge scores the hybrid's ``dimension``."""
        return any(d.name == self.own_name(dimension) for d in self.judge.dimensions)

    def own(self, dimensions: Sequence[str]) -> list[str]:
        """Returns the judge's names for those ``dimensions`` that it has, each once."""
        return list(
            dict.fromkeys(self.own_name(name) for name in dimensions if self.has(name))
        )

    def unit(self, judgement: Judgement, dimension: str) -> float | None:
        """Returns the judge's score of the hybrid's ``dimension`` on [0, 1]; None if unscored."""
        return self.unit_of(judgement, self.own_name(dimension))

    def unit_of(self, judgement: Judgement, own_name: str) -> float | None:
        """Returns the score of the judge's dimension ``own_name`` on [0, 1]; None if unscored."""
        value = judgement.scores.get(own_name)
        return None if value is None else self.judge.dimension(own_name).to_unit(value)

    def record(self) -> dict[str, Any]:
        """Returns the member's part of the hybrid's judge.json."""
        record: dict[str, Any] = {
            "dimensions": dict(self.dimensions),
            "settings": None,
            "signature": str(self.judge.signature()),
        }
        if self.settings is not None:
            record["settings"], record["needs"] = to_saved(self.settings, self.name)
        return record

    def save(self, folder: Path) -> None:
        """Writes the judge to members/NAME in the hybrid's ``folder``; of a YAML judge only the
        files that it reads and that do not ship with the package."""
        if self.settings is not None:
            to_saved(self.settings, self.name, folder)
            return
        (folder / MEMBERS).mkdir(exist_ok=True)
        save_judge(self.judge, folder / MEMBERS / self.name)

    def load_options(self) -> dict[str, Any]:
        """Returns the options that the saved member needs and that its folder must not have."""
        if self.settings is None:
            return self.judge.load_options()
        return {
            key: self.settings[key] for key in to_saved(self.settings, self.name)[1]
        }


def open_member(name: str, config: MemberConfig) -> Member:
    """Loads the member of a config. Raises JudgeLoadError."""
    judge = Judge.from_pretrained(
        config.path, revision=config.revision, **config.options
    )
    file = judge_file(config.path)
    settings = None if file is None else read_yaml(file) | dict(config.options)
    if settings is not None and settings.get("family") == "hybrid":  # saved as a folder
        settings = None
    return Member(name, judge, dict(config.dimensions), settings)


def load_member(
    name: str, saved: Mapping[str, Any], folder: Path, options: Mapping[str, Any]
) -> Member:
    """Loads the member that ``save`` and ``record`` wrote.

    ``options`` are those of the hybrid's ``from_pretrained``: this member's under its name, and
    ``device`` and ``dtype`` for every member with a model on this machine. Raises JudgeLoadError.
    """
    member_folder = folder / MEMBERS / name
    if not _NAME.fullmatch(name) or not member_folder.resolve().is_relative_to(
        folder.resolve()
    ):
        raise JudgeLoadError(
            f"{folder}: the member {name!r} is a path or a link that leads out of the folder",
            hint="this folder was not written by medal-judges, or was changed",
        )
    own_options = dict(options.get(name) or {})
    shared = {key: value for key, value in options.items() if key in OPTIONS}
    if saved["settings"] is None:
        judge = Judge.from_pretrained(member_folder, **(shared | own_options))
        return Member(name, judge, saved["dimensions"])
    settings = _from_saved(saved, name, folder, own_options)
    for key, value in own_options.items():
        # Field by field: ``llm: {device: cuda}`` keeps the saved model.
        if isinstance(settings.get(key), Mapping) and isinstance(value, Mapping):
            value = {**settings[key], **value}
        settings[key] = value
    where = f"member {name}"
    settings |= placed(settings, shared, where, strict=False)
    return Member(
        name, judge_of_settings(settings, where), saved["dimensions"], settings
    )


# -- settings in the folder of a hybrid --------------------------------------------------------


def to_saved(
    settings: Mapping[str, Any], name: str, folder: Path | None = None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns (settings for judge.json, settings that the user must give: name -> value now).

    With ``folder``, copies the files that do not ship with the package into it.
    """
    saved, needed = dict(settings), dict[str, str]()
    for path, value in _files(settings):
        source = Path(value)
        if source.is_file():
            inside = f"{MEMBERS}/{name}/{'_'.join(path)}{''.join(source.suffixes[-2:])}"
            _put(saved, path, inside)
            if folder is not None:
                (folder / inside).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, folder / inside)
    for key, model in _local_models(settings):
        needed[key] = Path(model).name
    if "llm" in settings:
        llm = saved["llm"]
        if isinstance(llm, Mapping):
            saved["llm"] = {
                key: value for key, value in llm.items() if key not in _MACHINE
            }
        if _foreign(saved["llm"]) is not None:
            needed["llm"] = _model_label(llm)
    shortener = _in_group(settings, "shorten", "llm")
    if shortener is not None and _foreign(shortener) is not None:
        needed["shorten"] = _model_label(shortener)
    for key in needed:
        saved.pop(key, None)
    return saved, needed


def _model_label(llm: object) -> str:
    """Returns a name of a language model without its server or folder."""
    if isinstance(llm, str | Mapping):
        config = llm_config(llm)
        return f"{config.backend}:{Path(config.model).name}"
    return llm.name if isinstance(llm, LanguageModel) else type(llm).__name__


def _from_saved(
    saved: Mapping[str, Any], name: str, folder: Path, own_options: Mapping[str, object]
) -> dict[str, Any]:
    """Returns the settings in ``saved`` (of judge.json), with files as paths in ``folder``.

    ``own_options`` are the user's. Raises JudgeLoadError that names a setting which a folder must
    not have, or which the user must give.
    """
    settings: dict[str, Any] = dict(saved["settings"])
    where = f"{folder}: member {name}"
    if settings.get("family") == "hybrid":
        raise JudgeLoadError(f"{where}: a hybrid judge in settings")
    for key, label in dict(saved.get("needs") or {}).items():
        if key not in own_options:
            raise JudgeLoadError(
                f"{where} was made with {key}: {label}, and a saved judge holds no server settings "
                "and no path outside its folder",
                hint=f"give it: {quote(f'{name}.{key}=...')} on the command line, or "
                f'Judge.from_pretrained(folder, {name}={{"{key}": ...}})',
            )
    for key, value in _foreign_settings(settings, name, folder):
        raise JudgeLoadError(
            f"{where} sets {key} to {value!r:.80}: a judge folder must not set servers, "
            "keys, caches or paths outside itself",
            hint="do not use this folder unless you know who made it; to use the member with your "
            "own settings, remove this one from judge.json and give yours when you load the judge",
        )
    return settings


def _foreign_settings(
    settings: dict[str, Any], name: str, folder: Path
) -> Iterator[tuple[str, object]]:
    """Yields (setting, value) that a folder must not have, and makes its own files paths in
    ``folder``."""
    for path, value in list(_files(settings)):
        file = value.removeprefix(f"{MEMBERS}/{name}/")
        inside = folder / MEMBERS / name / file
        if file != value and _FILE.fullmatch(file) and inside.is_file():
            _put(settings, path, str(inside))
        elif file != value or not _SHIPPED.fullmatch(value) or Path(value).exists():
            yield ".".join(path), value
    yield from _local_models(settings)
    shortener = _in_group(settings, "shorten", "llm")
    for group, llm in (("", settings.get("llm")), ("shorten.", shortener)):
        setting = None if llm is None else _foreign(llm)
        if setting is not None:
            yield group + setting[0], setting[1]


def _local_models(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields (setting, value) of each setting that names a model of this machine."""
    for key in _MODELS:
        model = settings.get(key)
        if isinstance(model, str) and not _is_public(model):
            yield key, model


def _is_public(model: str) -> bool:
    """Returns whether ``model`` is an embedded default or a model of the Hub."""
    return model.startswith(PREFIX) or is_hub_id(model, owned=False)


def _files(settings: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yields (path to the setting, value) of each setting that names a file."""
    paths = [(name,) for name in _FILES]
    for path in (*paths, ("shorten", "prompts")):
        value = _in_group(settings, *path)
        if isinstance(value, str):
            yield path, value


def _in_group(settings: Any, *path: str) -> Any:
    """Returns the setting at ``path``; None if it is not there."""
    for key in path:
        settings = settings.get(key) if isinstance(settings, Mapping) else None
    return settings


def _put(settings: dict[str, Any], path: tuple[str, ...], value: str) -> None:
    """Sets the setting at ``path``, in a copy of its group."""
    first, *below = path
    settings[first] = {**settings[first], below[0]: value} if below else value


def _foreign(llm: object) -> tuple[str, object] | None:
    """Returns (setting, value) of an ``llm`` setting that a folder must not have: a server, a path,
    a setting of the machine; None if there is none."""
    if not isinstance(llm, str | Mapping):
        return "llm", llm
    for key, value in llm.items() if isinstance(llm, Mapping) else ():
        if key not in _LLM:
            return f"llm.{key}", value
    config = llm_config(llm)
    if config.api:
        return "llm", f"{config.backend}:{config.model}"
    return None if _is_public(config.model) else ("llm.model", config.model)
