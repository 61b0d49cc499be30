"""What a comparison of systems found: typed records, and the words that lead the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from medal_judges.report.numbers import interval, number, p_value_text
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.systems import SystemDifference, Tested

ALL = "all"  # every language together
LEVEL = 0.05
# What a result rests on: labels that correct the judge, or the judge alone.
Basis = Literal["people", "judge"]


@dataclass(frozen=True, slots=True)
class SystemResult:
    """One system on one dimension and language: the judge's mean of its ``n`` scored dialogues,
    people's mean of the ``labelled`` ones, and what people would say of all (``corrected``).
    ``rank``: (best, worst) that it may have, 1 is best; ``groups``: letters, systems that share one
    cannot be told apart."""

    system: str
    n: int
    unscored: int
    labelled: int
    judge: Estimate
    people: Estimate | None = None
    corrected: Estimate | None = None
    rank: tuple[int, int] = (1, 1)
    groups: str = ""

    @property
    def best(self) -> Estimate:
        """The corrected mean where there is one."""
        return self.judge if self.corrected is None else self.corrected


@dataclass(frozen=True, slots=True)
class PairResult:
    """Two systems on one dimension and language. ``p_holm``: the p-value after Holm's correction
    over all comparisons; ``more``: dialogues that each system further needs, with as many labelled
    as now, to show the difference that was asked for."""

    first: str
    second: str
    difference: SystemDifference
    basis: Basis = "judge"
    p_holm: float | None = None
    more: tuple[int, int] | None = None

    @property
    def tested(self) -> Tested:
        """The difference that the p-value is of."""
        found = self.difference
        if self.basis == "people" and found.corrected is not None:
            return found.corrected
        return found.judge

    @property
    def apart(self) -> bool:
        """Whether the two can be told apart at 5%, after Holm's correction."""
        return self.p_holm is not None and self.p_holm < LEVEL


@dataclass(frozen=True, slots=True)
class ComparedOn:
    """All systems on one dimension and language (``all`` for every language together).

    ``systems`` stand best first; ``good`` is the better end of the scale. ``basis``: what ranks and
    p-values rest on, ``people`` only where every system has labels enough; ``uncorrected`` says why
    not where labels were given. ``missing``: systems without a score on it.
    """

    dimension: str
    lang: str
    good: Literal["low", "high"]
    systems: Sequence[SystemResult]
    pairs: Sequence[PairResult]
    basis: Basis
    uncorrected: str = ""
    missing: Sequence[str] = ()

    @property
    def labelled(self) -> int:
        """Labelled dialogues of all systems."""
        return sum(system.labelled for system in self.systems)

    def pair(self, first: str, second: str) -> PairResult:
        """The comparison of two systems, in the order of the input. Raises KeyError."""
        for pair in self.pairs:
            if {pair.first, pair.second} == {first, second}:
                return pair
        raise KeyError((first, second))


@dataclass(frozen=True, slots=True)
class SystemComparison:
    """What ``compare`` found. ``comparisons`` is how many p-values Holm's correction is over,
    ``asked`` the difference that ``more`` is for; ``notes`` are what a reader has to know."""

    systems: Sequence[str]
    results: Sequence[ComparedOn]
    comparisons: int
    judge: str
    asked: float | None = None
    notes: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = ()
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def dimensions(self) -> list[str]:
        return list(dict.fromkeys(result.dimension for result in self.results))

    @property
    def languages(self) -> list[str]:
        """Languages with results of their own, without ``all``."""
        return list(dict.fromkeys(r.lang for r in self.results if r.lang != ALL))

    def on(self, dimension: str, lang: str = ALL) -> ComparedOn:
        """The result of a dimension and language. Raises KeyError."""
        for result in self.results:
            if (result.dimension, result.lang) == (dimension, lang):
                return result
        raise KeyError((dimension, lang))

    def verdicts(self) -> list[str]:
        """One sentence or two for each dimension, all languages together."""
        return [verdict(result) for result in self.results if result.lang == ALL]

    def to_record(self) -> dict[str, Any]:
        """One JSON object."""
        return asdict(self) | {"verdicts": self.verdicts()}


def verdict(result: ComparedOn) -> str:
    """What the comparison says on a dimension, in words."""
    name = result.dimension.replace("_", " ")
    by = "by people's labels" if result.basis == "people" else "by the judge alone"
    if not result.pairs:
        return f"{name}: only {result.systems[0].system} has scores; nothing to compare."
    if len(result.systems) == 2:
        return f"{name}: {_pair_words(result.pairs[0], result.good)} ({by})."
    if not any(pair.tested.estimate.low is not None for pair in result.pairs):
        reason = result.pairs[0].tested.estimate.reason
        return f"{name}: no system can be placed: {reason} ({by})."
    first = result.systems[0]
    peers = [
        other.system
        for other in result.systems[1:]
        if not result.pair(first.system, other.system).apart
    ]
    if not peers:
        return f"{name}: {first.system} is better than every other system ({by})."
    listed = ", ".join((first.system, *peers))
    if len(peers) == len(result.systems) - 1:
        return f"{name}: {first.system} cannot be told apart from any other system ({by})."
    return f"{name}: the best cannot be told apart: {listed} ({by})."


def _pair_words(pair: PairResult, good: str) -> str:
    estimate = pair.tested.estimate
    if estimate.value is None:
        return f"{pair.first} and {pair.second} cannot be compared: {estimate.reason}"
    apart = f"{number(abs(estimate.value))}"
    if estimate.low is None or estimate.high is None:
        if estimate.p_value == 1:
            return f"all dialogues of {pair.first} and {pair.second} have the same score"
        return (
            f"{pair.first} and {pair.second} differ by {apart}, which may be chance: "
            f"{estimate.reason}"
        )
    better = (estimate.value > 0) == (good == "high")
    one, two = (pair.first, pair.second) if better else (pair.second, pair.first)
    p_value = "" if pair.p_holm is None else f", p {p_value_text(pair.p_holm)}"
    low, high = estimate.low, estimate.high
    span = interval(Estimate(0.0, *((low, high) if estimate.value > 0 else (-high, -low))))
    if pair.apart:
        return f"{one} is better than {two} by {apart} {span}{p_value}"
    smallest = pair.tested.smallest
    shown = "" if smallest is None else f"; so many dialogues show {number(smallest)} or more"
    return (
        f"{pair.first} and {pair.second} cannot be told apart: {pair.first} minus {pair.second} is "
        f"{number(estimate.value)} {interval(estimate)}{p_value}{shown}"
    )
