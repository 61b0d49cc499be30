"""LoRA judges on a tiny Llama: what is saved, what comes back, what they learn from."""

import json
from pathlib import Path

import pytest
import torch

from medal_judges.config import build_config
from medal_judges.errors import ConfigError, JudgeLoadError
from medal_judges.models.base.judge import Judge
from medal_judges.models.lora.adapters import LoraConfig
from medal_judges.models.lora.generative import GenerativeLoraJudge
from medal_judges.models.lora.judge import HEADS_NAME, LoraJudge
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import load_rubric
from medal_judges.training.config import TrainConfig
from medal_judges.training.families.steps_lora import SFTDataset, SFTObjective, answer_losses
from medal_judges.training.loop.body import narrow_base, reset_body
from medal_judges.training.rows import TrainingExample

from ..talks import talk

RUN = {"name": "x", "output_dir": "x", "rubric": "medal", "train": (), "stop": {"keep": "last"}}
DIMENSIONS = [d for d in load_rubric("medal") if d.name in ("overall", "repetitive")]


DIALOGUES = [
    talk(*(f"line {n} {i} about the river" for i in range(2 + n)), id=str(n)) for n in range(6)
]


def scoring(base: Path, **settings: object) -> LoraJudge:
    torch.manual_seed(0)
    config = LoraConfig(base=str(base), rank=4, **settings)  # type: ignore[arg-type]
    judge = LoraJudge.create(config, DIMENSIONS, name="x")
    with torch.no_grad():  # as after training: adapters that change something
        for name, parameter in judge.net.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.3)
    return judge


def generative(base: Path, **settings: object) -> GenerativeLoraJudge:
    torch.manual_seed(0)
    config = LoraConfig(base=str(base), rank=4, head="generative", **settings)  # type: ignore[arg-type]
    return GenerativeLoraJudge.create(config, DIMENSIONS, name="x", rubric="medal")


def scores(judge: Judge, rows: list[Dialogue], **options: object) -> dict[str, dict[str, float]]:
    return {j.id: dict(j.scores) for j in judge.score(rows, **options)}  # type: ignore[arg-type, misc]


def assert_same(
    a: dict[str, dict[str, float]], b: dict[str, dict[str, float]], tolerance: float = 1e-5
) -> None:
    assert a.keys() == b.keys()
    for id, row in a.items():
        assert row == pytest.approx(b[id], abs=tolerance)


def test_fresh_adapters_change_nothing(tiny_llama: Path) -> None:
    torch.manual_seed(0)
    judge = LoraJudge.create(LoraConfig(base=str(tiny_llama)), DIMENSIONS)
    ids = torch.tensor([judge.encode(DIALOGUES[3]).ids])
    with torch.no_grad():
        ours = judge.net.last_vectors(ids, torch.ones_like(ids))
        with judge.net.body.disable_adapter():
            bare = judge.net.last_vectors(ids, torch.ones_like(ids))
    torch.testing.assert_close(ours, bare, rtol=0, atol=1e-5)
    trained = scoring(tiny_llama)
    with torch.no_grad():
        changed = trained.net.last_vectors(ids, torch.ones_like(ids))
    assert float((changed - bare).abs().max()) > 1e-2


def test_scores_do_not_depend_on_batch_order_or_padding_side(tiny_llama: Path) -> None:
    judge = scoring(tiny_llama)
    alone = scores(judge, DIALOGUES, token_budget=1)
    assert_same(alone, scores(judge, DIALOGUES[::-1], token_budget=100_000))
    assert len({row["overall"] for row in alone.values()}) == len(DIALOGUES)
    ids = torch.tensor([judge.encode(DIALOGUES[3]).ids])
    mask = torch.ones_like(ids)
    for before, after in ((0, 7), (7, 0)):  # the last token is found by the mask, on either side
        padded = torch.nn.functional.pad(ids, (before, after), value=judge.pad)
        marked = torch.nn.functional.pad(mask, (before, after), value=0)
        with torch.no_grad():
            wanted = judge.net.last_vectors(ids, mask)
            # rotary positions are relative: padding before shifts them all alike
            assert torch.allclose(judge.net.last_vectors(padded, marked), wanted, atol=1e-5)


def test_dialogues_beyond_the_window_lose_whole_oldest_turns(tiny_llama: Path) -> None:
    judge = scoring(tiny_llama, max_tokens=120)
    long = talk(*(f"line 0 {i} about the river" for i in range(12)), id="0")
    (judgement,) = judge.score([long])
    assert judgement.truncated_turns > 0
    kept = Dialogue("0", long.turns[judgement.truncated_turns :])
    assert_same(scores(judge, [kept]), scores(judge, [long]))


@pytest.mark.parametrize("settings", [{}, {"dora": True}, {"rslora": True}])
def test_a_saved_scoring_judge_comes_back(
    tiny_llama: Path, tmp_path: Path, settings: dict[str, object]
) -> None:
    judge = scoring(tiny_llama, **settings)
    before = scores(judge, DIALOGUES)
    folder = judge.save_pretrained(tmp_path / "judge")
    loaded = Judge.from_pretrained(folder, device="cpu")
    assert_same(before, scores(loaded, DIALOGUES))
    assert str(loaded.signature()) == str(judge.signature())
    assert not list(folder.rglob("*.bin")) and not list(folder.rglob("*.pt"))
    adapter = json.loads((folder / "adapter" / "adapter_config.json").read_text())
    assert adapter["base_model_name_or_path"] == tiny_llama.name  # never a path
    assert sum(p.stat().st_size for p in (folder / "adapter").iterdir()) < 200_000


