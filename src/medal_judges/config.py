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


def packaged_judge_folder(name: str | Path = BOXED) -> Path | None:
    """Returns the folder of a judge whose weights are in the package. None for any other judge.

    Args:
        name: Name of the judge, such as ``boxed``. A path, such as ``./boxed``, gives None.
    """
    if isinstance(name, str) and name in PACKAGED:
        return Path(str(files("medal_judges.models") / name))
    return None


def shipped_names(folder: str) -> list[str]:
    """Returns the sorted names of the files in a subfolder of configs/, without their endings .yaml
    and .py.

    Args:
        folder: The subfolder, such as ``train``.
    """
    files = (CONFIGS / folder).glob("*.*")
    return sorted(file.name.removesuffix(".yaml").removesuffix(".py") for file in files)


def shipped_path(name: str) -> Path:
    """Returns the path of a shipped file, which may not exist.

    Args:
        name: Path in configs/, such as ``train/quickstart``. The ending may be left out.
    """
    ending = ".yaml"
    if name.startswith("convert/"):
        ending = ".py"
    name = name.removeprefix("configs/").removesuffix(ending)
    return CONFIGS / (name + ending * (".json" not in name))


def top_sentence(folder: str, name: str) -> str:
    """Returns the first sentence of the comment at the top of a shipped file, or an empty text.

    Args:
        folder: Subfolder of configs/, such as ``train``.
        name: Name of the file, without its ending.
    """
    remark = []
    for line in config_text(f"{folder}/{name}").splitlines():
        if not line.startswith("#"):
            break
        remark.append(line.removeprefix("#").strip())
    first, stop, _ = " ".join(remark).partition(". ")
    return first + stop.strip()


def judge_yaml(name: str | Path) -> str | None:
    """Returns the path of the YAML file that defines the judge ``name``, or None for a judge in a
    folder or on the Hub.

    Args:
        name: Shipped name (``contrast``), YAML file, folder or Hub id.
    """
    text = str(name)
    if text in shipped_names(JUDGES):
        return f"configs/judges/{text}.yaml"
    if text.endswith((".yaml", ".yml")):
        return text
    return None


class Config(BaseModel):
    """Base class of settings. Its objects are immutable, and an unknown setting is an error."""

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
    """Returns a pydantic field of a ``Config`` that is also an option of a command.

    Args:
        default: Value if the user does not give the option. Without a default, it is required.
        help: Text in the command's help.
        flag: Name of the option, in place of ``--field-name``.
        argument: Whether it is a positional argument.
        metavar: What help calls the value, such as ``FILE``.
        panel: Heading above the option in the help.
        bounds: Limits as in pydantic's ``Field``, such as ``ge=0``.
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
    """Reads a YAML config and returns it as an instance of ``kind``.

    Args:
        path: File, or name of a shipped config, such as ``train/quickstart``.
        overrides: Changes of the form ``a.b=value``, with the value in YAML.
        folder: A subfolder of configs/, such as ``train``. Then ``path`` may be ``quickstart``.

    Raises:
        ConfigError: The file cannot be read, a key is unknown or a value has the wrong type.
    """
    data = apply_overrides(read_yaml(path, folder), overrides)
    return build_config(kind, data, where=str(path))


def apply_overrides(data: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Changes ``data``, the content of a YAML config, in place and returns it.

    Args:
        overrides: Changes such as ``a.b=value``, or ``a.0.b=value`` for the first element of a
            list. The value is in YAML.

    Raises:
        ConfigError: An override has no ``=``, or ``a`` in ``a.b=value`` has no settings.
    """
    # a=value before a.b=value, whatever their order.
    for override in sorted(overrides, key=lambda text: text.split("=")[0].count(".")):
        key, sign, value = override.partition("=")
        if not sign or not key.strip():
            raise ConfigError(f"override {override!r}: type FIELD=VALUE")
        *groups, last = key.strip().split(".")
        group: Any = data
        try:
            for name in groups:
                subgroup = group[_ensure_key(group, name)]
                if subgroup is None:  # absent, or an empty group in the YAML
                    subgroup = {}
                elif name == "llm" and isinstance(subgroup, str):
                    subgroup = {"model": subgroup}
                group[_ensure_key(group, name)] = subgroup
                group = subgroup
            group[_ensure_key(group, last)] = parse_yaml(
                value, f"override {override!r}"
            )
        except (TypeError, ValueError, IndexError) as error:
            problem = f"override {override!r}: {group!r} has no settings. Leave it out"
            raise ConfigError(problem) from error
    return data


def _ensure_key(group: Any, name: str) -> Any:
    """Returns the key ``name`` of ``group``, as an index if ``group`` is a list. Adds a missing key
    to a mapping, with the value None."""
    if isinstance(group, list):
        return int(name)
    group.setdefault(name, None)
    return name


def build_config(kind: type[C], data: object, *, where: str) -> C:
    """Returns the mapping ``data`` as an instance of ``kind``.

    Args:
        where: The file's name or other words with which an error begins.

    Raises:
        ConfigError: A key is unknown or a value has the wrong type.
    """
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        schema = kind.model_json_schema()
        keys: list[str] = []
        for group in (schema, *schema.get("$defs", {}).values()):
            keys += group.get("properties", ())
        problems = [f"{where}:"]
        for problem in error.errors():
            key = _key_as_written(problem["loc"], data)
            message = problem["msg"].removeprefix("Value error, ")
            if problem["type"] == "extra_forbidden":
                guess = did_you_mean(key.split(".")[-1], keys)
                message = f"unknown key {key!r}. {guess}Correct it or leave it out"
            elif key:  # for a whole config the value would be too long
                message = f"{key}: {message} (got {problem['input']!r:.80})"
            problems.append(message)
        raise ConfigError("\n  ".join(problems)) from error


def _key_as_written(location: Sequence[str | int], data: Any) -> str:
    """Returns the key of a pydantic error as the user wrote it in the config, such as
    ``model.width``.

    Args:
        location: Key as pydantic reports it, such as ``("model", "encoder", "width")``.
        data: Config with the error.
    """
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
    """Returns the mapping in a YAML file.

    Args:
        path: File, or name of a shipped config, such as ``train/quickstart``.
        folder: A subfolder of configs/, such as ``train``. Then ``path`` may be ``quickstart``.

    Raises:
        ConfigError: The file cannot be read or does not hold a mapping.
    """
    data = parse_yaml(config_text(path, folder), str(path))
    if not isinstance(data, dict):
        raise ConfigError(
            f"{path}: expected lines of the form SETTING: VALUE, got {type(data).__name__}"
        )
    return data


def parse_yaml(text: str, where: str) -> Any:
    """Returns the value of the YAML ``text``.

    Args:
        where: The file's name or other words with which an error begins.

    Raises:
        ConfigError: The text is not valid YAML, has a tag or too many aliases, or is nested too
            deep.
    """
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
    """A YAML loader that reads dates, ``no`` and ``1:59:59`` as text, as in YAML 1.2. It refuses
    aliases that could fill the memory."""

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
        """Returns the value of ``node``: None, a boolean or a number if it has that form without
        quotes, otherwise text."""
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
    """Returns the text of a config file.

    Args:
        path: File, or name of a shipped config, such as ``train/quickstart``.
        folder: A subfolder of configs/, such as ``train``. Then ``path`` may be ``quickstart``.

    Raises:
        ConfigError: There is no such file, it is larger than 1 MB, or it is not UTF-8.
    """
    file = Path(path)
    name = str(path)
    for shipped in (f"{folder}/{name}", name):
        if not file.is_file():
            file = shipped_path(shipped)
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
