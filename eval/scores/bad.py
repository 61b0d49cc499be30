"""Bad scores: those beyond a threshold. Their share is the second figure of a graded dimension, and
shows what a mean hides: a few dialogues that are much worse."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from shlex import quote

import numpy as np
import numpy.typing as npt

from medal_judges.config import option
from medal_judges.errors import ConfigError, did_you_mean
from medal_judges.records.dimension import Dimension
from medal_judges.stats.correlation import Floats

BAD = "bad"  # of a gate: the share of bad scores
_SHARE = 0.1  # of the first system or period, by the default threshold
THRESHOLDS: tuple[str, ...] = option(
    (),
    flag="--bad",
    metavar="DIM=X",
    help="A score worse than X is bad; overall=1.5. May be repeated. By default, the worst tenth of "
    "the first system or period is bad.",
)


@dataclass(frozen=True, slots=True)
class BadScores:
    """Scores of ``scale`` that are bad: below ``threshold``, or above it if low is good.

    ``basis``: the rows whose worst tenth are bad; empty if ``--bad`` states the threshold.
    """

    scale: Dimension
    threshold: float
    basis: str = ""

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
        excess = scores - self.threshold
        if self.scale.good == "high":
            excess = -excess
        return np.where(np.isfinite(scores), excess > self.scale.tolerance, math.nan)


def bad_scores(
    thresholds: Iterable[str],
    scales: Mapping[str, Dimension],
    scores: Mapping[str, Floats],
    rows: npt.NDArray[np.bool_],
    basis: str,
) -> dict[str, BadScores]:
    """Returns which scores are bad, by the name of their dimension: by the ``thresholds``
    (``overall=1.5``), or without any, as bad as the worst tenth of the ``rows`` in each graded
    dimension. ``basis`` is a name for these rows.

    Raises ConfigError for an unknown dimension, and for a threshold that no score is beyond.
    """
    by_name = {}
    for text in thresholds:
        bad = _by_threshold(text, scales)
        by_name[bad.name] = bad
    if by_name:
        return by_name
    for name, scale in scales.items():
        reference = scores[name][rows & np.isfinite(scores[name])]
        if scale.kind != "binary" and len(reference):
            bad = BadScores(scale, _worst_tenth(reference, scale), basis)
            by_name[bad.name] = bad
    return by_name


def basis_note(bad: Iterable[BadScores]) -> str:
    """Says how the default thresholds were chosen; an empty text if none is a default."""
    for scores in bad:
        if scores.basis:
            return (
                f"A score is bad if it is as bad as the worst tenth of {scores.basis}; "
                f"--bad {quote(scores.scale.name)}=X sets another threshold"
            )
    return ""


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


def _by_threshold(text: str, scales: Mapping[str, Dimension]) -> BadScores:
    name, threshold = limit_of(text, "--bad")
    if name not in scales:
        hint = f"{did_you_mean(name, scales)}they have: {', '.join(scales)}"
        raise ConfigError(
            f"--bad {text}: the scores have no dimension {name!r}", hint=hint
        )
    scale = scales[name]
    bad = BadScores(scale, threshold)
    ends = np.array([scale.low, scale.high])
    if not scale.low <= threshold <= scale.high or not bad.of(ends).any():
        raise ConfigError(
            f"--bad {text}: {name} is between {scale.low:g} and {scale.high:g}, so no threshold "
            f"is {bad.name}",
            hint="give a number on the scale, and not its bad end",
        )
    return bad


def _worst_tenth(scores: Floats, scale: Dimension) -> float:
    """Returns a threshold between two scores, with the share of worse scores as near to a tenth as
    it can be, and with as few digits as that allows."""
    sign = {"high": 1.0, "low": -1.0}[scale.good]
    ascending = np.sort(sign * scores)
    # Nearer scores can be equal.
    cuts = np.flatnonzero(np.diff(ascending) > 4 * scale.tolerance) + 1
    if not len(cuts):
        return float(sign * ascending[0])
    cut = cuts[np.abs(cuts / len(ascending) - _SHARE).argmin()]
    worse, better = ascending[cut - 1 : cut + 1]
    middle = (worse + better) / 2
    threshold, digits = math.inf, 1
    while abs(threshold - middle) > (better - worse) / 4:
        digits += 1
        threshold = float(f"{middle:.{digits}g}")
    return sign * threshold
