"""Gates: by the bound of the interval; what cannot be decided is an error, never a pass."""

import pytest
from tests.scales import SCALES

from medal_judges.errors import ConfigError, CoverageError, MedalError
from medal_judges.eval.report.estimates import GateResult, decide_gates
from medal_judges.eval.report.options import Gate
from medal_judges.eval.scores.scores import Scores, scores_from_frame
from medal_judges.records.judgement import Judgement
from medal_judges.stats.intervals import Estimate
from medal_judges.storage.judgements import to_frame


def load(scored: int = 20) -> Scores:
    given = []
    for i in range(20):
        overall = 4.0 if i < scored else None
        numbers = {"overall": overall, "unsafe": 0.2}
        given.append(Judgement(f"d{i}", "judge:x", numbers, dimensions=SCALES))
    return scores_from_frame(to_frame(given))


def check(gate: Gate, estimate: Estimate, scored: int = 20) -> GateResult:
    (result,) = decide_gates([gate], load(scored), {gate.dimension: estimate}, 0.98)
    return result


@pytest.mark.parametrize(
    ("side", "limit", "verdict"),
    [
        *(("under", 3.0, "passed"), ("under", 3.4, "passed")),
        *(("under", 3.5, "undecided"), ("under", 3.6, "undecided")),
        *(("under", 3.61, "failed"), ("over", 3.39, "failed")),
        *(("over", 3.4, "undecided"), ("over", 3.6, "passed")),
    ],
)
def test_the_bound_decides(side: str, limit: float, verdict: str) -> None:
    gate = Gate(side, "overall", limit)  # type: ignore[arg-type]
    result = check(gate, Estimate(3.5, 3.4, 3.6))
    assert result.verdict == verdict
    assert result.text.startswith("overall is 3.50 [3.40, 3.60], at ")
    assert f" {limit:.2f}: {verdict}" in result.text


def test_what_cannot_be_decided_is_an_error() -> None:
    under = Gate("under", "overall", 3)
    with pytest.raises(ConfigError) as caught:
        decide_gates([Gate("under", "overal", 3)], load(), {"overall": Estimate(3)}, 1)
    assert "Did you mean 'overall'" in str(caught.value)
    with pytest.raises(MedalError, match="3 rows"):
        check(under, Estimate(4.0, reason="no interval: 3 rows"))
    for gate in (Gate("under", "overall", 35), Gate("over", "unsafe", 1.5)):
        with pytest.raises(ConfigError, match=f"the scale of {gate.dimension}"):
            check(gate, Estimate(0.9, 0.8, 1.0))
    with pytest.raises(CoverageError, match="18 of 20"):
        check(under, Estimate(4.0, 3.9, 4.1), scored=18)
    with pytest.raises(CoverageError):
        decide_gates([under], load(0), {}, 0.0)
