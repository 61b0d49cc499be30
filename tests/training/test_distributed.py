"""Two real processes train one judge together: DDP, ZeRO-2 and ZeRO-3, over gloo on the CPU."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file

import medal_judges.configs
from medal_judges.data_prep.sources.registry import load_rows
from medal_judges.models.base.golden import require_golden_scores
from medal_judges.models.base.judge import Judge

from ..conftest import SIZE, save_encoder
from .test_resume import write_rows

CONFIGS = Path(medal_judges.configs.__path__[0])
SCRIPT = Path(__file__).parent.parent.parent / "training" / "train.py"
TOLERANCE = 1e-5
WEIGHTS = 1e-4  # of a weight, after 20 steps of AdamW at 5e-3: a step of the wrong sign is 5e-3
LAUNCH = [sys.executable, "-m", "accelerate.commands.launch"]
EPOCHS, STEPS = 2, 20  # 80 rows in batches of 4, two processes: 10 steps an epoch
needs_deepspeed = pytest.mark.skipif(
    find_spec("deepspeed") is None or shutil.which("g++") is None,
    reason="needs deepspeed (pip install '.[deepspeed]') and g++",
)


def launch(strategy: str) -> tuple[list[str], dict[str, str]]:
    """The command line before the script and the environment: the lines of configs/accelerate/.
    ``strangers``: two processes that do not know each other."""
    if strategy == "single":
        return [sys.executable], {}
    options = ["--config_file", str(CONFIGS / "accelerate" / "cpu.yaml")]
    if strategy in ("ddp", "strangers"):
        return [*LAUNCH, *options], {
            "ACCELERATE_USE_CPU": "true"
        } if strategy == "ddp" else {}
    # The file for eight GPUs, with two processes and the settings for a CPU in its stead.
    options = [
        "--config_file",
        str(CONFIGS / "accelerate" / "gpu8.yaml"),
        "--num_processes",
        "2",
    ]
    settings = CONFIGS / "deepspeed" / f"{strategy}_cpu.json"
    return [*LAUNCH, *options, "--deepspeed_config_file", str(settings)], {}


class Workshop:
    """Rows, a body without dropout, and runs on them that differ only in how they are shared."""

    def __init__(self, folder: Path) -> None:
        from transformers import BertConfig, BertModel

        self.folder = folder
        torch.manual_seed(0)
        body = BertModel(BertConfig(**SIZE, hidden_dropout_prob=0.0))
        self.body = save_encoder(folder / "bert", body)
        write_rows(folder / "train.jsonl", 80, seed=1)
        write_rows(folder / "validation.jsonl", 30, seed=2)

    def train(
        self,
        strategy: str,
        *,
        name: str | None = None,
        overrides: Sequence[str] = (),
        **args: Any,
    ) -> Path:
        """The folder of the judge trained with ``strategy``."""
        folder = self.folder / (name or strategy)
        done = self.run(strategy, folder, overrides, **args)
        # ZeRO-3 has been seen to abort at exit after all was written: the judge is the proof.
        assert done.returncode == 0 or "judge saved and checked" in done.stdout, (
            done.stderr[-3000:]
        )
        return folder

    def run(
        self,
        strategy: str,
        folder: Path,
        options: Sequence[str],
        **args: Any,
    ) -> subprocess.CompletedProcess[str]:
        """``medal train`` by ``strategy`` to its end; a global batch is always 8 rows."""
        single = strategy == "single"
        heads = {"repetitive": {"kind": "regression"}}
        model = {
            "family": "encoder",
            "base": str(self.body),
            "max_tokens": 64,
            "heads": heads,
        }
        settings = {
            "name": "pair",
            "output_dir": str(folder),
            "rubric": "medal",
            "model": model,
            "train": [{"source": str(self.folder / "train.jsonl")}],
            "validation": [{"source": str(self.folder / "validation.jsonl")}],
            "args": {
                "num_train_epochs": EPOCHS,
                "per_device_train_batch_size": 4,
                "gradient_accumulation_steps": 2 if single else 1,
                "learning_rate": 5e-3,
                "max_grad_norm": 0.5,  # the first steps' norms are above it
                "train_sampling_strategy": "sequential",
                "logging_steps": 1,
            }
            | args,
        }
        config = folder.with_suffix(".yaml")
        config.write_text(yaml.safe_dump(settings), encoding="utf-8")
        command, environment = launch(strategy)
        return subprocess.run(
            [*command, str(SCRIPT), "--config", str(config), *options],
            env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
            capture_output=True,
            text=True,
            timeout=900,
        )

    def scores(self, folder: Path) -> dict[str, list[float]]:
        """Scores of the 16 golden dialogues and of the validation dialogues, as shares of 1."""
        golden = json.loads((folder / "golden.json").read_text(encoding="utf-8"))[
            "scores"
        ]
        judge = Judge.from_pretrained(folder, device="cpu")
        rows = [
            row.dialogue for row in load_rows(str(self.folder / "validation.jsonl"))
        ]
        found = golden + [dict(j.scores) for j in judge.score(rows)]
        unit = judge.dimension
        return {
            d.name: [unit(d.name).to_unit(s[d.name]) for s in found]
            for d in judge.dimensions
        }


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("distributed"))


@pytest.fixture(scope="module")
def alone(workshop: Workshop) -> dict[str, list[float]]:
    """Scores of the judge that one process trained."""
    return workshop.scores(workshop.train("single"))


def facts(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "judge.json").read_text())["facts"]
    return found


def require_same(found: dict[str, list[float]], wanted: dict[str, list[float]]) -> None:
    assert found.keys() == wanted.keys()
    for name, values in wanted.items():
        assert found[name] == pytest.approx(values, abs=TOLERANCE), name


def losses(folder: Path) -> list[float]:
    """The losses of the steps, of all processes together."""
    state = json.loads((folder / "trainer_state.json").read_text(encoding="utf-8"))
    return [entry["loss"] for entry in state["log_history"] if "loss" in entry]


@pytest.mark.slow
@pytest.mark.parametrize(
    "strategy",
    [
        "ddp",
        pytest.param("zero2", marks=needs_deepspeed),
        pytest.param("zero3", marks=needs_deepspeed),
    ],
)
def test_two_processes_train_the_judge_that_one_trains(
    strategy: str, workshop: Workshop, alone: dict[str, list[float]]
) -> None:
    """Same global batch: one process accumulates over the two batches that two processes share.
    What is left is the order in which fp32 numbers are added, and what steps of AdamW make of it,
    which divides by the root of squared gradients and so lets the noise of small ones through."""
    folder = workshop.train(strategy)
    # Accelerate on CPU can start two worlds of one
    assert facts(folder)["processes"] == 2
    assert facts(folder)["steps"] == STEPS
    assert facts(folder)["strategy"] == strategy
    assert require_golden_scores(folder) <= TOLERANCE
    assert losses(folder) == pytest.approx(
        losses(workshop.folder / "single"), abs=TOLERANCE
    )
    single = load_file(workshop.folder / "single" / "model.safetensors")
    saved = load_file(folder / "model.safetensors")
    # Whole: under ZeRO-3 a process has a part of each weight, or an empty one.
    shapes = {name: weight.shape for name, weight in single.items()}
    assert {name: weight.shape for name, weight in saved.items()} == shapes
    differences = [float((saved[name] - single[name]).abs().max()) for name in single]
    assert max(differences) <= WEIGHTS
    found = workshop.scores(folder)
    require_same(found, alone)
    # it did learn something
    assert max(found["repetitive"]) - min(found["repetitive"]) > 0.03


@pytest.mark.slow
@needs_deepspeed
@pytest.mark.parametrize("strategy", ["zero2", "zero3"])
def test_a_run_under_deepspeed_resumes_to_the_same_judge(
    strategy: str, workshop: Workshop, alone: dict[str, list[float]]
) -> None:
    folder = workshop.folder / strategy
    if not folder.exists():
        workshop.train(strategy)
    last = folder / "checkpoints" / f"checkpoint-{STEPS}"
    shutil.rmtree(last)
    workshop.train(strategy)
    assert last.is_dir()
    require_same(workshop.scores(folder), alone)


@pytest.mark.slow
@needs_deepspeed
def test_zero3_with_gradient_checkpointing_trains_the_same_judge(
    workshop: Workshop, alone: dict[str, list[float]]
) -> None:
    """ZeRO-3 parts the parameters again before the backward pass computes a layer anew."""
    folder = workshop.train(
        "zero3", name="zero3-checkpointed", gradient_checkpointing=True
    )
    assert facts(folder)["gradient_checkpointing"] is True
    require_same(workshop.scores(folder), alone)
