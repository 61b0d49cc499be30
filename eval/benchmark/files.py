"""A user's prompts and follow-ups in the place of the shipped ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medal_judges.config import judge_file, read_yaml
from medal_judges.errors import ConfigError
from medal_judges.eval.benchmark.config import BenchmarkConfig

SETTINGS = ("prompts", "followups")


def with_files(config: BenchmarkConfig) -> BenchmarkConfig:
    """Returns the config with judges that read the files of its ``prompts`` and ``followups``. Each
    replaces the shipped file of the same ``name``, also in the members of a hybrid.

    Raises ConfigError for two files of one name, and for a name that no judge here reads.
    """
    paths: dict[str, str] = {}  # followups/craft -> the user's file
    for setting in SETTINGS:
        for path in getattr(config, setting):
            name = f"{setting}/{read_yaml(path).get('name')}"
            if name in paths:
                raise ConfigError(f"{paths[name]} and {path} both replace {name}")
            paths[name] = path
    if not paths:
        return config
    shipped: dict[str, None] = {}
    judges = []
    for judge in config.judges:
        options = _replaced(judge.path, judge.options, paths, shipped)
        judges.append(judge.model_copy(update={"options": options}))
    for name in paths.keys() - shipped.keys():
        raise ConfigError(
            f"{paths[name]} replaces {name}, which no judge here reads",
            hint=f"its field `name` is that of one of these: {', '.join(shipped)}",
        )
    return config.model_copy(update={"judges": tuple(judges)})


def _replaced(
    judge: str,
    options: Mapping[str, Any],
    paths: Mapping[str, str],
    shipped: dict[str, None],
) -> dict[str, Any]:
    """Returns the options of a judge that reads ``paths``. Adds the names of the files that it
    reads to ``shipped``."""
    changed, settings = dict(options), dict(options)
    if file := judge_file(judge):
        settings = read_yaml(file) | settings
    for setting in SETTINGS:
        if setting in settings:
            name = f"{setting}/{settings[setting].removeprefix(f'{setting}/')}"
            shipped[name] = None
            if name in paths:
                changed[setting] = paths[name]
    if "members" in settings:
        changed["members"] = members = {}
        for name, member in settings["members"].items():
            own_options = member.get("options", {})
            own_options = _replaced(member["path"], own_options, paths, shipped)
            members[name] = {**member, "options": own_options}
    return changed
