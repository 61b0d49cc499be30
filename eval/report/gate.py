"""Gates: compare the 95% interval of a dimension with a limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from medal_judges.errors import ConfigError, CoverageError, MedalError, did_you_mean
from medal_judges.eval.report.options import Gate
from medal_judges.eval.report.scores import Scores
from medal_judges.stats.estimate import Estimate


@dataclass(frozen=True, slots=True)
class GateResult:
    """``failed``: the whole 95% interval is on the wrong side of the limit; ``passed``: the whole
    interval is on the right side; ``undecided``: the limit is inside it."""

    gate: Gate
    estimate: Estimate
    verdict: Literal["passed", "failed", "undecided"]
    text: str


def check_gates(
    gates: Sequence[Gate],
    scores: Scores,
    estimates: Mapping[str, Estimate],
    min_coverage: float,
) -> list[GateResult]:
    """The result of each gate on the interval of its dimension.

    A gate that cannot be decided is an error, not a pass: ConfigError for an unknown dimension or a
    limit outside its scale, CoverageError for no scores or a coverage below ``min_coverage``,
    MedalError for a figure without an interval.
    """
    results = []
    for gate in gates:
        name = gate.dimension
        if not scores.scored and not any(e.value is not None for e in estimates.values()):
            raise CoverageError(
                f"{gate.name}: nothing is scored", hint="score the chats first: medal score"
            )
        if name not in scores.dimensions:
            raise ConfigError(
                f"{gate.name}: the scores have no dimension {name!r}",
                hint=did_you_mean(name, estimates) + f"they have: {', '.join(scores.dimensions)}",
            )
        dimension = scores.dimensions[name]
        if name not in scores.assumed and not dimension.low <= gate.limit <= dimension.high:
            raise ConfigError(
                f"{gate.name}: {name} is between {dimension.low:g} and {dimension.high:g}"
            )
        results.append(_result(gate, estimates[name], dimension.kind == "binary"))
    coverage = scores.coverage
    if gates and coverage is not None and coverage < min_coverage:
        raise CoverageError(
            f"coverage {coverage:.1%} is below the minimum of {min_coverage:.0%}, so the gates "
            f"decide nothing: {scores.failures()}",
            hint="medal score --retry-failed scores these again; --min-coverage sets the minimum",
        )
    return results


def _result(gate: Gate, estimate: Estimate, is_share: bool) -> GateResult:
    value, low, high = estimate.value, estimate.low, estimate.high
    if value is None or low is None or high is None:
        raise MedalError(
            f"{gate.name} cannot be decided: {estimate.reason or 'no interval'}",
            hint="score more chats",
        )

    def shown(number: float) -> str:
        return f"{100 * number:.2f}%" if is_share else f"{number:.2f}"

    limit, is_under = shown(gate.limit), gate.side == "under"
    figure = f"{gate.dimension} {shown(value)} [{shown(low)}, {shown(high)}]"
    if high < gate.limit if is_under else low > gate.limit:
        text = f"{figure}: failed; the whole interval is {gate.side} {limit}"
        return GateResult(gate, estimate, "failed", text)
    if low >= gate.limit if is_under else high <= gate.limit:
        bound = "at least" if is_under else "at most"
        text = f"{figure}: passed; the whole interval is {bound} {limit}"
        return GateResult(gate, estimate, "passed", text)
    text = f"{figure}: undecided; {limit} is inside the interval, so more chats are needed"
    return GateResult(gate, estimate, "undecided", text)
