"""LoRA judges on a tiny Llama: what is saved, what comes back, what they learn from."""

import json
from pathlib import Path

import pytest
import torch

from medal_judges.models.base.judge import Judge
from medal_judges.models.lora.adapters import LoraConfig
from medal_judges.models.lora.generative import GenerativeLoraJudge
from medal_judges.models.lora.judge import LoraJudge
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import load_rubric
from medal_judges.training.arguments import training_arguments
from medal_judges.training.families.lora import AnswerTrainer, answer_dataset
from medal_judges.training.rows import TrainingExample

from ..fresh import run_fresh
from ..talks import talk

DIMENSIONS = [d for d in load_rubric("medal") if d.name in ("overall", "repetitive")]


DIALOGUES = [
    talk(*(f"line {n} {i} about the river" for i in range(2 + n)), id=str(n))
    for n in range(6)
]


def scoring(base: Path, **settings: object) -> LoraJudge:
    torch.manual_seed(0)
    config = LoraConfig(**({"base": str(base), "peft": {"r": 4}} | settings))
    judge = LoraJudge.create(config, DIMENSIONS, name="x")
    with torch.no_grad():  # as after training: adapters that change something
        for name, parameter in judge.net.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.3)
    return judge


def generative(base: Path, **settings: object) -> GenerativeLoraJudge:
    torch.manual_seed(0)
    config = LoraConfig(base=str(base), peft={"r": 4}, head="generative", **settings)  # type: ignore[arg-type]
    return GenerativeLoraJudge.create(config, DIMENSIONS, name="x", rubric="medal")


def scores(
    judge: Judge, rows: list[Dialogue], **options: object
) -> dict[str, dict[str, float]]:
    return {j.id: dict(j.scores) for j in judge.score(rows, **options)}  # type: ignore[arg-type, misc]


def assert_same(
    a: dict[str, dict[str, float]],
    b: dict[str, dict[str, float]],
    tolerance: float = 1e-5,
) -> None:
    assert a.keys() == b.keys()
    for id, row in a.items():
        assert row == pytest.approx(b[id], abs=tolerance)


def test_scores_do_not_depend_on_batch_or_order(tiny_llama: Path) -> None:
    judge = scoring(tiny_llama)
    judge.token_budget = 1
    alone = scores(judge, DIALOGUES)
    judge.token_budget = 100_000
    assert_same(alone, scores(judge, DIALOGUES[::-1]))
    assert len({row["overall"] for row in alone.values()}) == len(DIALOGUES)


AUTO = """
import json, sys
import torch
from peft import AutoPeftModelForCausalLM, AutoPeftModelForSequenceClassification
from transformers import AutoTokenizer
folder, text, labels = sys.argv[1], sys.argv[2], int(sys.argv[3])
tokenizer = AutoTokenizer.from_pretrained(folder)
ids = tokenizer(text, add_special_tokens=False, return_tensors="pt").input_ids
if labels:
    model = AutoPeftModelForSequenceClassification.from_pretrained(folder, num_labels=labels)
    model.config.pad_token_id = tokenizer.pad_token_id
else:
    model = AutoPeftModelForCausalLM.from_pretrained(folder)
with torch.no_grad():
    logits = model(input_ids=ids).logits
print(json.dumps({"ids": ids[0].tolist(), "logits": logits[0].flatten()[-300:].tolist()}))
"""


def automatically(folder: Path, text: str, labels: int) -> dict[str, list[float]]:
    """Ids and logits of ``text`` by PEFT in a process without medal_judges."""
    done = run_fresh(AUTO, folder, text, labels, folder=folder)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_peft_loads_a_scoring_judge_and_gives_its_raw_scores(
    tiny_llama: Path, tmp_path: Path
) -> None:
    judge = scoring(tiny_llama)
    folder = judge.save_pretrained(tmp_path / "judge")
    (rendered,) = judge.render(DIALOGUES[:1])
    found = automatically(folder, rendered.text, labels=2)
    assert found["ids"] == rendered.ids
    (judgement,) = judge.score(DIALOGUES[:1])
    named = dict(zip([d.name for d in judge.dimensions], found["logits"], strict=True))
    # The card says so: the middle of the scale, and the logit in units of its width.
    assert 3 + 4 * named["overall"] == pytest.approx(
        judgement.details["overall"]["raw"], abs=4e-5
    )
    chance = torch.tensor(named["repetitive"]).sigmoid().item()
    assert chance == pytest.approx(judgement.scores["repetitive"], abs=1e-5)


