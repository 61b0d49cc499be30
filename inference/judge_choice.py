"""JudgeChoice: the judge that a command line names, with changed settings and a cost limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from medal_judges.config import apply_overrides, judge_yaml, read_yaml
from medal_judges.errors import ConfigError
from medal_judges.models.base.judge import Judge
from medal_judges.models.base.saving import place_device_and_dtype
from medal_judges.models.llm.loading import dry_run_model
from medal_judges.models.llm.settings import llm_config, no_model_error


@dataclass(frozen=True, slots=True)
class JudgeChoice:
    """A judge that is chosen but not loaded yet.

    Attributes:
        source: The path of a YAML file or of a saved judge's folder, or a Hub id such as
            ``ORG/NAME``.
        settings: The content of the YAML file. None for a saved judge (a folder or a Hub id).
        options: Arguments of ``Judge.from_pretrained``, such as ``{"device": "cuda"}``. They
            override ``settings``.
        revision: A branch, tag or commit of the Hub id. None for its main branch.
    """

    source: str
    settings: Mapping[str, Any] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    revision: str | None = None

    @property
    def _llm_setting(self) -> Any:
        """Returns the setting ``llm``: a name such as ``openai:MODEL``, a mapping, or None if there
        is none or the judge is a saved one."""
        if self.settings is None:
            return None
        return {**self.settings, **self.options}.get("llm")

    @property
    def uses_llm(self) -> bool:
        """Whether a YAML file defines the judge and names a language model in its setting ``llm``.
        False for every saved judge."""
        return self._llm_setting is not None

    @property
    def asks_server(self) -> bool:
        """Whether a YAML file defines the judge and its language model is behind an API. False for
        every saved judge."""
        return self.uses_llm and llm_config(self.llm_settings()).api

    def llm_settings(self) -> dict[str, Any]:
        """Returns the settings of the judge's language model: ``{"model": "openai:MODEL", ...}``.
        Raises ConfigError if the judge uses no language model."""
        setting = self._llm_setting
        if setting is None and "llm" in (self.settings or {}):
            raise no_model_error(self.source)
        if setting is None:
            raise ConfigError(
                f"{self.source} uses no language model",
                hint="Leave --dry-run, --max-cost and --no-cache out",
            )
        return _as_mapping(setting)

    def with_options(self, **changed: object) -> JudgeChoice:
        """Returns a copy of this choice with other options.

        Args:
            changed: Options such as ``device="cuda"``. They replace options of the same name.
        """
        return replace(self, options={**self.options, **changed})

    def _with_changed_models(
        self, changed: Callable[[dict[str, Any]], object]
    ) -> JudgeChoice:
        """Returns a copy with new settings of each language model.

        Args:
            changed: Returns the new settings of a model, given the old ones.
        """
        choice = self.with_options(llm=changed(self.llm_settings()))
        # A second model may shorten turns for the first.
        shortener = {**(self.settings or {}), **self.options}.get("shortener")
        if shortener is not None:
            choice = choice.with_options(shortener=changed(_as_mapping(shortener)))
        return choice

    def with_spending(
        self,
        max_cost: float | None = None,
        *,
        no_cache: bool = False,
        dry_run: bool = False,
    ) -> JudgeChoice:
        """Returns a copy of this choice that sends requests to language models by other rules.

        Args:
            max_cost: The most that each model may cost, in US dollars. None changes no limit.
            no_cache: Whether to send requests even if their answers are in the cache.
            dry_run: Whether to count requests and send none.

        Raises:
            ConfigError: An argument is set for a judge without a language model, or ``max_cost`` is
                set for a model on this machine.
        """
        choice = self
        if no_cache:

            def uncached(llm: dict[str, Any]) -> dict[str, Any]:
                if llm_config(llm).api:
                    llm |= {"cache": False}
                return llm

            choice = choice._with_changed_models(uncached)
        if max_cost is not None:
            if not choice.asks_server:
                choice.llm_settings()
                raise ConfigError(
                    "--max-cost is for judges that use a language model through an API",
                    hint="Leave it out: a local model costs nothing",
                )

            def limited(llm: dict[str, Any]) -> dict[str, Any]:
                if llm_config(llm).api:
                    llm |= {"max_cost": max_cost}
                return llm

            choice = choice._with_changed_models(limited)
        if dry_run:
            choice = choice._with_changed_models(dry_run_model)
        return choice

    def load(self) -> Judge:
        """Loads the judge and returns it.

        Raises:
            JudgeLoadError: The judge is not found, cannot be downloaded, or has damaged files.
        """
        return Judge.from_pretrained(
            self.source, revision=self.revision, **self.options
        )


def _as_mapping(setting: Any) -> dict[str, Any]:
    """Returns the ``setting`` of a language model as a mapping. The short form ``openai:MODEL``
    becomes a mapping with the key ``model``."""
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
    """Returns the judge ``name`` with changed settings, not yet loaded.

    Args:
        name: A shipped judge such as ``boxed``, a YAML file, a folder, or a Hub id such as
            ``ORG/NAME@REVISION``.
        overrides: Changed settings, such as ``["seed=1"]``. In a saved hybrid (a judge that
            combines several), ``MEMBER.seed=1`` changes a setting of one of its judges.
        device: Where the judge's model runs, such as ``cuda``.
        dtype: The floating-point type of the weights, such as ``bf16``.
        revision: A branch, tag or commit of the Hub id, if ``name`` does not state one.
        strict: Whether ``device`` or ``dtype`` is an error if the judge of a YAML file has no local
            model. If false, both are ignored for such a judge.

    Raises:
        ConfigError: The YAML file cannot be read, the judge has no such setting, or it has no local
            model for ``device`` or ``dtype`` and ``strict`` is true.
    """
    if "@" in name and not Path(name).exists():
        name, _, revision = name.partition("@")
    file = judge_yaml(name)
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
        options = place_device_and_dtype(settings, options, str(file), strict=strict)
    return JudgeChoice(file or name, settings, options, revision)


def cache_sentence(judges: Sequence[Judge]) -> str | None:
    """Returns a sentence for the user, such as ``3 of 10 answers come from the cache. To ask for
    all, type --no-cache``.

    Args:
        judges: Judges that have scored. The answers of all their language models are counted.

    Returns:
        The sentence, or None if no answer came from a cache.
    """
    counts = [judge.answer_counts() for judge in judges]
    cached_count = sum(count["kept"] for count in counts)
    if not cached_count:
        return None
    total = cached_count + sum(count["asked"] for count in counts)
    return f"{cached_count} of {total} answers come from the cache. To ask for all, type --no-cache"
