"""One judge on one set: figures, slices, coverage and the rows that differ most."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import f1_score

from medal_judges.eval.benchmark.results import follow_up_usage
from medal_judges.eval.metaeval.metaeval import (
    ResultRow,
    disagreements,
    evaluate,
    kind_of,
)
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.judgement import Contributions, Judgement, known_details
from medal_judges.records.labelled import LabelledDialogue, Scale

TURNS = (Turn("user", "hello"), Turn("assistant", "hi"))


def row(
    i: int, values: tuple[float | None, ...], scale: Scale | None = (1, 5), **more: bool
) -> LabelledDialogue:
    dialogue = Dialogue(
        f"d{i}", TURNS, ("en", "de")[i % 2], models={"assistant": f"bot-{i % 6}"}
    )
    labels, scales = {"overall": values}, {"overall": scale}
    return LabelledDialogue(
        dialogue, labels, scales, group=f"g{i}", aggregated=bool(more)
    )


def graded(rows: int = 90) -> tuple[list[LabelledDialogue], list[Judgement]]:
    rng = np.random.default_rng(0)
    latent = rng.normal(3, 1, rows)
    answers = np.clip(np.round(latent[:, None] + rng.normal(0, 0.7, (rows, 3))), 1, 5)
    scores = np.round(latent + rng.normal(size=rows), 3)
    return (
        [row(i, tuple(map(float, answers[i]))) for i in range(rows)],
        [
            Judgement(f"d{i}", "judge:x", {"overall": float(s)})
            for i, s in enumerate(scores)
        ],
    )


def run(rows: list[LabelledDialogue], judgements: list[Judgement]) -> ResultRow:
    return evaluate(
        rows, judgements, "overall", judge="x", signature="judge:x|data:d"
    ).row


def test_graded_dimension() -> None:
    rows, judgements = graded()
    found = run(rows, judgements)
    human = [np.mean(r.labels["overall"]) for r in rows]  # type: ignore[arg-type]
    score = [j.scores["overall"] for j in judgements]
    assert found.kind == "ordinal"
    assert found.metrics["spearman"].value == pytest.approx(
        spearmanr(human, score).statistic
    )
    assert (found.n, found.scored, found.coverage, found.clusters) == (
        90,
        90,
        1,
        "conversation",
    )
    assert set(found.ceiling) >= {
        "spearman",
        "pearson",
        "kendall",
        "within_system",
        "alpha",
    }
    assert found.slice_sizes == {f"chatbot:bot-{i}": 15 for i in range(6)} | {
        "lang:de": 45,
        "lang:en": 45,
    }
    german = [i for i in range(90) if i % 2]
    expected = spearmanr(
        np.array(human)[german], np.array(score, dtype=float)[german]
    ).statistic
    assert found.slices["lang:de"]["spearman"].value == pytest.approx(expected)
    assert "within_system" not in found.slices["chatbot:bot-0"]


def test_binary_dimension() -> None:
    rows = [
        row(i, (float(i % 3 == 0), float(i % 3 == 0 or i == 1)), (0, 1))
        for i in range(30)
    ]
    judgements = [
        Judgement(f"d{i}", "judge:x", {"overall": float(i % 3 == 0)}) for i in range(30)
    ]
    found = run(rows, judgements)
    assert found.kind == "binary"
    assert found.metrics["f1_present"].value == pytest.approx((1 + 20 / 21) / 2)
    assert found.ceiling["f1_present"].value == pytest.approx(20 / 21)
    assert found.counts == {"tp": 20, "fp": 0, "fn": 1, "tn": 39, "judge_present": 10}
    assert found.metrics["spearman"].value is not None


def test_coverage_is_of_rows_with_a_human_answer() -> None:
    rows, judgements = graded()
    found = run([*rows, row(90, (None,))], judgements[:80])
    assert (found.n, found.scored) == (90, 80)
    assert found.under_floor
    assert not replace(found, min_coverage=0.8).under_floor


def test_nothing_scored_is_a_reason_not_a_number() -> None:
    rows, _ = graded(5)
    found = run(rows, [])
    assert found.coverage == 0
    assert {e.reason for e in found.metrics.values()} == {"no row was scored"}


def test_why_there_is_no_ceiling() -> None:
    single = [row(i, (float(i % 5 + 1),)) for i in range(10)]
    means = [row(i, (i / 3,), (0, 5), aggregated=True) for i in range(10)]
    judgements = [
        Judgement(f"d{i}", "judge:x", {"overall": float(i)}) for i in range(10)
    ]
    assert run(single, judgements).ceiling["spearman"].reason == "one annotator per row"
    assert "released as means" in (
        run(means, judgements).ceiling["spearman"].reason or ""
    )


def test_the_scale_of_peoples_answers_is_told_where_all_rows_share_it() -> None:
    rows, judgements = graded(12)
    assert run(rows, judgements).human_scale == (1, 5)
    assert run([*rows, row(12, (7.0,), (1, 10))], judgements).human_scale is None
    assert run([row(0, (3.0,), None)], []).human_scale is None


def test_kinds() -> None:
    assert kind_of([row(0, (0, 1), (0, 1))], "overall") == "binary"
    assert kind_of([row(0, (1,), (0, 1), aggregated=True)], "overall") == "binary"
    assert (
        kind_of([row(0, (1 / 3,), (0, 1), aggregated=True)], "overall") == "continuous"
    )
    assert kind_of([row(0, (0, 1), (0, 4))], "overall") == "ordinal"
    assert kind_of([row(0, (0.5, 1), None)], "overall") == "continuous"


def test_disagreements_come_furthest_first() -> None:
    def told(score: float) -> Contributions:
        return Contributions((0.0, score - 30), 30.0)

    rows = [row(i, (float(h),)) for i, h in enumerate([1, 2, 3, 4, 5])]
    scores = [50.0, 20.0, 30.0, 40.0, 10.0]
    judgements = [
        Judgement(f"d{i}", "j", {"overall": s}, contributions={"overall": told(s)})
        for i, s in enumerate(scores)
    ]
    judged = evaluate(
        rows,
        judgements,
        "overall",
        set_name="set",
        judge="j",
        signature="judge:j|data:d",
    )
    found = disagreements(judged, "overall", top=2)
    assert [(d.id, d.human_rank, d.score_rank) for d in found] == [
        ("d0", 0, 1),
        ("d4", 1, 0),
    ]
    assert found[0].turns == [("user", "hello"), ("assistant", "hi")]
    account = found[0].contributions
    assert account is not None and account.turns == pytest.approx(
        told(50.0).turns, abs=1e-9
    )


@pytest.mark.parametrize("scale", [(1, 5), (0, 1)])
def test_the_judge_is_held_against_what_the_annotator_is_held_against(
    scale: Scale,
) -> None:
    # two annotators in English, one in German, as in MEDAL
    rng = np.random.default_rng(0)
    values = np.round(
        np.clip(rng.normal(3, 1, (120, 1)) + rng.normal(0, 1, (120, 3)), 1, 5)
    )
    values = values if scale == (1, 5) else (values > 3).astype(float)
    rows = [
        row(i, (float(a), None if i % 2 else float(b)), scale)
        for i, (a, b, _) in enumerate(values)
    ]
    judgements = [
        Judgement(f"d{i}", "x", {"overall": float(c)})
        for i, (*_, c) in enumerate(values)
    ]
    found, metric = (
        run(rows, judgements),
        "spearman" if scale == (1, 5) else "f1_present",
    )
    assert (found.n, found.ceiling_rows) == (120, 60)
    english = values[::2]
    figure = {
        "spearman": lambda a, b: float(spearmanr(a, b).statistic),
        "f1_present": lambda a, b: float(f1_score(b, a)),
    }[metric]
    expected = np.mean([figure(english[:, 2], english[:, k]) for k in (0, 1)])
    assert found.like_for_like[metric].value == pytest.approx(expected)
    ceiling = figure(english[:, 0], english[:, 1])
    assert found.ceiling[metric].value == pytest.approx(ceiling)
    assert found.ceiling_difference is not None
    assert found.ceiling_difference.value == pytest.approx(expected - ceiling)
    assert found.slice_like_for_like["lang:en"][metric].value == pytest.approx(expected)
    assert found.slice_ceilings["lang:en"][metric].value == pytest.approx(ceiling)
    assert found.slice_ceilings["lang:de"][metric].reason == "one annotator per row"
    assert set(found.slice_ceilings) == set(found.slices)


def judged(id: str, *texts: str) -> Judgement:
    details = known_details(raw=-3.0, selected=len(texts), follow_ups=texts)
    return Judgement(id, "judge:diet", {"overall": 3.0}, details={"overall": details})


ROWS = [
    *(judged("1", "Huh?", "No."), judged("2", "Huh?"), judged("3")),
    Judgement("5", "judge:diet", {"overall": None}, failure="too long"),
]


def test_shares_by_hand() -> None:
    table = follow_up_usage([("fed", "diet", ROWS)])
    assert [row[3:] for row in table.rows] == [
        ("Huh?", 2, pytest.approx(200 / 3), pytest.approx(200 / 3)),
        ("No.", 1, pytest.approx(100 / 3), pytest.approx(100 / 3)),
        ("(none in common: all were used)", 1, pytest.approx(100 / 3), None),
    ]
    plain = Judgement(
        "1", "judge:full", {"overall": 3.0}, details={"overall": {"raw": 1.0}}
    )
    assert not follow_up_usage([("fed", "full", [plain])]).rows
