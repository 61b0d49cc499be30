"""Typed configuration: YAML, ``field=value`` overrides, and the configs shipped in configs/."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from medal_judges.errors import ConfigError, did_you_mean

CONFIGS = Path(str(files("medal_judges.configs")))
JUDGES = "judges"
BOXED = "boxed"  # the default judge
MULTILINGUAL = "multilingual"
PACKAGED = (BOXED, MULTILINGUAL, "issues")  # with weights in the package
_LARGEST = 1 << 20  # bytes of a YAML file
_MOST_ALIASES = 200


def judge_names() -> list[str]:
    """Returns the names of all shipped judges, first those with weights."""
    return [*PACKAGED, *shipped_names(JUDGES)]


def boxed_folder(name: str | Path = BOXED) -> Path | None:
    """Returns the folder of the packaged judge ``name``, None if there is none. A folder here of
    that name is ``./NAME`` (or a Path)."""
    if isinstance(name, str) and name in PACKAGED:
        return Path(str(files("medal_judges.models") / name))
    return None


def packaged_languages(name: str) -> list[str]:
    """Returns the languages that the packaged judge ``name`` supports (ISO 639-1)."""
    file = files("medal_judges.models") / name / "judge.json"
    languages: list[str] = json.loads(file.read_text(encoding="utf-8"))["languages"]
    return languages


def shipped_names(folder: str) -> list[str]:
    """Returns the sorted names of the files in configs/FOLDER, without .yaml and .py."""
    names = []
    for file in (CONFIGS / folder).glob("*"):
        if file.suffix == ".json":
            names.append(file.name)
        elif file.suffix in (".yaml", ".py"):
            names.append(file.stem)
    return sorted(names)


def shipped_file(name: str) -> Path:
    """Returns the path of ``FOLDER/NAME`` in configs/, NAME as in ``shipped_names``."""
    if name.startswith("convert/"):
        name += ".py"
    elif not name.endswith(".json"):
        name += ".yaml"
    return CONFIGS / name


def about(folder: str, name: str) -> str:
    """Returns the first sentence of the comment at the top of a shipped file, or an empty text."""
    remark = []
    for line in (
        shipped_file(f"{folder}/{name}").read_text(encoding="utf-8").splitlines()
    ):
        if not line.startswith("#"):
            break
        remark.append(line.removeprefix("#").strip())
    first, stop, _ = " ".join(remark).partition(". ")
    return first + stop.strip()


def judge_file(name: str | Path) -> str | None:
    """Returns the YAML file of a judge, by its path or by the name of a shipped judge
    (``contrast``, ``contrast.yaml``, ``judges/contrast``); None for a folder or a hub id.

    A file here comes first. A folder of a shipped name is ``./NAME``.
    """
    text = str(name)
    is_yaml = text.endswith((".yaml", ".yml"))
    short = text.removeprefix("configs/").removeprefix("judges/").removesuffix(".yaml")
    if short in shipped_names(JUDGES) and not (is_yaml and Path(text).is_file()):
        return f"configs/judges/{short}.yaml"
    if is_yaml:
        return text
    return None


class Config(BaseModel):
    """Base of every config object: immutable, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


C = TypeVar("C", bound=Config)


def option(
    default: Any = ...,
    *,
    help: str,
    flag: str | None = None,
    argument: bool = False,
    metavar: str | None = None,
    panel: str | None = None,
    **bounds: Any,
) -> Any:
    """A field of a command's options (a Config), from which cli/options.py builds the command line.

    ``flag`` replaces ``--field-name``, an ``argument`` is positional, ``panel`` is a heading of the
    help. An option without a ``default`` is required.
    """
    extra: Any = {
        "flag": flag,
        "argument": argument,
        "metavar": metavar,
        "panel": panel,
    }
    return Field(default, description=help, json_schema_extra=extra, **bounds)


