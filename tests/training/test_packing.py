"""Packed SFT examples over many architectures: packed only where none reads into another."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch

from medal_judges.models.lora.config import LoraConfig
from medal_judges.models.lora.generative import GenerativeLoraJudge
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.dimension import load_rubric
from medal_judges.training.config import TrainConfig
from medal_judges.training.families.lora import (
    LoraTask,
    answer_losses,
    packs_cleanly,
    sft_inputs,
)
from medal_judges.training.rows.examples import TrainingExample

_SPEC = importlib.util.spec_from_file_location(
    "architectures", Path(__file__).parents[1] / "models" / "llm" / "architectures.py"
)
assert _SPEC is not None and _SPEC.loader is not None
architectures: Any = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(architectures)

LEAKS = (
    *("qwen3-next", "falcon", "falcon-alibi", "mpt", "bloom", "opt", "lfm2", "gpt-oss", "mamba"),
    *("falcon-h1", "recurrent-gemma", "rwkv", "jamba", "minimax"),
)
TOLD = ("qwen2", "mistral", "gpt2", "qwen3-next", "bloom", "opt", "lfm2", "gpt-oss", "falcon-h1")
CPU = torch.device("cpu")


def drawn(generator: torch.Generator, count: int) -> list[int]:
    return torch.randint(20, 260, (count,), generator=generator).tolist()


@pytest.mark.parametrize(
    "name",
    [
        n if n in TOLD else pytest.param(n, marks=pytest.mark.slow)
        for n in architectures.ARCHITECTURES
    ],
)
def test_sft_examples_are_packed_where_none_reads_into_another(name: str) -> None:
    net = architectures.tiny_model(name)
    assert packs_cleanly(net, 260, CPU) == (name not in LEAKS)
    generator = torch.Generator().manual_seed(1)
    examples = [(0, drawn(generator, n), drawn(generator, 3)) for n in (5, 30, 11)]

    def losses(*rows: tuple[int, list[int], list[int]], packed: bool = False) -> torch.Tensor:
        return answer_losses(net, sft_inputs(rows, packed=packed))[0]

    with torch.no_grad():
        alone = torch.cat([losses(example) for example in examples])
        together = losses(*examples, packed=name not in LEAKS)
    assert float((together - alone).abs().max()) < 1e-4


@pytest.mark.parametrize("name", ["lfm2", "qwen2"])
def test_an_examples_loss_does_not_depend_on_its_batch(name: str, tmp_path: Path) -> None:
    architectures.tiny_model(name).save_pretrained(tmp_path / name)
    architectures.tiny_tokenizer().save_pretrained(tmp_path / name)
    dimensions = [d for d in load_rubric("medal") if d.name in ("overall", "repetitive")]
    config = LoraConfig(base=str(tmp_path / name), rank=2, head="generative", layout="each")
    judge = GenerativeLoraJudge.create(config, dimensions, name="x", rubric="medal")
    examples = [
        TrainingExample(
            Dialogue(str(n), (Turn("user", "hi " * n), Turn("assistant", f"lo {n}"))),
            "a",
            {"overall": n / 4, "repetitive": float(n > 2)},
        )
        for n in range(1, 4)
    ]
    settings = {"name": "x", "output_dir": "x", "rubric": "medal", "model": config, "train": ()}
    run = TrainConfig(**settings, stop={"keep": "last"})  # type: ignore[arg-type]
    task = LoraTask(run, judge, examples, examples[:1], CPU)
    assert task.train.packed == (name != "lfm2")
    judge.net.eval()

    def loss(rows: list[int]) -> float:
        weights = torch.ones(len(rows))
        with torch.no_grad():
            found, _ = task.objective(task.train.inputs(rows), {}, torch.zeros(0), weights)
        return float(found)

    apart = [loss([row]) for row in range(3)]
    assert loss([0, 1, 2]) == pytest.approx(sum(apart) / 3, abs=1e-5)
    assert max(apart) - min(apart) > 0.01
