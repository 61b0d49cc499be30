"""From ``--dry-run``, ``--max-cost`` and ``--no-cache`` to the model of a judge in YAML."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from medal_judges.errors import ConfigError


def with_spending(
    judge: str, options: Mapping[str, Any], *, dry_run: bool, max_cost: float | None
) -> dict[str, Any]:
    """``options`` of the judge file ``judge`` with its ``llm`` held to ``max_cost`` (US dollars)
    and, for a dry run, replaced by one that counts.

    Raises ConfigError for a judge that speaks through no language model, and for a limit of cost
    where nothing is paid.
    """
    llm = _setting(judge, options)
    if max_cost is not None:
        if not _is_api(llm):
            raise ConfigError(
                "--max-cost goes with judges that speak through an API",
                hint="leave it out: a model of one's own costs nothing",
            )
        llm = {**llm, "max_cost": max_cost}
    if not dry_run:
        return {**options, "llm": llm}
    from medal_judges.models.llm.counting import CountingModel
    from medal_judges.models.llm.loading import load_llm

    # The provider's own server tells no likelihoods; one of one's own may.
    own = not _is_api(llm) or bool(llm.get("base_url") or os.environ.get("OPENAI_BASE_URL"))
    return {**options, "llm": CountingModel(load_llm(llm), likelihoods=own)}


def without_cache(judge: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """``options`` with which no kept answer is used, and none kept.

    Raises ConfigError for a judge that speaks through no language model.
    """
    return {**options, "llm": {**_setting(judge, options), "cache": False}}


def speaks_through_api(judge: str, options: Mapping[str, Any]) -> bool:
    """Whether ``judge`` is a YAML file whose model, by ``options`` or its own, is paid for."""
    return speaks(judge, options) and _is_api(_setting(judge, options))


def speaks(judge: str, options: Mapping[str, Any]) -> bool:
    """Whether ``judge`` is a YAML file that speaks through a language model."""
    from medal_judges.config import read_yaml

    is_yaml = judge.endswith((".yaml", ".yml"))
    return is_yaml and options.get("llm", read_yaml(judge).get("llm")) is not None


def _setting(judge: str, options: Mapping[str, Any]) -> dict[str, Any]:
    from medal_judges.config import read_yaml

    if not judge.endswith((".yaml", ".yml")):
        raise ConfigError(
            "--dry-run, --max-cost and --no-cache go with judges that speak through a model"
        )
    found = options.get("llm", read_yaml(judge).get("llm"))
    if found is None:
        raise ConfigError(f"{judge} speaks through no language model")
    return dict(found) if isinstance(found, Mapping) else {"model": found}


def _is_api(llm: Mapping[str, Any]) -> bool:
    return llm.get("backend") == "openai" or str(llm.get("model", "")).startswith("openai:")
