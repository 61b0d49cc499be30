"""Typed configuration: YAML, ``field=value`` overrides, and the configs shipped in configs/."""

from __future__ import annotations

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
_MOST_ALIASES = 100
_CONSTANTS = {"": None, "~": None, "null": None, "true": True, "false": False}
_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?", re.ASCII)


def packaged_folder(name: str | Path = BOXED) -> Path | None:
    """Returns the folder of the judge ``name`` if its weights are in the package (PACKAGED).
    Returns None for any other judge. ``./NAME`` or a Path always means a folder of the user, even
    if its name is in PACKAGED."""
    if isinstance(name, str) and name in PACKAGED:
        return Path(str(files("medal_judges.models") / name))
    return None


def shipped_names(folder: str) -> list[str]:
    """Returns the sorted names of the files in configs/``folder``, without the endings .yaml and
    .py."""
    files = (CONFIGS / folder).glob("*.*")
    return sorted(file.name.removesuffix(".yaml").removesuffix(".py") for file in files)


def shipped_file(name: str) -> Path:
    """Returns the path of the shipped file ``name``, which is FOLDER/NAME in configs/. The ending
    .yaml or .py may be left out. The file may not exist."""
    ending = ".yaml"
    if name.startswith("convert/"):
        ending = ".py"
    name = name.removeprefix("configs/").removesuffix(ending)
    return CONFIGS / (name + ending * (".json" not in name))


def top_comment(folder: str, name: str) -> str:
    """Returns the first sentence of the comment at the top of the shipped file ``name`` in
    configs/``folder``. Returns an empty text if there is no comment."""
    remark = []
    for line in config_text(f"{folder}/{name}").splitlines():
        if not line.startswith("#"):
            break
        remark.append(line.removeprefix("#").strip())
    first, stop, _ = " ".join(remark).partition(". ")
    return first + stop.strip()


def judge_file(name: str | Path) -> str | None:
    """Returns the YAML file of the judge ``name``. For the name of a shipped judge (``contrast``)
    it is a path in configs/. A path that ends in .yaml or .yml is returned unchanged. Returns None
    for anything different, such as the folder or Hub id of a trained judge. A user's folder with
    the name of a shipped judge is written ``./NAME``."""
    text = str(name)
    if text in shipped_names(JUDGES):
        return f"configs/judges/{text}.yaml"
    if text.endswith((".yaml", ".yml")):
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
    """Returns a pydantic field for one option of a command. It is the default of a field of a
    Config, from which cli/options.py builds the command line.

    ``help`` is the text in the command's help. ``flag`` replaces ``--field-name``. With
    ``argument`` the option is a positional argument. ``metavar`` names the value in the help, and
    ``panel`` is the heading above the option. An option without ``default`` is required. ``bounds``
    are limits as in pydantic's Field, such as ``ge=0``.
    """
    extra: Any = dict(flag=flag, argument=argument, metavar=metavar, panel=panel)
    return Field(default, description=help, json_schema_extra=extra, **bounds)


# Options of several commands.
OVERRIDES: tuple[str, ...] = option(
    (),
    argument=True,
    metavar="FIELD=VALUE",
    help="Change a setting, such as seed=1 or llm.cache=false.",
)
SEED: int = option(0, ge=0, help="Seed of every random draw.")
DEVICE: str | None = option(None, help="Where it computes: cpu, cuda, cuda:1.")
OVERWRITE: bool = option(
    False, help="Start again from the beginning and replace --out."
)
MAX_COST: float | None = option(
    None, ge=0, help="Most US dollars to spend. Stops before it spends more."
)
RETRY_FAILED: bool = option(False, help="Score again every row that has no score.")


def load_config(
    kind: type[C],
    path: str | Path,
    overrides: Sequence[str] = (),
    *,
    folder: str | None = None,
) -> C:
    """Returns the config at ``path`` as an instance of ``kind``. ``path`` is a file, a name in
    configs/ (``train/quickstart``), or a name in the subfolder ``folder`` of configs/
    (``quickstart``).

    ``overrides`` are texts of the form ``a.b=value``, with the value in YAML. Raises ConfigError if
    a key is unknown or a value has the wrong type. The error names the key and the nearest known
    key.
    """
    data = apply_overrides(read_yaml(path, folder), overrides)
    return build_config(kind, data, where=str(path))


