"""How even a selection is, beside its pool and beside random samples of the same size."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from medal_judges.data_prep.curation.balanced import BalancedSelection
from medal_judges.data_prep.curation.candidate import Candidate, LabelReading, shuffled
from medal_judges.data_prep.curation.policy import LanguageSelection, covered_share
from medal_judges.stats.weights import effective_size

Floats = npt.NDArray[np.float64]
RANDOM_SAMPLES = 200  # their mean stands beside the selection
_MET = 0.9  # of an even share counts as reached


@dataclass(frozen=True, slots=True)
class ValueCount:
    """One issue, level, chatbot or user: dialogues in the pool, in the selection, in a random
    sample of its size (mean), and an even share of the selection. ``spare`` is how many dialogues
    with an issue the selection left in the pool."""

    value: str
    pool: int
    selected: int
    at_random: float
    target: float
    spare: int = 0


@dataclass(frozen=True, slots=True)
class FactorBalance:
    """A factor's counts and how even they are.

    ``evenness`` is the entropy of the counts over that of equal counts, from 0 (one value has
    them all) to 1, over the values that the pool has; None where it has fewer than two.
    ``ratio`` is the smallest of these counts over the largest.
    """

    name: str
    values: tuple[ValueCount, ...]
    evenness: float | None
    evenness_at_random: float | None
    evenness_of_pool: float | None
    ratio: float | None
    ratio_at_random: float | None


@dataclass(frozen=True, slots=True)
class Unmet:
    """A target that was not reached, and why."""

    factor: str
    value: str
    target: float
    reached: int
    reason: str


@dataclass(frozen=True, slots=True)
class LanguageBalance:
    """The balance of one language's selection. ``contexts`` is the number of different groups;
    ``skipped`` lists wishes without a candidate: (category, factor, value, times). ``effective``
    is the number of equally weighted dialogues that say as much about the pool, ``covered`` the
    share of the pool whose labels, chatbot and user a selected dialogue has."""

    lang: str
    pool: int
    wanted: int
    selected: int
    contexts: int
    factors: tuple[FactorBalance, ...]
    unmet: tuple[Unmet, ...]
    seeds: int = 0
    unseeded: tuple[tuple[str, str], ...] = ()
    skipped: tuple[tuple[str, str, str, int], ...] = ()
    covered: float | None = None
    effective: float = 0.0

    def to_record(self) -> dict[str, Any]:
        """The balance as JSON of curation.json."""
        return asdict(self)

    def factor(self, name: str) -> FactorBalance:
        """One factor: category, level, chatbot or user."""
        return next(factor for factor in self.factors if factor.name == name)


def language_balance(
    lang: str,
    pool: Sequence[Candidate],
    selection: LanguageSelection,
    wanted: int,
    reading: LabelReading,
    *,
    seed: int = 0,
) -> LanguageBalance:
    """The balance of ``selection``, of which ``wanted`` dialogues were asked."""
    chosen = [c.candidate for c in selection.chosen]
    factors = balance_of(lang, pool, chosen, wanted, reading, seed=seed)
    balanced = selection.balanced
    return LanguageBalance(
        lang=lang,
        pool=len(pool),
        wanted=wanted,
        selected=len(chosen),
        contexts=len({c.group for c in chosen}),
        factors=factors,
        unmet=unmet_targets(factors) if balanced else (),
        seeds=sum(c.stage == "seed" for c in selection.chosen),
        unseeded=balanced.unseeded if balanced else (),
        skipped=skipped_wishes(balanced) if balanced else (),
        covered=covered_share(pool, chosen) if balanced else None,
        effective=effective_size([c.weight for c in selection.chosen]),
    )


def balance_of(
    lang: str,
    pool: Sequence[Candidate],
    chosen: Sequence[Candidate],
    wanted: int,
    reading: LabelReading,
    *,
    seed: int = 0,
) -> tuple[FactorBalance, ...]:
    """Categories, overall levels, chatbots and users of ``chosen`` beside ``pool``."""
    ordered = shuffled(pool, seed)
    rows = {c.id: i for i, c in enumerate(ordered)}
    mine = np.zeros((1, len(ordered)), dtype=bool)
    mine[0, [rows[c.id] for c in chosen]] = True
    rng = np.random.default_rng([seed, *lang.encode()])
    random = np.zeros((RANDOM_SAMPLES, len(ordered)), dtype=bool)
    for sample in random:
        sample[rng.permutation(len(ordered))[: len(chosen)]] = True
    faulty = np.array([any(name in reading.issues for name in c.categories) for c in ordered])
    return tuple(
        _factor(name, values, has, mine, random, wanted, faulty & ~mine[0])
        for name, (values, has) in _factors(ordered, reading).items()
    )


def _factors(
    pool: Sequence[Candidate], reading: LabelReading
) -> dict[str, tuple[list[str], npt.NDArray[np.bool_]]]:
    """Values of each factor, and which candidate has which: shape (candidates, values)."""
    levels = [str(level) for level in reading.levels]
    values: dict[str, tuple[list[str], list[tuple[str, ...]]]] = {
        "category": (list(reading.categories), [c.categories for c in pool]),
        "level": (levels, [() if c.level is None else (str(c.level),) for c in pool]),
        "chatbot": (sorted({c.chatbot for c in pool}), [(c.chatbot,) for c in pool]),
        "user": (sorted({c.user for c in pool}), [(c.user,) for c in pool]),
    }
    return {
        name: (names, np.array([[v in own for v in names] for own in of], dtype=np.bool_))
        for name, (names, of) in values.items()
    }


def _factor(
    name: str,
    values: Sequence[str],
    has: npt.NDArray[np.bool_],
    mine: npt.NDArray[np.bool_],
    random: npt.NDArray[np.bool_],
    wanted: int,
    spare: npt.NDArray[np.bool_],
) -> FactorBalance:
    table = has.astype(np.float64).reshape(-1, len(values))
    pool = table.sum(axis=0)
    selected, drawn = mine @ table, random @ table
    there = pool > 0
    columns = (values, pool, selected[0], drawn.mean(axis=0), spare @ table)
    counts = tuple(
        ValueCount(v, int(p), int(s), float(r), wanted / len(values), int(left))
        for v, p, s, r, left in zip(*columns, strict=True)
    )
    even, even_random = (_mean(evenness(row[there]) for row in part) for part in (selected, drawn))
    ratio, ratio_random = (_mean(_ratio(row[there]) for row in part) for part in (selected, drawn))
    return FactorBalance(
        name, counts, even, even_random, evenness(pool[there]), ratio, ratio_random
    )


def evenness(counts: Floats) -> float | None:
    """Entropy of ``counts`` over the largest it can be (Pielou's J); None for fewer than two
    counts or for nothing counted."""
    total = float(counts.sum())
    if len(counts) < 2 or total <= 0:
        return None
    shares = counts[counts > 0] / total
    return max(0.0, float(-(shares * np.log(shares)).sum())) / math.log(len(counts))


def _ratio(counts: Floats) -> float | None:
    if len(counts) < 2 or counts.max() <= 0:
        return None
    return float(counts.min() / counts.max())


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def unmet_targets(factors: Iterable[FactorBalance]) -> tuple[Unmet, ...]:
    """Values of which the selection holds less than 90% of an even share."""
    return tuple(
        Unmet(factor.name, v.value, v.target, v.selected, _reason(v))
        for factor in factors
        for v in factor.values
        if v.selected < _MET * v.target
    )


def _reason(count: ValueCount) -> str:
    if count.pool == 0:
        return "none in the pool"
    if count.selected == count.pool:
        return "all there are"
    if count.spare == 0:
        return "no more of it with an issue"
    return "other wishes weighed more"


def skipped_wishes(selection: BalancedSelection) -> tuple[tuple[str, str, str, int], ...]:
    """(category, factor, value, times) of wishes without a candidate, most frequent first."""
    ordered = sorted(selection.skipped.items(), key=lambda item: (-item[1], item[0]))
    return tuple((*key, times) for key, times in ordered)
