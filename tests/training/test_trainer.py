"""JudgeTrainer: the Trainer's own settings, an example's weight, faults that stay away."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from medal_judges.config import build_config
from medal_judges.errors import ConfigError, MedalError
from medal_judges.models.base.heads import HeadConfig
from medal_judges.models.encoder.config import EncoderConfig
from medal_judges.models.encoder.judge import EncoderJudge
from medal_judges.records.dimension import load_rubric
from medal_judges.training.arguments import training_arguments
from medal_judges.training.config import TrainConfig
from medal_judges.training.rows import TrainingExample
from medal_judges.training.trainer import JudgeTrainer, tokenized_dataset
from medal_judges.training.validation import agreement

from ..conftest import WORDS
from ..talks import talk

DIMENSIONS = [d for d in load_rubric("medal") if d.name in ("overall", "repetitive")]


def examples(count: int = 24) -> list[TrainingExample]:
    """Dialogues of unequal length, of two sources; every third lacks a label."""
    rows = []
    for number in range(count):
        words = WORDS[number % 7 :][: 2 + number % 5]
        dialogue = talk("music", " ".join(words), id=str(number))
        labels = {"overall": (number % 5) / 4, "repetitive": float(number % 2)}
        if number % 3 == 0:
            del labels["repetitive"]
        source = "ba"[number % 2]
        rows.append(TrainingExample(dialogue, source, dict(labels), dict(labels)))
    return rows


def judge_on(base: Path) -> EncoderJudge:
    torch.manual_seed(0)
    return EncoderJudge.create(
        EncoderConfig(
            base=str(base),
            max_tokens=64,
            heads={"repetitive": HeadConfig(kind="regression")},
        ),
        DIMENSIONS,
        device="cpu",
    )


@pytest.fixture(scope="module")
def base(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny encoder without dropout."""
    import shutil

    folder = tmp_path_factory.mktemp("base") / "bert"
    shutil.copytree(tiny_bert, folder)
    config = json.loads((folder / "config.json").read_text())
    config["hidden_dropout_prob"] = 0.0
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def trained(
    base: Path, folder: Path, **args: Any
) -> tuple[JudgeTrainer, dict[str, torch.Tensor]]:
    """A trainer after three steps of plain gradient descent, and the weights."""
    settings = {
        "max_steps": 3,
        "optim": "sgd",
        "learning_rate": 0.05,
        "max_grad_norm": 0.0,
    }
    settings |= {"train_sampling_strategy": "sequential", "save_strategy": "no"}
    settings |= {"logging_steps": 1} | args
    judge = judge_on(base)
    data = tokenized_dataset(judge, examples())
    arguments = training_arguments(settings, folder, seed=0, validated=False)
    trainer = JudgeTrainer(judge, arguments, train_dataset=data)
    trainer.train()
    return trainer, {k: v.clone() for k, v in judge.net.state_dict().items()}


def losses(trainer: JudgeTrainer) -> list[float]:
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


@pytest.mark.parametrize(("batch", "accumulated"), [(4, 2), (2, 4), (1, 8)])
def test_a_step_is_the_same_however_it_is_cut(
    base: Path, tmp_path: Path, batch: int, accumulated: int
) -> None:
    """An example weighs the same in any cut: the loss of sequence classification is otherwise
    multiplied by accumulation, and a batch of few labels weighs as much as one of many."""
    whole, weights = trained(base, tmp_path, per_device_train_batch_size=8)
    cut, others = trained(
        base,
        tmp_path,
        per_device_train_batch_size=batch,
        gradient_accumulation_steps=accumulated,
    )
    assert losses(cut) == pytest.approx(losses(whole), abs=1e-5)
    for name, weight in weights.items():
        assert torch.allclose(others[name], weight, atol=1e-5), name


def test_the_loss_is_the_mean_over_examples(base: Path, tmp_path: Path) -> None:
    rows = examples(8)
    judge = judge_on(base)
    ids = [
        torch.tensor([text.ids])
        for text in judge.render([row.dialogue for row in rows])
    ]
    total = 0.0
    with torch.no_grad():
        for row, one in zip(rows, ids, strict=True):
            logits = (
                judge.net(input_ids=one, attention_mask=torch.ones_like(one)).logits[0]
                + 0.5
            )
            names = [dimension.name for dimension in DIMENSIONS]
            named = dict(zip(names, logits.tolist(), strict=True))
            errors = [(named[name] - value) ** 2 for name, value in row.targets.items()]
            total += sum(errors)
    wanted = total / len(rows)
    data = tokenized_dataset(judge, rows)
    arguments = training_arguments(
        {"per_device_eval_batch_size": 3, "eval_strategy": "epoch"},
        tmp_path,
        seed=0,
        validated=True,
    )
    trainer = JudgeTrainer(judge, arguments, train_dataset=data, eval_dataset=data)
    assert trainer.evaluate()["eval_loss"] == pytest.approx(wanted, abs=1e-5)


