"""Results of a comparison of systems, in words too, and the gate on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from medal_judges.errors import CoverageError, MedalError
from medal_judges.eval.comparison.rows import CompareOptions
from medal_judges.eval.scores.bad import BadScores
from medal_judges.report.page import Turns
from medal_judges.report.table import (
    interval,
    number,
    p_value_text,
)
from medal_judges.stats.difference import POWER, Difference
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import LEVEL
from medal_judges.stats.systems import SystemDifference

ALL = "all"  # every language together
# Fields of a SystemDifference in compare.json.
_RECORDED = (
    "pairing",
    "shared",
    "rows",
    "left_out",
    "wins",
    "ties",
    "losses",
    "by_context",
)
Verdict = Literal["passed", "failed", "undecided"]
# What a result rests on: human labels that correct the judge, or the judge alone.
Basis = Literal["people", "judge"]
BASIS_NAMES = {"people": "human labels", "judge": "the judge alone"}
# A dimension and two dialogues of one context, the higher score first: system, id, score, turns
# (none if the chats are not there).
Differing = tuple[str, tuple[tuple[str, str, float, Turns], ...]]


@dataclass(frozen=True, slots=True)
class SystemResult:
    """One system on one dimension and language: the judge's mean of its ``n`` scored dialogues, the
    human mean of the ``labelled`` ones, and the estimated human mean of all (``corrected``).

    ``rank`` is the (best, worst) possible rank, 1 is best. Systems that share a letter of
    ``groups`` cannot be told apart.
    """

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
    """Two systems on one dimension and language. ``tested``: the difference that decides, by human
    labels if they are the ``basis``, corrected for all comparisons."""

    first: str
    second: str
    difference: SystemDifference
    basis: Basis
    tested: Difference

    @property
    def estimate(self) -> Estimate:
        """The difference that decides, with its interval and p-value."""
        return self.tested.estimate

    @property
    def apart(self) -> bool:
        """Whether the two can be told apart at 5%."""
        p_value = self.tested.p_value
        return p_value is not None and p_value < LEVEL

    def to_record(self) -> dict[str, Any]:
        """One JSON object."""
        difference = self.difference
        record: dict[str, Any] = {name: getattr(difference, name) for name in _RECORDED}
        record |= {"first": self.first, "second": self.second, "basis": self.basis}
        record["difference"] = asdict(self.estimate)
        record["judge_alone"] = asdict(difference.judge.estimate)
        return record | {"smallest": self.tested.smallest}


@dataclass(frozen=True, slots=True)
class ComparedOn:
    """All systems on one dimension and language (``all`` for every language together), the best
    first. ``good`` is the better end of the scale. ``basis`` is ``people`` only if every system has
    enough labels; ``uncorrected`` gives the reason otherwise. ``missing``: systems without a score.
    ``tolerance``: the distance up to which means are equal. ``bad``: whose shares the means are.
    """

    dimension: str
    lang: str
    good: Literal["low", "high"]
    systems: Sequence[SystemResult]
    pairs: Sequence[PairResult]
    basis: Basis
    tolerance: float
    uncorrected: str = ""
    missing: Sequence[str] = ()
    bad: BadScores | None = None

    @property
    def base(self) -> str:
        """The dimension that the judge scored."""
        if self.bad is None:
            return self.dimension
        return self.bad.scale.name

    @property
    def label(self) -> str:
        """The dimension in words, with its language if it is one of several."""
        name = spoken(self.dimension)
        return name if self.lang == ALL else f"{name}, {self.lang}"

    def words(self) -> tuple[str, str]:
        """Returns the result in a few words, and by how much (not of more than two systems)."""
        first = self.systems[0].system
        if not self.pairs:
            return f"only {first} has scores", "; nothing to compare"
        if len(self.pairs) == 1:
            return pair_words(self.pairs[0], self.good)
        peers = [result.system for result in self.systems]
        for pair in self.pairs:
            if pair.apart and first in (pair.first, pair.second):
                peers.remove(pair.second if pair.first == first else pair.first)
        if len(peers) == 1:
            return f"{first} is better than every other system", ""
        if len(peers) == len(self.systems):
            return f"{first} cannot be told apart from any other system", ""
        return f"the best cannot be told apart: {', '.join(peers)}", ""

    def verdict(self) -> str:
        """Returns the result as a sentence."""
        by = f" (by {BASIS_NAMES[self.basis]})" if self.pairs else ""
        return f"{spoken(self.dimension)}: {''.join(self.words())}{by}."


def spoken(dimension: str) -> str:
    """Returns the name of a dimension without underscores."""
    return dimension.replace("_", " ")


def pair_words(pair: PairResult, good: str) -> tuple[str, str]:
    """Returns which of two systems is better, and by how much."""
    estimate, first, second = pair.estimate, pair.first, pair.second
    if estimate.value is None:
        return f"{first} and {second} cannot be compared", f": {estimate.reason}"
    names = f"{first} and {second}"
    if estimate.low is None:
        if pair.tested.equal:
            return f"the scores of {names} do not differ", ""
        distance = number(abs(estimate.value))
        reason = f", which may be chance: {estimate.reason}"
        return f"{names} differ by {distance}", reason
    if not pair.apart:
        how = f": {first} minus {second} is {_in_words(estimate)}"
        if pair.tested.smallest is not None:
            how += f"; these dialogues can show {number(pair.tested.smallest)} or more"
        return f"{names} cannot be told apart", how
    if (estimate.value > 0) != (good == "high"):
        first, second = second, first
    if estimate.value < 0:
        estimate = (-pair.tested).estimate
    return f"{first} is better than {second}", f" by {_in_words(estimate)}"


def _in_words(estimate: Estimate) -> str:
    text = f"{number(estimate.value or 0.0)} {interval(estimate)}"
    if estimate.p_value is None:
        return text
    return f"{text}, p {p_value_text(estimate.p_value)}"


@dataclass(frozen=True, slots=True)
class SystemComparison:
    """The result of ``compare``. ``comparisons``: number of differences in Holm's correction;
    ``counts``: number of dialogues of each system; ``differing``: what differs most."""

    systems: Sequence[str]
    results: Sequence[ComparedOn]
    comparisons: int
    judge: str
    notes: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    differing: Sequence[Differing] = ()

    @property
    def dimensions(self) -> list[str]:
        """The dimensions that the judge scored, without those of bad scores."""
        return list(dict.fromkeys(result.base for result in self.results))

    @property
    def languages(self) -> list[str]:
        """Languages with results of their own, without ``all``."""
        return list(dict.fromkeys(r.lang for r in self.results if r.lang != ALL))

    @property
    def over_languages(self) -> list[ComparedOn]:
        """The result of each dimension on all languages together."""
        return [result for result in self.results if result.lang == ALL]

    def on(self, dimension: str, lang: str = ALL) -> ComparedOn:
        """Returns the result of a dimension and language. Raises KeyError if there is none."""
        return {(r.dimension, r.lang): r for r in self.results}[dimension, lang]

    def verdicts(self) -> list[str]:
        """Returns a sentence for each dimension, all languages together."""
        return [result.verdict() for result in self.over_languages]

    def to_record(self) -> dict[str, Any]:
        """Returns one JSON object."""
        results = []
        for result in self.results:
            pairs = [pair.to_record() for pair in result.pairs]
            results.append(asdict(replace(result, pairs=())) | {"pairs": pairs})
        record = asdict(replace(self, results=()))
        return record | {"results": results, "verdicts": self.verdicts()}


Checked = tuple[str, Verdict, str]  # a gate's name, its verdict, and the text


def check_comparison(
    comparison: SystemComparison, options: CompareOptions
) -> list[Checked]:
    """Checks each gate of the options on each dimension and each system beside the first one:
    failed if the 95% interval of how much worse the system is lies above the margin, passed if it
    lies below, or if all scores are the same.

    Raises CoverageError below ``options.min_coverage``, MedalError if a difference has no interval.
    """
    checked = []
    shares = 0
    for result in comparison.over_languages:
        gate, margin = "--fail-if-worse", options.fail_if_worse
        if result.bad is not None:
            gate, margin = "--fail-if-more-bad", options.fail_if_more_bad
            shares += len(result.pairs)
        if margin is None:
            continue
        name = f"{gate} {result.dimension}"
        _require_coverage(name, result, options.min_coverage)
        for pair in result.pairs:
            if comparison.systems[0] in (pair.first, pair.second):
                checked.append(_check_pair(name, pair, result, comparison, margin))
    if options.fail_if_more_bad is not None and not shares:
        raise MedalError("--fail-if-more-bad: no graded dimension has scores of both")
    if options.fail_if_worse is not None and not checked:
        raise MedalError("--fail-if-worse: no dimension has scores of both systems")
    return checked


def _require_coverage(gate: str, result: ComparedOn, minimum: float) -> None:
    for system in result.systems:
        coverage = system.n / (system.n + system.unscored)
        if coverage < minimum:
            raise CoverageError(
                f"{gate}: coverage {coverage:.1%} of {system.system} is below the minimum of "
                f"{minimum:.0%}",
                hint="--min-coverage sets the minimum",
            )


def _check_pair(
    gate: str,
    pair: PairResult,
    result: ComparedOn,
    comparison: SystemComparison,
    margin: float,
) -> Checked:
    first = comparison.systems[0]
    is_first = pair.first == first
    system = pair.second if is_first else pair.first
    # How much worse the system is than the first one.
    worse = pair.tested
    if is_first != (result.good == "high"):
        worse = -worse
    estimate, limit = worse.estimate, margin + worse.tolerance
    verdict: Verdict = "undecided"
    if worse.equal:
        verdict = "passed"
        text = f"the scores of {system} and {first} do not differ"
    elif estimate.value is None or estimate.low is None or estimate.high is None:
        raise MedalError(
            f"{gate}: {system} cannot be compared with {first}: {estimate.reason}"
        )
    else:
        text = f"{system} is worse than {first} by {number(estimate.value)} {interval(estimate)}"
        if estimate.low > limit:
            verdict = "failed"
        elif estimate.high <= limit:
            verdict = "passed"
    text = f"{text}, margin {margin:g}: {verdict}"
    changes = []
    for figure in comparison.over_languages:
        if figure.base == result.base:
            smallest = figure.pairs[result.pairs.index(pair)].tested.smallest
            if smallest is not None:
                changes.append(f"{number(smallest)} in {figure.dimension}")
    if changes:
        text += (
            f"; it would notice a change of {' or '.join(changes)} ({POWER:.0%} power)"
        )
    return f"{gate}: {system}", verdict, text
