"""The loop in this process: half batches and whole ones, and feature groups that saw no label."""

import dataclasses
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel, AutoTokenizer

from medal_judges.config import build_config
from medal_judges.errors import ConfigError, JudgeLoadError
from medal_judges.models.device import set_attention
from medal_judges.models.turns.config import TurnsConfig
from medal_judges.models.turns.judge import TurnsJudge
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import load_rubric
from medal_judges.training.config import TrainConfig
from medal_judges.training.families import steps_turns as task_module
from medal_judges.training.families.reply import half_of
from medal_judges.training.families.steps import start_loop
from medal_judges.training.families.steps_turns import TurnsDataset
from medal_judges.training.loop.accelerator import make_accelerator
from medal_judges.training.loop.loop import TrainingLoop
from medal_judges.training.loop.task import TrainingData
from medal_judges.training.rows import TrainingExample

from ..conftest import WORDS
from ..talks import talk

DIMENSIONS = ("overall", "repetitive")
MINIMAL = {"name": "x", "output_dir": "x", "rubric": "medal", "train": [{"source": "a"}]}
MINIMAL |= {"stop": {"keep": "last"}}
LINEAR = {"net": "linear", "pooling": "role", "embedding": False}


def examples() -> list[TrainingExample]:
    """24 dialogues of two sources with unequal weights; every third lacks one of the labels."""
    rng = np.random.default_rng(0)
    found = []
    for number in range(24):
        dialogue = talk(*(" ".join(rng.choice(WORDS, 5)) for _ in range(4)), id=str(number))
        labels = {n: float(rng.integers(2)) for n in DIMENSIONS if number % 3 or n == "overall"}
        source, weight = ("a", 0.5) if number % 2 else ("b", 4.0)
        found.append(TrainingExample(dialogue, source, labels, weight, labels))
    return found


def loop_of(
    base: Path, folder: Path, rows: list[TrainingExample], model: dict[str, object], **optim: object
) -> TrainingLoop:
    settings = {
        "name": "x",
        "output_dir": str(folder),
        "rubric": "medal",
        "model": {
            "family": "turns",
            "base": str(base),
            "max_tokens": 64,
            "width": 16,
            "dropout": 0,
            "embedding_dropout": 0,
        }
        | model,
        "trainable_layers": 0,
        "train": [{"source": "a"}],
        "validation": [{"source": "a"}],
        "optim": {"lr": 0.01, "warmup": 0} | optim,
    }
    config = build_config(TrainConfig, settings, where="test")
    assert not isinstance(config.model, dict)
    torch.manual_seed(0)
    dimensions = [d for d in load_rubric("medal") if d.name in DIMENSIONS]
    judge = TurnsJudge.create(config.model, dimensions, name="x")  # type: ignore[arg-type]
    return start_loop(config, judge, rows, rows, "hash")


@pytest.mark.parametrize("frozen", [True, False])
def test_the_scale_of_features_is_one_however_many_turns_are_read_together(
    tiny_bert: Path, monkeypatch: pytest.MonkeyPatch, frozen: bool
) -> None:
    rows, found = examples(), []
    dimensions = [d for d in load_rubric("medal") if d.name in DIMENSIONS]
    for at_once in (1, 5, 128):
        monkeypatch.setattr(task_module, "_ROWS_AT_ONCE", at_once)
        torch.manual_seed(0)
        config = TurnsConfig(base=str(tiny_bert), max_tokens=64, net="linear", pooling="role")
        judge = TurnsJudge.create(config, dimensions, name="x")
        task_module.fit_feature_scale(judge, TurnsDataset(judge, rows, frozen))
        net = judge.net
        found.append((net.feature_mean, net.feature_std, net.embedding_mean))
    assert found[0][2].abs().sum() > 0
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], atol=1e-5, rtol=1e-4)


