"""The simulation on sets whose answers are known, and on rated dialogues where they are here."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr
from typer.testing import CliRunner

from medal_judges.cli import app
from medal_judges.data_prep.curation.candidate import Candidate, label_reading
from medal_judges.data_prep.curation.human_set import read_human_set
from medal_judges.data_prep.curation.information import JudgeView, judge_table
from medal_judges.data_prep.curation.simulation import (
    HumanSet,
    Outcome,
    Setting,
    annotations_needed,
    simulate,
)
from medal_judges.data_prep.curation.simulation_report import (
    print_verdicts,
    require_reference,
    verdicts,
    write_simulation,
)
from medal_judges.errors import ConfigError
from medal_judges.jsonl import write_records
from medal_judges.judgement import Judgement

from .rows import labelled

READING = label_reading()


@pytest.fixture(scope="module")
def people() -> HumanSet:
    """1,500 dialogues. Judge ``a`` follows people where ``b`` agrees with it and errs where ``b``
    does not: what disagreement picks out is just what ``a`` gets wrong."""
    rng = np.random.default_rng(0)
    human = rng.normal(size=1500)
    hard = rng.random(1500) < 0.3
    a = np.where(hard, rng.normal(size=1500), human + 0.5 * rng.normal(size=1500))
    b = np.where(hard, -a, a + 0.1 * rng.normal(size=1500))
    ids = [f"d{i}" for i in range(1500)]
    views = [JudgeView(n, dict(zip(ids, s.tolist(), strict=True))) for n, s in (("a", a), ("b", b))]
    level = np.searchsorted([-2, -1.5, -1, -0.8], a) + 1
    candidates = tuple(
        Candidate(id, "en", id, "u", "ABCDE"[i % 5], ("clean",), int(level[i]))
        for i, id in enumerate(ids)
    )
    table = judge_table(views, ids, READING.overall)
    return HumanSet(human, np.array([a, b]), table, candidates, ("clean",), 5)


@pytest.fixture(scope="module")
def outcomes(people: HumanSet) -> list[Outcome]:
    policies = ("balanced", "random", "disagreement", "expected-information")
    return simulate(people, Setting((30, 120), 150, 100, policies=policies))


def of(outcomes: list[Outcome], policy: str, weighted: bool, n: int, judge: str = "a") -> Outcome:
    key = (policy, weighted, n, judge)
    return next(o for o in outcomes if (o.policy, o.weighted, o.n, o.judge) == key)


def test_the_full_figure_is_scipys(people: HumanSet, outcomes: list[Outcome]) -> None:
    expected = float(spearmanr(people.human, people.scores[0]).statistic)
    assert len({o.full for o in outcomes if o.judge == "a"}) == 1
    assert outcomes[0].judge == "a" and outcomes[0].full == pytest.approx(expected)


def test_random_samples_are_unbiased_and_cover(outcomes: list[Outcome]) -> None:
    """150 intervals of 95% hold the value 135 times or more but in one case of 200."""
    found = of(outcomes, "random", False, 120)
    assert abs(found.bias) < 0.02 and found.coverage >= 0.9
    assert found.width < of(outcomes, "random", False, 30).width / 1.7
    same = of(outcomes, "random", True, 120)
    assert (same.bias, same.width) == pytest.approx((found.bias, found.width))


def test_weights_undo_what_the_choice_did(outcomes: list[Outcome]) -> None:
    plain = of(outcomes, "disagreement", False, 120)
    weighted = of(outcomes, "disagreement", True, 120)
    assert plain.bias < -0.15 and plain.coverage < 0.5
    assert abs(weighted.bias) < 0.03 and weighted.coverage >= 0.88


def test_a_narrow_and_wrong_policy_is_called_misleading(outcomes: list[Outcome]) -> None:
    found = {(v.policy, v.weighted): v for v in verdicts(outcomes, 120)}
    assert found["disagreement", False].misleading
    assert not found["random", False].misleading
    assert found["random", False].for_width == pytest.approx(120)
    assert ("random", True) not in found


def test_a_comparison_that_cannot_be_made_is_refused_before_it_is_run() -> None:
    setting = Setting((30, 120))
    require_reference(setting, 1500, 120)
    with pytest.raises(ConfigError, match="no random sample of 100"):
        require_reference(setting, 1500, 100)
    with pytest.raises(ConfigError, match="the set has 50 dialogues"):
        require_reference(setting, 50, 120)
    with pytest.raises(ConfigError, match="--policies random,balanced"):
        require_reference(Setting((30,), policies=("balanced",)), 1500, 30)


def test_a_judge_who_says_the_same_of_everything_is_named(people: HumanSet) -> None:
    flat = replace(people, scores=np.array([people.scores[0], np.ones(1500)]))
    with pytest.raises(ConfigError, match="judge b has no correlation"):
        simulate(flat, Setting((30,), 5, 10))


def test_figures_that_no_selection_gave_are_null(tmp_path: Path, people: HumanSet) -> None:
    """People who mark one dialogue of 1,500: few selections of 30 hold it."""
    rare = replace(people, human=(np.arange(1500) == 7).astype(float))
    found = simulate(rare, Setting((30,), 3, 10, policies=("random",)))
    judged = verdicts(found, 30)
    write_simulation(found, judged, {}, tmp_path)
    record = json.loads((tmp_path / "simulation.json").read_text())
    assert record["outcomes"][0]["undefined"] == 3
    assert record["verdicts"][0]["width"] is None and record["verdicts"][0]["misleading"]
    assert (tmp_path / "simulation.csv").read_text().count("\n") == 1 + len(found)
    print_verdicts(judged, 30, 30)


def test_expected_information_needs_no_more_than_random(outcomes: list[Outcome]) -> None:
    informed = of(outcomes, "expected-information", True, 120)
    assert informed.width < 1.02 * of(outcomes, "random", False, 120).width
    assert abs(informed.bias) < 0.03


def test_the_same_seed_gives_the_same_figures(people: HumanSet) -> None:
    setting = Setting((20,), 10, 20, policies=("random", "balanced"))
    assert simulate(people, setting) == simulate(people, setting)
    with pytest.raises(ConfigError, match="no number of annotations"):
        simulate(people, Setting((5, 9000), 10, 20))


def test_annotations_needed_by_hand() -> None:
    """Widths of c / root n: half of what 100 give needs 400, and 200 lie on the line between."""
    widths = {n: 3 / n**0.5 for n in (25, 100, 400)}
    assert annotations_needed(widths, 0.15) == pytest.approx(400)
    assert annotations_needed(widths, 3 / 200**0.5) == pytest.approx(200)
    assert annotations_needed(widths, 0.01) is None
    assert annotations_needed(widths, 5) is None
    assert annotations_needed({}, 1) is None
    assert annotations_needed({50: 0.2}, 0.2) == 50


def test_reading_a_set(tmp_path: Path) -> None:
    rows = [labelled(f"d{i}", overall=[1 + i % 5, 5]) for i in range(40)]
    rows += [labelled("bare", overall=[None]), labelled("unscored")]
    write_records(tmp_path / "people.jsonl", rows)
    write_records(
        tmp_path / "j.jsonl",
        (Judgement(r.id, "judge:j", {"overall": float(i)}) for i, r in enumerate(rows[:-1])),
    )
    people, counts = read_human_set(str(tmp_path / "people.jsonl"), [tmp_path / "j.jsonl"], READING)
    assert counts == {"without a human answer": 1, "not scored by every judge": 1}
    assert people.human[:5].tolist() == [3, 3.5, 4, 4.5, 5]
    levels = [c.level for c in people.candidates]
    assert levels == sorted(levels) and levels.count(5) == 32  # over 80% best, none of it lowest
    with pytest.raises(ConfigError, match="no judge scores all issues"):
        read_human_set(
            str(tmp_path / "people.jsonl"), [tmp_path / "j.jsonl"], READING, judged_issues=True
        )
    rows.append(labelled("d99", lang="de"))
    write_records(tmp_path / "people.jsonl", rows)
    write_records(tmp_path / "j.jsonl", (Judgement(r.id, "j", {"overall": 1.0}) for r in rows))
    with pytest.raises(ConfigError, match="the set holds de, en"):
        read_human_set(str(tmp_path / "people.jsonl"), [tmp_path / "j.jsonl"], READING)


@pytest.mark.skipif(
    not os.environ.get("MEDAL_JUDGES_DATA"),
    reason="needs the rated sets; set MEDAL_JUDGES_DATA to their folder",
)
def test_the_command_on_rated_dialogues(tmp_path: Path) -> None:
    from medal_judges.data_prep.sources.registry import load_spec
    from medal_judges.models.base.judge import Judge

    dialogues = [row.dialogue for row in load_spec("fed:dialogue")]
    files = []
    for name in ("length", "repetition"):
        judge = Judge.from_pretrained(f"configs/judges/{name}.yaml")
        write_records(tmp_path / f"{name}.jsonl", judge.score(dialogues))
        files += ["--judgements", str(tmp_path / f"{name}.jsonl")]
    asked = ["--sizes", "25,50", "--reference", "50", "--repetitions", "40", "--resamples", "50"]
    done = CliRunner().invoke(
        app,
        ["data", "simulate-curation", "fed:dialogue", *files, *asked, "--out", str(tmp_path / "o")],
    )
    assert done.exit_code == 0, done.output
    record = json.loads((tmp_path / "o" / "simulation.json").read_text())
    assert record["facts"]["dialogues"] == 125
    tried = {o["policy"] for o in record["outcomes"]}
    assert tried == {"balanced", "random", "disagreement", "expected-information"}
    random = [v for v in record["verdicts"] if v["policy"] == "random"]
    assert random[0]["for_width"] == pytest.approx(50) and random[0]["coverage"] > 0.85
