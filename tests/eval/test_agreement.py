"""Agreement of annotators: by hand, against krippendorff and statsmodels, on people's data."""

import csv
import json
import os
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import krippendorff
import numpy as np
import pytest
from scipy.stats import spearmanr

from medal_judges.eval.agreement.agreement import agreement_page, measure_agreements
from medal_judges.records.labelled import LabelledDialogue, parse_labelled
from medal_judges.stats.alpha import Measurement, alpha_statistic
from medal_judges.stats.correlation import Floats

needs_data = pytest.mark.skipif(
    not os.environ.get("MEDAL_JUDGES_DATA"),
    reason="MEDAL_JUDGES_DATA names no folder of ratings",
)
# Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), part C: four observers,
# twelve units, missing data; the answers are 1 to 5
OBSERVERS = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
]


def row(number: int, labels: dict[str, Sequence[Any]], **more: Any) -> LabelledDialogue:
    scales = {name: [1, 5] if name == "overall" else [0, 1] for name in labels}
    turns = [
        {"role": "user", "content": "Hi."},
        {"role": "assistant", "content": "Hello."},
    ]
    record = {"id": f"d{number}", "dialogue": turns, "lang": "en", "scales": scales}
    return parse_labelled(
        record | {"labels": {k: list(v) for k, v in labels.items()}} | more
    )


def rows_of(
    name: str, answers: Sequence[Sequence[Any]], **more: Any
) -> list[LabelledDialogue]:
    return [row(i, {name: values}, **more) for i, values in enumerate(answers)]


def test_krippendorffs_own_example() -> None:
    by_unit = list(zip(*OBSERVERS, strict=True))
    (found,) = measure_agreements(rows_of("overall", by_unit))
    assert (found.rows, found.shared, found.annotators) == (12, 11, 4)
    given = [[v for v in unit if v is not None] for unit in by_unit]
    apart = np.array([abs(a - b) for unit in given for a, b in combinations(unit, 2)])
    assert found.pairs == len(apart)
    assert found.estimates["exact"].value == pytest.approx(np.mean(apart == 0))
    assert found.estimates["adjacent"].value == pytest.approx(np.mean(apart <= 1))
    values = np.array(by_unit, dtype=np.float64)
    for measurement, published in (
        ("nominal", 0.743),
        ("ordinal", 0.815),
        ("interval", 0.849),
    ):
        alpha = alpha_statistic(values, measurement)(np.ones((1, 12)))  # type: ignore[arg-type]
        assert alpha["alpha"][0] == pytest.approx(published, abs=5e-4)


def test_two_annotators_by_hand() -> None:
    # 3 both present, 1 and 2 of one only, 4 both absent. Coincidences: o11 = 6, o00 = 8,
    # o01 = o10 = 3; n1 = 9, n0 = 11, n = 20; alpha = 1 - 19 * 3 / (9 * 11) = 0.4242
    answers = [(1, 1)] * 3 + [(1, 0)] + [(0, 1)] * 2 + [(0, 0)] * 4
    (found,) = measure_agreements(rows_of("unsafe", answers))
    assert found.kind == "binary"
    assert found.estimates["alpha"].value == pytest.approx(1 - 19 * 3 / 99)
    assert found.estimates["exact"].value == pytest.approx(0.7)
    assert "adjacent" not in found.estimates
    assert found.mean == pytest.approx(9 / 20)
    one, other = np.array(answers).T
    assert found.estimates["spearman"].value == pytest.approx(
        spearmanr(one, other).statistic
    )


@pytest.mark.parametrize("measurement", ["nominal", "ordinal", "interval"])
def test_alpha_of_parts_is_the_packages(measurement: Measurement) -> None:
    rng = np.random.default_rng(1)
    for size, annotators in ((30, 4), (12, 2), (40, 3)):
        values = rng.integers(1, 6, (size, annotators)).astype(np.float64)
        values[rng.random(values.shape) < 0.3] = np.nan
        weights = (rng.random((5, size)) < 0.7).astype(np.float64)
        found = alpha_statistic(values, measurement)(weights)["alpha"]
        for drawn, alpha in zip(weights, found, strict=True):
            expected = krippendorff.alpha(
                reliability_data=values[drawn > 0].T, level_of_measurement=measurement
            )
            assert alpha == pytest.approx(expected, abs=1e-10)
    # undefined if all answers of the sample are equal
    values = np.array([[2.0, 2.0], [2.0, 2.0], [2.0, 3.0], [1.0, np.nan]])
    weights = np.array([[1.0, 1, 0, 1], [0, 0, 0, 1], [1, 1, 1, 0]])
    found = alpha_statistic(values, measurement)(weights)["alpha"]
    assert np.isnan(found[:2]).all() and np.isfinite(found[2])


