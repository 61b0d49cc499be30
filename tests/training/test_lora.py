"""LoRA judges really train: a tiny Llama learns who speaks of what, and comes back the same."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from medal_judges.config import build_config
from medal_judges.data_prep.sources.registry import load_spec
from medal_judges.errors import ConfigError
from medal_judges.models.base.golden import setting_for, write_golden
from medal_judges.models.base.judge import Judge
from medal_judges.records.dimension import load_rubric
from medal_judges.training.config import TrainConfig
from medal_judges.training.families.steps import copy_start, new_judge, start_loop
from medal_judges.training.rows import load_rows
from medal_judges.training.run import learnable, train_judge

from .test_resume import write_rows


def run_config(folder: Path, base: Path, model: dict[str, Any], **optim: Any) -> TrainConfig:
    settings = {
        "name": "lora",
        "output_dir": str(folder / "judge"),
        "rubric": "medal",
        "model": {"family": "lora", "base": str(base), "rank": 8, "max_tokens": 2000} | model,
        "train": [{"source": write_rows(folder / "train.jsonl", 48, seed=1)}],
        "validation": [{"source": write_rows(folder / "validation.jsonl", 24, seed=2)}],
        "optim": {"epochs": 6, "batch_size": 8, "lr": 0.02, "body_lr": 0.02} | optim,
        "stop": {"metric": "loss"},
        "threads": 1,
    }
    return build_config(TrainConfig, settings, where="test")


def auc(folder: Path, rows: Path) -> float:
    from sklearn.metrics import roc_auc_score

    labelled = list(load_spec(str(rows)))
    judge = Judge.from_pretrained(folder, device="cpu")
    scores = [j.scores["repetitive"] for j in judge.score(r.dialogue for r in labelled)]
    assert None not in scores
    return float(roc_auc_score([r.labels["repetitive"][0] for r in labelled], scores))


def test_scoring_heads_learn_with_frozen_base(tmp_path: Path, tiny_llama: Path) -> None:
    config = run_config(tmp_path, tiny_llama, {"head": "scoring"})
    folder = train_judge(config)  # ends with the check in a fresh process
    assert json.loads((folder / "validation.json").read_text())["auc/repetitive"] > 0.9
    assert auc(folder, tmp_path / "validation.jsonl") > 0.9
    kept = sorted((folder / "checkpoints").glob("step-*/model.safetensors"))
    base = (tiny_llama / "model.safetensors").stat().st_size
    assert kept and all(path.stat().st_size < base / 2 for path in kept)


@pytest.mark.slow
def test_a_stopped_run_resumes_to_the_same_judge(tmp_path: Path, tiny_llama: Path) -> None:
    from medal_judges.training.loop.loop import TrainingLoop

    model = {"head": "scoring"}
    whole = run_config(tmp_path, tiny_llama, model, epochs=2)
    first = train_judge(whole)
    part = whole.model_copy(update={"output_dir": str(tmp_path / "part")})
    after = TrainingLoop._step
    steps = 0

    def stop(self: TrainingLoop, *arguments: Any) -> float:
        nonlocal steps
        loss = after(self, *arguments)
        steps += 1
        if steps == 8:  # one step after the checkpoint at the end of the first epoch
            raise KeyboardInterrupt
        return loss

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingLoop, "_step", stop)
        with pytest.raises(KeyboardInterrupt):
            train_judge(part)
    second = train_judge(part, resume=True)
    rows = [r.dialogue for r in load_spec(str(tmp_path / "validation.jsonl"))]
    a, b = (Judge.from_pretrained(f, device="cpu") for f in (first, second))
    for x, y in zip(a.score(rows), b.score(rows), strict=True):
        assert dict(x.scores) == pytest.approx(dict(y.scores), abs=1e-4)


def test_a_base_released_in_bf16_is_trained_upon_as_it_is(
    tmp_path: Path, tiny_llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = tmp_path / "base"
    shutil.copytree(tiny_llama, base)
    weights = load_file(base / "model.safetensors")
    rounded = {k: v.bfloat16() for k, v in weights.items()}
    save_file(rounded, base / "model.safetensors", {"format": "pt"})
    settings = {"head": "scoring"}

    def trained(base: Path, narrow: bool) -> tuple[dict[str, torch.Tensor], int]:
        if not narrow:
            monkeypatch.setattr("medal_judges.training.loop.body.narrow_base", lambda *_: None)
        config = run_config(
            tmp_path, base, settings, epochs=1, batch_size=16, mixed_precision="bf16"
        )
        dimensions = load_rubric("medal")
        rows = load_rows(config, dimensions)
        torch.manual_seed(0)
        learnt = learnable(dimensions, rows)
        judge = new_judge(config, learnt, rows.train, torch.device("cpu"))
        loop = start_loop(config, judge, rows.train, rows.validation, "hash")
        size = sum(p.nbytes for p in judge.net.parameters())
        loop.run(resume=False)
        loop.release()
        monkeypatch.undo()
        assert {p.dtype for p in judge.net.parameters()} == {torch.float32}
        return {k: v.clone() for k, v in judge.net.state_dict().items()}, size

    narrow, small = trained(base, True)
    wide, large = trained(base, False)
    assert narrow.keys() == wide.keys()
    assert all(torch.equal(narrow[name], wide[name]) for name in wide)  # to the bit
    fresh = load_file(base / "model.safetensors")["model.layers.0.mlp.up_proj.weight"]
    kept = next(v for k, v in narrow.items() if "layers.0.mlp.up_proj.base_layer" in k)
    assert torch.equal(kept, fresh.float())
    assert small < 0.85 * large
    assert trained(tiny_llama, True)[1] == large  # of weights that bf16 would round: none


@pytest.mark.parametrize("head", ["scoring", "generative", "encoder"])
def test_training_starts_from_a_judge_of_other_data(
    head: str, tmp_path: Path, tiny_llama: Path, tiny_bert: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model: dict[str, Any] = {"head": head, "max_tokens": 256}
    if head == "encoder":
        encoder = {"family": "turns", "base": str(tiny_bert), "max_tokens": 32, "shape": "flat"}
        config = run_config(tmp_path, tiny_llama, {})
        raw = config.model_dump() | {"model": encoder}
        config = build_config(TrainConfig, raw, where="test")
    else:
        config = run_config(tmp_path, tiny_llama, model)
    dimensions = [d for d in load_rubric("medal") if d.name == "overall"]
    first = new_judge(config, dimensions, [], torch.device("cpu"))
    for value in first.net.parameters():
        if value.requires_grad:
            torch.nn.init.normal_(value)
    folder = first.save_pretrained(tmp_path / "first", golden=False)
    second = new_judge(config, load_rubric("medal"), [], torch.device("cpu"))  # more heads
    copy_start(second, folder)
    own, learnt = second.net.state_dict(), first.net.state_dict()
    assert {n for n in learnt if n in own} and all(
        torch.equal(own[n], learnt[n]) for n in learnt if own[n].shape == learnt[n].shape
    )
    assert f"tensors of {folder}" in caplog.text
    (tmp_path / "none").mkdir()
    with pytest.raises(ConfigError, match="start: none of the 0 tensors"):
        copy_start(second, tmp_path / "none")


def test_a_tokenizer_without_a_grammar_is_refused_before_training(
    tmp_path: Path, tiny_llama: Path
) -> None:
    from transformers import ByT5Tokenizer

    base = tmp_path / "base"
    shutil.copytree(tiny_llama, base)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (base / name).unlink(missing_ok=True)
    slow = ByT5Tokenizer()  # bytes: no file of rust
    slow.chat_template = "{% for m in messages %}{{ m.role }}: {{ m.content }}</s>{% endfor %}"
    slow.save_pretrained(base)
    config = run_config(tmp_path, base, {"head": "generative", "layout": "each"})
    with pytest.raises(ConfigError, match=r"(?s)no grammar works with this tokenizer.*scoring"):
        train_judge(config)
    assert not (tmp_path / "judge" / "history.jsonl").exists()


def test_a_judge_that_writes_has_few_short_golden_dialogues(
    tmp_path: Path, tiny_llama: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = {"head": "generative", "layout": "each", "answer_tokens": 40, "comment_chars": 1}
    config = run_config(tmp_path, tiny_llama, model)
    judge = new_judge(config, load_rubric("overall"), [], torch.device("cpu"))
    write_golden(judge, tmp_path)
    golden = json.loads((tmp_path / "golden.json").read_text())
    assert [len(d["dialogue"]) for d in golden["dialogues"]] == [4, 4, 3, 2]
    assert (golden["device"], golden["dtype"]) == ("cpu", "fp32")
    assert capsys.readouterr().err.endswith("golden scores: answering 4 dialogues\n")
    writes = bool(judge.language_models())
    assert setting_for(judge.net, "cpu", "no", writes=writes).dialogues == 4


@pytest.mark.slow
def test_answers_are_learnt(tmp_path: Path, tiny_llama: Path) -> None:
    model = {"head": "generative", "layout": "each", "answer_tokens": 40, "comment_chars": 1}
    config = run_config(tmp_path, tiny_llama, model, epochs=4)
    folder = train_judge(config.model_copy(update={"answered_rows": 10}))
    told = json.loads((folder / "agreement.json").read_text())
    assert {r["dimension"]: r["n"] + r["missed"] for r in told} == {"overall": 10, "repetitive": 10}
    assert all(set(r["baselines"]) == {"length", "repetition"} for r in told)
    history = [json.loads(x) for x in (folder / "history.jsonl").read_text().splitlines()]
    assert history[-1]["loss"] < 0.6 * history[0]["loss"]
    adapter = json.loads((folder / "adapter" / "adapter_config.json").read_text())
    assert adapter["base_model_name_or_path"] == tiny_llama.name
    judge = Judge.from_pretrained(folder, device="cpu")
    rows = list(load_spec(str(tmp_path / "validation.jsonl")))[:4]
    for judgement in judge.score(r.dialogue for r in rows):
        assert judgement.failure is None
        assert judgement.scores["overall"] is not None
