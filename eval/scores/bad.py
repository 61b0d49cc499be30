"""Bad scores: those beyond a threshold. Their share is the second figure of a graded dimension, and
shows what a mean hides: a few dialogues that are much worse."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from medal_judges.config import option
from medal_judges.errors import ConfigError, did_you_mean
from medal_judges.records.dimension import Dimension
from medal_judges.stats.correlation import Floats

BAD = "bad"  # of a gate: the share of bad scores
_SHARE = 0.1  # of the first system or period, by the default threshold
# A note on the default threshold.
BY_DEFAULT = (
    "A score is bad if it is as bad as the worst tenth of {}; --bad DIMENSION=X sets another "
    "threshold"
)
THRESHOLDS: tuple[str, ...] = option(
    (),
    flag="--bad",
    metavar="DIM=X",
    help="A score worse than X is bad; overall=1.5. May be repeated. By default, the worst tenth "
    "of the first system or period is bad.",
)


@dataclass(frozen=True, slots=True)
class BadScores:
    """Scores of ``scale`` that are bad: below ``threshold``, or above it if low is good."""

    scale: Dimension
    threshold: float

    @property
    def name(self) -> str:
        """In words, such as ``overall below 1.5``."""
        side = {"high": "below", "low": "above"}[self.scale.good]
        return f"{self.scale.name} {side} {self.threshold:g}"

    @property
    def dimension(self) -> Dimension:
        """Whether a row is bad, as a dimension of its own."""
        return Dimension(self.name, "binary", 0, 1, good="low")

    def of(self, scores: Floats) -> Floats:
        """Returns 1 for each bad score, 0 for a score that is not, NaN for NaN."""
        sign = {"high": 1, "low": -1}[self.scale.good]
        is_bad = sign * (self.threshold - scores) > self.scale.tolerance
        return np.where(np.isfinite(scores), is_bad, math.nan)


def bad_scores(
    thresholds: Iterable[str],
    scales: Mapping[str, Dimension],
    scores: Mapping[str, Floats],
    rows: npt.NDArray[np.bool_],
) -> dict[str, BadScores]:
    """Returns which scores are bad, by the name of their dimension: by the ``thresholds``
    (``overall=1.5``), or without any, as bad as the worst tenth of the ``rows`` in each graded
    dimension.

    Raises ConfigError for an unknown dimension, and for a threshold that no score is beyond.
    """
    bad = [_by_threshold(text, scales) for text in thresholds]
    if not bad:
        for name, scale in scales.items():
            reference = scores[name][rows & np.isfinite(scores[name])]
            if scale.kind != "binary" and len(reference):
                bad.append(BadScores(scale, _worst_tenth(reference, scale.good)))
    return {part.name: part for part in bad}


def limit_of(text: str, option: str) -> tuple[str, float]:
    """Returns the dimension and the number of an option such as ``overall=3.5``. Raises
    ConfigError."""
    name, _, number = text.rpartition("=")
    try:
        limit = float(number)
    except ValueError:
        limit = math.nan
    if not name or math.isnan(limit):
        examples = "--fail-under overall=3.5 --fail-over unsafe=0.01 --bad overall=1.5"
        raise ConfigError(
            f"{option} {text}: expected DIMENSION=NUMBER",
            hint=f"for example: {examples}",
        )
    return name, limit


def require_dimension(name: str, names: Iterable[str], where: str = "") -> None:
    """Raises ConfigError, which begins with ``where``, if the scores do not have the dimension."""
    names = list(names)
    if name not in names:
        hint = f"{did_you_mean(name, names)}they have: {', '.join(names)}"
        raise ConfigError(f"{where}the scores have no dimension {name!r}", hint=hint)


def _by_threshold(text: str, scales: Mapping[str, Dimension]) -> BadScores:
    name, threshold = limit_of(text, "--bad")
    require_dimension(name, scales, f"--bad {text}: ")
    scale = scales[name]
    bad = BadScores(scale, threshold)
    ends = scale.low, scale.high
    if not ends[0] <= threshold <= ends[1] or not bad.of(np.array(ends)).any():
        raise ConfigError(
            f"--bad {text}: {name} is between {scale.low:g} and {scale.high:g}, so {bad.name} "
            "tells no two scores apart"
        )
    return bad


def _worst_tenth(scores: Floats, good: str) -> float:
    """Returns a threshold between two scores, with the share of worse ones as near to a tenth as it
    can be."""
    # Rounded, because equal scores may differ by what a batch changes.
    levels, counts = np.unique(scores.round(3), return_counts=True)
    if len(levels) == 1:
        return float(levels[0])
    shares = counts.cumsum()[:-1] / len(scores)
    if good == "low":
        shares = 1 - shares
    cut = np.abs(shares - _SHARE).argmin()
    return float(f"{levels[cut : cut + 2].mean():.5g}")
