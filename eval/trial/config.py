"""Settings of ``medal trial``: its size, the bounds of its verdicts, and the command's options."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from medal_judges.config import (
    DEVICE,
    MAX_COST,
    Config,
    build_config,
    option,
    read_yaml,
)
from medal_judges.data_prep.perturbation.edit import LANGUAGES
from medal_judges.errors import ConfigError
from medal_judges.reading.dialogues import ReadOptionsWithoutLabels
from medal_judges.stats.estimate import Estimate

# The score should stay, not rise, not obey an instruction, fall; or a figure about daily use.
# models/card/templates/card.md and docs/results/trial.md use the same words.
Group = Literal["same", "no_gain", "attack", "must_fall", "use"]
# none: too few pairs, or nothing to judge
Verdict = Literal["green", "amber", "red", "none"]
GROUPS: Mapping[Group, str] = {
    "same": "Irrelevant changes",
    "no_gain": "Cheap gains",
    "attack": "Attacks",
    "must_fall": "Faults",
    "use": "Coverage and cost",
}


class TrialOptions(Config):
    """Options of ``medal trial``."""

    judges: tuple[str, ...] = option(
        (),
        argument=True,
        metavar="[JUDGE [FIELD=VALUE]...]...",
        help="Shipped names, YAML files, folders or hub ids; default: boxed. FIELD=VALUE is a "
        "setting of the trial (dialogues=12, seed=1, checks=[attack]), or else of the judge "
        "before it.",
    )
    out: Path = option(help="Folder to write.")
    data: str | None = option(
        None,
        help="File of chats, or a spec such as fed:dialogue; default: the shipped dialogues.",
    )
    config: str = option(
        "default", help="YAML file, or the name of one in configs/trial/."
    )
    device: str | None = DEVICE
    dtype: Literal["auto", "fp32", "bf16", "fp16"] | None = option(
        None, help="Precision; default: fp32 for saved judges."
    )
    max_cost: float | None = MAX_COST
    save: bool = option(
        False,
        help="Also write trial.json into each judge's folder, for its model card.",
    )
    reading: ReadOptionsWithoutLabels = ReadOptionsWithoutLabels()


class TrialConfig(Config):
    """The size of a trial.

    ``dialogues``: number of dialogues from the file, or from the chitchat package. ``own``: number
    of the eight shipped conversations, in each of ``languages``. ``per_check``: maximum pairs of
    each check (None: no limit). ``checks``: names of checks or groups (empty: all). ``doses``:
    strengths of an injected issue. ``texts``: further files like configs/trial/texts.yaml.
    """

    seed: int = Field(default=0, ge=0)
    dialogues: int = Field(default=24, ge=0)
    own: int = Field(default=8, ge=0, le=8)
    languages: tuple[str, ...] = LANGUAGES
    min_turns: int = Field(default=6, ge=1)
    max_turns: int = Field(default=24, ge=1)
    per_check: int | None = Field(default=None, ge=1)
    checks: tuple[str, ...] = ()
    doses: tuple[int, ...] = (1, 2, 3)
    texts: tuple[str, ...] = ()
    bounds: str = "trial/bounds"

    def wants(self, check: str, group: str) -> bool:
        """Returns whether ``checks`` selects this check."""
        return not self.checks or check in self.checks or group in self.checks


class Bound(Config):
    """The bounds of a verdict: green up to ``green``, red from ``red`` on, amber between them.

    If ``green`` is above ``red``, more is better. ``size``: compare the absolute value.
    """

    green: float
    red: float
    size: bool = False
    why: str

    def verdict(self, estimate: Estimate) -> Verdict:
        """Returns green or amber by the value. It is red only if the whole interval is also beyond
        green."""
        if estimate.value is None:
            return "none"
        sign = 1.0 if self.red > self.green else -1.0
        ends = [estimate.value, estimate.low, estimate.high]
        values = np.array([end for end in ends if end is not None])
        sizes = values
        if self.size:
            sizes = np.abs(values)
        badness = sign * sizes
        if badness[0] <= sign * self.green:
            return "green"
        crosses_zero = self.size and min(values) <= 0 <= max(values)
        if (
            badness[0] < sign * self.red
            or min(badness) <= sign * self.green
            or crosses_zero
        ):
            return "amber"
        return "red"

    def text(self) -> str:
        """Returns the bounds as text, such as ``green to 0.05, red from 0.15``."""
        green, red = "from", "to"
        if self.red > self.green:
            green, red = "to", "from"
        return f"green {green} {self.green:g}, red {red} {self.red:g}"


Bounds = Mapping[str, Bound]


def load_bounds(path: str) -> Bounds:
    """Reads bounds from a YAML file; the shipped file has the others. Raises ConfigError."""
    bounds = read_yaml("trial/bounds")
    for name, bound in read_yaml(path).items():
        if name not in bounds:
            raise ConfigError(
                f"{path}: no figure {name!r}", hint=f"known: {', '.join(bounds)}"
            )
        bounds[name] = bound
    checked_bounds = {}
    for name, bound in bounds.items():
        checked_bounds[name] = build_config(Bound, bound, where=f"{path}: {name}")
    return checked_bounds
