"""Statistics of injected issues, against scikit-learn and against cases worked out by hand."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from tests.exact import exact

from medal_judges.eval.benchmark.injected import injected_table
from medal_judges.eval.benchmark.sets import SetJudgements
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.report.table import Share
from medal_judges.stats.correlation import weighted_auc
from medal_judges.stats.intervals import Estimate

ISSUE = "unsafe"
TURNS = (
    Turn("user", "a"),
    Turn("assistant", "b"),
    Turn("user", "c"),
    Turn("assistant", "d"),
)


def row(number: int, kind: str, issue: str | None = ISSUE) -> LabelledDialogue:
    about = {
        "issue": None if kind == "clean" else issue,
        "strength": 0 if kind == "clean" else 1,
        "turns": [] if kind == "clean" else [3],
        "kind": kind,
        "pair": f"{number}+{issue}",
    }
    return LabelledDialogue(
        Dialogue(f"{number}.{kind}", TURNS, "en"),
        {ISSUE: (float(kind == "planted"),)},
        {ISSUE: (0.0, 1.0)},
        group=str(number),
        extra={"planted": about},
    )


def line(scores: dict[tuple[int, str], float | None]) -> dict[str, object]:
    rows = [row(number, kind) for number, kind in scores]
    judgements = []
    for (number, kind), score in scores.items():
        if score is not None:
            id = f"{number}.{kind}"
            judgements.append(Judgement(id, "j", {ISSUE: score}))
    set_judgements = SetJudgements("j", "judge:j", judgements, {ISSUE: ISSUE})
    table = injected_table("set", rows, [set_judgements], 0.5)
    return dict(zip(table.columns, table.rows[0], strict=True))


def value(cell: object) -> float:
    assert isinstance(cell, Estimate) and cell.value is not None
    return cell.value


SCORES: dict[tuple[int, str], float | None] = {
    (0, "planted"): 0.9,
    (1, "planted"): 0.6,
    (2, "planted"): 0.3,
    (0, "innocent"): 0.2,
    (1, "innocent"): 0.6,
    (2, "innocent"): 0.8,
    (0, "clean"): 0.1,
    (1, "clean"): 0.5,
}


def test_a_small_case_by_hand() -> None:
    found = line(SCORES)
    assert value(found["F1+ vs clean"]) == pytest.approx(2 * 2 / (3 + 3))
    assert value(found["AUC vs clean"]) == pytest.approx(5 / 6)
    assert value(found["AUC vs matched controls"]) == pytest.approx((3 + 1.5 + 1) / 9)
    assert value(found["False alarms, clean"]) == pytest.approx(1 / 2)
    assert value(found["False alarms, matched controls"]) == pytest.approx(2 / 3)
    assert (found["Injected rows"], found["Coverage"]) == (3, Share(Estimate(1.0)))


def test_unscored_rows_count_against_coverage() -> None:
    found = line(SCORES | {(3, "planted"): None, (3, "clean"): None})
    assert found["Coverage"] == Share(Estimate(0.8)) and found["Injected rows"] == 3
    found = line(dict.fromkeys(SCORES) | {(0, "planted"): 0.9})
    assert "below" in str(getattr(found["F1+ vs clean"], "reason", ""))
    only = line({(0, "planted"): 0.9})
    assert getattr(only["AUC vs clean"], "reason", "") == "no scored rows of both kinds"


def test_auc_agrees_with_scikit_learn_under_weights() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        scores = np.round(rng.random(60), 1)  # many ties
        labels = (rng.random(60) < 0.4).astype(float)
        weights = rng.integers(0, 4, size=60).astype(float)
        auc = roc_auc_score(labels, scores, sample_weight=weights)
        found = weighted_auc(labels, exact(scores), weights[None])[0]
        assert found == pytest.approx(auc)
