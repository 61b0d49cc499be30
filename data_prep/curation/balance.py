"""How even a selection is, beside its pool and beside random samples of the same size."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from medal_judges.data_prep.curation.candidate import Candidate, LabelReading, shuffled
from medal_judges.data_prep.curation.selection import LanguageSelection, covered_share
from medal_judges.stats.weights import effective_size

Floats = npt.NDArray[np.float64]
RANDOM_SAMPLES = 200  # their mean stands beside the selection
_MET = 0.9  # of an even share counts as reached


@dataclass(frozen=True, slots=True)
class ValueCount:
    """One issue, level, chatbot or user: dialogues in the pool, in the selection, in a random
    sample of its size (mean), and an even share of the selection. ``unmet`` says why the selection
    has clearly less than that share."""

    value: str
    pool: int
    selected: int
    at_random: float
    target: float
    unmet: str | None = None


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
    seeds: int = 0
    unseeded: tuple[tuple[str, str], ...] = ()
    skipped: tuple[tuple[str, str, str, int], ...] = ()
    covered: float | None = None
    effective: float = 0.0

    @property
    def unmet(self) -> list[tuple[str, ValueCount]]:
        """The targets that the balanced policy did not reach, with their factor."""
        return [(name, v) for name, f in self.factors.items() for v in f.values if v.unmet]

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
    balanced = selection.policy == "balanced"
    skipped = sorted(selection.skipped.items(), key=lambda item: (-item[1], item[0]))
    return LanguageBalance(
        lang=lang,
        pool=len(pool),
        wanted=wanted,
        selected=len(chosen),
        contexts=len({c.group for c in chosen}),
        factors=factor_balances(lang, pool, chosen, wanted, reading, seed=seed, aimed=balanced),
        seeds=sum(c.stage == "seed" for c in selection.chosen),
        unseeded=selection.unseeded,
        skipped=tuple((*wish, times) for wish, times in skipped),
        covered=covered_share(pool, chosen) if balanced else None,
        effective=effective_size([c.weight for c in selection.chosen]),
    )


def factor_balances(
    lang: str,
    pool: Sequence[Candidate],
    chosen: Sequence[Candidate],
    wanted: int,
    reading: LabelReading,
    *,
    seed: int = 0,
    aimed: bool = True,
) -> dict[str, FactorBalance]:
    """Categories, overall levels, chatbots and users of ``chosen`` beside ``pool``; ``aimed`` says
    whether ``wanted`` dialogues were to be even, so that what is unmet has a reason."""
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
        spare = (faulty & ~mine) @ table if aimed else None
        balances[name] = _factor(names, table, mine @ table, random @ table, spare, wanted)
    return balances


def _factor(
    names: Sequence[str],
    table: Floats,
    selected: Floats,
    drawn: Floats,
    spare: Floats | None,
    wanted: int,
) -> FactorBalance:
    """``table`` says which candidate has which value: shape (candidates, values)."""
    pool, at_random, target = table.sum(axis=0), drawn.mean(axis=0), wanted / len(names)
    there = pool > 0
    counts = []
    for i, name in enumerate(names):
        unmet = None
        if spare is not None and selected[i] < _MET * target:
            unmet = _reason(pool[i], selected[i], spare[i])
        numbers = int(pool[i]), int(selected[i]), float(at_random[i])
        counts.append(ValueCount(name, *numbers, target, unmet))
    return FactorBalance(
        tuple(counts),
        evenness(selected[there]),
        _mean(evenness(row[there]) for row in drawn),
        evenness(pool[there]),
        _ratio(selected[there]),
        _mean(_ratio(row[there]) for row in drawn),
    )


def _reason(pool: float, selected: float, spare: float) -> str:
    """Why a target was not reached; ``spare`` dialogues with an issue are left in the pool."""
    if not pool:
        return "none in the pool"
    if selected == pool:
        return "all there are"
    return "other wishes weighed more" if spare else "no more of it with an issue"


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
