"""Results of a comparison of systems, also in words, and verdicts for tests in CI."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from medal_judges.errors import CoverageError, MedalError
from medal_judges.eval.comparison.systems import CompareOptions
from medal_judges.eval.scores.bad import BadScoreLimit
from medal_judges.report.page import count_text
from medal_judges.report.table import (
    Share,
    estimate_text,
    p_value_text,
)
from medal_judges.stats.difference import Difference
from medal_judges.stats.intervals import LEVEL, Estimate
from medal_judges.stats.systems import SystemDifference

Verdict = Literal["passed", "failed", "undecided"]
# What a result rests on: human labels that correct the judge, or the judge alone.
Basis = Literal["people", "judge"]
BASIS_NAMES = {"people": "human labels", "judge": "the judge alone"}


@dataclass(frozen=True, slots=True)
class SystemResult:
    """The mean score of one system (chatbot or version) on one dimension. If a limit for bad scores
    is set, its share of bad scores.

    Attributes:
        system: The name of the system.
        n: The number of scored dialogues.
        unscored: The number of dialogues without a score.
        labelled: The number of scored dialogues with human labels.
        judge: The mean (or share) by the judge alone, over all scored dialogues.
        people: The mean human label (or share of bad labels) over the labelled dialogues, None
            without labels.
        corrected: The mean (or share) over all scored dialogues, corrected by the human labels.
            None without enough labels.
    """

    system: str
    n: int
    unscored: int
    labelled: int
    judge: Estimate
    people: Estimate | None = None
    corrected: Estimate | None = None

    @property
    def best(self) -> Estimate:
        """Returns ``corrected``, or ``judge`` if there is no correction."""
        return self.judge if self.corrected is None else self.corrected


@dataclass(frozen=True, slots=True)
class PairResult:
    """The difference between two systems (chatbots or versions) on one dimension.

    Attributes:
        first: The name of the first system.
        second: The name of the second system.
        difference: The mean of ``first`` minus the mean of ``second``: once by the judge alone, and
            once corrected with human labels.
        tested: The difference that is reported: the corrected one, or without enough labels the
            judge's. Its p-value is corrected by Holm's method for multiple tests.
    """

    first: str
    second: str
    difference: SystemDifference
    tested: Difference

    @property
    def estimate(self) -> Estimate:
        """Returns the reported difference with its interval and p-value."""
        return self.tested.estimate

    @property
    def is_apart(self) -> bool:
        """Returns whether the difference of the two systems is significant at the 5% level."""
        p_value = self.tested.p_value
        return p_value is not None and p_value < LEVEL

    def to_record(self) -> dict[str, Any]:
        """Returns the pair as a JSON object."""
        record = asdict(replace(self.difference, corrected=None))
        del record["corrected"]
        record |= {"first": self.first, "second": self.second}
        record["difference"] = asdict(self.estimate)
        record["judge"] = asdict(self.difference.judge.estimate)
        return record | {"smallest": self.tested.smallest_detectable}


@dataclass(frozen=True, slots=True)
class ComparedOn:
    """The comparison of all systems (chatbots or versions) on one dimension.

    Attributes:
        dimension: The dimension's name, such as ``overall``. If shares of bad scores are compared,
            it includes the limit: ``overall below 1.5``.
        good: Whether the ``low`` or the ``high`` end of the scale is good.
        systems: The mean of each system with scores, the best system first.
        pairs: The difference of each pair of systems.
        basis: ``people`` if human labels correct the judge, ``judge`` if the means are the judge's
            alone.
        tolerance: Two means that differ by less than this are equal.
        is_share: Whether the means are shares of dialogues, on [0, 1].
        uncorrected: Why human labels do not correct the judge. Empty if they do, or if there are no
            labels.
        missing: Names of systems without a score.
        bad: The limit beyond which a score counts as bad. None if mean scores are compared.
    """

    dimension: str
    good: Literal["low", "high"]
    systems: Sequence[SystemResult]
    pairs: Sequence[PairResult]
    basis: Basis
    tolerance: float
    is_share: bool
    uncorrected: str = ""
    missing: Sequence[str] = ()
    bad: BadScoreLimit | None = None

    @property
    def judged_dimension(self) -> str:
        """Returns the name of the dimension that the judge scored, such as ``overall``.

        A limit for bad scores is cut off: ``overall below 1.5`` becomes ``overall``.
        """
        if self.bad is None:
            return self.dimension
        return self.bad.scale.name

    def verdict_words(self) -> tuple[str, str]:
        """Returns two phrases: which system is better, and by how much, such as ``("new is better
        than old", " by 1.72")``. For more than two systems, the second phrase is empty."""
        first = self.systems[0].system
        if not self.pairs:
            return f"only {first} has scores", "; nothing to compare"
        if len(self.pairs) == 1:
            return pair_words(self.pairs[0], self)
        peers = [result.system for result in self.systems]
        for pair in self.pairs:
            if pair.is_apart and first in (pair.first, pair.second):
                peers.remove(pair.second if pair.first == first else pair.first)
        if len(peers) == 1:
            return f"{first} is better than every other system", ""
        if len(peers) == len(self.systems):
            return f"{first} cannot be told apart from any other system", ""
        return f"the best cannot be told apart: {', '.join(peers)}", ""

    def headline_sentence(self) -> str:
        """Returns a sentence that says which system is better."""
        return f"{name_in_words(self.dimension)}: {''.join(self.verdict_words())}."

    def verdict_sentence(self) -> str:
        """Returns a sentence that says which system is better and how the systems were compared."""
        by = f" (by {BASIS_NAMES[self.basis]})" if self.pairs else ""
        if len(self.pairs) == 1:
            by = f"{by.removesuffix(')')}; {pairing_words(self.pairs[0])})"
        return f"{self.headline_sentence().removesuffix('.')}{by}."

    def distance_text(self, estimate: Estimate) -> str:
        """Returns a difference with its interval as text, such as ``0.42 [0.10, 0.74]``. A
        difference of shares is in percentage points.

        Args:
            estimate: The difference, with or without an interval.
        """
        if self.is_share:
            return estimate_text(Share(estimate, signed=True))
        return estimate_text(estimate)


def name_in_words(dimension: str) -> str:
    """Returns the name ``dimension`` with spaces in place of underscores."""
    return dimension.replace("_", " ")


def pair_words(pair: PairResult, result: ComparedOn) -> tuple[str, str]:
    """Returns two phrases: which system is better, and by how much, such as ``("new is better than
    old", " by 1.72")``. If no system is significantly better, they say so.

    Args:
        pair: The difference of two systems.
        result: The comparison that ``pair`` belongs to.
    """
    estimate, first, second = pair.estimate, pair.first, pair.second
    names = f"{first} and {second}"
    if estimate.value is None:
        return f"{names} cannot be compared", f": {estimate.reason}"
    if estimate.low is None:
        if pair.tested.equal:
            return f"the scores of {names} do not differ", ""
        distance = result.distance_text(Estimate(abs(estimate.value)))
        reason = f", which may be chance: {estimate.reason}"
        return f"{names} differ by {distance}", reason
    p_value = ""
    if estimate.p_value is not None:
        p_value = f", p {p_value_text(estimate.p_value)}"
    if not pair.is_apart:
        how = result.distance_text(estimate) + p_value
        return f"{names} cannot be told apart", f": {first} minus {second} {how}"
    if (estimate.value > 0) != (result.good == "high"):
        first, second = second, first
    if estimate.value < 0:
        estimate = (-pair.tested).estimate
    how = result.distance_text(estimate).removeprefix("+") + p_value
    return f"{first} is better than {second}", f" by {how}"


def pairing_words(pair: PairResult) -> str:
    """Returns a phrase on how the dialogues of two systems were paired, such as ``paired, 40
    contexts``. A context is what dialogues of both systems share, such as a scene."""
    difference = pair.difference
    texts: list[str] = [difference.pairing]
    if difference.shared:
        texts.append(count_text([(difference.shared, "context")]))
    if difference.rows != (difference.shared, difference.shared):
        texts.append("{:,} and {:,}".format(*difference.rows))
    if any(difference.left_out):
        texts.append("{:,} and {:,} left out".format(*difference.left_out))
    return ", ".join(texts)


@dataclass(frozen=True, slots=True)
class SystemComparison:
    """Which of several systems (chatbots or versions) is better on each dimension, as
    returned by ``compare``.

    Attributes:
        systems: The names of the systems.
        results: One entry for each dimension that the judge scored. If limits for bad scores are
            set, further entries compare the shares of bad scores.
        comparisons: The number of differences of mean scores whose p-values are corrected together
            by Holm's method.
        judge: The judge's name, version and settings as text.
        notes: Warnings, such as missing labels and scores.
        facts: (name, value) pairs on how the comparison was made.
        counts: System -> the number of its dialogues.
    """

    systems: Sequence[str]
    results: Sequence[ComparedOn]
    comparisons: int
    judge: str
    notes: Sequence[str]
    facts: Sequence[tuple[str, str]]
    counts: Mapping[str, int]

    @property
    def dimensions(self) -> list[str]:
        """Returns the names of the dimensions that the judge scored."""
        return list(dict.fromkeys(result.judged_dimension for result in self.results))

    def on(self, dimension: str) -> ComparedOn:
        """Returns the comparison on one dimension.

        Args:
            dimension: The name of a dimension, such as ``overall``. The share of bad scores has a
                name with its limit, such as ``overall below 1.5``.

        Raises:
            KeyError: The dimension was not compared.
        """
        return {result.dimension: result for result in self.results}[dimension]

    def verdicts(self) -> list[str]:
        """Returns a sentence for each dimension or limit for bad scores: which system is better,
        and how the systems were compared."""
        return [result.verdict_sentence() for result in self.results]

    def to_record(self) -> dict[str, Any]:
        """Returns the comparison as a JSON object."""
        results = []
        for result in self.results:
            pairs = [pair.to_record() for pair in result.pairs]
            results.append(asdict(replace(result, pairs=())) | {"pairs": pairs})
        record = asdict(replace(self, results=()))
        return record | {"results": results, "verdicts": self.verdicts()}


Checked = tuple[str, Verdict, str]  # a gate's name, its verdict, and the text


def gate_verdicts(
    comparison: SystemComparison, options: CompareOptions
) -> list[Checked]:
    """Tests for each system whether it is worse than the first system by more than a margin.

    Args:
        comparison: The comparison of the systems, as returned by ``compare``.
        options: The margins (``fail_if_worse``, ``fail_if_more_bad``) and ``min_coverage``.

    Returns:
        (name, verdict, message) for each margin, dimension and system. The verdict depends on the
        95% interval of how much worse the system is. It is ``failed`` if the whole interval is
        above the margin. It is ``passed`` if no part of the interval is above the margin. Otherwise
        it is ``undecided``.

    Raises:
        CoverageError: Too few dialogues are scored.
        MedalError: A difference has no interval, or no dimension has scores of both systems.
    """
    first = comparison.systems[0]
    checked: list[Checked] = []
    gates = {
        "--fail-if-worse": options.fail_if_worse,
        "--fail-if-more-bad": options.fail_if_more_bad,
    }
    for gate, margin in gates.items():
        if margin is None:
            continue
        count = len(checked)
        for result in comparison.results:
            if (result.bad is None) != (gate == "--fail-if-worse"):
                continue
            name = f"{gate} {result.dimension}"
            _require_coverage(name, result, options.min_coverage)
            for pair in result.pairs:
                if first in (pair.first, pair.second):
                    checked.append(_decide_pair(name, pair, result, first, margin))
        if len(checked) == count:
            raise MedalError(
                f"{gate}: no dimension has scores of both systems. Score both with one judge"
            )
    return checked


def gate_lines(checked: Sequence[Checked]) -> list[str]:
    """Returns at most two lines for the terminal: the message of the worst verdict, and the counts
    of all other verdicts.

    Args:
        checked: (name, verdict, message) of each gate (a test against a margin). The verdict is
            ``failed``, ``undecided`` or ``passed``.
    """
    order = ("failed", "undecided", "passed")
    worst_first = sorted(checked, key=lambda gate: order.index(gate[1]))
    lines = [f"gate {name}: {text}" for name, _, text in worst_first[:1]]
    counts = Counter(verdict for _, verdict, _ in worst_first[1:])
    if counts:
        verdicts = ", ".join(f"{count} {name}" for name, count in counts.items())
        lines.append(f"{counts.total()} more gates: {verdicts} (--junit FILE has all)")
    return lines


def _require_coverage(gate: str, result: ComparedOn, minimum: float) -> None:
    for system in result.systems:
        count = system.n + system.unscored
        if system.n < minimum * count:
            raise CoverageError(
                f"{gate}: {system.n:,} of {count:,} of {system.system} are scored, fewer than the "
                f"minimum coverage of {minimum:g}",
                hint="Find out why with medal score --retry-failed, or type a lower --min-coverage",
            )


def _decide_pair(
    gate: str, pair: PairResult, result: ComparedOn, first: str, margin: float
) -> Checked:
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
            f"{gate}: score more chats, {system} cannot be compared with {first}: {estimate.reason}"
        )
    else:
        side, difference = "worse", estimate
        if estimate.value < 0:
            side, difference = "better", (-worse).estimate
        distance = result.distance_text(difference).removeprefix("+")
        text = f"{system} is {side} than {first} by {distance}"
        if estimate.low > limit:
            verdict = "failed"
        elif estimate.high <= limit:
            verdict = "passed"
    allowed = result.distance_text(Estimate(margin)).removeprefix("+")
    return f"{gate}: {system}", verdict, f"{text}, margin {allowed}: {verdict}"