def test_pairs_are_people_if_rows_name_them() -> None:
    rng = np.random.default_rng(4)
    people: dict[str, Floats] = {
        name: rng.integers(1, 6, 30).astype(float) for name in "abc"
    }
    rows = []
    for i in range(30):
        here = [str(name) for name in rng.permutation(list("abc"))[: 2 + i % 2]]
        values = [float(people[name][i]) for name in here]
        rows.append(row(i, {"overall": values}, annotators=here))
    (found,) = measure_agreements(rows)
    total = size = 0.0
    for one, other in combinations("abc", 2):
        both = [
            i for i, r in enumerate(rows) if {one, other} <= set(r.extra["annotators"])
        ]
        total += spearmanr(people[one][both], people[other][both]).statistic * len(both)
        size += len(both)
    assert found.named and found.annotators == 3
    assert found.estimates["spearman"].value == pytest.approx(total / size)
    # repeats of a machine
    for extra in ({}, {"annotators": ["ana", "ben"], "labels_by": "j"}):
        unnamed = rows_of("overall", [(1, 2), (2, 2), (3, 4)], **extra)
        assert not measure_agreements(unnamed)[0].named


def test_page_json_and_csv(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    marks, grades = (
        rng.integers(0, 2, (30, 2)).tolist(),
        rng.integers(1, 6, (30, 2)).tolist(),
    )
    rows = [
        row(i, {"unsafe": marks[i], "overall": grades[i]}, lang=("en", "pt")[i % 2])
        for i in range(30)
    ]
    found = measure_agreements(rows)
    path = agreement_page(found, "<b>mine</b>", [("Rows", "30")]).write(tmp_path)
    text = path.read_text(encoding="utf-8")
    assert "&lt;b&gt;mine" in text and "<b>mine" not in text
    csv_file = tmp_path / "tables" / "agreement-by-language-and-dimension.csv"
    with csv_file.open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    names = ["unsafe", "overall"]
    assert [line["Dimension"] for line in table] == names * 3
    at = {(a.lang, a.dimension): a.estimates["alpha"].value for a in found}
    printed = float(table[2]["α"].lstrip("'").partition(" [")[0])
    assert printed == pytest.approx(at["pt", "unsafe"])
    record = json.loads((tmp_path / "agreement.json").read_text(encoding="utf-8"))
    assert len(record["agreement"]) == 6


@needs_data
def test_binary_figures_of_people_against_statsmodels() -> None:
    from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa

    from medal_judges.data_prep.sources.registry import load_rows

    rows = load_rows("fed:dialogue")
    (found,) = measure_agreements(rows, ["consistent"])
    values = np.array([r.labels["consistent"] for r in rows], dtype=int)
    table, _ = aggregate_raters(values)
    # complete data: alpha is Fleiss' kappa with the small-sample term 1 / n (1 - kappa) added
    kappa = fleiss_kappa(table, method="fleiss")
    assert found.estimates["alpha"].value == pytest.approx(
        kappa + (1 - kappa) / values.size
    )
    same = ((table * (table - 1)).sum(axis=1) / (5 * 4)).mean()
    assert found.estimates["exact"].value == pytest.approx(same)


def test_a_share_at_an_end_gets_wilsons_interval_and_alpha_none() -> None:
    """Ten of ten: n / (n + z²) to 1, with z² = 3.8415."""
    same = [(1 + i % 5, 1 + i % 5) for i in range(10)]
    rows = rows_of("overall", same)
    (found,) = measure_agreements(rows)
    exact, alpha = found.estimates["exact"], found.estimates["alpha"]
    assert (exact.value, exact.high) == pytest.approx((1, 1))
    assert exact.low == pytest.approx(10 / (10 + 3.841459), abs=1e-6)
    assert (
        alpha.value == pytest.approx(1)
        and alpha.low is None
        and "the same whichever" in str(alpha.reason)
    )
    again = [row(10 + i, {"overall": a}, group=f"d{i}") for i, a in enumerate(same)]
    (double,) = measure_agreements([*rows, *again])  # ten conversations still
    assert double.pairs == 20
    assert double.estimates["exact"].low == pytest.approx(exact.low)


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        ([(2, 3)] * 20, "ana always answers 2 to overall"),
        ([(1 + i % 5, 5 - i % 5) for i in range(20)], "disagree more than by chance"),
        ([(1 + i % 5, 1 + i * 7 % 4) for i in range(20)], "may agree by chance alone"),
    ],
)
def test_ratings_that_say_nothing_are_named(
    answers: list[tuple[int, int]], sentence: str
) -> None:
    rows = rows_of("overall", answers, annotators=["ana", "ben"])
    page = agreement_page(measure_agreements(rows), "t", [])
    assert page.printout is not None
    assert sentence in " ".join(page.printout.notes)
