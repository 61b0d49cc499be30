"""JudgeChoice: the judge that a command line names, with changed settings and a cost limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from medal_judges.config import apply_overrides, judge_file, read_yaml
from medal_judges.errors import ConfigError
from medal_judges.models.base.judge import Judge
from medal_judges.models.base.saving import place_options
from medal_judges.models.llm.loading import dry_run_model
from medal_judges.models.llm.settings import llm_config, no_model_error


@dataclass(frozen=True, slots=True)
class JudgeChoice:
    """The judge of a command before it is loaded.

    ``source`` is a YAML file, a folder or a hub id. ``settings`` are those of the YAML file (None
    for a saved judge); ``options`` replace some of them when the judge is loaded.
    """

    source: str
    settings: Mapping[str, Any] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    revision: str | None = None

    @property
    def _llm_setting(self) -> Any:
        """Returns the setting ``llm``; None for a saved judge, and for a YAML file without one."""
        if self.settings is None:
            return None
        return {**self.settings, **self.options}.get("llm")

    @property
    def speaks(self) -> bool:
        """Returns whether the judge is a YAML file that uses a language model."""
        return self._llm_setting is not None

    @property
    def asks_server(self) -> bool:
        """Returns whether the judge, a YAML file, sends requests to a server. A saved judge answers
        this only after it is loaded (Judge.language_models)."""
        return self.speaks and llm_config(self.llm()).api

    def llm(self) -> dict[str, Any]:
        """Returns the ``llm`` setting as a group. Raises ConfigError if the judge uses no language
        model."""
        setting = self._llm_setting
        if setting is None and "llm" in (self.settings or {}):
            raise no_model_error(self.source)
        if setting is None:
            raise ConfigError(
                f"{self.source} uses no language model",
                hint="Leave --dry-run, --max-cost and --no-cache out",
            )
        return _group(setting)

    def with_options(self, **changed: object) -> JudgeChoice:
        """Returns the choice with further options."""
        return replace(self, options={**self.options, **changed})

    def _with_models(self, changed: Callable[[dict[str, Any]], object]) -> JudgeChoice:
        """Returns the choice in which ``changed`` has replaced the group of each language model: of
        the judge, and of what shortens turns for it."""
        choice = self.with_options(llm=changed(self.llm()))
        shortener = {**(self.settings or {}), **self.options}.get("shortener")
        if shortener is not None:
            choice = choice.with_options(shortener=changed(_group(shortener)))
        return choice

    def spending(
        self,
        max_cost: float | None = None,
        *,
        no_cache: bool = False,
        dry_run: bool = False,
    ) -> JudgeChoice:
        """Returns the choice with a limit of ``max_cost`` US dollars, without the cache of answers
        (``no_cache``), or with a language model that counts requests and sends none (``dry_run``).

        Raises ConfigError if the judge uses no language model, or none behind an API for
        ``max_cost``.
        """
        choice = self
        if no_cache:

            def uncached(llm: dict[str, Any]) -> dict[str, Any]:
                if llm_config(llm).api:
                    llm |= {"cache": False}
                return llm

            choice = choice._with_models(uncached)
        if max_cost is not None:
            if not choice.asks_server:
                choice.llm()
                raise ConfigError(
                    "--max-cost is for judges that use a language model through an API",
                    hint="Leave it out: a local model costs nothing",
                )

            def limited(llm: dict[str, Any]) -> dict[str, Any]:
                if llm_config(llm).api:
                    llm |= {"max_cost": max_cost}
                return llm

            choice = choice._with_models(limited)
        if dry_run:
            choice = choice._with_models(dry_run_model)
        return choice

    def load(self) -> Judge:
        """Loads the judge. Raises the errors of Judge.from_pretrained."""
        return Judge.from_pretrained(
            self.source, revision=self.revision, **self.options
        )


def _group(setting: Any) -> dict[str, Any]:
    """Returns a setting of a language model as a group."""
    if isinstance(setting, Mapping):
        return dict(setting)
    return {"model": setting}


def choose_judge(
    name: str,
    overrides: Sequence[str] = (),
    *,
    device: str | None = None,
    dtype: str | None = None,
    revision: str | None = None,
    strict: bool = True,
) -> JudgeChoice:
    """Returns the judge ``name``: a shipped name, a YAML file, a folder, or a hub id (with
    @REVISION, or the ``revision``). ``overrides`` are ``field=value``. For a saved hybrid they
    are ``member.field=value``. ``device`` and ``dtype`` are those of its model.

    Raises ConfigError for an override that the judge does not have, and for a device or dtype if
    the judge has no model here. Without ``strict``, for one of several judges, such a judge ignores
    them.
    """
    if "@" in name and not Path(name).exists():
        name, _, revision = name.partition("@")
    file = judge_file(name)
    settings = None
    if file is not None:
        settings = read_yaml(file)
    changed = apply_overrides(deepcopy(settings or {}), overrides)
    options = {}
    for override in overrides:
        group = override.partition("=")[0].strip().split(".")[0]
        options[group] = changed[group]
    if device is not None:
        options["device"] = device
    if dtype is not None:
        options["dtype"] = dtype
    if settings is not None:
        options = place_options(settings, options, str(file), strict=strict)
    return JudgeChoice(file or name, settings, options, revision)


def cached_answers(judges: Sequence[Judge]) -> str | None:
    """Returns a sentence with the number of cached responses of ``judges``. Returns None if there
    are none."""
    counts = [judge.answer_counts() for judge in judges]
    cached_count = sum(count["kept"] for count in counts)
    if not cached_count:
        return None
    total = cached_count + sum(count["asked"] for count in counts)
    return f"{cached_count} of {total} answers served from the cache; --no-cache asks for all"
