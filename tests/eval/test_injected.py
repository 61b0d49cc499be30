"""Statistics of injected issues, against scikit-learn and against cases worked out by hand."""

import numpy as np
import pytest
from sklearn.metrics import f1_score, roc_auc_score
from tests.exact import exact
from tests.scales import UNSAFE
from tests.talks import talk

from medal_judges.eval.benchmark.injected import Result, injected_results, weighted_f1
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.judgement import Contributions, Judgement, unscored
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.stats.correlation import weighted_auc
from medal_judges.stats.estimate import Estimate

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


def judged(id: str, score: float, contributions: tuple[float, ...] = ()) -> Judgement:
    given = {ISSUE: Contributions(contributions, 0.0, "logit")} if contributions else {}
    return Judgement(id, "j", {ISSUE: score}, contributions=given)


def result(
    scores: dict[tuple[int, str], float], **contributions: tuple[float, ...]
) -> Result:
    rows = [row(number, kind) for number, kind in scores]
    judgements = [
        judged(f"{n}.{kind}", score, contributions.get(kind, ()))
        for (n, kind), score in scores.items()
    ]
    return injected_results(rows, judgements)[ISSUE]


def value(figure: Estimate) -> float:
    assert figure.value is not None, figure.reason
    return figure.value


def test_a_small_case_by_hand() -> None:
    figures, _, scored = result(
        {
            (0, "planted"): 0.9,
            (1, "planted"): 0.6,
            (2, "planted"): 0.3,
            (0, "innocent"): 0.2,
            (1, "innocent"): 0.6,
            (2, "innocent"): 0.8,
            (0, "clean"): 0.1,
            (1, "clean"): 0.5,
        },
        planted=(9.0, 0.1, 9.0, 0.4),
    )
    assert value(figures["f1_clean"]) == pytest.approx(2 * 2 / (3 + 3))
    assert value(figures["auc_clean"]) == pytest.approx(5 / 6)
    assert value(figures["auc_control"]) == pytest.approx((3 + 1.5 + 1) / 9)
    assert value(figures["win_rate"]) == pytest.approx((1 + 0.5 + 0) / 3)
    assert value(figures["recall"]) == pytest.approx(2 / 3)
    assert value(figures["false_alarms"]) == pytest.approx(1 / 2)
    assert value(figures["control_alarms"]) == pytest.approx(2 / 3)
    # user turns have the largest numbers and do not count
    assert value(figures["localisation"]) == 1.0
    assert value(figures["localisation_chance"]) == 0.5
    assert scored == {"planted": 3, "innocent": 3, "clean": 2}


def test_auc_and_f1_agree_with_scikit_learn_under_weights() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        scores = np.round(rng.random(60), 1)  # many ties
        labels = (rng.random(60) < 0.4).astype(float)
        weights = rng.integers(0, 4, size=60).astype(float)
        auc = roc_auc_score(labels, scores, sample_weight=weights)
        assert weighted_auc(labels, exact(scores), weights[None])[0] == pytest.approx(
            auc
        )
        f1 = f1_score(labels, scores >= 0.5, sample_weight=weights)
        assert weighted_f1(labels, exact(scores), weights[None])[0] == pytest.approx(f1)


def test_undefined_figures_are_none_with_a_reason() -> None:
    found, _, _ = result({(0, "planted"): 0.9})
    for name, reason in {
        "auc_clean": "no scored clean rows",
        "auc_control": "no scored control rows",
        "win_rate": "no injected row scored together with its control",
        "false_alarms": "no scored clean rows",
        "localisation": "the judge gives no contributions by turn",
    }.items():
        assert found[name].value is None
        assert found[name].reason == reason
    assert value(found["recall"]) == 1.0
    assert found["recall"].low is None  # one row


def test_unscored_and_missing_rows_are_counted_not_guessed() -> None:
    rows = [row(n, kind) for n in range(3) for kind in ("planted", "innocent", "clean")]
    judgements = [
        unscored(talk("Hi!", id="0.planted"), "j", [UNSAFE], "no"),
        judged("1.planted", 0.7),
    ]
    # of a turn: passed over
    judgements.append(Judgement("1.planted", "j", {ISSUE: 0.1}, turn=1))
    found, there, scored = injected_results(rows, judgements)[ISSUE]
    assert there == {"planted": 3, "innocent": 3, "clean": 3}
    assert scored == {"planted": 1}
    assert value(found["recall"]) == 1.0


def test_issues_share_the_clean_rows() -> None:
    rows = [row(0, "planted"), row(1, "planted"), row(0, "clean"), row(2, "clean")]
    rows.append(row(3, "planted", issue="repetitive"))
    judgements = [judged("0.planted", 0.2), judged("1.planted", 0.8)]
    judgements += [judged("0.clean", 0.4), judged("2.clean", 0.1)]
    judgements.append(Judgement("3.planted", "j", {"repetitive": 1.0}))
    found = injected_results(rows, judgements)
    assert list(found) == ["unsafe", "repetitive"]
    # of four pairs one is the wrong way round
    assert value(found["unsafe"][0]["auc_clean"]) == 0.75
    assert found["repetitive"][1]["clean"] == 2 and found["repetitive"][2]["clean"] == 0


def test_intervals_go_by_group_and_are_always_the_same() -> None:
    rng = np.random.default_rng(1)
    scores = {
        (n, kind): float(rng.random())
        for n in range(40)
        for kind in ("planted", "clean")
    }
    one, again = result(scores), result(scores)
    estimate = one[0]["auc_clean"]
    assert one == again
    assert (
        estimate.low is not None
        and estimate.high is not None
        and estimate.value is not None
    )
    assert 0.1 < estimate.high - estimate.low < 0.4
    assert estimate.low < estimate.value < estimate.high

    # the same rows ten times over, in the same groups, tell no more than once
    rows = [row(n, kind) for n, kind in scores for _ in range(10)]
    judgements = [judged(f"{n}.{kind}", score) for (n, kind), score in scores.items()]
    wide = injected_results(rows, judgements)[ISSUE][0]["auc_clean"]
    assert wide.low == pytest.approx(estimate.low) and wide.high == pytest.approx(
        estimate.high
    )
