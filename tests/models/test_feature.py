"""The plain baselines: fitted and from YAML."""

import math
from pathlib import Path

import pytest

from medal_judges import Dialogue, Judge, Turn
from medal_judges.errors import ConfigError
from medal_judges.models.base.heads import on_scale
from medal_judges.models.feature.judge import FeatureConfig, FeatureJudge
from medal_judges.records.dimension import load_rubric
from medal_judges.training.rows import TrainingExample


def chat(id: str, *answers: str) -> Dialogue:
    turns = [t for a in answers for t in (Turn("user", "and then?"), Turn("assistant", a))]
    return Dialogue(id, tuple(turns))


GOOD = chat("good", "we took the early train", "then a boat brought us over", "and home by bus")
BAD = chat("bad", "we took the early train", "we took the early train", "we took the early train")


def test_yaml_baselines_know_which_end_is_good() -> None:
    good, bad = Judge.from_pretrained("configs/judges/repetition.yaml").score([GOOD, BAD])
    assert good.scores["overall"] > bad.scores["overall"]  # type: ignore[operator]
    assert good.scores["repetitive"] < 0.5 < bad.scores["repetitive"]  # type: ignore[operator]
    short, long = Judge.from_pretrained("configs/judges/length.yaml").score(
        [chat("s", "yes"), chat("l", "yes because it rained the whole day and we had no coats")]
    )
    assert short.scores["overall"] < long.scores["overall"]  # type: ignore[operator]


def test_contributions_add_up_to_the_fitted_line() -> None:
    dimensions = [d for d in load_rubric("medal") if d.name in ("repetitive", "overall")]
    examples = [
        TrainingExample(
            d, "s", {"repetitive": float(d is BAD), "overall": 0.1 if d is BAD else 0.9}
        )
        for d in (GOOD, BAD) * 5
    ]
    config = FeatureConfig(features=("said_before_3", "log_words"))
    judge = FeatureJudge.fit(config, examples, dimensions)
    (found,) = judge.score([BAD])
    told = found.contributions["overall"]
    assert found.details == {"overall": {"raw": pytest.approx(told.value, abs=1e-9)}}
    wanted = 1 + 4 * on_scale((told.value - 1) / 4)
    assert found.scores["overall"] == pytest.approx(wanted, abs=1e-9)
    # Ridge answers the mean rating at the mean features, and that is the baseline.
    assert told.unit == "score" and told.baseline == pytest.approx(1 + 4 * 0.5, abs=1e-6)
    assert told.value < told.baseline and not told.turns[0]  # a user turn
    issue = found.contributions["repetitive"]
    assert issue.unit == "logit" and found.scores["repetitive"] > 0.5  # type: ignore[operator]
    chance = 1 / (1 + math.exp(-issue.value))
    assert found.scores["repetitive"] == pytest.approx(chance, abs=1e-9)


@pytest.mark.parametrize("name", ["length", "repetition"])
def test_contributions_of_a_baseline_in_yaml_start_at_the_middle(name: str) -> None:
    judge = Judge.from_pretrained(f"configs/judges/{name}.yaml")
    for found in judge.score([GOOD, BAD]):
        for dimension, told in found.contributions.items():
            assert told.unit == "logit" and told.baseline == pytest.approx(0, abs=1e-9)
            unit = 1 / (1 + math.exp(-told.value))
            score = found.scores[dimension]
            assert score == pytest.approx(judge.dimension(dimension).from_unit(unit), abs=1e-6)


def test_saved_and_loaded(tmp_path: Path) -> None:
    judge = Judge.from_pretrained("configs/judges/repetition.yaml")
    loaded = Judge.from_pretrained(judge.save_pretrained(tmp_path / "judge"))
    for one, other in zip(loaded.score([GOOD, BAD]), judge.score([GOOD, BAD]), strict=True):
        assert one.scores == pytest.approx(other.scores, abs=1e-9)
        for name, account in one.contributions.items():
            assert account.turns == pytest.approx(other.contributions[name].turns, abs=1e-9)


def test_one_class_only_is_refused() -> None:
    dimensions = [d for d in load_rubric("medal") if d.name == "unsafe"]
    examples = [TrainingExample(GOOD, "s", {"unsafe": 0.0})]
    with pytest.raises(ConfigError, match="all training labels"):
        FeatureJudge.fit(FeatureConfig(features=("log_words",)), examples, dimensions)
