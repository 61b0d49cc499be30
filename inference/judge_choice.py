"""A judge as a command line names it: a source, settings that replace its own, limits of cost."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from medal_judges.config import overridden, read_yaml
from medal_judges.errors import ConfigError
from medal_judges.models.base.judge import Judge
from medal_judges.models.base.placement import placed
from medal_judges.models.llm.settings import llm_config
from medal_judges.shipped import judge_file


@dataclass(frozen=True, slots=True)
class JudgeChoice:
    """``source`` is a YAML file, a folder or a hub id; ``settings`` are a YAML file's own (None for
    a judge with weights), and ``options`` replace some of them when the judge is loaded."""

    source: str
    settings: Mapping[str, Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    revision: str | None = None

    @property
    def speaks(self) -> bool:
        """Whether the judge is described in YAML and asks a language model."""
        return self._llm is not None

    @property
    def pays(self) -> bool:
        """Whether that language model is behind an API."""
        return self.speaks and llm_config(self.llm()).api

    @property
    def _llm(self) -> str | Mapping[str, Any] | None:
        setting: str | Mapping[str, Any] | None = None
        if self.settings is not None:
            setting = self.options.get("llm", self.settings.get("llm"))
        return setting

    def llm(self) -> dict[str, Any]:
        """The setting of the language model. Raises ConfigError for a judge that asks none."""
        setting = self._llm
        if setting is None:
            raise ConfigError(
                f"{self.source} asks no language model",
                hint="--dry-run, --max-cost and --no-cache go with judges that do",
            )
        return dict(setting) if isinstance(setting, Mapping) else {"model": setting}

    def with_options(self, **changed: object) -> JudgeChoice:
        """The same judge with further options."""
        return replace(self, options={**self.options, **changed})

    def without_cache(self) -> JudgeChoice:
        """The same judge; no cached answer is used, and none is kept."""
        return self.with_options(llm=self.llm() | {"cache": False})

    def limited(self, max_cost: float) -> JudgeChoice:
        """The same judge, which stops before it has spent more than ``max_cost`` US dollars.

        Raises ConfigError where nothing is paid.
        """
        if not self.pays:
            self.llm()
            raise ConfigError(
                "--max-cost goes with judges that ask a language model through an API",
                hint="leave it out: a model of your own costs nothing",
            )
        return self.with_options(llm=self.llm() | {"max_cost": max_cost})

    def counting(self) -> JudgeChoice:
        """The same judge with a language model that counts requests and sends none."""
        from medal_judges.models.llm.counting import CountingModel
        from medal_judges.models.llm.loading import load_llm

        llm = self.llm()
        # The provider's own server returns no likelihoods; one of your own may.
        own = not self.pays or bool(llm.get("base_url") or os.environ.get("OPENAI_BASE_URL"))
        return self.with_options(llm=CountingModel(load_llm(llm), likelihoods=own))

    def spending(
        self, max_cost: float | None = None, *, no_cache: bool = False, dry_run: bool = False
    ) -> JudgeChoice:
        """``without_cache``, ``limited`` and ``counting`` as far as they are asked for."""
        choice = self.without_cache() if no_cache else self
        choice = choice if max_cost is None else choice.limited(max_cost)
        return choice.counting() if dry_run else choice

    def load(self) -> Judge:
        """The judge. Raises what Judge.from_pretrained raises."""
        return Judge.from_pretrained(self.source, revision=self.revision, **self.options)


def choose_judge(
    name: str,
    overrides: Sequence[str] = (),
    *,
    device: str | None = None,
    dtype: str | None = None,
    revision: str | None = None,
    repeats: int | None = None,
) -> JudgeChoice:
    """The judge ``name`` (a shipped name, YAML file, folder or hub id) with ``field=value``
    overrides (for a saved hybrid ``member.field=value``).

    ``repeats``: how many answers a prompted judge gives on each dialogue. Raises ConfigError for
    other overrides, and where the judge cannot obey device, dtype or repeats.
    """
    file = judge_file(name)
    settings = None if file is None else read_yaml(file)
    if repeats is not None:
        if (family := (settings or {}).get("family")) != "prompted":
            what = f"one of family {family!r}" if family else "a saved judge"
            raise ConfigError(
                f"--repeats goes with prompted judges; {what} gives the same answer each time"
            )
        overrides = [*overrides, f"repeats={repeats}"]
    changed = overridden({} if file is None else read_yaml(file), overrides)
    names = dict.fromkeys(text.partition("=")[0].strip().split(".")[0] for text in overrides)
    options = {name: changed[name] for name in names}
    options |= {k: v for k, v in {"device": device, "dtype": dtype}.items() if v is not None}
    if settings is not None:
        options = placed(settings, options, str(file))
    return JudgeChoice(file or name, settings, options, revision)