@pytest.mark.parametrize("file", ["adapter/adapter_model.safetensors", HEADS_NAME])
@pytest.mark.parametrize("fault", ["missing", "unexpected", "gone"])
def test_a_key_that_does_not_fit_is_an_error(
    tiny_llama: Path, tmp_path: Path, file: str, fault: str
) -> None:
    from safetensors.torch import load_file, save_file

    folder = scoring(tiny_llama).save_pretrained(tmp_path / "judge")
    state = load_file(folder / file)
    if fault == "missing":
        state.pop(sorted(state)[0])
    else:
        state["another.weight"] = torch.zeros(1)
    save_file(state, folder / file)
    if fault == "gone":
        (folder / file).unlink()
    with pytest.raises(JudgeLoadError) as caught:
        Judge.from_pretrained(folder, device="cpu")
    named = {"missing": "missing ", "unexpected": "unexpected another.weight", "gone": "has no "}
    assert named[fault] in str(caught.value) and Path(file).name in str(caught.value)


def test_settings_that_cannot_be_are_refused() -> None:
    for settings, told in (
        ({"head": "generative", "heads": {"overall": {}}}, "heads are for head: scoring"),
    ):
        with pytest.raises(ConfigError, match=told):
            build_config(LoraConfig, settings, where="model")


def examples() -> list[TrainingExample]:
    targets = [{"overall": n / 5, "repetitive": float(n > 2)} for n in range(6)]
    return [
        TrainingExample(d, "a", dict(t), comments={"overall": f"note {d.id}"})
        for d, t in zip(DIALOGUES, targets, strict=True)
    ]


@pytest.mark.parametrize("layout", ["together", "each"])
def test_the_loss_is_of_the_answers_alone_and_of_each_row_alone(tiny_llama: Path, layout: str):
    judge = generative(tiny_llama, layout=layout)
    data = SFTDataset(judge, examples())
    assert [len(pairs) for pairs in data.pairs] == [1 if layout == "together" else 2] * 6
    with torch.no_grad():
        together, owner = answer_losses(judge.net, data.inputs(range(6)))
        apart = [answer_losses(judge.net, data.inputs([row]))[0] for row in range(6)]
    for row in range(6):
        assert together[owner == row].tolist() == pytest.approx(apart[row].tolist(), abs=1e-5)
    # the answer's tokens, and nothing of the prompt, are what is predicted
    inputs = data.inputs([0])
    text = judge.tokenizer.decode(inputs["ids"][inputs["owner"] == 0])
    if layout == "together":
        value = json.loads(text.removesuffix(judge.tokenizer.eos_token))
        assert value["overall"] == {"label": 1, "comment": "note 0"}
        assert value["repetitive"] == {"label": 0, "comment": ""}


def test_an_incomplete_label_asks_for_another_layout(tiny_llama: Path) -> None:
    rows = [TrainingExample(DIALOGUES[0], "a", {"overall": 0.5})]
    with pytest.raises(ConfigError, match="has no label of repetitive") as caught:
        SFTDataset(generative(tiny_llama, layout="together"), rows)
    assert "layout: each" in str(caught.value.hint)
    assert len(SFTDataset(generative(tiny_llama, layout="each"), rows).pairs[0]) == 1


def test_a_saved_generative_judge_comes_back(tiny_llama: Path, tmp_path: Path) -> None:
    judge = generative(tiny_llama, layout="each", answer_tokens=40, comment_chars=4)
    before = scores(judge, DIALOGUES[:2])
    folder = judge.save_pretrained(tmp_path / "judge")
    loaded = Judge.from_pretrained(folder, device="cpu")
    assert_same(before, scores(loaded, DIALOGUES[:2]))
    assert str(loaded.signature()) == str(judge.signature())
    assert all(row["overall"] is not None for row in before.values())


def test_a_generative_step_on_a_narrow_base_is_the_same_to_the_bit(tiny_llama: Path) -> None:
    judge = generative(tiny_llama, layout="each")
    with torch.no_grad():
        for name, parameter in judge.net.named_parameters():
            if "lora" not in name:  # as a base that was released in bf16
                parameter.copy_(parameter.bfloat16().float())
            elif "lora_B" in name:
                parameter.normal_(std=0.1)
    labels = {"overall": 0.5, "repetitive": 1.0}
    rows = [TrainingExample(DIALOGUES[0], "a", labels, 1.0, {})]
    data, objective = SFTDataset(judge, rows), SFTObjective(judge.net)
    found = []
    for narrow in (False, True):
        if narrow:
            narrow_base(judge.net, torch.bfloat16)
        judge.net.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss, _ = objective(data.inputs([0]), {}, torch.zeros(1), torch.ones(1))
        loss.backward()
        found.append([loss, *(p.grad for p in judge.net.parameters() if p.grad is not None)])
    assert len(found[0]) > 10
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
    assert torch.bfloat16 in {p.dtype for p in judge.net.parameters()}
    reset_body(judge.net, TrainConfig(**RUN, model=judge.lora))  # type: ignore[arg-type]
    assert {p.dtype for p in judge.net.parameters()} == {torch.float32}