def test_peft_loads_a_generative_judge_and_gives_its_logits(
    tiny_llama: Path, tmp_path: Path
) -> None:
    judge = generative(tiny_llama, layout="each")
    with torch.no_grad():
        for name, parameter in judge.net.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.3)
    folder = judge.save_pretrained(tmp_path / "judge", golden=False)
    found = automatically(folder, "Rate this.", labels=0)
    with torch.no_grad():
        ours = (
            judge.net(input_ids=torch.tensor([found["ids"]])).logits[0].flatten()[-300:]
        )
    assert found["logits"] == pytest.approx(ours.tolist(), abs=1e-4)


def test_weights_of_training_are_those_of_adapters_and_head(tiny_llama: Path) -> None:
    """DeepSpeed gathers the base too, as rounded as training had it; the saved judge reads the
    base from its own files, and has to score as it."""
    judge = scoring(tiny_llama)
    exact = {name: value.clone() for name, value in judge.net.state_dict().items()}
    rounded = {name: value.to(torch.bfloat16) for name, value in exact.items()}
    again = judge.network_with_weights(rounded).state_dict()
    assert again.keys() == exact.keys()
    learned = [name for name in exact if "lora_" in name or "modules_to_save" in name]
    for name, value in exact.items():
        # PEFT's copy of the head as it was, which nothing reads
        if "original_module" in name:
            continue
        expected = rounded[name].float() if name in learned else value
        assert torch.allclose(again[name], expected, atol=1e-7), name
    assert any(not torch.allclose(rounded[name].float(), exact[name]) for name in exact)


@pytest.mark.parametrize("settings", [{}, {"peft": {"r": 4, "use_dora": True}}])
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
    adapter = json.loads((folder / "adapter_config.json").read_text())
    assert adapter["base_model_name_or_path"] == str(tiny_llama.resolve())
    assert adapter["target_modules"] == sorted(adapter["target_modules"])
    assert (folder / "adapter_model.safetensors").stat().st_size < 200_000


def examples() -> list[TrainingExample]:
    targets = [{"overall": n / 5, "repetitive": float(n > 2)} for n in range(6)]
    return [
        TrainingExample(d, "a", dict(t), comments={"overall": f"note {d.id}"})
        for d, t in zip(DIALOGUES, targets, strict=True)
    ]


@pytest.mark.parametrize("layout", ["together", "each"])
def test_the_loss_is_of_the_answers_alone_and_of_each_row_alone(
    tiny_llama: Path, tmp_path: Path, layout: str
) -> None:
    judge = generative(tiny_llama, layout=layout)
    data = answer_dataset(judge, examples())
    count = 6 if layout == "together" else 12
    assert len(data) == count
    args = training_arguments({}, tmp_path, seed=0, validated=False)
    trainer = AnswerTrainer(judge, args, train_dataset=data)
    collate = trainer.collator()

    def loss(rows: list[int], items: int) -> float:
        inputs = collate([data[row] for row in rows])
        labels = inputs.pop("labels")
        with torch.no_grad():
            return float(trainer.judge_loss(judge.net(**inputs), labels, items))

    together = loss(list(range(count)), count)
    assert together == pytest.approx(
        sum(loss([row], count) for row in range(count)), abs=1e-4
    )
    # by hand: the mean cross-entropy of the answer's tokens, and nothing of the prompt
    row = data[0]
    with torch.no_grad():
        logits = judge.net(input_ids=torch.tensor([row["input_ids"]])).logits[0]
    following = torch.tensor(row["input_ids"][row["start"] :])
    wanted = torch.nn.functional.cross_entropy(logits[row["start"] - 1 : -1], following)
    assert loss([0], 1) == pytest.approx(float(wanted), rel=1e-4)
    if layout == "together":
        text = judge.tokenizer.decode(row["input_ids"][row["start"] :])
        value = json.loads(text.removesuffix(judge.tokenizer.eos_token))
        assert value["overall"] == {"label": 1, "comment": "note 0"}
        assert value["repetitive"] == {"label": 0, "comment": ""}


def test_a_saved_generative_judge_comes_back(tiny_llama: Path, tmp_path: Path) -> None:
    judge = generative(tiny_llama, layout="each", answer_tokens=40, comment_chars=4)
    before = scores(judge, DIALOGUES[:2])
    folder = judge.save_pretrained(tmp_path / "judge")
    loaded = Judge.from_pretrained(folder, device="cpu")
    assert_same(before, scores(loaded, DIALOGUES[:2]))
    assert str(loaded.signature()) == str(judge.signature())
    assert all(row["overall"] is not None for row in before.values())
