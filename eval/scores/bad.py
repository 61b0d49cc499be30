"""Bad scores: rules by which a score beyond a threshold counts as bad."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from medal_judges.config import option
from medal_judges.errors import ConfigError, did_you_mean
from medal_judges.records.dimension import Dimension
from medal_judges.stats.correlation import Floats

BAD = "bad"  # in a gate: the share of bad scores
THRESHOLDS: tuple[str, ...] = option(
    (),
    flag="--bad",
    metavar="DIM=X",
    help="Scores worse than X are bad: overall=1.5. May be repeated.",
)


@dataclass(frozen=True, slots=True)
class BadScoreLimit:
    """A limit beyond which a score counts as bad.

    Attributes:
        scale: The dimension of the scores. If its high end is good, scores below ``threshold`` are
            bad. If its low end is good, scores above it are.
        threshold: The limit, such as 1.5.
    """

    scale: Dimension
    threshold: float

    @property
    def name(self) -> str:
        """Returns the limit in words, such as ``overall below 1.5``."""
        side = {"high": "below", "low": "above"}[self.scale.good]
        return f"{self.scale.name} {side} {self.threshold:g}"

    @property
    def dimension(self) -> Dimension:
        """Returns a binary dimension with the value 1 for a bad score and 0 for any other score."""
        return Dimension(self.name, "binary", 0, 1, good="low")

    def flags(self, scores: Floats) -> Floats:
        """Returns an array of the same shape as ``scores``: 1 for a bad score, 0 for any
        other score, NaN for NaN."""
        sign = {"high": 1, "low": -1}[self.scale.good]
        is_bad = sign * (self.threshold - scores) > self.scale.tolerance
        return np.where(np.isfinite(scores), is_bad, math.nan)


def parse_bad_score_limits(
    thresholds: Iterable[str], scales: Mapping[str, Dimension]
) -> dict[str, BadScoreLimit]:
    """Parses limits such as ``overall=1.5``, beyond which a score is bad.

    Args:
        thresholds: Limits as the user types them.
        scales: Dimension name -> the judge's dimension.

    Returns:
        Name of a limit, such as ``overall below 1.5`` -> the limit.

    Raises:
        ConfigError: A dimension is unknown, or no score on its scale would be bad.
    """
    bad = [_parse_bad_score_limit(text, scales) for text in thresholds]
    return {part.name: part for part in bad}


def parse_name_and_limit(text: str, option: str) -> tuple[str, float]:
    """Returns the name and the number in ``text``, such as ``overall=3.5``.

    Args:
        option: The command-line option, for the error message, such as ``--bad``.

    Raises:
        ConfigError: The text is not DIMENSION=NUMBER.
    """
    name, _, number = text.rpartition("=")
    try:
        limit = float(number)
    except ValueError:
        limit = math.nan
    if not name or math.isnan(limit):
        raise ConfigError(
            f"{option} {text}: expected DIMENSION=NUMBER",
            hint=f"Type for example: {option} overall=1.5",
        )
    return name, limit


def require_dimension(name: str, names: Iterable[str], where: str = "") -> None:
    """Raises ConfigError if the dimension ``name`` is not among ``names``.

    Args:
        name: The dimension that a user typed.
        names: The existing dimensions.
        where: The beginning of the error message, such as ``--bad overall=1.5:``.
    """
    names = list(names)
    if name not in names:
        hint = f"{did_you_mean(name, names)}Use one of: {', '.join(names)}"
        raise ConfigError(f"{where}the scores have no dimension {name!r}", hint=hint)


def _parse_bad_score_limit(text: str, scales: Mapping[str, Dimension]) -> BadScoreLimit:
    name, threshold = parse_name_and_limit(text, "--bad")
    require_dimension(name, scales, f"--bad {text}: ")
    scale = scales[name]
    bad = BadScoreLimit(scale, threshold)
    ends = scale.low, scale.high
    if not ends[0] <= threshold <= ends[1] or not bad.flags(np.array(ends)).any():
        raise ConfigError(
            f"--bad {text}: {name} is between {scale.low:g} and {scale.high:g}, so no score is "
            f"{bad.name.removeprefix(name).strip()}",
            hint=f"Type for example: --bad {name}={(scale.low + scale.high) / 2:g}",
        )
    return bad
