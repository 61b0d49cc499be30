"""What a comparison of systems found: typed records, and the sentences that lead the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from medal_judges.report.numbers import interval, number, p_value_text
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.systems import SystemDifference, Tested

ALL = "all"  # every language together
LEVEL = 0.05
# What a result rests on: human labels that correct the judge, or the judge alone.
Basis = Literal["people", "judge"]


@dataclass(frozen=True, slots=True)
class SystemResult:
    """One system on one dimension and language: the judge's mean of its ``n`` scored dialogues, the
    human mean of the ``labelled`` ones, and the estimated human mean of all (``corrected``).
    ``rank``: (best, worst) that it may have, 1 is best; systems that share a letter of ``groups``
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
        """The corrected mean if there is one, or else the judge's."""
        return self.judge if self.corrected is None else self.corrected


@dataclass(frozen=True, slots=True)
class PairResult:
    """Two systems on one dimension and language. ``p_holm``: the p-value after Holm's correction
    over all comparisons; ``more``: dialogues that each system further needs to show the difference
    of the options."""

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
        return found.corrected or found.judge if self.basis == "people" else found.judge

    @property
    def apart(self) -> bool:
        """Whether the two can be told apart at 5%, after Holm's correction."""
        return self.p_holm is not None and self.p_holm < LEVEL


@dataclass(frozen=True, slots=True)
class ComparedOn:
    """All systems on one dimension and language (``all`` for every language together), the best
    first. ``good`` is the better end of the scale. ``basis`` is ``people`` only if every system has
    enough labels; ``uncorrected`` gives the reason otherwise. ``missing``: systems without a score.
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
        """The comparison of two systems. Raises StopIteration."""
        return next(pair for pair in self.pairs if {pair.first, pair.second} == {first, second})


@dataclass(frozen=True, slots=True)
class SystemComparison:
    """What ``compare`` found. ``comparisons`` is how many p-values Holm's correction is over,
    ``asked`` the difference that ``more`` is for."""

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
        """Languages with own results, without ``all``."""
        return list(dict.fromkeys(r.lang for r in self.results if r.lang != ALL))

    def on(self, dimension: str, lang: str = ALL) -> ComparedOn:
        """The result of a dimension and language. Raises KeyError."""
        return {(r.dimension, r.lang): r for r in self.results}[dimension, lang]

    def verdicts(self) -> list[str]:
        """A sentence for each dimension, all languages together."""
        return [verdict(result) for result in self.results if result.lang == ALL]

    def to_record(self) -> dict[str, Any]:
        """One JSON object."""
        return asdict(self) | {"verdicts": self.verdicts()}


def verdict(result: ComparedOn) -> str:
    """The result of a dimension in words."""
    name, first = result.dimension.replace("_", " "), result.systems[0].system
    by = "by human labels" if result.basis == "people" else "by the judge alone"
    if not result.pairs:
        return f"{name}: only {first} has scores; nothing to compare."
    if len(result.systems) == 2:
        return f"{name}: {_pair_words(result.pairs[0], result.good)} ({by})."
    if not any(pair.tested.estimate.low is not None for pair in result.pairs):
        reason = result.pairs[0].tested.estimate.reason
        return f"{name}: no system can be placed: {reason} ({by})."
    others = [other.system for other in result.systems[1:]]
    peers = [other for other in others if not result.pair(first, other).apart]
    if not peers:
        return f"{name}: {first} is better than every other system ({by})."
    if len(peers) == len(others):
        return f"{name}: {first} cannot be told apart from any other system ({by})."
    return f"{name}: the best cannot be told apart: {', '.join((first, *peers))} ({by})."


def _pair_words(pair: PairResult, good: str) -> str:
    estimate, one, two = pair.tested.estimate, pair.first, pair.second
    if estimate.value is None:
        return f"{one} and {two} cannot be compared: {estimate.reason}"
    apart = number(abs(estimate.value))
    if estimate.low is None or estimate.high is None:
        if estimate.p_value == 1:
            return f"all dialogues of {one} and {two} have the same score"
        return f"{one} and {two} differ by {apart}, which may be chance: {estimate.reason}"
    p_value = "" if pair.p_holm is None else f", p {p_value_text(pair.p_holm)}"
    if not pair.apart:
        smallest = pair.tested.smallest
        power = "" if smallest is None else f"; these dialogues can show {number(smallest)} or more"
        return (
            f"{one} and {two} cannot be told apart: {one} minus {two} is "
            f"{number(estimate.value)} {interval(estimate)}{p_value}{power}"
        )
    if (estimate.value > 0) != (good == "high"):
        one, two = two, one
    ends = (estimate.low, estimate.high) if estimate.value > 0 else (-estimate.high, -estimate.low)
    return f"{one} is better than {two} by {apart} {interval(Estimate(0.0, *ends))}{p_value}"
