"""Noise as a batch makes it changes no figure, verdict or gate of report, agreement, benchmark and
trial."""

from __future__ import annotations

import numpy as np
import pytest
from tests.scales import SCALES

from medal_judges.eval.metaeval.alignment import join_rows
from medal_judges.eval.metaeval.comparison import GRADED, ISSUES, comparison_tables
from medal_judges.eval.metaeval.metaeval import (
    evaluate,
    measure_rank_agreement,
)
from medal_judges.eval.report.estimates import compute_estimates, decide_gates
from medal_judges.eval.report.options import Gate
from medal_judges.eval.scores.scores import scores_from_frame
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.report.table import PValue
from medal_judges.stats.correlation import Floats
from medal_judges.storage.judgements import to_frame

TURNS = (Turn("user", "hello"), Turn("assistant", "hi"))
SIGNATURE = "judge:demo|version:0.1.0"
SHARE = 5e-7  # of the scale
ROWS = 120


def noisy(scores: Floats, rng: np.random.Generator, scale: float) -> Floats:
    return scores + scale * rng.uniform(-SHARE, SHARE, len(scores))


def labelled(
    name: str, answers: Floats, scale: tuple[float, float]
) -> list[LabelledDialogue]:
    return [
        LabelledDialogue(
            Dialogue(f"d{i}", TURNS, "en", models={"assistant": f"bot-{i % 6}"}),
            {name: tuple(row)},
            {name: scale},
            group=f"g{i}",
        )
        for i, row in enumerate(answers.tolist())
    ]


def judged(rows: list[LabelledDialogue], name: str, scores: Floats, high: float):  # type: ignore[no-untyped-def]
    low = 1.0 if high > 1 else 0.0
    said = [Judgement(f"d{i}", "j", {name: float(s)}) for i, s in enumerate(scores)]
    joined = join_rows(rows, said, {name: (low, high)})
    return evaluate(joined, rows, {name: name}, judge="j")[0]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_a_benchmark_of_a_judge_that_was_run_twice(rng: np.random.Generator) -> None:
    """Whole-number scores; of the issue, many probabilities are just one half."""
    latent = rng.normal(3, 1, ROWS)
    grades = np.clip(np.round(latent[:, None] + rng.normal(0, 0.7, (ROWS, 3))), 1, 5)
    graded = labelled("overall", grades, (1, 5))
    scores = np.clip(np.round(latent + rng.normal(size=ROWS)), 1, 5)
    present = (rng.random((ROWS, 2)) < 0.4).astype(float)
    issue = labelled("unsafe", present, (0, 1))
    chances = np.round(rng.random(ROWS) * 4) / 4
    cases = []
    for rows, name, values, high in (
        (graded, "overall", scores, 5.0),
        (issue, "unsafe", chances, 1.0),
    ):
        runs = [
            judged(rows, name, side, high)
            for side in (values, noisy(values, rng, high - 1 or 1))
        ]
        first, second = runs[0].row, runs[1].row
        for figures, others in (
            (first.metrics, second.metrics),
            (first.like_for_like, second.like_for_like),
        ):
            for metric, figure in figures.items():
                assert figure.value == pytest.approx(others[metric].value, abs=1e-6), (
                    metric
                )
                if metric != "pearson":
                    assert figure == others[metric], metric
        if name == "overall":
            accuracies = [
                measure_rank_agreement([run])[0].pairwise_accuracy for run in runs
            ]
            assert accuracies[0] == accuracies[1]
        cases += runs
    tables = {table.title: table for table in comparison_tables(cases)}
    for title in (GRADED, ISSUES):
        (line,) = tables[title].rows
        assert line[-2] == PValue(1.0)


def report(overall: Floats, unsafe: Floats):  # type: ignore[no-untyped-def]
    rows = len(overall)
    meta = [
        {"day": f"2026-03-{1 + i * 12 // rows:02d}", "version": f"v{i % 3}"}
        for i in range(rows)
    ]
    given = [
        Judgement(
            f"d{i}",
            SIGNATURE,
            {"overall": float(o), "unsafe": float(u)},
            meta=meta[i],
            dimensions=SCALES,
        )
        for i, (o, u) in enumerate(zip(overall, unsafe, strict=True))
    ]
    scores = scores_from_frame(to_frame(given), by=["version"], over=("day", "day"))
    return scores, compute_estimates(scores, ["version"])


def test_a_report_of_equal_scores(rng: np.random.Generator) -> None:
    """A mean, a share, groups and a timeline are those of equal scores; each gate decides alike."""
    fours, halves = np.full(ROWS, 4.0), np.where(np.arange(ROWS) % 5, 0.0, 0.5)
    plain = report(fours, halves)
    shaken = report(noisy(fours, rng, 4.0), noisy(halves, rng, 1.0))
    one, two = plain[1].total.by_judge["overall"], shaken[1].total.by_judge["overall"]
    assert (one.low, one.high) == pytest.approx((two.low, two.high), abs=1e-5)
    assert one.low is not None and one.low < 3.95
    assert plain[1].total.by_judge["unsafe"] == shaken[1].total.by_judge["unsafe"]
    assert plain[1].total.by_judge["unsafe"].value == pytest.approx(0.2)
    for _, found in (plain, shaken):
        for group in found.groups["version"]:
            assert group.differences["overall"].p_value == pytest.approx(1)
            assert group.differences["overall"].reason == "no interval: nothing varies"
    shares = []
    for _, found in (plain, shaken):
        shares.append([part.by_judge["unsafe"] for part in found.periods])
    assert shares[0] == shares[1] and len(shares[0]) == 12
    verdicts = []
    for scores, found in (plain, shaken):
        leads = found.total.by_judge
        limit = one.low  # just the end of the interval
        gates = [Gate("under", "overall", limit), Gate("over", "overall", 4.0)]
        verdicts.append(
            [gate.verdict for gate in decide_gates(gates, scores, leads, 0.98)]
        )
    assert verdicts[0] == verdicts[1] == ["passed", "undecided"]
