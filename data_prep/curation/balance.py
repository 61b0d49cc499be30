"""How even a selection is, beside its pool and beside random samples of the same size."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from medal_judges.data_prep.curation.candidate import Candidate, LabelReading, shuffled
from medal_judges.data_prep.curation.selection import LanguageSelection, covered_share
from medal_judges.stats.weights import effective_size

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
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
    ``factors`` are category, level, chatbot and user; ``skipped`` lists wishes without a candidate:
    (category, factor, value, times), most frequent first. ``effective`` is the number of equally
    weighted dialogues that say as much about the pool, ``covered`` the share of the pool whose
    labels, chatbot and user a selected dialogue has."""

    lang: str
    pool: int
    wanted: int
    selected: int
    contexts: int
    factors: Mapping[str, FactorBalance]
    unmet: tuple[Unmet, ...] = ()
    seeds: int = 0
    unseeded: tuple[tuple[str, str], ...] = ()
    skipped: tuple[tuple[str, str, str, int], ...] = ()
    covered: float | None = None
    effective: float = 0.0

    def to_record(self) -> dict[str, Any]:
        """The balance as JSON of curation.json."""
        return asdict(self)


def language_balance(
    lang: str,
    pool: Sequence[Candidate],
    selection: LanguageSelection,
    wanted: int,
    reading: LabelReading,
    *,
    seed: int = 0,
) -> LanguageBalance:
    """The balance of ``selection``, of which ``wanted`` dialogues were asked; targets are those of
    the balanced policy."""
    chosen = [c.candidate for c in selection.chosen]
    factors = factor_balances(lang, pool, chosen, wanted, reading, seed=seed)
    balance = LanguageBalance(
        lang=lang,
        pool=len(pool),
        wanted=wanted,
        selected=len(chosen),
        contexts=len({c.group for c in chosen}),
        factors=factors,
        seeds=sum(c.stage == "seed" for c in selection.chosen),
        effective=effective_size([c.weight for c in selection.chosen]),
    )
    if selection.policy != "balanced":
        return balance
    skipped = sorted(selection.skipped.items(), key=lambda item: (-item[1], item[0]))
    return replace(
        balance,
        unmet=tuple(
            Unmet(name, v.value, v.target, v.selected, _reason(v))
            for name, factor in factors.items()
            for v in factor.values
            if v.selected < _MET * v.target
        ),
        unseeded=selection.unseeded,
        skipped=tuple((*wish, times) for wish, times in skipped),
        covered=covered_share(pool, chosen),
    )


def _reason(count: ValueCount) -> str:
    if count.pool == 0:
        return "none in the pool"
    if count.selected == count.pool:
        return "all there are"
    if count.spare == 0:
        return "no more of it with an issue"
    return "other wishes weighed more"


def factor_balances(
    lang: str,
    pool: Sequence[Candidate],
    chosen: Sequence[Candidate],
    wanted: int,
    reading: LabelReading,
    *,
    seed: int = 0,
) -> dict[str, FactorBalance]:
    """Categories, overall levels, chatbots and users of ``chosen`` beside ``pool``."""
    ordered = shuffled(pool, seed)
    ids = {c.id for c in chosen}
    mine = np.array([c.id in ids for c in ordered], dtype=np.bool_)
    rng = np.random.default_rng([seed, *lang.encode()])
    random = np.zeros((RANDOM_SAMPLES, len(ordered)), dtype=np.bool_)
    for sample in random:
        sample[rng.permutation(len(ordered))[: len(chosen)]] = True
    faulty = np.array([any(name in reading.issues for name in c.categories) for c in ordered])
    values: dict[str, tuple[Sequence[str], list[tuple[str, ...]]]] = {
        "category": (reading.categories, [c.categories for c in ordered]),
        "level": (
            [str(level) for level in reading.levels],
            [() if c.level is None else (str(c.level),) for c in ordered],
        ),
        "chatbot": (sorted({c.chatbot for c in pool}), [(c.chatbot,) for c in ordered]),
        "user": (sorted({c.user for c in pool}), [(c.user,) for c in ordered]),
    }
    balances = {}
    for name, (names, own) in values.items():
        has = np.array([[v in its for v in names] for its in own], dtype=np.float64)
        table = has.reshape(-1, len(names))
        balances[name] = _factor(names, table, mine, random, faulty & ~mine, wanted)
    return balances


def _factor(
    names: Sequence[str], table: Floats, mine: Mask, random: Mask, spare: Mask, wanted: int
) -> FactorBalance:
    """``table`` says which candidate has which value: shape (candidates, values)."""
    pool, selected, drawn = table.sum(axis=0), mine @ table, random @ table
    there = pool > 0
    columns = (names, pool, selected, drawn.mean(axis=0), spare @ table)
    counts = tuple(
        ValueCount(v, int(p), int(s), float(r), wanted / len(names), int(left))
        for v, p, s, r, left in zip(*columns, strict=True)
    )
    return FactorBalance(
        counts,
        evenness(selected[there]),
        _mean(evenness(row[there]) for row in drawn),
        evenness(pool[there]),
        _ratio(selected[there]),
        _mean(_ratio(row[there]) for row in drawn),
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
