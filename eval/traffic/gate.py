"""Gates: does a body of scored chats stay above, or below, what was asked of it?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from medal_judges.errors import ConfigError, CoverageError, MedalError, did_you_mean
from medal_judges.eval.traffic.traffic import Traffic
from medal_judges.stats.estimate import Estimate

Side = Literal["under", "over"]
Verdict = Literal["passed", "failed", "undecided"]


@dataclass(frozen=True, slots=True)
class Gate:
    """``under``: the mean (or share) of ``dimension`` has to stay at ``limit`` or above; ``over``:
    at ``limit`` or below. ``asked``: as what its reader asked for it, where not by an option."""

    side: Side
    dimension: str
    limit: float
    asked: str | None = None

    @property
    def name(self) -> str:
        """The gate in the words of who asked for it."""
        return self.asked or f"--fail-{self.side} {self.dimension}={self.limit:g}"

    @classmethod
    def parse(cls, side: Side, text: str) -> Gate:
        """Of ``overall=3.5``. Raises ConfigError."""
        name, _, number = text.rpartition("=")
        try:
            limit = float(number)
        except ValueError:
            limit = float("nan")
        if not name or limit != limit:
            example = "overall=3.5" if side == "under" else "unsafe=0.01"
            raise ConfigError(
                f"--fail-{side} {text}: expected DIMENSION=NUMBER",
                hint=f"for example: --fail-{side} {example}",
            )
        return cls(side, name, limit)


@dataclass(frozen=True, slots=True)
class GateResult:
    """What came of a gate. ``failed``: the whole 95% interval lies on the wrong side of the limit;
    ``passed``: the whole interval lies on the right side; ``undecided``: the limit is inside it."""

    gate: Gate
    estimate: Estimate
    verdict: Verdict
    text: str


def check_gates(
    gates: Sequence[Gate],
    traffic: Traffic,
    estimates: Mapping[str, Estimate],
    min_coverage: float,
) -> list[GateResult]:
    """Each gate held against the interval of its dimension.

    A gate that cannot be decided at all is an error, not a pass: ConfigError for a dimension that
    was not judged or a limit outside its scale, CoverageError for no scores or a coverage under
    ``min_coverage``, MedalError for a figure without an interval.
    """
    results = []
    for gate in gates:
        name = gate.dimension
        if not traffic.scored and not any(e.value is not None for e in estimates.values()):
            raise CoverageError(
                f"{gate.name}: nothing is scored, so nothing was shown",
                hint="score the chats first: medal score",
            )
        if name not in estimates:
            raise ConfigError(
                f"{gate.name}: the scores have no dimension {name!r}",
                hint=f"{did_you_mean(name, estimates)}they have: {', '.join(estimates)}",
            )
        dimension = traffic.dimensions[name]
        if name not in traffic.assumed and not dimension.low <= gate.limit <= dimension.high:
            raise ConfigError(
                f"{gate.name}: {name} lies between {dimension.low:g} and {dimension.high:g}"
            )
        results.append(_result(gate, estimates[name], dimension.kind == "binary"))
    coverage = traffic.coverage
    if gates and coverage is not None and coverage < min_coverage:
        reasons = "; ".join(f"{n} x {reason}" for reason, n in traffic.failures.most_common(3))
        raise CoverageError(
            f"coverage {coverage:.1%} is under the floor of {min_coverage:.0%}, so the gates say "
            f"nothing: {reasons}",
            hint="medal score --retry-failed asks again; --min-coverage sets the floor",
        )
    return results


def _result(gate: Gate, estimate: Estimate, is_share: bool) -> GateResult:
    value, low, high = estimate.value, estimate.low, estimate.high
    if value is None or low is None or high is None:
        raise MedalError(
            f"{gate.name} cannot be decided: {estimate.reason or 'no interval'}",
            hint="more chats have to be scored",
        )
    bad, good = (high < gate.limit, low >= gate.limit) if gate.side == "under" else (
        low > gate.limit, high <= gate.limit)  # fmt: skip
    verdict: Verdict = "failed" if bad else "passed" if good else "undecided"

    def shown(number: float) -> str:
        return f"{100 * number:.2f}%" if is_share else f"{number:.2f}"

    span = f"{shown(value)} [{shown(low)}, {shown(high)}]"
    beyond = "under" if gate.side == "under" else "over"
    wanted = "at least" if gate.side == "under" else "at most"
    said = {
        "failed": f"the whole interval lies {beyond} {shown(gate.limit)}",
        "passed": f"the whole interval is {wanted} {shown(gate.limit)}",
        "undecided": f"{shown(gate.limit)} lies inside the interval: these chats show neither",
    }[verdict]
    return GateResult(gate, estimate, verdict, f"{gate.dimension} {span}: {verdict}; {said}")