def test_runs_of_one_process_choose_their_own_precision() -> None:
    model = {"family": "turns", "base": "embedded:minilm"}
    config = build_config(TrainConfig, MINIMAL | {"model": model}, where="x")
    for precision in ("no", "bf16", "no"):
        update = {"mixed_precision": precision}
        each = config.model_copy(update={"optim": config.optim.model_copy(update=update)})
        assert make_accelerator(each).mixed_precision == precision


def test_two_accumulated_half_batches_are_one_whole_batch(tiny_bert: Path, tmp_path: Path) -> None:
    rows = examples()
    whole = loop_of(tiny_bert, tmp_path, rows, {}, batch_size=8)
    before, _ = whole.predict(whole.validation)
    batches = [list(range(start, start + 8)) for start in (0, 8, 16)]
    losses = [whole._step([batch]) for batch in batches]
    wanted, loss = whole.predict(whole.validation)
    halves = loop_of(tiny_bert, tmp_path, rows, {}, batch_size=4, gradient_accumulation=2)
    again, _ = halves.predict(halves.validation)
    assert again["overall"] == pytest.approx(before["overall"], abs=1e-5)
    # Unequal weights within each half, and halves with unequal numbers of labels.
    found = [halves._step([batch[:4], batch[4:]]) for batch in batches]
    assert found == pytest.approx(losses, rel=1e-5)
    answers, _ = halves.predict(halves.validation)
    for name in DIMENSIONS:
        assert np.abs(wanted[name] - before[name]).max() > 0.01
        assert answers[name] == pytest.approx(wanted[name], abs=1e-4)
    by_tens = [
        TrainingExample(e.dialogue, e.source, e.targets, 10 * e.weight, e.human) for e in rows
    ]
    tens = loop_of(tiny_bert, tmp_path, by_tens, {}, batch_size=8)
    assert [tens._step([batch]) for batch in batches] == pytest.approx(losses, rel=1e-5)
    assert tens.predict(tens.validation)[1] == pytest.approx(loss, rel=1e-4)


@pytest.mark.parametrize("solver", ["gradient", "ridge"])
def test_a_feature_group_without_labels_has_no_say(tiny_bert: Path, tmp_path: Path, solver: str):
    rows = examples()
    for row in rows:
        if row.source == "b":
            row.targets.pop("repetitive", None)
    heads = {"repetitive": {"kind": "regression"}}
    groups = [{"name": "a", "sources": ["a"], "weight": 2}, {"name": "b", "sources": ["b"]}]
    model = LINEAR | {"heads": heads, "feature_groups": groups}
    loop = loop_of(tiny_bert, tmp_path, rows, model, solver=solver, epochs=1)
    loop.run(resume=False)
    net = loop.task.judge.net
    shares = dict(zip(net.names, net.shares.T.tolist(), strict=True))
    assert shares == {"overall": [2, 1], "repetitive": [2, 0]}
    nobody = LINEAR | {"heads": heads, "feature_groups": groups[1:]}
    with pytest.raises(ConfigError, match="training labels of 'repetitive'"):
        loop_of(tiny_bert, tmp_path, rows, nobody, solver=solver).run(resume=False)


def test_the_closed_form_of_a_binary_head_is_calibrated_to_its_labels(
    tiny_bert: Path, tmp_path: Path
) -> None:
    rng = np.random.default_rng(3)
    rows = []
    for number in range(300):
        again = number % 2  # who repeats himself is marked, three times in four
        said = ["a b", "c d e", "b a", "c d e" if again else "a d c"]
        marked = float(rng.random() < (0.75 if again else 0.25))
        label = {"repetitive": marked, "overall": 1 - marked}
        rows.append(TrainingExample(talk(*said, id=str(number)), "a", label, 1.0, label))
    groups = [{"name": "all", "alpha": 0.01, "features": ["assistant.copy"]}]
    model = LINEAR | {"features": ["copy"], "feature_groups": groups}
    loop = loop_of(tiny_bert, tmp_path, rows, model, solver="ridge", embedding_share=0.0)
    loop.run(resume=False)
    judge = loop.task.judge
    assert isinstance(judge, TurnsJudge)
    scores = [one.scores["repetitive"] for one in judge.score([rows[0].dialogue, rows[1].dialogue])]
    wanted = [np.mean([row.targets["repetitive"] for row in rows[k::2]]) for k in (0, 1)]
    assert scores == pytest.approx(wanted, abs=0.02)
    for row in rows:
        row.targets["repetitive"] = 1.0
    with pytest.raises(ConfigError, match="all training labels of 'repetitive' are the same"):
        loop_of(tiny_bert, tmp_path, rows, model, solver="ridge").run(resume=False)


