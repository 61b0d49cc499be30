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
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from medal_judges.config import Config, judge_file, read_yaml
from medal_judges.errors import JudgeLoadError
from medal_judges.models.base.judge import Judge
from medal_judges.models.base.saving import OPTIONS, judge_of_settings, placed, save_judge
from medal_judges.models.base.trained import TrainedConfig
from medal_judges.models.llm.protocol import LanguageModel
from medal_judges.models.llm.settings import llm_config
from medal_judges.records.judgement import Judgement

HybridKind = Literal["select", "stack"]


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
            if not all(c.isalnum() or c in "_-" for c in name) or not name:
                raise ValueError(f"member {name!r}: a name has letters, digits, _ and - only")
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

    ``scales`` (language: {member: [mean, standard deviation]}) are those of the members' scores,
    scaled to [0, 1], of ordinary conversations in a language. With them, standardised scores are
    averaged: an ordinary conversation has the middle of the scale in every language, and one with
    all members a standard deviation higher is a quarter of the scale above. A language without its
    own numbers has the means of the others', and is not among the judge's languages.
    """

    name: str
    rubric: str
    dimensions: tuple[str, ...] = ()
    choices: Mapping[str, str] | None = None
    weights: Mapping[str, float] | None = None
    scales: Mapping[str, Mapping[str, tuple[float, Annotated[float, Field(gt=0)]]]] = {}

    @model_validator(mode="after")
    def _settings_fit(self) -> HybridSettings:
        needs = {"select": "choices", "stack": "weights"}
        for kind, setting in needs.items():
            if (getattr(self, setting) is not None) != (kind == self.kind):
                raise ValueError(f"kind {self.kind} needs {needs[self.kind]}, and only that")
        named = [*(self.choices or {}).values(), *(self.weights or {})]
        if unknown := [name for name in named if name not in self.members]:
            raise ValueError(f"no member {unknown[0]!r}; there are {', '.join(self.members)}")
        weights = (self.weights or {"": 1.0}).values()
        if min(weights) < 0 or sum(weights) <= 0:
            raise ValueError("weights of a mean must be 0 or more, and one above 0")
        for lang, own in self.scales.items():
            if not re.fullmatch("[a-z]{2,3}", lang) or set(own) != set(self.weights or {}):
                each = ", ".join(f"{member}: [MEAN, DEVIATION]" for member in self.weights or {})
                raise ValueError(f"scales: {lang}: expected an ISO 639-1 code with {{{each}}}")
        return self


MEMBERS = "members"
# Settings that name a file: shipped with the package, or copied into the folder.
_FILES = ("prompt", "rubric", "examples", "summary_prompt", "steps")
_MODELS = ("model", "tokenizer")
# Settings of an ``llm`` that its numbers depend on and a folder may have.
_LLM = ("backend", "model", "dtype", "revision", "context", "thinking")
# Settings of the machine, left out: the numbers do not depend on them.
_MACHINE = (
    *("device", "token_budget", "cache"),
    *("tensor_parallel_size", "gpu_memory_utilization", "enforce_eager"),
)
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_SHIPPED = re.compile(r"[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*")
_FILE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
_HUB_ID = re.compile(r"embedded:[A-Za-z0-9_-]+|[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


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
        return list(dict.fromkeys(self.own_name(name) for name in dimensions if self.has(name)))

    def unit(self, judgement: Judgement, dimension: str) -> float | None:
        """Returns the judge's score of the hybrid's ``dimension`` on [0, 1]; None if unscored."""
        own = self.own_name(dimension)
        value = judgement.scores.get(own)
        return None if value is None else self.judge.dimension(own).to_unit(value)

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
        return {key: self.settings[key] for key in to_saved(self.settings, self.name)[1]}


def open_member(name: str, config: MemberConfig) -> Member:
    """Loads the member of a config. Raises JudgeLoadError."""
    judge = Judge.from_pretrained(config.path, revision=config.revision, **config.options)
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
    place = folder / MEMBERS / name
    if not _NAME.fullmatch(name) or not place.resolve().is_relative_to(folder.resolve()):
        raise JudgeLoadError(
            f"{folder}: the member {name!r} is a path or a link that leads out of the folder",
            hint="this folder was not written by medal-judges, or was changed",
        )
    own = dict(options.get(name) or {})
    shared = {k: v for k, v in options.items() if k in OPTIONS}
    if saved["settings"] is None:
        judge = Judge.from_pretrained(place, **(shared | own))
        return Member(name, judge, saved["dimensions"])
    settings = _from_saved(saved, name, folder, own)
    for key, value in own.items():  # field by field: ``llm: {device: cuda}`` keeps the saved model
        there = settings.get(key)
        if isinstance(there, Mapping) and isinstance(value, Mapping):
            value = {**there, **value}
        settings[key] = value
    settings |= placed(settings, shared, f"member {name}", strict=False)
    return Member(
        name, judge_of_settings(settings, f"member {name}"), saved["dimensions"], settings
    )


# -- settings in the folder of a hybrid --------------------------------------------------------


def to_saved(
    settings: Mapping[str, Any], name: str, folder: Path | None = None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns (settings for judge.json, settings that the user must give: name -> value now).

    With ``folder``, copies the files that do not ship with the package into it.
    """
    saved, needed = dict(settings), dict[str, str]()
    for place, value in _files(settings):
        source = Path(value)
        if source.is_file():
            inside = f"{MEMBERS}/{name}/{'_'.join(place)}{''.join(source.suffixes[-2:])}"
            _put(saved, place, inside)
            if folder is not None:
                (folder / inside).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, folder / inside)
    for key in _MODELS:
        model = settings.get(key)
        if isinstance(model, str) and not _is_hub_id(model):
            needed[key] = Path(model).name
    if "llm" in settings:
        llm = saved["llm"]
        if isinstance(llm, Mapping):
            saved["llm"] = {k: v for k, v in llm.items() if k not in _MACHINE}
        if _foreign(saved["llm"]) is not None:
            needed["llm"] = llm.name if isinstance(llm, LanguageModel) else type(llm).__name__
            if isinstance(llm, str | Mapping):
                config = llm_config(llm)
                needed["llm"] = f"{config.backend}:{Path(config.model).name}"
    return {k: v for k, v in saved.items() if k not in needed}, needed


