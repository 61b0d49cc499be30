"""One judge on one set: joining, figures, languages, coverage, ceilings, a user's own statistic."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import f1_score, roc_auc_score
from tests.talks import talk

from medal_judges import Judge
from medal_judges.eval.metaeval import metrics
from medal_judges.eval.metaeval.alignment import join_rows
from medal_judges.eval.metaeval.metaeval import ResultRow, evaluate
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue, Scale

TURNS = (Turn("user", "hello"), Turn("assistant", "hi"))


def row(
    i: int | str,
    values: Sequence[float | None],
    scale: Scale | None = (1, 5),
    **more: Any,
) -> LabelledDialogue:
    number = i if isinstance(i, int) else 0
    dialogue = Dialogue(
        f"d{i}", TURNS, ("en", "de")[number % 2], models={"assistant": f"b{number % 6}"}
    )
    labels, scales = {"overall": tuple(values)}, {"overall": scale}
    return LabelledDialogue(dialogue, labels, scales, group=f"g{i}", **more)


def judged(i: int | str, score: float | None, **more: Any) -> Judgement:
    failure = "silent" if score is None else None
    return Judgement(f"d{i}", "judge:x", {"overall": score}, failure=failure, **more)


def graded(rows: int = 90) -> tuple[list[LabelledDialogue], list[Judgement]]:
    rng = np.random.default_rng(0)
    latent = rng.normal(3, 1, rows)
    answers = np.clip(np.round(latent[:, None] + rng.normal(0, 0.7, (rows, 3))), 1, 5)
    scores = np.round(latent + rng.normal(size=rows), 3)
    return (
        [row(i, answers[i].tolist()) for i in range(rows)],
        [judged(i, float(score)) for i, score in enumerate(scores)],
    )


def run(rows: list[LabelledDialogue], judgements: Sequence[Judgement]) -> ResultRow:
    (found,) = evaluate(judgements, rows, {"overall": "overall"}, judge="x")
    return found.row


# -- joining ---------------------------------------------------------------------------------------


def test_joined_by_id_in_row_order() -> None:
    rows = [row("a", (1, 3)), row("b", (4,)), row("c", (5,)), row("d", (None,))]
    found = join_rows(rows, [judged("b", 0.5), judged("a", 0.25), judged("d", 1.0)])
    aligned = found.align("overall", "overall")
    assert aligned.people.numbers.tolist() == [2, 4]
    assert aligned.judge.numbers.tolist() == [0.25, 0.5]
    expected = [[1, 3], [4, np.nan]]
    assert np.array_equal(aligned.ratings.numbers, expected, equal_nan=True)
    assert aligned.total == 3  # c has no score; d has no label


# -- figures ---------------------------------------------------------------------------------------


def test_graded_dimension() -> None:
    rows, judgements = graded()
    found = run(rows, judgements)
    human = np.array([np.mean(r.labels["overall"]) for r in rows])  # type: ignore[arg-type]
    score = np.array([j.scores["overall"] for j in judgements])
    expected = spearmanr(human, score).statistic
    assert found.metrics["spearman"].value == pytest.approx(expected)
    assert (found.kind, found.n, found.scored) == ("ordinal", 90, 90)
    assert (found.coverage, found.clusters) == (1, "conversation")
    assert {name: one.n for name, one in found.languages.items()} == {
        "de": 45,
        "en": 45,
    }
    german = spearmanr(human[1::2], score[1::2]).statistic
    metrics_of_german = found.languages["de"].metrics
    assert metrics_of_german["spearman"].value == pytest.approx(german)
    few = evaluate(judgements, rows, only=["spearman"], intervals=False)[0].row
    assert {name: one.low for name, one in few.metrics.items()} == {"spearman": None}
    assert few.metrics["spearman"].value == found.metrics["spearman"].value


def test_binary_dimension() -> None:
    answers = [(float(i % 3 == 0), float(i % 3 == 0 or i == 1)) for i in range(30)]
    rows = [row(i, values, (0, 1)) for i, values in enumerate(answers)]
    scores = [0.9 if i % 3 == 0 else 0.1 + 0.01 * i for i in range(30)]
    found = run(rows, [judged(i, score) for i, score in enumerate(scores)])
    assert found.kind == "binary"
    assert found.metrics["f1_present"].value == pytest.approx((1 + 20 / 21) / 2)
    assert found.ceiling["f1_present"].value == pytest.approx(20 / 21)
    expected = roc_auc_score([sum(values) >= 1 for values in answers], scores)
    assert found.metrics["auc"].value == pytest.approx(expected)


def test_coverage_is_of_rows_with_a_human_answer() -> None:
    rows, judgements = graded()
    found = run([*rows, row(90, (None,))], judgements[:80])
    assert (found.n, found.scored, found.has_low_coverage) == (90, 80, True)
    assert not replace(found, min_coverage=0.8).has_low_coverage
    nothing = run(graded(5)[0], [])
    assert nothing.coverage == 0
    assert {e.reason for e in nothing.metrics.values()} == {"no row was scored"}


def test_a_judge_scores_the_rows_itself() -> None:
    texts = ["No.", "A longer answer than that.", "Well, this is the longest of all."]
    rows = []
    for i, text in enumerate(texts):
        labels = {"overall": (float(i + 1),)}
        dialogue = talk("Hi!", text, id=f"t{i}")
        rows.append(LabelledDialogue(dialogue, labels, {"overall": (1, 5)}))
    (found,) = evaluate(Judge.from_pretrained("length"), rows)
    assert (found.row.dimension, found.row.n, found.row.scored) == ("overall", 3, 3)
    assert found.row.metrics["spearman"].value == pytest.approx(1)


@pytest.mark.parametrize("scale", [(1, 5), (0, 1)])
def test_the_judge_is_held_against_what_the_annotator_is_held_against(
    scale: Scale,
) -> None:
    # two annotators in English, one in German, as in MEDAL
    rng = np.random.default_rng(0)
    values = rng.normal(3, 1, (120, 1)) + rng.normal(0, 1, (120, 3))
    values = np.round(np.clip(values, 1, 5))
    values = values if scale == (1, 5) else (values > 3).astype(float)
    rows = [
        row(i, (float(a), None if i % 2 else float(b)), scale)
        for i, (a, b, _) in enumerate(values)
    ]
    found = run(rows, [judged(i, float(c)) for i, (*_, c) in enumerate(values)])
    metric = found.headline
    assert (found.n, found.ceiling_rows) == (120, 60)
    english = values[::2]
    figure = {
        "spearman": lambda a, b: float(spearmanr(a, b).statistic),
        "f1_present": lambda a, b: float(f1_score(b, a)),
    }[metric]
    expected = np.mean([figure(english[:, 2], english[:, k]) for k in (0, 1)])
    ceiling = figure(english[:, 0], english[:, 1])
    of_english = found.languages["en"]
    for like, person in (
        (found.like_for_like, found.ceiling),
        (of_english.like_for_like, of_english.ceiling),
    ):
        assert like[metric].value == pytest.approx(expected)
        assert person[metric].value == pytest.approx(ceiling)
    german = found.languages["de"].ceiling[metric]
    assert german.reason == "one annotator per row"


@pytest.fixture
def own_metric() -> Iterator[None]:
    @metrics.metric
    def absolute_error(labels: Any, scores: Any) -> float:
        return float(np.abs(labels - scores).mean())

    yield
    del metrics._MEASURES["absolute_error"]


@pytest.mark.usefixtures("own_metric")
def test_a_users_statistic_stands_beside_the_others() -> None:
    rows, judgements = graded()
    found = run(rows, judgements).metrics["absolute_error"]
    human = [np.mean(r.labels["overall"]) for r in rows]  # type: ignore[arg-type]
    score = np.array([j.scores["overall"] for j in judgements], dtype=float)
    assert found.value == pytest.approx(np.abs(human - score).mean())
    assert found.low is not None and found.low < found.value  # type: ignore[operator]
