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
from medal_judges.stats.intervals import FISHER, LOGIT, Clusters, wilson, with_intervals
from medal_judges.stats.results import Estimate

ALL = "all"
SHARES = ("win", "tie", "loss", "inconsistent")  # of pairs: each one is in or out
MEANS = ("net", "first_shown")


@dataclass(frozen=True, slots=True)
class Rates:
    """One criterion and language (or ``all``).

    ``figures``: ``win``, ``tie``, ``loss`` and ``inconsistent`` are shares of the scored pairs,
    ``first_shown`` the share of answers that chose the dialogue shown first (0.5 is no bias),
    ``net`` is win minus loss, from -1 to 1. ``method`` says how the intervals of shares were made;
    a share of 0 or 1 has Wilson's in any case. Those of ``net`` and ``first_shown`` are the
    jackknife's, and left out where it gives none. ``unscored`` counts reasons.
    """

    criterion: str
    lang: str
    pairs: int
    scored: int
    contexts: int
    figures: dict[str, Estimate]
    method: str
    unscored: Counter[str]

    def to_record(self) -> dict[str, Any]:
        """As JSON has it."""
        figures = {name: asdict(estimate) for name, estimate in self.figures.items()}
        names = ("criterion", "lang", "pairs", "scored", "contexts", "method")
        plain = {name: getattr(self, name) for name in names}
        return plain | {"figures": figures, "unscored": dict(self.unscored)}


def rates(verdicts: Sequence[PairVerdict]) -> list[Rates]:
    """For each criterion in order: each language by code, then all where there are several."""
    listed = []
    for criterion in dict.fromkeys(v.criterion for v in verdicts):
        mine = [v for v in verdicts if v.criterion == criterion]
        langs = sorted({v.lang for v in mine})
        parts = {lang: [v for v in mine if v.lang == lang] for lang in langs}
        if len(langs) > 1:
            parts[ALL] = mine
        listed += [_rates(criterion, lang, part) for lang, part in parts.items()]
    return listed


def _rates(criterion: str, lang: str, verdicts: Sequence[PairVerdict]) -> Rates:
    scored = [v for v in verdicts if v.result is not None]
    contexts = len({v.group for v in scored})
    figures, method = _figures(scored, contexts)
    unscored = Counter(v.failure or "no answer came" for v in verdicts if v.result is None)
    return Rates(criterion, lang, len(verdicts), len(scored), contexts, figures, method, unscored)


def _figures(scored: Sequence[PairVerdict], contexts: int) -> tuple[dict[str, Estimate], str]:
    if not scored:
        missing = Estimate(None, reason="no pair was scored")
        return dict.fromkeys((*SHARES, *MEANS), missing), "none"
    values = _values(scored)
    plain = {name: Estimate(float(column.mean())) for name, column in values.items()}

    def statistic(weights: Floats) -> dict[str, Floats]:
        total = weights.sum(axis=1)
        return {name: weights @ column / total for name, column in values.items()}

    clusters = Clusters("conversation", tuple(v.group for v in scored))
    drawn = with_intervals(plain, statistic, clusters, lambda n: FISHER if n == "net" else LOGIT)
    if contexts == len(scored):
        return drawn | {name: _wilson(plain[name], contexts) for name in SHARES}, "Wilson"
    edges = [name for name in SHARES if plain[name].value in (0, 1)]
    method = "jackknife of contexts"
    return drawn | {name: _wilson(plain[name], contexts) for name in edges}, method


def _values(scored: Sequence[PairVerdict]) -> dict[str, Floats]:
    """One number a pair, shape (pairs,), whose mean is the figure."""
    columns = {
        name: np.array([float(v.result == name) for v in scored]) for name in ("win", "tie", "loss")
    }
    columns["inconsistent"] = np.array([float(v.inconsistent) for v in scored])
    columns["first_shown"] = np.array([v.first_shown for v in scored])
    columns["net"] = columns["win"] - columns["loss"]
    return columns


def _wilson(estimate: Estimate, contexts: int) -> Estimate:
    assert estimate.value is not None  # there are scored pairs
    low, high = wilson(estimate.value * contexts, contexts)
    return replace(estimate, low=low, high=high, reason=None)
