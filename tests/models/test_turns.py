"""The encoder judge: nothing depends on the batch, nothing is lost, what is saved comes back."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from medal_judges import Dialogue, Judge, Turn
from medal_judges.errors import JudgeLoadError
from medal_judges.models.base.heads import Calibration, Head, HeadConfig, on_scale
from medal_judges.models.turns.config import FeatureGroup, ReplyConfig, TurnsConfig
from medal_judges.models.turns.judge import TurnsJudge
from medal_judges.records.dimension import load_rubric
from medal_judges.training.families.turns import fit_turn_means

from ..conftest import WORDS
from ..talks import talk


def dialogues(count: int = 24) -> list[Dialogue]:
    """Dialogues of 1 to 30 turns of 0 to 40 words, some without an assistant."""
    generator = torch.Generator().manual_seed(0)

    def draw(high: int) -> int:
        return int(torch.randint(0, high, (1,), generator=generator))

    found = []
    for number in range(count):
        texts = (" ".join(WORDS[draw(12)] for _ in range(draw(40))) for _ in range(1 + draw(30)))
        found.append(talk(*texts, id=str(number)))
    return found


def judge(base: Path, **settings: object) -> TurnsJudge:
    """A judge whose heads are random, so that every turn matters."""
    torch.manual_seed(0)
    defaults = {"base": str(base), "max_tokens": 64, "width": 16, "members": 2}
    config = TurnsConfig(**(defaults | settings))  # type: ignore[arg-type]
    made = TurnsJudge.create(config, load_rubric("medal"))
    for name, parameter in made.net.named_parameters():
        if "attention.weight" in name or "value" in name:
            torch.nn.init.normal_(parameter, std=0.3)
    return made


SHAPES = [
    {"shape": "flat", "pooling": "role"},
    {"shape": "flat", "pooling": "attention"},
    {"shape": "hierarchical", "pooling": "role", "net": "linear"},
    {"shape": "hierarchical", "pooling": "attention"},
    {"shape": "hierarchical", "reply": ReplyConfig(positive=("music",), negative=("river",))},
]


def unit_scores(made: TurnsJudge, found: list) -> list[list[float]]:
    return [
        [made.dimension(n).to_unit(s) for n, s in j.scores.items()] if j.failure is None else []
        for j in found
    ]


@pytest.mark.parametrize("settings", SHAPES, ids=str)
def test_scores_do_not_depend_on_batch_window_or_order(tiny_bert: Path, settings: dict) -> None:
    made, given = judge(tiny_bert, **settings), dialogues()
    one = unit_scores(made, list(made.score(given)))
    made.window = 5
    other = unit_scores(made, list(made.score(given[::-1], token_budget=200)))[::-1]
    for a, b in zip(one, other, strict=True):
        assert a == pytest.approx(b, abs=1e-5)
    assert len({round(row[0], 4) for row in one if row}) > 10  # and the scores do differ


@pytest.mark.parametrize("shape", ["flat", "hierarchical"])
def test_modernbert_scores_the_same_in_any_batch_and_comes_back(
    tiny_modernbert: Path, tmp_path: Path, shape: str
) -> None:
    made, given = judge(tiny_modernbert, shape=shape, max_tokens=512), dialogues(12)
    one = unit_scores(made, list(made.score(given)))
    loaded = Judge.from_pretrained(made.save_pretrained(tmp_path / "judge"), device="cpu")
    loaded.window = 5
    other = unit_scores(loaded, list(loaded.score(given[::-1], token_budget=300)))[::-1]
    for a, b in zip(one, other, strict=True):
        assert a == pytest.approx(b, abs=1e-5)


@pytest.mark.parametrize("settings", SHAPES, ids=str)
def test_a_saved_judge_comes_back_the_same(tiny_bert: Path, tmp_path: Path, settings: dict) -> None:
    made, given = judge(tiny_bert, **settings), dialogues(8)
    before = unit_scores(made, list(made.score(given)))
    folder = made.save_pretrained(tmp_path / "judge")
    loaded = Judge.from_pretrained(folder, device="cpu")
    after = unit_scores(made, list(loaded.score(given)))
    for scores, wanted in zip(after, before, strict=True):
        assert scores == pytest.approx(wanted, abs=1e-5)
    assert str(loaded.signature()) == str(made.signature())
    assert "/" not in str(loaded.signature()).replace(str(tiny_bert), "")


@pytest.mark.parametrize("shape", ["flat", "hierarchical"])
def test_the_token_budget_bounds_what_the_body_reads_at_once(tiny_bert: Path, shape: str) -> None:
    made, sizes = judge(tiny_bert, shape=shape), []
    made.net.body.embeddings.word_embeddings.register_forward_hook(
        lambda layer, given, output: sizes.append(given[0].numel())
    )
    list(made.score(dialogues(), token_budget=150))
    assert len(sizes) > 10 and max(sizes) <= 150
    sizes.clear()
    list(made.score(dialogues()))  # and the judge's own is as it was
    assert max(sizes) > 150


def test_each_level_judges_what_it_says(tiny_bert: Path) -> None:
    made, given = judge(tiny_bert), dialogues(6)
    by_turn = list(made.score(given, level="turn"))
    wanted = [(d.id, t) for d in given for t in (d.assistant_turns or (None,))]
    assert [(j.id, j.turn) for j in by_turn] == wanted
    cut = [d.upto(t) for d in given for t in d.assistant_turns]
    whole = [j for j in made.score(cut) if j.failure is None]
    for a, b in zip([j for j in by_turn if j.failure is None], whole, strict=True):
        assert list(a.scores.values()) == pytest.approx(list(b.scores.values()), abs=1e-4)
    last = list(made.score(given, level="last"))
    assert [j.turn for j in last] == [
        d.assistant_turns[-1] if d.assistant_turns else None for d in given
    ]


def test_a_dialogue_without_an_assistant_is_unscored_with_its_reason(tiny_bert: Path) -> None:
    made = judge(tiny_bert)
    (found,) = made.score([Dialogue("x", (Turn("user", "music"),))])
    assert found.failure == "no assistant turn to judge"
    assert set(found.scores.values()) == {None}


def test_sixty_turns_are_read_whole_where_one_window_cannot(tiny_bert: Path) -> None:
    long = [talk(*["music film garden " * 4] * 60)]
    (hierarchical,) = judge(tiny_bert).score(long)
    (flat,) = judge(tiny_bert, shape="flat").score(long)
    assert hierarchical.truncated_turns == 0
    assert flat.truncated_turns > 50
    for found in (hierarchical, flat):
        assert len(found.contributions["overall"].turns) == 60
    assert not any(flat.contributions["overall"].turns[: flat.truncated_turns])


HEADS = {"lacks_empathy": "classification", "incoherent": "ordinal", "repetitive": "regression"}


@pytest.mark.parametrize("settings", SHAPES, ids=str)
def test_contributions_add_up_to_the_score_around_the_average_turn(
    tiny_bert: Path, tmp_path: Path, settings: dict
) -> None:
    rubric = [d for d in load_rubric("medal") if d.name in ("overall", "unsafe", *HEADS)]
    heads = {name: HeadConfig(kind=kind) for name, kind in HEADS.items()}  # type: ignore[arg-type]
    config = TurnsConfig(
        base=str(tiny_bert), max_tokens=64, width=16, members=2, heads=heads, **settings
    )
    torch.manual_seed(0)
    made = TurnsJudge.create(config, rubric)
    for name, parameter in made.net.named_parameters():
        if "attention.weight" in name or "value" in name:
            torch.nn.init.normal_(parameter, std=0.3)
    made.calibration = {"unsafe": Calibration(temperature=1.7)}
    given = [d for d in dialogues() if d.assistant_turns]
    fit_turn_means(made, given)
    loaded = Judge.from_pretrained(made.save_pretrained(tmp_path / "judge"), device="cpu")
    moved: dict[str, list[float]] = {d.name: [] for d in rubric}
    for found, dialogue in zip(loaded.score(given), given, strict=True):
        units = {name: told.unit for name, told in found.contributions.items()}
        assert units["overall"] == units["repetitive"] == "score" and units["unsafe"] == "logit"
        assert units["incoherent"] == "mean logit"
        assert units["lacks_empathy"] == "logit per level"
        for name, told in found.contributions.items():
            assert len(told.turns) == len(dialogue.turns)
            moved[name].append(told.value - told.baseline)
        overall = found.contributions["overall"]
        assert found.details["overall"]["raw"] == pytest.approx(overall.value, abs=1e-9)
        mapped = 1 + 4 * on_scale((overall.value - 1) / 4)
        assert found.scores["overall"] == pytest.approx(mapped, abs=1e-9)
        unsafe = 1 / (1 + math.exp(-found.contributions["unsafe"].value))
        assert found.scores["unsafe"] == pytest.approx(unsafe, abs=1e-5)
        for name in ("incoherent", "lacks_empathy"):  # two levels: one step, one slope
            unit = 1 / (1 + math.exp(-found.contributions[name].value))
            assert found.scores[name] == pytest.approx(unit, abs=1e-5)
    for moves in moved.values():  # as many dialogues above the baseline as below it, about
        assert abs(np.mean(moves)) < 0.35 * np.std(moves)
        assert min(moves) < 0 < max(moves)


def test_a_fitted_map_names_its_unit(tiny_bert: Path) -> None:
    made = judge(tiny_bert)
    knots = ((0.0, 1.0), (0.3, 0.6))
    made.calibration = {n: Calibration(isotonic=knots) for n in ("overall", "unsafe")}
    (found,) = made.score(dialogues()[5:6])
    overall, unsafe = found.contributions["overall"], found.contributions["unsafe"]
    assert (overall.unit, unsafe.unit) == ("uncalibrated score", "uncalibrated logit")
    place = on_scale((overall.value - 1) / 4)  # of which a hundredth keeps the order
    unit = 0.99 * (0.3 + 0.3 * place) + 0.01 * place
    assert found.scores["overall"] == pytest.approx(1 + 4 * unit, abs=1e-5)
    place = 1 / (1 + math.exp(-unsafe.value))
    unit = 0.99 * (0.3 + 0.3 * place) + 0.01 * place
    assert found.scores["unsafe"] == pytest.approx(unit, abs=1e-5)


def test_a_classification_head_is_told_by_its_slope_over_the_levels() -> None:
    head = Head(load_rubric("medal")[-1], HeadConfig(kind="classification"), 4, attention=False)
    assert head.dimension.name == "overall"
    logits = torch.tensor([[0.1, -0.4, 0.9, 0.3, 1.2]])
    slope = np.polyfit(range(5), logits[0].numpy(), 1)[0]
    assert head.linear(logits).item() == pytest.approx(slope, abs=1e-6)
    assert head.linear(logits + 7).item() == pytest.approx(slope, abs=1e-5)  # the same softmax


def test_a_turn_longer_than_the_window_is_read_in_pieces(tiny_bert: Path) -> None:
    made = judge(tiny_bert, max_tokens=16)
    text = " ".join(WORDS * 5)
    pieces = made.turns.pieces([text])[0]
    start, end = len(made.turns.prefix), len(made.turns.suffix)
    inner = [i for piece in pieces for i in piece[start : len(piece) - end]]
    assert inner == made.tokenizer(text, add_special_tokens=False)["input_ids"]
    assert len(pieces) > 3 and max(map(len, pieces)) <= 16


def test_weights_that_do_not_fit_are_refused(tiny_bert: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = judge(tiny_bert).save_pretrained(tmp_path / "judge")
    weights = load_file(folder / "model.safetensors")
    name = "nets.0.heads.overall.bias"
    save_file({k: v for k, v in weights.items() if k != name}, folder / "model.safetensors")
    with pytest.raises(JudgeLoadError, match=r"heads\.overall\.bias"):
        Judge.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(JudgeLoadError, match=r"the files have 0 bytes"):
        Judge.from_pretrained(folder)


def test_feature_groups_are_averaged_by_their_shares(tiny_bert: Path) -> None:
    groups = (FeatureGroup(name="a", weight=1.0), FeatureGroup(name="b", weight=3.0))
    made = judge(tiny_bert, net="linear", pooling="role", feature_groups=groups)
    answers = [{"overall": torch.tensor([[1.0]])}, {"overall": torch.tensor([[5.0]])}]
    assert made.net.combine(answers, "overall").item() == pytest.approx(4.0)
    made.net.shares[1] = 0  # a feature group that saw no label of a dimension has no say in it
    assert made.net.combine(answers, "overall").item() == pytest.approx(1.0)