@pytest.mark.parametrize("kind", ["one group", "no reply by a user", "no dialogue of a half"])
def test_reply_models_say_what_they_cannot_learn_from(tiny_bert: Path, tmp_path: Path, kind: str):
    rows = examples()
    if kind == "no reply by a user":
        rows = [
            dataclasses.replace(
                row,
                group=row.dialogue.id,
                dialogue=Dialogue(row.dialogue.id, row.dialogue.turns[:2]),
            )
            for row in rows
        ]
    elif kind == "no dialogue of a half":
        names = [f"g{n}" for n in range(400) if half_of(f"g{n}", 0) == 1]
        rows = [dataclasses.replace(row, group=g) for row, g in zip(rows, names, strict=False)]
    else:
        rows = [dataclasses.replace(row, group="one") for row in rows]
    model = LINEAR | {"reply": {"positive": ["w1"], "negative": ["w3"], "epochs": 1}}
    with pytest.raises(ConfigError, match="0 answers that a user replied to") as error:
        loop_of(tiny_bert, tmp_path, rows, model, solver="ridge").run(resume=False)
    assert "model.reply=null" in str(error.value)


def test_a_judge_without_its_body_is_small_and_the_same(tiny_bert: Path, tmp_path: Path) -> None:
    rows = [dataclasses.replace(row, group=row.dialogue.id) for row in examples()]
    reply = {"positive": ["w1 w2"], "negative": ["w3"], "epochs": 1, "half": True}
    model = LINEAR | {"save_body": False, "reply": reply, "embedding": True}
    heads = {"repetitive": {"kind": "regression"}}
    loop = loop_of(tiny_bert, tmp_path, rows, model | {"heads": heads}, solver="ridge")
    loop.run(resume=False)
    judge = loop.task.judge
    assert isinstance(judge, TurnsJudge)
    folder = judge.save_pretrained(tmp_path / "judge")
    weights = load_file(folder / "model.safetensors")
    halves = {name for name, tensor in weights.items() if tensor.dtype == torch.float16}
    assert halves == {name for name in weights if name.startswith("reply.")} and halves
    assert not (folder / "tokenizer").exists() and not any(k.startswith("body.") for k in weights)
    again = TurnsJudge.load(folder)
    dialogues = [row.dialogue for row in rows]
    for one, other in zip(judge.score(dialogues), again.score(dialogues), strict=True):
        assert one.scores == pytest.approx(dict(other.scores), abs=4e-5)
    with torch.no_grad():
        next(judge.net.body.parameters()).add_(0.01)
    judge.net.body.save_pretrained(tmp_path / "other")
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(tmp_path / "other")
    config = json.loads((folder / "judge.json").read_text())
    config["turns"]["base"] = str(tmp_path / "other")
    (folder / "judge.json").write_text(json.dumps(config))
    with pytest.raises(JudgeLoadError, match="trained on other weights"):
        TurnsJudge.load(folder)