# Options of several commands.
OVERRIDES: tuple[str, ...] = option(
    (),
    argument=True,
    metavar="FIELD=VALUE",
    help="Change a setting: a=1, or a.b=1 in a group.",
)
JUDGE_SETTINGS: tuple[str, ...] = option(
    (),
    argument=True,
    metavar="FIELD=VALUE",
    help="Change a setting of the judge: repeats=3, llm.cache=false, dtype=bf16.",
)
DRY_RUN: bool = option(
    False, help="Estimate requests, tokens and maximum cost without sending anything."
)
SEED: int = option(0, ge=0, help="Seed of every random draw.")
DEVICE: str | None = option(None, help="cpu, cuda, cuda:1, ...")
OVERWRITE: bool = option(False, help="Start again from the beginning; replaces OUT.")
NO_CACHE: bool = option(
    False, help="Neither use nor store cached answers of language models."
)
MAX_COST: float | None = option(
    None, ge=0, help="US dollars; stops before it spends more."
)
RETRY_FAILED: bool = option(False, help="Score again every row that has no score.")
REVISION: str | None = option(None, help="Branch, tag or commit of a judge on the Hub.")


def load_config(
    kind: type[C],
    path: str | Path,
    overrides: Sequence[str] = (),
    *,
    folder: str | None = None,
) -> C:
    """Returns the config at ``path``: a file, a name in configs/ (``train/quickstart``), or a name
    in ``folder`` of configs/ (``quickstart``).

    ``overrides`` are ``a.b=value`` with the value in YAML. Raises ConfigError that names the key,
    the expected value and the nearest known key.
    """
    data = overridden(read_yaml(path, folder), overrides)
    return build_config(kind, data, where=str(path))


