"""On a report's page, an interval and the p-value beside it never contradict each other."""

import numpy as np
import pytest
from tests.scales import SCALES

from medal_judges.eval.report.figures import compute_figures
from medal_judges.eval.report.options import ReportOptions
from medal_judges.eval.scores.scores import load_scores
from medal_judges.records.judgement import Judgement
from medal_judges.stats.estimate import Estimate
from medal_judges.storage.judgements import to_frame

OPTIONS = ReportOptions(scores="x", by=("version",), over="day:day", cluster="user")


def differences(seed: int) -> list[Estimate]:
    """All differences of a report on random scores: of two dimensions, by version and over time."""
    rng = np.random.default_rng(seed)
    rows, effect = int(rng.integers(25, 80)), float(rng.choice([0.0, 0.5, 1.0]))
    day, version = (
        np.sort(rng.integers(1, rng.integers(5, 25), rows)),
        rng.integers(0, 3, rows),
    )
    overall = np.clip(
        rng.normal(3, 0.8, rows) - effect * (day > 9) + effect * (version == 1), 1, 5
    )
    unsafe = (rng.random(rows) < 0.2 + 0.3 * effect * (version == 2)).astype(float)
    judgements = []
    for i in range(rows):
        meta = {"version": f"v{version[i]}", "day": f"2026-03-{day[i]:02d}"}
        meta["user"] = f"u{rng.integers(0, 15)}"
        scores = {"overall": float(overall[i]), "unsafe": float(unsafe[i])}
        judgements.append(
            Judgement(
                f"d{i}",
                "judge:demo|version:0.1.0",
                scores,
                meta=meta,
                dimensions=SCALES,
            )
        )
    figures = compute_figures(load_scores(to_frame(judgements), OPTIONS), OPTIONS)
    assert figures.timeline is not None
    found = [change.difference.estimate for change in figures.timeline.changes.values()]
    for group in figures.groups["version"]:
        found += group.differences.values()
    return found


@pytest.mark.slow
def test_no_pair_of_300_reports_disagrees(monkeypatch: pytest.MonkeyPatch) -> None:
    # of 4,999: faster
    monkeypatch.setattr("medal_judges.stats.change._PERMUTATIONS", 999)
    significant = shown = 0
    for seed in range(300):
        for estimate in differences(seed):
            if estimate.low is None or estimate.high is None:
                assert estimate.p_value in (None, 1)
                continue
            assert estimate.p_value is not None
            excludes = estimate.low > 0 or estimate.high < 0
            assert excludes == (estimate.p_value < 0.05), (seed, estimate)
            shown += 1
            significant += excludes
    assert shown > 2000 and 200 < significant < shown - 200
