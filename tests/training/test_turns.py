"""The family ``turns``: its closed form, and feature groups that saw no label."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer

from medal_judges.config import build_config
from medal_judges.errors import ConfigError, JudgeLoadError
from medal_judges.models.turns.config import TurnsConfig
from medal_judges.models.turns.judge import TurnsJudge
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import load_rubric
from medal_judges.training.config import TrainConfig
from medal_judges.training.families import turns
from medal_judges.training.families.reply import half_of
from medal_judges.training.fitted import TrainingRun
from medal_judges.training.rows import RunRows, TrainingExample

from ..conftest import WORDS
from ..talks import talk

DIMENSIONS = ("overall", "repetitive")
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


def fitted(
    base: Path, rows: list[TrainingExample], model: dict[str, object], embedding_share: float = 0.2
) -> TurnsJudge:
    """The judge of the closed form."""
    settings = {
        "name": "x",
        "output_dir": "x",
        "rubric": "medal",
        "model": {"family": "turns", "base": str(base), "max_tokens": 64} | model,
        "train": [{"source": "a"}],
        "optim": {"embedding_share": embedding_share, "mixed_precision": "no"},
    }
    config = build_config(TrainConfig, settings, where="test")
    dimensions = [d for d in load_rubric("medal") if d.name in DIMENSIONS]
    judge = turns.fit(TrainingRun(config, dimensions, RunRows(rows, [], []))).judge
    assert isinstance(judge, TurnsJudge)
    return judge


def test_the_scale_of_features_is_one_however_many_turns_are_read_together(
    tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, found = examples(), []
    dimensions = [d for d in load_rubric("medal") if d.name in DIMENSIONS]
    for at_once in (1, 5, 128):
        monkeypatch.setattr(turns, "_ROWS_AT_ONCE", at_once)
        torch.manual_seed(0)
        config = TurnsConfig(base=str(tiny_bert), max_tokens=64, net="linear", pooling="role")
        judge = TurnsJudge.create(config, dimensions, name="x")
        turns.fit_feature_scale(judge, turns.TurnsDataset(judge, rows))
        net = judge.net
        found.append((net.feature_mean, net.feature_std, net.embedding_mean))
    assert found[0][2].abs().sum() > 0
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], atol=1e-5, rtol=1e-4)


def test_a_feature_group_without_labels_has_no_say(tiny_bert: Path) -> None:
    rows = examples()
    for row in rows:
        if row.source == "b":
            row.targets.pop("repetitive", None)
    heads = {"repetitive": {"kind": "regression"}}
    groups = [{"name": "a", "sources": ["a"], "weight": 2}, {"name": "b", "sources": ["b"]}]
    model = LINEAR | {"heads": heads, "feature_groups": groups}
    net = fitted(tiny_bert, rows, model).net
    shares = dict(zip(net.names, net.shares.T.tolist(), strict=True))
    assert shares == {"overall": [2, 1], "repetitive": [2, 0]}
    nobody = LINEAR | {"heads": heads, "feature_groups": groups[1:]}
    with pytest.raises(ConfigError, match="training labels of 'repetitive'"):
        fitted(tiny_bert, rows, nobody)


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
    judge = fitted(tiny_bert, rows, model, embedding_share=0.0)
    scores = [one.scores["repetitive"] for one in judge.score([rows[0].dialogue, rows[1].dialogue])]
    wanted = [np.mean([row.targets["repetitive"] for row in rows[k::2]]) for k in (0, 1)]
    assert scores == pytest.approx(wanted, abs=0.02)
    for row in rows:
        row.targets["repetitive"] = 1.0
    with pytest.raises(ConfigError, match="all training labels of 'repetitive' are the same"):
        fitted(tiny_bert, rows, model)


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
        fitted(tiny_bert, rows, model)
    assert "model.reply=null" in str(error.value)


def test_a_judge_without_its_body_is_small_and_the_same(tiny_bert: Path, tmp_path: Path) -> None:
    rows = [dataclasses.replace(row, group=row.dialogue.id) for row in examples()]
    reply = {"positive": ["w1 w2"], "negative": ["w3"], "epochs": 1, "half": True}
    model = LINEAR | {"save_body": False, "reply": reply, "embedding": True}
    heads = {"repetitive": {"kind": "regression"}}
    judge = fitted(tiny_bert, rows, model | {"heads": heads})
    folder = judge.save_pretrained(tmp_path / "judge")
    weights = load_file(folder / "model.safetensors")
    halves = {name for name, tensor in weights.items() if tensor.dtype == torch.float16}
    assert halves == {name for name in weights if name.startswith("reply.")} and halves
    assert not (folder / "tokenizer").exists() and not any(k.startswith("body.") for k in weights)
    again = TurnsJudge.load(folder)
    dialogues = [row.dialogue for row in rows]
    for one, other in zip(judge.score(dialogues), again.score(dialogues), strict=True):
        assert one.scores == pytest.approx(dict(other.scores), abs=1e-6)
    with torch.no_grad():
        next(judge.net.body.parameters()).add_(0.01)
    judge.net.body.save_pretrained(tmp_path / "other")
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(tmp_path / "other")
    config = json.loads((folder / "judge.json").read_text())
    config["turns"]["base"] = str(tmp_path / "other")
    (folder / "judge.json").write_text(json.dumps(config))
    with pytest.raises(JudgeLoadError, match="trained on other weights"):
        TurnsJudge.load(folder)
