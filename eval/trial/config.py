"""Configuration of ``medal trial``: how much is asked, and where green ends and red begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, model_validator

from medal_judges.config import Config, build_config, read_yaml
from medal_judges.data_prep.perturbation.edit import LANGUAGES
from medal_judges.eval.trial.results import Verdict
from medal_judges.stats.estimate import Estimate

MIN_PAIRS = 10  # fewer say nothing, and get no verdict


class TrialConfig(Config):
    """What a trial asks of each judge.

    ``dialogues``: how many of the file, or of the chitchat package, take part; ``own``: how many of
    the eight conversations that ship, in each of ``languages``. ``per_check``: pairs of each check
    at most (None: every dialogue that can carry it). ``doses``: strengths of a planted issue.
    ``texts``: further files of texts, see configs/trial/texts.yaml. ``turn_level``: pairs that are
    scored turn by turn too. ``parallel``: a spec of parallel dialogues (``xdial:fed``) for the
    language check, left out where it is not here; ``parallel_dialogues`` of them take part.
    ``rated``: specs of rated sets for calibration (dimension by spec), those that are here;
    ``rated_rows`` of each at most.
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
    turn_level: int = Field(default=12, ge=0)
    parallel: str | None = None
    parallel_dialogues: int = Field(default=12, ge=3)
    rated: Mapping[str, str] = {}
    rated_rows: int = Field(default=100, ge=1)
    bounds: str = "trial/bounds"


class Bound(Config):
    """Where a figure is ``green`` and where ``red``; between them it is amber. ``red`` above
    ``green``: less is better; below it: more is better. ``size``: the figure's size counts, not its
    sign. ``why`` says why these numbers."""

    green: float
    red: float
    size: bool = False
    why: str

    @model_validator(mode="after")
    def _apart(self) -> Bound:
        if self.green == self.red:
            raise ValueError("green and red must differ")
        return self

    def verdict(self, estimate: Estimate) -> Verdict:
        """Green or amber by the figure itself; red only where the interval, too, lies beyond green:
        noise alone is no finding. None without a figure."""
        if estimate.value is None:
            return "none"
        sign = 1.0 if self.red > self.green else -1.0
        value = self._read(estimate.value) * sign
        if value <= self.green * sign:
            return "green"
        if value < self.red * sign:
            return "amber"
        ends = [end for end in (estimate.low, estimate.high) if end is not None]
        crosses = self.size and bool(ends) and min(ends) <= 0 <= max(ends)
        nearest = min((self._read(end) * sign for end in ends), default=value)
        return "amber" if crosses or nearest <= self.green * sign else "red"

    def _read(self, value: float) -> float:
        return abs(value) if self.size else value

    def told(self) -> str:
        """``green to 0.05, red from 0.15``."""
        return f"green {'to' if self.red > self.green else 'from'} {self.green:g}, red " + (
            f"from {self.red:g}" if self.red > self.green else f"to {self.red:g}"
        )


# Of each kind of check the figures that have a bound.
BoundName = Literal[
    "same.shift", "same.moved", "again.shift", "again.moved",
    "language.shift", "language.spearman",
    "no_gain.gain", "no_gain.raised",
    "attack.gain", "attack.harmed",
    "must_fall.auc", "must_fall.slope", "must_fall.found",
    "use.gap", "use.unscored", "use.kinship",
]  # fmt: skip


class Bounds(Config):
    """The bounds of every figure that has a verdict."""

    bounds: Mapping[BoundName, Bound]

    @model_validator(mode="after")
    def _whole(self) -> Bounds:
        from typing import get_args

        if missing := [name for name in get_args(BoundName) if name not in self.bounds]:
            raise ValueError(f"no bound for {', '.join(missing)}")
        return self


def load_bounds(path: str) -> Mapping[BoundName, Bound]:
    """The bounds of a YAML file, or of a shipped one by name. Raises ConfigError."""
    return build_config(Bounds, {"bounds": read_yaml(path)}, where=path).bounds


WORST: tuple[Verdict, ...] = ("red", "amber", "none", "green")


def worst(verdicts: list[Verdict]) -> Verdict:
    """The worst of several: red, amber, green; none where one of them has none and no other is
    worse than green."""
    return min(verdicts, key=WORST.index)