def _from_saved(
    saved: Mapping[str, Any], name: str, folder: Path, own: Mapping[str, object]
) -> dict[str, Any]:
    """Returns the settings in ``saved`` (of judge.json), with files as paths in ``folder``.

    ``own`` are the user's options. Raises JudgeLoadError that names a setting which a folder must
    not have, or which the user must give.
    """

    settings: dict[str, Any] = dict(saved["settings"])
    where = f"{folder}: member {name}"
    if settings.get("family") == "hybrid":
        raise JudgeLoadError(f"{where}: a hybrid judge in settings")
    for key, used in dict(saved.get("needs") or {}).items():
        if key not in own:
            raise JudgeLoadError(
                f"{where} was made with {key}: {used}, and a saved judge holds no server settings "
                "and no path outside its folder",
                hint=f"give it: {name}.{key}=... on the command line, or "
                f'Judge.from_pretrained(folder, {name}={{"{key}": ...}})',
            )
    foreign: list[tuple[str, object]] = []
    for place, value in list(_files(settings)):
        file = value.removeprefix(f"{MEMBERS}/{name}/")
        path = folder / MEMBERS / name / file
        if file != value and _FILE.fullmatch(file) and path.is_file():
            _put(settings, place, str(path))
            continue
        elif file == value and _SHIPPED.fullmatch(value) and not Path(value).exists():
            continue
        foreign.append((".".join(place), value))
    models = [(key, settings[key]) for key in _MODELS if isinstance(settings.get(key), str)]
    foreign += [(key, model) for key, model in models if not _is_hub_id(model)]
    if "llm" in settings and (setting := _foreign(settings["llm"])) is not None:
        foreign.append(setting)
    for key, wrong in foreign:
        raise JudgeLoadError(
            f"{where} sets {key} to {wrong!r:.80}: a judge folder must not set servers, "
            "keys, caches or paths outside itself",
            hint="do not use this folder unless you know who made it; to use the member with your "
            "own settings, remove this one from judge.json and give yours when you load the judge",
        )
    return settings


def _files(settings: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yields (place, value) of each setting that names a file."""
    # ``pool`` is a file of the follow-up judge; elsewhere it is a way to pool repeats.
    names = (*_FILES, "pool") if settings.get("family") == "followup" else _FILES
    places: list[tuple[tuple[str, ...], Any]] = [((n,), settings.get(n)) for n in names]
    if isinstance(select := settings.get("select"), Mapping):
        places.append((("select", "prompt"), select.get("prompt")))
    yield from ((place, value) for place, value in places if isinstance(value, str))


def _put(settings: dict[str, Any], place: tuple[str, ...], value: str) -> None:
    """Sets the setting at ``place``, in a copy of its group."""
    first, *rest = place
    settings[first] = {**settings[first], rest[0]: value} if rest else value


def _is_hub_id(value: str) -> bool:
    return bool(_HUB_ID.fullmatch(value)) and ".." not in value and not Path(value).exists()


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
    return None if _is_hub_id(config.model) else ("llm.model", config.model)
