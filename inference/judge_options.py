"""From FIELD=VALUE on the command line to the options of a judge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def judge_options(
    judge: str, device: str | None, dtype: str | None, settings: list[str] | None
) -> dict[str, Any]:
    """What ``Judge.from_pretrained`` is given: ``settings`` of the form FIELD=VALUE (for a saved
    hybrid MEMBER.FIELD=VALUE), ``device`` and ``dtype`` where they are given.

    Raises ConfigError for other settings, and where a judge in YAML cannot obey device or dtype.
    """
    from medal_judges.config import parse_yaml, read_yaml
    from medal_judges.errors import ConfigError
    from medal_judges.models.base.placement import placed

    is_yaml = judge.endswith((".yaml", ".yml"))
    there = read_yaml(judge) if is_yaml else {}
    found: dict[str, Any] = {}
    for setting in settings or []:
        key, sign, value = setting.partition("=")
        if not sign:
            raise ConfigError(f"{setting!r} is not of the form field=value")
        _assign(found, there, key.split("."), parse_yaml(value, f"setting {setting!r}"))
    given = {k: v for k, v in {"device": device, "dtype": dtype}.items() if v is not None}
    return placed(there, found | given, judge) if is_yaml else found | given


def _assign(found: dict[str, Any], there: Mapping[str, Any], keys: list[str], value: Any) -> None:
    """``llm.dtype=bf16`` changes one field of a group and leaves the file's others as they are."""
    from medal_judges.errors import ConfigError

    if len(keys) == 1:
        found[keys[0]] = value
        return
    group = found.get(keys[0], there.get(keys[0]))
    if not isinstance(group, dict):
        group = {"model": group} if keys[0] == "llm" and group else {}
    found[keys[0]] = group = dict(group)
    for key in keys[1:-1]:
        inner = group.get(key) or {}
        if not isinstance(inner, dict):
            raise ConfigError(f"setting {'.'.join(keys)}: {key!r} is not a group of settings")
        group[key] = group = dict(inner)
    group[keys[-1]] = value