def apply_overrides(data: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Changes ``data`` by ``overrides`` and returns it. An override is a text of the form
    ``a.b=value``, with the value in YAML.

    ``a.0.b=value`` changes the first element of the list ``a``. ``a=value`` is applied before
    ``a.b=value``, whatever their order. Raises ConfigError if an override has no ``=``, or if ``a``
    in ``a.b=value`` is neither a mapping nor a list.
    """
    for override in sorted(overrides, key=lambda text: text.split("=")[0].count(".")):
        key, sign, value = override.partition("=")
        if not sign or not key.strip():
            raise ConfigError(f"override {override!r}: type FIELD=VALUE")
        *groups, last = key.strip().split(".")
        group: Any = data
        try:
            for name in groups:
                subgroup = group[_add_key(group, name)]
                if subgroup is None:  # absent, or an empty group in the YAML
                    subgroup = {}
                elif name == "llm" and isinstance(subgroup, str):
                    subgroup = {"model": subgroup}
                group[_add_key(group, name)] = subgroup
                group = subgroup
            group[_add_key(group, last)] = parse_yaml(value, f"override {override!r}")
        except (TypeError, ValueError, IndexError) as error:
            problem = f"override {override!r}: {group!r} has no settings. Leave it out"
            raise ConfigError(problem) from error
    return data


def _add_key(group: Any, name: str) -> Any:
    """Returns ``name`` as an index or key of ``group``. For a list it is the whole number ``name``.
    For a mapping it is ``name`` itself, which is added with the value None if it is missing."""
    if isinstance(group, list):
        return int(name)
    group.setdefault(name, None)
    return name


def build_config(kind: type[C], data: object, *, where: str) -> C:
    """Returns the mapping ``data`` as an instance of ``kind``. Raises ConfigError if a key is
    unknown or a value has the wrong type. The error begins with ``where``, the name of the file or
    of the command line."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        schema = kind.model_json_schema()
        keys: list[str] = []
        for group in (schema, *schema.get("$defs", {}).values()):
            keys += group.get("properties", ())
        problems = [f"{where}:"]
        for problem in error.errors():
            key = _typed_key(problem["loc"], data)
            message = problem["msg"].removeprefix("Value error, ")
            if problem["type"] == "extra_forbidden":
                guess = did_you_mean(key.split(".")[-1], keys)
                message = f"unknown key {key!r}. {guess}Correct it or leave it out"
            elif key:  # for a whole config the value would be too long
                message = f"{key}: {message} (got {problem['input']!r:.80})"
            problems.append(message)
        raise ConfigError("\n  ".join(problems)) from error


def _typed_key(location: Sequence[str | int], data: Any) -> str:
    """Returns the key of an error by pydantic as a user types it: ``model.width``. ``location`` is
    the key as pydantic reports it, which may also contain the name of a union's member
    (``model.encoder.width``). ``data`` is the config, in which such a name is not found."""
    parts = []
    for part in location:
        try:
            data = data[part]
        except (KeyError, TypeError):
            if part != location[-1] or not isinstance(data, Mapping):
                continue
        parts.append(str(part))
    return ".".join(parts)


def read_yaml(path: str | Path, folder: str | None = None) -> dict[str, Any]:
    """Returns the mapping in a YAML file. ``path`` is a file or the name of a shipped config, as in
    ``config_text``. Raises ConfigError if the file cannot be read or does not hold a mapping."""
    data = parse_yaml(config_text(path, folder), str(path))
    if not isinstance(data, dict):
        raise ConfigError(
            f"{path}: expected lines of the form SETTING: VALUE, got {type(data).__name__}"
        )
    return data


def parse_yaml(text: str, where: str) -> Any:
    """Returns the value of the YAML ``text``. Raises ConfigError if the text is not valid YAML, has
    a tag or too many aliases, or is nested too deep. The error begins with ``where``, the name of
    the text."""
    try:
        return _Loader(text).get_single_data()
    except RecursionError as error:
        raise ConfigError(
            f"{where}: lists or settings are nested too deep. Write fewer levels"
        ) from error
    except (yaml.YAMLError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{where}: not valid YAML. Correct the line that is named: {error}"
        ) from error


class _Loader(yaml.SafeLoader):
    """A YAML loader that follows the core schema of YAML 1.2: a date, ``no`` and ``1:59:59`` are
    text. It refuses what could fill the memory: an alias inside an anchor, and more than
    _MOST_ALIASES aliases."""

    anchors_around = 0
    aliases = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        is_alias = isinstance(event, yaml.AliasEvent)
        self.aliases += is_alias
        tag = getattr(event, "tag", None)
        if tag or (is_alias and (self.anchors_around or self.aliases > _MOST_ALIASES)):
            problem = f"{tag or event.anchor}: a tag, too many aliases, or nested. Write the value"
            raise yaml.YAMLError(problem)
        anchored = not is_alias and event.anchor is not None
        self.anchors_around += anchored
        node = super().compose_node(parent, index)
        self.anchors_around -= anchored
        return node

    def construct_value(self, node: yaml.ScalarNode) -> Any:
        """Returns the value of ``node``. A quoted scalar is text. An unquoted scalar is None, a
        boolean or a number if it has that form."""
        text: str = node.value
        if node.style is not None:
            return text
        if text.lower() in _CONSTANTS:
            return _CONSTANTS[text.lower()]
        if _NUMBER.fullmatch(text) is None:
            return text
        if text.lstrip("+-").isdecimal():
            return int(text)
        return float(text)


_Loader.yaml_implicit_resolvers = {}
_Loader.add_implicit_resolver("tag:yaml.org,2002:merge", re.compile("<<$"), ["<"])
_Loader.add_constructor("tag:yaml.org,2002:str", _Loader.construct_value)


def config_text(path: str | Path, folder: str | None = None) -> str:
    """Returns the text of a config. ``path`` is a file, a name in the subfolder ``folder`` of
    configs/, or a name in configs/. The first of these that exists is read. Raises ConfigError if
    there is no such file, or if it is larger than 1 MB or not UTF-8."""
    file = Path(path)
    name = str(path)
    for shipped in (f"{folder}/{name}", name):
        if not file.is_file():
            file = shipped_file(shipped)
    if not file.is_file():
        names = shipped_names(folder or name.split("/")[0])
        guess = did_you_mean(Path(name).stem, names)
        hint = f"{guess}To see the shipped files, type: medal configs list"
        raise ConfigError(f"no config file {path}", hint=hint)
    if file.stat().st_size > _LARGEST:
        raise ConfigError(f"{path}: larger than 1 MB. Give a YAML file of settings")
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text. Save it as UTF-8") from error
