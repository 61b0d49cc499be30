"""From FIELD=VALUE on the command line to the options of a judge."""

from __future__ import annotations

from typing import Any


def judge_options(
    judge: str, device: str | None, dtype: str, settings: list[str] | None
) -> dict[str, Any]:
    """What ``Judge.from_pretrained`` is given: ``settings`` of the form FIELD=VALUE for a judge in
    YAML, ``device`` and ``dtype`` for one in a folder. Raises ConfigError for other settings, and
    for settings of a judge that has none.
    """
    import yaml

    from medal_judges.errors import ConfigError

    if judge.endswith((".yaml", ".yml")):
        found: dict[str, Any] = {}
        for setting in settings or []:
            key, sign, value = setting.partition("=")
            if not sign:
                raise ConfigError(f"{setting!r} is not of the form field=value")
            _assign(found, judge, key.split("."), yaml.safe_load(value))
        return found
    if settings:
        raise ConfigError(f"{settings[0]!r}: settings go with YAML judges only")
    return {"device": device, "dtype": dtype}


def _assign(found: dict[str, Any], judge: str, keys: list[str], value: Any) -> None:
    """``llm.dtype=bf16`` changes one field of a group and leaves the file's others as they are."""
    from medal_judges.config import read_yaml

    if len(keys) == 1:
        found[keys[0]] = value
        return
    group = found.get(keys[0], read_yaml(judge).get(keys[0]))
    if not isinstance(group, dict):
        group = {"model": group} if keys[0] == "llm" and group else {}
    found[keys[0]] = group = dict(group)
    for key in keys[1:-1]:
        group[key] = group = dict(group.get(key) or {})
    group[keys[-1]] = value
