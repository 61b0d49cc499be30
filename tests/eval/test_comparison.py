"""Tests between judges: all pairs, issues and grades, over all rows and by language."""

from collections.abc import Sequence

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import f1_score
from statsmodels.stats.contingency_tables import mcnemar as library_mcnemar
from statsmodels.stats.multitest import multipletests
from tests.exact import exact

from medal_judges.eval.metaeval.comparison import (
    GRADED,
    ISSUES,
    MCNEMAR,
    comparison_tables,
    dimension_means_table,
)
from medal_judges.eval.metaeval.metaeval import JudgedRows, ResultRow, evaluate
from medal_judges.eval.metaeval.metrics import count_right_alone
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.report.table import PValue, Table
from medal_judges.stats.intervals import Estimate

TURNS = (Turn("user", "hello"), Turn("assistant", "hi"))
NAN = np.nan


def rows_of(name: str, values: Sequence[Sequence[float]], scale: tuple[float, float]):  # type: ignore[no-untyped-def]
    return [
        LabelledDialogue(
            Dialogue(
                f"d{i}",
                TURNS,
                ("en", "de")[i % 2],
                models={"assistant": f"bot-{i % 6}"},
            ),
            {name: tuple(map(float, answers))},
            {name: scale},
            group=f"g{i}",
        )
        for i, answers in enumerate(values)
    ]


def judged(
    rows: list[LabelledDialogue], name: str, judge: str, scores: Sequence[float]
) -> JudgedRows:
    said = [Judgement(f"d{i}", judge, {name: float(s)}) for i, s in enumerate(scores)]
    return evaluate(said, rows, {name: name}, judge=judge, set_name="set")[0]


@pytest.fixture(scope="module")
def issues() -> list[JudgedRows]:
    """Three judges on an issue, of 180 dialogues with two annotators."""
    rng = np.random.default_rng(0)
    truth = rng.random(180) < 0.4
    people = [[t ^ (rng.random() < 0.1) for _ in range(2)] for t in truth]
    rows = rows_of("unsafe", people, (0, 1))
    errors = {"good": 0.1, "fair": 0.25, "poor": 0.45}
    return [
        judged(rows, "unsafe", name, [float(t ^ (rng.random() < e)) for t in truth])
        for name, e in errors.items()
    ]


@pytest.fixture(scope="module")
def grades() -> list[JudgedRows]:
    rng = np.random.default_rng(1)
    latent = rng.normal(3, 1, 120)
    people = np.clip(np.round(latent[:, None] + rng.normal(0, 0.7, (120, 2))), 1, 5)
    rows = rows_of("overall", people.tolist(), (1, 5))
    noise = {"good": 0.3, "fair": 1.0, "poor": 4.0}
    return [
        judged(rows, "overall", name, list(latent + e * rng.normal(size=120)))
        for name, e in noise.items()
    ]


def table(found: Sequence[Table], title: str) -> list[dict[str, object]]:
    (one,) = (t for t in found if t.title == title)
    return [dict(zip(one.columns, row, strict=True)) for row in one.rows]


def p(cell: object) -> float:
    assert isinstance(cell, PValue)
    return cell.value


def test_every_pair_of_judges_on_an_issue(issues: list[JudgedRows]) -> None:
    found = comparison_tables(issues)
    lines, tests = table(found, ISSUES), table(found, MCNEMAR)
    pairs = [(line["Better"], line["Other"]) for line in lines]
    assert pairs == [("good", "fair"), ("good", "poor"), ("fair", "poor")]
    said = {one.row.judge: one.aligned.judge.numbers >= 0.5 for one in issues}
    people = issues[0].aligned.ratings.numbers
    for line, test in zip(lines, tests, strict=True):
        one, two = said[str(line["Better"])], said[str(line["Other"])]
        f1 = [np.mean([f1_score(a, side) for a in people.T]) for side in (one, two)]
        difference = line["Difference in F1+"]
        assert isinstance(difference, Estimate) and difference.low is not None
        assert difference.value == pytest.approx(f1[0] - f1[1])
        b, c = test["Right alone: first"], test["Right alone: other"]
        cells = [[0, b], [c, 0]]
        expected = library_mcnemar(cells, exact=True).pvalue
        assert p(test["p"]) == pytest.approx(expected)
        assert line["n"] == test["n"] == 180
    assert p(lines[1]["p"]) < 0.01 and p(tests[1]["p, Holm"]) < 0.01
    expected = multipletests([p(test["p"]) for test in tests], method="holm")[1]
    assert [p(test["p, Holm"]) for test in tests] == pytest.approx(list(expected))


