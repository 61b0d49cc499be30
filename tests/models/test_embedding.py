"""Embedding judges: scikit-learn's answers from plain arrays, a folder that comes back the same."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medal_judges.errors import ConfigError, JudgeLoadError
from medal_judges.models.base.heads import Calibration, on_scale
from medal_judges.models.base.judge import Judge
from medal_judges.models.embedding.judge import (
    EmbeddingConfig,
    EmbeddingJudge,
    FittedNet,
    SentenceEncoder,
    on_levels,
)
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.dimension import Dimension

from ..conftest import WORDS

DIMENSIONS = (
    Dimension("overall", "ordinal", 1, 5),
    Dimension("fun", "continuous", 0, 1),
    Dimension("repetitive", "binary", 0, 1, good="low"),
)


def dialogues(count: int = 6) -> list[Dialogue]:
    rng = np.random.default_rng(1)
    found = []
    for number in range(count):
        said = [" ".join(rng.choice(WORDS, rng.integers(1, 9))) for _ in range(3 + number)]
        turns = [Turn(("user", "assistant")[i % 2], t) for i, t in enumerate(said)]  # type: ignore[arg-type]
        found.append(Dialogue(str(number), tuple(turns)))
    return found


@pytest.fixture(scope="module")
def encoder(tiny_bert: Path) -> SentenceEncoder:
    return SentenceEncoder.create(str(tiny_bert), None)


def random_net(head: Any, width: int, outputs: int, **more: Any) -> FittedNet:
    rng = np.random.default_rng(2)
    shapes = [(width, 4), (4, outputs)] if head != "ridge" else [(width, outputs)]
    layers = tuple((rng.normal(size=s) * 0.02, rng.normal(size=s[1]) * 0.1) for s in shapes)
    scale = rng.uniform(0.5, 1.5, width)
    return FittedNet(head, rng.normal(size=width) * 0.1, scale, layers, **more)


def judge_of(encoder: SentenceEncoder, **settings: Any) -> EmbeddingJudge:
    config = EmbeddingConfig(features=("log_words", "last_own", "question"), **settings)
    blank = EmbeddingJudge(config, encoder, DIMENSIONS, {})
    width = len(blank.is_feature)
    ridge = random_net("ridge", width, 1)
    ridge = FittedNet("ridge", ridge.mean, ridge.scale, ((ridge.layers[0][0], np.array([0.5])),))
    nets = {
        "overall": ridge,
        "fun": random_net("mlp_regressor", width, 1, top=4),
        "repetitive": random_net("mlp_classifier", width, 1, top=1, classes=(0, 1)),
    }
    calibration = {"overall": Calibration(spread=0.2, rows=30)}
    search = [{"stage": "ridge", "dimension": "overall", "value": 0.5}]
    return EmbeddingJudge(config, encoder, DIMENSIONS, nets, calibration=calibration, search=search)


def scores(judge: Judge) -> np.ndarray:
    return np.array([list(j.scores.values()) for j in judge.score(dialogues())], dtype=float)


@pytest.mark.parametrize("reading", ["turns", "dialogue"])
def test_a_folder_comes_back_the_same(encoder: SentenceEncoder, tmp_path: Path, reading: str):
    judge = judge_of(encoder, reading=reading)
    folder = judge.save_pretrained(tmp_path / "judge")
    back = Judge.from_pretrained(folder)
    assert isinstance(back, EmbeddingJudge)
    assert np.abs(scores(back) - scores(judge)).max() < 1e-5
    assert str(back.signature()) == str(judge.signature())
    assert back.calibration == judge.calibration
    assert (folder / "grid.csv").read_text().splitlines()[0] == "stage,dimension,value"
    names = {p.suffix for p in folder.rglob("*") if p.is_file()}
    assert names <= {".json", ".safetensors", ".csv", ".txt"}
    assert str(tmp_path.parent) not in "".join(p.read_text() for p in folder.rglob("*.json"))


def test_the_revision_follows_the_weights(encoder: SentenceEncoder, tmp_path: Path) -> None:
    judge = judge_of(encoder)
    judge.save_pretrained(tmp_path / "a")
    first = judge.signature().revision
    judge.nets["overall"].layers[0][1][:] = 0.6
    judge.save_pretrained(tmp_path / "b")
    assert judge.signature().revision != first


def test_scores_do_not_depend_on_the_batch(encoder: SentenceEncoder) -> None:
    judge = judge_of(encoder)
    alone = [list(j.scores.values()) for d in dialogues() for j in judge.score([d])]
    assert np.abs(np.array(alone, dtype=float) - scores(judge)).max() < 1e-5
    small = [list(j.scores.values()) for j in judge.score(dialogues(), token_budget=8)]
    assert np.abs(np.array(small, dtype=float) - scores(judge)).max() < 1e-5


def test_a_ridge_s_turns_add_up_to_its_score(encoder: SentenceEncoder) -> None:
    judge = judge_of(encoder)
    bias = float(judge.nets["overall"].layers[0][1][0])
    for judgement, dialogue in zip(judge.score(dialogues()), dialogues(), strict=True):
        told = judgement.contributions["overall"]
        assert len(told.turns) == len(dialogue.turns) and "fun" not in judgement.contributions
        value = judgement.scores["overall"]
        assert value is not None and 1 < value < 5
        assert told.unit == "score"
        assert told.value == pytest.approx(judgement.details["overall"]["raw"], abs=1e-9)
        assert value == pytest.approx(1 + 4 * on_scale((told.value - 1) / 4), abs=1e-9)
        if {turn.role for turn in dialogue.turns} == {"user", "assistant"}:
            # The score of the mean training dialogue, on every row.
            assert told.baseline == pytest.approx(1 + 4 * bias, abs=1e-6)
    whole = next(iter(judge_of(encoder, reading="dialogue").score(dialogues())))
    assert not whole.contributions


@pytest.fixture(scope="module")
def llama(tiny_llama: Path) -> SentenceEncoder:
    return SentenceEncoder.create(str(tiny_llama), None, depth=1)


def raws(judge: Judge, given: list[Dialogue], level: Any = "dialogue") -> list[float]:
    return [j.details["overall"]["raw"] for j in judge.score(given, level=level)]


@pytest.mark.parametrize("next_turn", [True, False])
@pytest.mark.parametrize("name", ["llama", "encoder"])
def test_answers_are_read_in_the_conversation(
    name: str, next_turn: bool, request: pytest.FixtureRequest
) -> None:
    judge = judge_of(request.getfixturevalue(name), reading="answers", next_turn=next_turn)
    talks = [talk for talk in dialogues() if talk.assistant_turns]
    alone = [
        raw
        for talk in talks
        for end in talk.assistant_turns
        for raw in raws(judge, [replace(talk, turns=talk.turns[: end + 1])])
    ]
    assert raws(judge, talks, "turn") == pytest.approx(alone, abs=1e-5)
    # An earlier turn matters, and what comes after an answer does not, if the model is causal.
    turns = talks[-1].turns
    asked = replace(turns[-2 - (turns[-1].role == "user")], content="bread garden river")
    other = replace(talks[-1], turns=(*turns[:-3], asked, *turns[-2:]))
    assert raws(judge, [other]) != pytest.approx(raws(judge, [talks[-1]]), abs=1e-4)
    wide = judge_of(judge.encoder, reading="answers", next_turn=next_turn, answers=2, decay=0.5)
    if judge.encoder.causal:
        (whole,), parts = raws(wide, talks[-1:]), raws(judge, talks[-1:], "turn")[-2:]
        assert whole == pytest.approx((parts[0] * 0.5 + parts[1]) / 1.5, abs=1e-5)
    (found,) = wide.score(talks[-1:])
    told = found.contributions["overall"]
    assert told.value == pytest.approx(found.details["overall"]["raw"], abs=1e-9)
    assert {i for i, value in enumerate(told.turns) if value} == set(talks[-1].assistant_turns[-2:])


def test_a_conversation_has_an_issue_if_one_answer_has_it(llama: SentenceEncoder) -> None:
    judge = judge_of(llama, reading="answers", each_answer=True)
    talk = dialogues()[-1]
    (whole,), each = judge.score([talk]), list(judge.score([talk], level="turn"))
    chances = [one.scores["repetitive"] for one in each]
    assert (
        whole.scores["repetitive"] == pytest.approx(max(chances), abs=1e-5)
        and len(set(chances)) > 2
    )
    assert raws(judge, [talk]) == pytest.approx([np.mean(raws(judge, [talk], "turn"))], abs=1e-5)


def test_the_oldest_turns_beyond_the_window_are_dropped(llama: SentenceEncoder) -> None:
    judge = judge_of(llama, reading="answers", max_tokens=60)
    long = Dialogue("x", tuple(Turn(("user", "assistant")[i % 2], "film " * 4) for i in range(40)))  # type: ignore[arg-type]
    (cut,) = judge.score([long])
    assert cut.truncated_turns == 39  # 21 bytes a turn and 12 a mark
    answer, huge = Turn("assistant", "film " * 400), Turn("user", "river " * 400)
    asked = Dialogue("y", (Turn("user", "music"), answer))
    talks = [asked, replace(asked, turns=(*asked.turns, huge)), long]
    first, second, _ = raws(judge, talks)
    assert first == pytest.approx(second, abs=1e-5)  # what follows the answer is not read


def test_an_encoder_that_is_not_saved_must_be_the_same(
    llama: SentenceEncoder, tiny_llama: Path, tmp_path: Path
) -> None:
    base = shutil.copytree(tiny_llama, tmp_path / "base")
    settings = {"base": str(base), "depth": 1, "reading": "answers"}
    judge = judge_of(llama, **settings)
    whole = Judge.from_pretrained(judge.save_pretrained(tmp_path / "whole"))
    assert scores(whole)[1:] == pytest.approx(scores(judge)[1:], abs=1e-5)
    judge = judge_of(llama, **settings, save_encoder=False)
    folder = judge.save_pretrained(tmp_path / "judge")
    assert not (folder / "encoder").exists()
    back = Judge.from_pretrained(folder)
    assert scores(back)[1:] == pytest.approx(scores(judge)[1:], abs=1e-5)
    config = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(json.dumps(config | {"rms_norm_eps": 0.1}))
    with pytest.raises(ConfigError, match=r"depth 9: .* has 2 layers"):
        SentenceEncoder.create(str(base), None, depth=9)
    with pytest.raises(JudgeLoadError, match="was trained on other weights"):
        Judge.from_pretrained(folder)


def test_a_binary_score_is_moved_to_its_threshold(llama: SentenceEncoder) -> None:
    judge = judge_of(llama, reading="answers")
    line, lower = ((0.0, 1.0), (0.0, 1.0)), ((0.0, 1.0), (0.0, 0.5))
    plain = [one.scores["repetitive"] for one in judge.score(dialogues())]
    judge.calibration["repetitive"] = Calibration(
        isotonic=line, threshold=0.2, others=(line, lower)
    )
    for before, one in zip(plain, judge.score(dialogues()), strict=True):
        chance = one.distributions["repetitive"][1]
        assert chance == pytest.approx(before, abs=1e-5)
        wanted = chance / 0.4 if chance < 0.2 else 0.5 + (chance - 0.2) / 1.6
        assert one.scores["repetitive"] == pytest.approx(wanted, abs=1e-9)
        low, high = one.details["repetitive"]["interval"]
        lower = 0.505 * chance
        least = lower / 0.4 if lower < 0.2 else 0.5 + (lower - 0.2) / 1.6
        assert (low, high) == pytest.approx((least, one.scores["repetitive"]), abs=1e-9)


def test_distributions_are_of_the_levels(encoder: SentenceEncoder) -> None:
    judgement = next(iter(judge_of(encoder).score(dialogues())))
    assert set(judgement.distributions) == {"overall", "repetitive"}
    assert len(judgement.distributions["overall"]) == 5
    for chances in judgement.distributions.values():
        assert sum(chances) == pytest.approx(1, abs=1e-6)
    chance = judgement.distributions["repetitive"][1]
    assert judgement.scores["repetitive"] == pytest.approx(chance, abs=1e-9)


@pytest.mark.parametrize("classes", [2, 3, 5, 9, 11])
def test_classes_go_to_levels_with_their_mean(classes: int) -> None:
    p = np.random.default_rng(0).dirichlet(np.ones(classes), size=4)
    found = on_levels(p, 5)
    assert found.sum(axis=1) == pytest.approx(1)
    wanted = p @ np.linspace(0, 1, classes)
    assert found @ np.linspace(0, 1, 5) == pytest.approx(wanted)


def test_nothing_of_a_long_text_is_cut_off(tiny_bert: Path) -> None:
    encoder = SentenceEncoder.create(str(tiny_bert), None)
    encoder.model.max_seq_length = 6  # four tokens between the marks
    long = "music film garden train bread river"
    whole, first, second = encoder.embed([long, "music film garden train", "bread river"], 64)
    assert whole == pytest.approx((4 * first + 2 * second) / 6, abs=1e-5)
    assert encoder.embed([], 64).shape == (0, 32) and encoder.lengths([long, ""]) == [6, 0]


def test_a_folder_that_is_not_whole_says_so(encoder: SentenceEncoder, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    folder = judge_of(encoder).save_pretrained(tmp_path / "judge")
    weights = load_file(folder / "model.safetensors")
    save_file(weights | {"other.0.bias": np.zeros(1)}, folder / "model.safetensors")
    with pytest.raises(JudgeLoadError, match=r"unexpected other\.0\.bias"):
        Judge.from_pretrained(folder)
    save_file({k: v for k, v in weights.items() if k != "fun.0.bias"}, folder / "model.safetensors")
    with pytest.raises(JudgeLoadError, match=r"fun\.0\.bias"):
        Judge.from_pretrained(folder)
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(JudgeLoadError, match="fp32"):
        Judge.from_pretrained(folder, dtype="bf16")
    config = json.loads((folder / "judge.json").read_text())
    config["nets"]["fun"]["layers"] = 1
    (folder / "judge.json").write_text(json.dumps(config))
    with pytest.raises(JudgeLoadError, match="unexpected"):
        Judge.from_pretrained(folder)


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(JudgeLoadError, match="cannot load the sentence encoder"):
        SentenceEncoder.create(str(tmp_path), None)


@pytest.mark.parametrize("layers", [1, 3])
def test_a_network_of_another_depth_than_its_weights_is_refused(
    encoder: SentenceEncoder, tmp_path: Path, layers: int
) -> None:
    """Layers that the file lacks would be drawn at random, those beyond be left out."""
    folder = judge_of(encoder).save_pretrained(tmp_path / "judge")
    path = folder / "encoder" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"num_hidden_layers": layers}))
    with pytest.raises(JudgeLoadError, match="do not fit"):
        Judge.from_pretrained(folder)
