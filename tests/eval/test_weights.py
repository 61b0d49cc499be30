"""curation.weight in every figure: whole-number weights are repeated rows, and pools come back."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import kendalltau, pearsonr, spearmanr
from typer.testing import CliRunner

from medal_judges.cli import app
from medal_judges.errors import ConfigError
from medal_judges.eval.agreement.agreement import agreements
from medal_judges.eval.benchmark.page import bins, gap
from medal_judges.eval.metaeval.comparison import GRADED, ISSUES, comparison_tables
from medal_judges.eval.metaeval.metaeval import ResultRow, evaluate
from medal_judges.reading.dialogues import read_labelled
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue, Scale
from medal_judges.stats import correlation
from medal_judges.stats.correlation import correlation_statistic
from medal_judges.stats.estimate import Estimate
from medal_judges.storage.jsonl import write_records

from .benchmark_case import medal, results

TURNS = (Turn("user", "hello"), Turn("assistant", "hi"))


def row(
    i: str, answers: Sequence[float], scale: Scale, weight: object, bot: int
) -> LabelledDialogue:
    return LabelledDialogue(
        Dialogue(f"d{i}", TURNS, "en", models={"assistant": f"bot-{bot}"}),
        {"x": tuple(map(float, answers))},
        {"x": scale},
        group=f"g{i.split('-')[0]}",
        extra={} if weight is None else {"curation": {"policy": "balanced", "weight": weight}},
    )


def case(scale: Scale, repeat: bool) -> tuple[list[LabelledDialogue], list[Judgement]]:
    """60 rows with weights of 1 to 3, or each row as often as its weight says."""
    rng = np.random.default_rng(0)
    latent = rng.normal(3, 1, (60, 1))
    answers = np.clip(np.round(latent + rng.normal(0, 0.8, (60, 2))), 1, 5)
    score = np.clip(latent[:, 0] + rng.normal(0, 0.8, 60), 1, 5)
    if scale == (0, 1):
        answers, score = (answers > 3).astype(float), np.clip((score - 1) / 4, 0, 1)
    rows, said = [], []
    for i, weight in enumerate(rng.integers(1, 4, 60)):
        for k in range(int(weight) if repeat else 1):
            rows.append(row(f"{i}-{k}", answers[i], scale, None if repeat else int(weight), i % 6))
            said.append(Judgement(f"d{i}-{k}", "j", {"x": float(score[i])}))
    return rows, said


def evaluated(scale: Scale, repeat: bool) -> ResultRow:
    rows, said = case(scale, repeat)
    return evaluate(
        rows,
        said,
        "x",
        set_name="set",
        judge="j",
        signature="judge:j|data:d",
        weights="none" if repeat else "curation",
        judge_scale=scale,
    ).row


@pytest.mark.parametrize("scale", [(1, 5), (0, 1)])
def test_a_weight_of_three_is_the_row_three_times(scale: Scale) -> None:
    once, often = evaluated(scale, False), evaluated(scale, True)
    parts: list[tuple[Any, Any]] = [
        (once.metrics, often.metrics),
        (once.ceiling, often.ceiling),
        (once.like_for_like, often.like_for_like),
        *((once.slices[name], often.slices[name]) for name in often.slices),
        *((once.slice_ceilings[name], often.slice_ceilings[name]) for name in often.slices),
    ]
    compared = 0
    for mine, theirs in parts:
        for name, estimate in theirs.items():
            if estimate.value is None or name == "alpha":
                continue
            found = mine[name]
            assert found.value == pytest.approx(estimate.value, abs=1e-6), name
            if estimate.low is not None and once.clusters == "chatbot":
                assert found.low == pytest.approx(estimate.low, abs=1e-5), name
            compared += 1
    assert compared > 20
    alphas = (once.ceiling["alpha"].value or 0, often.ceiling["alpha"].value or 0)
    assert alphas[0] == pytest.approx(alphas[1], abs=0.01)  # (n - 1) / n is of 60 rows, not of 120
    assert once.ceiling_difference is not None and often.ceiling_difference is not None
    difference = once.ceiling_difference.value
    assert difference == pytest.approx(often.ceiling_difference.value, abs=1e-6)
    assert (once.n, sum(p.weight for p in once.points)) == (60, pytest.approx(60))
    assert gap(bins(once)) == pytest.approx(gap(bins(often)), abs=0.35 if scale == (1, 5) else 1e-9)


@pytest.mark.parametrize("scale", [(1, 5), (0, 1)])
def test_pairs_of_judges_under_weights(scale: Scale) -> None:
    found = []
    for repeat in (False, True):
        rows, said = case(scale, repeat)
        rng = np.random.default_rng(3)
        noise = {r.group: rng.random() for r in case(scale, False)[0]}
        other = [replace(j, scores={"x": noise["g" + j.id[1:].split("-")[0]]}) for j in said]
        judged = []
        for name, answers in (("one", said), ("two", other)):
            weights: Any = "none" if repeat else "curation"
            signature = f"judge:{name}|data:d"
            judged.append(
                evaluate(rows, answers, "x", judge=name, signature=signature, weights=weights)
            )
        title = ISSUES if scale == (0, 1) else GRADED
        (table,) = (t for t in comparison_tables(judged) if t.title == title)
        found.append(dict(zip(table.columns, table.rows[0], strict=True)))
    once, often = (next(v for v in line.values() if isinstance(v, Estimate)) for line in found)
    assert once.value == pytest.approx(often.value, abs=1e-9)
    assert once.low == pytest.approx(often.low, abs=1e-9)
    tests = ("McNemar p", "Williams p")
    assert [found[0].get(name) for name in tests] == [None, None]  # they know no weights
    assert any(found[1].get(name) is not None for name in tests)


@pytest.mark.parametrize("scale", [(1, 5), (0, 1)])
def test_agreement_under_weights(scale: Scale) -> None:
    (once,) = agreements(case(scale, False)[0], weights="curation")
    (often,) = agreements(case(scale, True)[0])
    (plain,) = agreements(case(scale, False)[0])
    assert once.mean == pytest.approx(often.mean) and once.mean != pytest.approx(plain.mean)
    for name, estimate in often.figures.items():
        tolerance = 0.01 if name == "alpha" else 1e-9
        assert once.figures[name].value == pytest.approx(estimate.value, abs=tolerance), name
    for name, estimate in often.ceiling.items():
        assert once.ceiling[name].value == pytest.approx(estimate.value, abs=1e-6), name
    assert (once.rows, once.pairs) == (60, 60)


def test_kendall_of_many_rows_takes_weights_that_are_no_whole_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(1, 6, 130).astype(float), rng.normal(size=130)
    weights = rng.integers(1, 4, 130)
    monkeypatch.setattr(correlation, "_KENDALL_MATRIX", 100)
    monkeypatch.setattr(correlation, "_KENDALL_BLOCK", 40)
    found = correlation_statistic(x, y)(weights[None, :] / 7)
    again = [np.repeat(side, weights) for side in (x, y)]
    assert found["kendall"][0] == pytest.approx(kendalltau(*again).statistic, abs=1e-6)
    assert found["spearman"][0] == pytest.approx(spearmanr(*again).statistic, abs=1e-9)
    # weights that add up to less than 1 are weights like others
    small = correlation_statistic(x, y)(weights[None, :] / 1e4)
    assert small["pearson"][0] == pytest.approx(pearsonr(*again).statistic, abs=1e-9)


def curated(path: Path, some: int | None = None) -> None:
    rows = list(read_labelled(path))
    write_records(
        path,
        [
            replace(r, extra={**r.extra, "curation": {"weight": 1.0 + (i % 3)}})
            if some is None or i < some
            else r
            for i, r in enumerate(rows)
        ],
    )


def test_the_benchmark_uses_weights_and_says_so(folder: Path) -> None:
    curated(folder / "set.jsonl")
    done = medal()
    assert done.exit_code == 0, done.exception
    said = " ".join(done.stdout.split())
    assert "24 of 24 rows were selected by medal curate and count alike" in said
    plain = results(folder)
    weighted = medal("--weights", "curation")
    assert weighted.exit_code == 0, weighted.exception
    assert "effective size" in weighted.stdout
    found = results(folder)
    one, two = plain["rows"][0], found["rows"][0]
    assert one["metrics"]["pearson"]["value"] != two["metrics"]["pearson"]["value"]
    assert two["signature"].split("|data:")[1].split("|")[0].endswith(", curation weights")
    assert one["signature"] != two["signature"]
    facts = dict(found["facts"])
    assert facts["Weights"].startswith("set little: every row counts as")
    assert "--weights" not in str(facts["Weights"])
    assert "weights=curation" in facts["Command"]


def test_weights_that_are_not_there(folder: Path) -> None:
    error = medal("--weights", "curation").exception
    assert isinstance(error, ConfigError) and "no set has rows with weights" in str(error)
    curated(folder / "set.jsonl", some=20)
    error = medal("--weights", "curation").exception
    assert isinstance(error, ConfigError)
    assert "set little: 4 of 24 rows have no curation.weight, row-20 first" in str(error)


def test_agreement_with_and_without_weights(folder: Path) -> None:
    run = CliRunner().invoke
    error = run(app, ["agreement", "set.jsonl", "--weights", "curation"]).exception
    assert isinstance(error, ConfigError) and "no row has a curation.weight" in str(error)
    bare = replace(next(read_labelled(folder / "set.jsonl")), labels={}, scales={})
    write_records(folder / "bare.jsonl", [bare])
    unlabelled = run(app, ["agreement", "bare.jsonl"]).exception
    assert "no row has labels" in str(unlabelled) and "--label COLUMN" in unlabelled.hint
    curated(folder / "set.jsonl")
    plain = run(app, ["agreement", "set.jsonl"])
    assert plain.exit_code == 0 and "--weights curation" in plain.stdout
    done = run(app, ["agreement", "set.jsonl", "--weights", "curation", "--out", "page"])
    assert done.exit_code == 0, done.exception
    assert "effective size" in (folder / "page/agreement.html").read_text("utf-8")