def test_mcnemar_names_the_judge_that_its_test_is_for() -> None:
    """A judge that says present too often has the larger F1+ and is right less often."""
    people = [(float(i < 8),) * 2 for i in range(40)]
    rows = rows_of("unsafe", people, (0, 1))
    eager = judged(rows, "unsafe", "eager", [float(i < 16) for i in range(40)])
    quiet = judged(rows, "unsafe", "quiet", [float(i < 1) for i in range(40)])
    found = comparison_tables([eager, quiet])
    (line,), (test,) = table(found, ISSUES), table(found, MCNEMAR)
    assert (line["Better"], test["Right more often"]) == ("eager", "quiet")
    assert (test["Right alone: first"], test["Right alone: other"]) == (8, 7)


def test_grades_are_compared_by_their_correlations(grades: list[JudgedRows]) -> None:
    by_name = {one.row.judge: one.aligned for one in grades}
    human = grades[0].aligned.people.numbers
    for line in table(comparison_tables(grades), GRADED):
        one, two = (
            spearmanr(human, by_name[str(line[side])].judge.numbers).statistic
            for side in ("Better", "Other")
        )
        difference = line["Difference in ρ"]
        assert isinstance(difference, Estimate) and difference.low is not None
        assert difference.value == pytest.approx(one - two, abs=1e-3)


def test_a_judge_is_right_where_most_annotators_say_so() -> None:
    people = [[1, 1, 0], [1, 0, NAN], [0, 0, NAN], [1, NAN, NAN], [0, 0, 1], [1, 1, 1]]
    answers = exact(np.array(people))
    first = exact(np.array([0.9, 0.9, 0.1, 0.9, 0.9, 0.2]))
    second = exact(np.array([0.1, 0.1, 0.9, 0.9, 0.5, 0.5]))
    # row 0 first, 1 split, 2 first, 3 both, 4 neither (both say present), 5 second
    assert count_right_alone(first, second, answers) == (2, 1)
    assert count_right_alone(second, first, answers) == (1, 2)


# Table 5 of ORALIS, the columns LM prompting, regression, classification, hybrid and baseline.
PUBLISHED = {
    0.15: (-0.08, 0.01, -0.22, 0.05, 0.13, 0.08, 0.11, -0.15, 0.37, 0.31),
    0.14: (-0.17, 0.13, -0.02, 0.22, 0.12, -0.28, -0.0, 0.2, 0.08, -0.17),
    0.17: (0.06, -0.11, -0.1, 0.1, 0.07, 0.23, 0.39, -0.02, 0.23, 0.38),
}


def figure(
    judge: str, dimension: str, value: float | None, **more: object
) -> ResultRow:
    fields = {"kind": "ordinal", "n": 10, "scored": 10} | more
    metrics = {"spearman": Estimate(value)}
    about = (judge, "judge:x", "s", "dialogue", dimension, dimension)
    return ResultRow(*about, metrics=metrics, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(("published", "values"), PUBLISHED.items())
def test_the_published_averages(published: float, values: tuple[float, ...]) -> None:
    table = dimension_means_table(
        [figure("a", f"d{i}", v) for i, v in enumerate(values)]
    )
    assert table.rows[0][2] == pytest.approx(published, abs=0.0051)