def overridden(data: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Sets each ``a.b=value`` (the value in YAML) in ``data``, and returns ``data``.

    ``a.0.b`` is the first element of a list. ``a=value`` is applied before ``a.b=value``, in
    whatever order they are typed. Raises ConfigError.
    """
    for override in sorted(overrides, key=lambda text: text.split("=")[0].count(".")):
        key, sign, value = override.partition("=")
        *groups, last = key.strip().split(".")
        if not sign or not last:
            raise ConfigError(f"override {override!r} is not of the form field=value")
        group: Any = data
        for name in groups:
            subgroup = _item(group, name, override)
            if subgroup is None:  # absent, or an empty group in the YAML
                subgroup = {}
            elif name == "llm" and isinstance(subgroup, str):  # short for {model: ...}
                subgroup = {"model": subgroup}
            if isinstance(group, dict):
                group[name] = subgroup
            group = subgroup
        _item(group, last, override)
        index: Any = int(last) if isinstance(group, list) else last
        group[index] = parse_yaml(value, f"override {override!r}")
    return data


def _item(group: object, name: str, override: str) -> Any:
    """Returns what a mapping has under ``name`` (None: nothing), or the element ``name`` of a list.
    Raises ConfigError."""
    if isinstance(group, dict):
        return group.get(name)
    if isinstance(group, list) and name.isdecimal() and int(name) < len(group):
        return group[int(name)]
    if isinstance(group, list):
        problem = f"{name!r} is not one of the {len(group)} elements of that list"
    else:
        problem = f"{name!r} is a key of a group of settings, and {group!r} is not one"
    raise ConfigError(f"override {override!r}: {problem}")


def build_config(kind: type[C], data: object, *, where: str) -> C:
    """Returns ``data`` as ``kind``. Raises ConfigError, which begins with ``where``."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        schema = kind.model_json_schema()
        keys: set[str] = set()
        for group in (schema, *schema.get("$defs", {}).values()):
            keys.update(group.get("properties", ()))
        problems = [f"{where}:"]
        for problem in error.errors():
            name, got = _typed_key(problem["loc"], data), problem.get("input")
            message = problem["msg"].removeprefix("Value error, ")
            if problem["type"] == "extra_forbidden":
                key = name.split(".")[-1]
                guess = did_you_mean(key, sorted(keys))
                if key in keys:
                    guess = "it is a key of another group: GROUP.KEY=VALUE"
                message = f"unknown key {name!r}; {guess}".rstrip("; ")
            elif name:  # for a whole config the value would be too long
                message = f"{name}: {message} (got {got!r:.80})"
            if problem["type"] == "string_type" and isinstance(got, int | float):
                message += "; write it in quotes"
            problems.append(message)
        raise ConfigError("\n  ".join(problems)) from error


def _typed_key(location: Sequence[str | int], data: object) -> str:
    """Returns the key at ``location`` in ``data`` as a user types it: ``model.width``. Pydantic
    also puts the names of alternatives into a location: ``model.encoder.width``."""
    parts: list[str] = []
    for part in location:
        is_key = isinstance(data, Mapping) and part in data
        if is_key or isinstance(part, int):
            data = data[part]  # type: ignore[index]
        elif part != location[-1] or not isinstance(data, Mapping):
            continue
        parts.append(str(part))
    return ".".join(parts)


def read_yaml(path: str | Path, folder: str | None = None) -> dict[str, Any]:
    """Returns the YAML mapping of a file, or of a config by name. Raises ConfigError."""
    data = parse_yaml(config_text(path, folder), str(path))
    if not isinstance(data, dict):
        raise ConfigError(
            f"{path}: expected a mapping of settings, got {type(data).__name__}"
        )
    return data


def parse_yaml(text: str, where: str) -> Any:
    """Returns the value of the YAML ``text``. Raises ConfigError, which begins with ``where``, also
    for tags, for anchors inside of anchors and for many aliases."""
    try:
        return _Loader(text).get_single_data()
    except RecursionError as error:
        raise ConfigError(f"{where}: not valid YAML: nested too deep") from error
    except TypeError as error:  # a key that is a list or a mapping
        raise ConfigError(f"{where}: not valid YAML: a key is a text") from error
    except (yaml.YAMLError, ValueError) as error:  # an integer of too many digits
        raise ConfigError(f"{where}: not valid YAML: {error}") from error


class _Loader(yaml.SafeLoader):
    """Reads what the core schema of YAML 1.2 reads: a date, ``no`` and ``1:59:59`` are text.
    Refuses what lets a few lines fill memory: an anchor that contains an alias, and many
    aliases."""

    anchors_around = 0
    aliases = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        is_alias = isinstance(event, yaml.AliasEvent)
        self.aliases += is_alias
        if is_alias and (self.anchors_around or self.aliases > _MOST_ALIASES):
            problem = f"*{event.anchor} inside of another anchor, or one of too many"
            raise yaml.YAMLError(problem)
        anchored = not is_alias and event.anchor is not None
        self.anchors_around += anchored
        node = super().compose_node(parent, index)
        self.anchors_around -= anchored
        return node


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("null", r"|~|null|Null|NULL", ["", "~", "n", "N"]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(0|[1-9][0-9]*)", list("-+0123456789")),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?",
        list("-+.0123456789"),
    ),
    ("float", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", list("-+.")),
    ("merge", r"<<", ["<"]),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})$"), _first
    )


def config_text(path: str | Path, folder: str | None = None) -> str:
    """Returns the text of the file ``path``, or of the config of that name in configs/ or in
    ``folder`` of configs/. Raises ConfigError."""
    if Path(path).is_file():
        if Path(path).stat().st_size > _LARGEST:
            raise ConfigError(
                f"{path}: larger than 1 MB, so it is not a file of settings"
            )
        try:
            return Path(path).read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path}: not UTF-8 text") from error
    name = str(path).removeprefix("configs/").removesuffix(".yaml")
    names_to_try = [name]
    inside = name.split("/")[0]
    if folder is not None:
        names_to_try.insert(0, f"{folder}/{name}")
        if "/" not in name:
            inside = folder
    for shipped in names_to_try:
        file = shipped_file(shipped)
        if file.is_file():
            return file.read_text(encoding="utf-8")
    names = shipped_names(inside)
    guess = did_you_mean(name.split("/")[-1], names)
    hint = None
    if names:
        hint = f"{guess}shipped in configs/{inside}: {', '.join(names)}"
    raise ConfigError(f"no config file {path}", hint=hint)
