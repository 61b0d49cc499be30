"""Win, tie and loss rates of native dialogues, with 95% intervals.

Pairs of one seed context resemble each other (other languages, other chatbots), so whole contexts
are left out: the jackknife of stats/intervals. Where each context has one pair, the pairs are
independent and a share has Wilson's score interval; the same, with one trial a context, where all
pairs agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from medal_judges.data_prep.native.pairs import PairVerdict
from medal_judges.stats.correlation import Floats
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import FISHER, LOGIT, Clusters, wilson, with_intervals

ALL = "all"
SHARES = ("win", "tie", "loss", "inconsistent")  # of pairs: each one is in or out
FIGURES = {
    "win": "Win",
    "tie": "Tie",
    "loss": "Loss",
    "net": "Win − loss",
    "inconsistent": "Order decided",
    "first_shown": "First shown",
}
_WILSON, _JACKKNIFE = "Wilson", "jackknife of contexts"


@dataclass(frozen=True, slots=True)
class Rates:
    """One criterion and language (or ``all``).

    ``figures``: ``win``, ``tie``, ``loss`` and ``inconsistent`` are shares of the scored pairs,
    ``first_shown`` the share of answers that chose the dialogue shown first (0.5 means no bias),
    ``net`` is win minus loss, from -1 to 1. ``unscored`` counts reasons, the
    most frequent first.
    """

    criterion: str
    lang: str
    pairs: int
    scored: int
    contexts: int
    figures: dict[str, Estimate]
    unscored: dict[str, int]

    @property
    def method(self) -> str:
        """How the intervals of shares were made; a share of 0 or 1 has Wilson's in any case."""
        if not self.scored:
            return "none"
        return _WILSON if self.contexts == self.scored else _JACKKNIFE

    def interval(self, figure: str) -> str:
        """How the interval of one figure was made; those of ``net`` and ``first_shown`` are the
        jackknife's, and left out where it gives none."""
        estimate = self.figures[figure]
        if estimate.low is None:
            return "none"
        if figure not in SHARES:
            return _JACKKNIFE
        return _WILSON if estimate.value in (0, 1) else self.method

    def to_record(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self) | {"method": self.method}


def rates(verdicts: Sequence[PairVerdict]) -> list[Rates]:
    """For each criterion in order: each language by code, then all where there are several."""
    listed = []
    for criterion in dict.fromkeys(v.criterion for v in verdicts):
        mine = [v for v in verdicts if v.criterion == criterion]
        langs = sorted({v.lang for v in mine})
        parts = {lang: [v for v in mine if v.lang == lang] for lang in langs}
        if len(langs) > 1:
            parts[ALL] = mine
        for lang, part in parts.items():
            scored = [v for v in part if v.result is not None]
            contexts = len({v.group for v in scored})
            failures = Counter(v.failure or "no answer came" for v in part if v.result is None)
            counts = (len(part), len(scored), contexts)
            figures = _figures(scored, contexts)
            listed.append(Rates(criterion, lang, *counts, figures, dict(failures.most_common())))
    return listed


def _figures(scored: Sequence[PairVerdict], contexts: int) -> dict[str, Estimate]:
    if not scored:
        return dict.fromkeys(FIGURES, Estimate(None, reason="no pair was scored"))
    values = _values(scored)
    plain = {name: Estimate(float(column.mean())) for name, column in values.items()}

    def statistic(weights: Floats) -> dict[str, Floats]:
        total = weights.sum(axis=1)
        return {name: weights @ column / total for name, column in values.items()}

    clusters = Clusters("conversation", tuple(v.group for v in scored))
    figures = with_intervals(plain, statistic, clusters, lambda n: FISHER if n == "net" else LOGIT)
    for name in SHARES:
        share = float(values[name].mean())
        if contexts == len(scored) or share in (0, 1):
            low, high = wilson(share * contexts, contexts)
            figures[name] = replace(plain[name], low=low, high=high)
    return figures


def _values(scored: Sequence[PairVerdict]) -> dict[str, Floats]:
    """One number a pair, shape (pairs,), whose mean is the figure."""
    columns = {
        name: np.array([float(v.result == name) for v in scored]) for name in ("win", "tie", "loss")
    }
    columns["inconsistent"] = np.array([float(v.inconsistent) for v in scored])
    columns["first_shown"] = np.array([v.first_shown for v in scored])
    columns["net"] = columns["win"] - columns["loss"]
    return columns