def trainer_of(base: Path, folder: Path, **options: Any) -> JudgeTrainer:
    judge = judge_on(base)
    arguments = training_arguments({}, folder, seed=0, validated=True)
    options = {"train_dataset": tokenized_dataset(judge, examples()), **options}
    options.setdefault("eval_dataset", tokenized_dataset(judge, examples(9)))
    return JudgeTrainer(judge, arguments, **options)


def test_figures_are_those_of_the_rows_that_are_evaluated(
    base: Path, tmp_path: Path
) -> None:
    """In any order and number: the labels travel with the rows."""
    trainer = trainer_of(base, tmp_path)
    rows = examples(24)[::-1]
    for row in rows:
        row.source = "a"
    dataset = tokenized_dataset(trainer.judge, rows)
    found = trainer.evaluate(dataset)
    scores = [
        j.scores["overall"] for j in trainer.judge.score([row.dialogue for row in rows])
    ]
    human = [row.human["overall"] for row in rows]
    wanted = spearmanr(human, scores).statistic
    assert found["eval_spearman/overall"] == pytest.approx(wanted, abs=1e-6)
    predicted = trainer.predict(dataset)
    assert predicted.metrics is not None
    assert predicted.metrics["test_spearman/overall"] == pytest.approx(wanted, abs=1e-6)
    both = trainer.evaluate(
        {"all": dataset, "few": tokenized_dataset(trainer.judge, rows[:9])}
    )
    assert both["eval_all_spearman/overall"] == pytest.approx(wanted, abs=1e-6)
    assert "eval_few_loss" in both


def minimal(**more: Any) -> dict[str, Any]:
    settings = {
        "name": "x",
        "output_dir": "x",
        "rubric": "medal",
        "train": [{"source": "a"}],
    }
    return settings | {"model": {"family": "encoder"}} | more


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({"learning_rat": 1e-3}, "args.learning_rat: .*Did you mean 'learning_rate'"),
        ({"learning_rate": -1}, "args.learning_rate: "),
        ({"output_dir": "x"}, "args.output_dir: "),
        ({"label_smoothing_factor": 0.1}, "args.label_smoothing_factor: .*heads"),
        ({"load_best_model_at_end": True}, "needs validation rows"),
    ],
)
def test_arguments_are_the_trainer_s_own_and_unknown_names_are_refused(
    args: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        build_config(TrainConfig, minimal(args=args), where="x")


def test_steps_that_are_named_are_followed(tmp_path: Path) -> None:
    for validated, name in ((True, "eval_steps"), (False, "save_steps")):
        made = training_arguments({name: 3}, tmp_path, seed=0, validated=validated)
        assert (made.save_strategy, made.save_steps) == ("steps", 3)
        assert made.eval_strategy == ("steps" if validated else "no")


def test_a_loss_that_is_not_a_number_stops_the_run(base: Path, tmp_path: Path) -> None:
    judge = judge_on(base)
    with torch.no_grad():
        judge.net.classifier.bias.fill_(float("nan"))
    arguments = training_arguments(
        {"max_steps": 2, "logging_steps": 1, "save_strategy": "no"},
        tmp_path,
        seed=0,
        validated=False,
    )
    data = tokenized_dataset(judge, examples())
    with pytest.raises(MedalError, match="loss is nan at step 1") as caught:
        JudgeTrainer(judge, arguments, train_dataset=data).train()
    assert "args.learning_rate" in str(caught.value)


def test_equal_scores_are_as_good_as_chance() -> None:
    human, sources = np.array([0.0, 1, 0, 1]), np.zeros(4)
    for scores in (np.full(4, 0.3), np.full(4, np.nan)):
        assert agreement("x", human, scores, sources, True) == {"auc/x": 0.5}
        assert agreement("x", human, scores, sources, False) == {"spearman/x": 0.0}