def test_a_body_that_learns_is_saved(tiny_bert: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs a frozen body"):
        settings = {"model": {"family": "turns", "save_body": False}, "trainable_layers": 1}
        build_config(TrainConfig, MINIMAL | settings, where="test")


def test_validation_reads_every_row_within_the_budget(tiny_bert: Path, tmp_path: Path) -> None:
    loop = loop_of(
        tiny_bert, tmp_path, examples(), {"shape": "flat"}, batch_size=5, batch_tokens=90
    )
    seen: list[list[int]] = []
    arguments = loop._arguments

    def counted(data: TrainingData, rows: list[int]) -> object:
        seen.append(list(rows))
        return arguments(data, rows)

    loop._arguments = counted  # type: ignore[method-assign, assignment]
    logits, _ = loop.predict(loop.validation)
    lengths = loop.validation.lengths
    assert sorted(row for rows in seen for row in rows) == list(range(24))
    assert all(len(r) <= 5 and len(r) * max(lengths[i] for i in r) <= 90 for r in seen)
    wanted = [loop.model(*arguments(loop.validation, [i]))[1][0]["overall"] for i in range(24)]
    assert logits["overall"] == pytest.approx(torch.cat(wanted).numpy(), abs=1e-4)


CPU = torch.device("cpu")


def loss_and_gradients(body: Any) -> tuple[float, dict[str, torch.Tensor]]:
    torch.manual_seed(0)
    ids = torch.randint(5, 20, (3, 12))
    mask = torch.ones_like(ids)
    mask[1, 7:] = 0
    body.zero_grad()
    hidden = body.train()(input_ids=ids, attention_mask=mask).last_hidden_state
    loss = (hidden * mask.unsqueeze(-1)).pow(2).mean()
    loss.backward()
    return float(loss.detach()), {
        n: p.grad.clone() for n, p in body.named_parameters() if p.grad is not None
    }


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("family", ["tiny_bert", "tiny_modernbert"])
def test_checkpointing_gives_the_same_loss_and_gradients(
    family: str, reentrant: bool, request: pytest.FixtureRequest
) -> None:
    """Dropout is on: the recomputed pass must draw the same masks."""
    body = AutoModel.from_pretrained(request.getfixturevalue(family))
    torch.manual_seed(1)
    calls: list[int] = []
    layer = body.encoder.layer[0] if hasattr(body, "encoder") else body.layers[0]
    norm = next(m for m in layer.modules() if isinstance(m, torch.nn.LayerNorm))
    norm.register_forward_hook(lambda *_: calls.append(1))
    plain_loss, plain = loss_and_gradients(body)
    assert len(calls) == 1
    body.gradient_checkpointing_enable({"use_reentrant": reentrant})
    if reentrant:
        body.enable_input_require_grads()
    loss, gradients = loss_and_gradients(body)
    assert len(calls) == 3, "the layer was not computed again in the backward pass"
    assert loss == pytest.approx(plain_loss, rel=1e-5)
    assert gradients.keys() == plain.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, plain[name], rtol=1e-4, atol=1e-6)


def test_auto_attention_on_a_cpu_is_sdpa_and_eager_gives_the_same(tiny_bert: Path) -> None:
    body = AutoModel.from_pretrained(tiny_bert)
    assert set_attention(body, "auto", CPU, "no") == "sdpa"
    fused, _ = loss_and_gradients(body)
    assert set_attention(body, "eager", CPU, "no") == "eager"
    assert body.config._attn_implementation == "eager"
    torch.manual_seed(0)
    assert loss_and_gradients(body)[0] == pytest.approx(fused, rel=1e-5)


def test_flash_attention_is_refused_in_training_and_replaced_in_scoring(tiny_bert: Path) -> None:
    body = AutoModel.from_pretrained(tiny_bert)
    with pytest.raises(ConfigError, match="flash_attention_2 is not available: it needs a GPU"):
        set_attention(body, "flash_attention_2", CPU, "bf16", strict=True)
    assert set_attention(body, "flash_attention_2", CPU, "bf16") == "sdpa"
    if find_spec("flash_attn") is None:
        with pytest.raises(ConfigError, match="needs the package flash-attn"):
            set_attention(body, "flash_attention_2", torch.device("cuda"), "bf16", strict=True)
