"""Every shipped training config under one and two processes, and every launcher's file: real
launchers and real settings, on tiny random models of the same architectures and made-up rows.

What is changed: the base model, the rows' source, the epochs (one), the number of planted issues,
and how much a judge that writes may write. All else is the config's own.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import medal_judges.configs
from medal_judges.config import read_yaml
from medal_judges.models.base.golden import require_golden_scores
from medal_judges.records.dimension import Dimension, load_rubric

from ..conftest import SIZE, WORDS
from ..talks import write_rated
from .test_distributed import SCRIPT, needs_deepspeed

CONFIGS = Path(medal_judges.configs.__path__[0])
NAMES = sorted(path.stem for path in (CONFIGS / "train").glob("*.yaml"))
LAUNCH = [sys.executable, "-m", "accelerate.commands.launch"]
CPU = {"ACCELERATE_USE_CPU": "true"}


@pytest.fixture(scope="module")
def bases(
    tmp_path_factory: pytest.TempPathFactory,
    tiny_bert: Path,
    tiny_modernbert: Path,
    tiny_llama: Path,
) -> dict[str, Path]:
    """The configs' base model -> a tiny one of its architecture."""
    import torch
    from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(tiny_llama)
    settings = SIZE | {
        "vocab_size": len(tokenizer),
        "num_key_value_heads": 1,
        "head_dim": 16,
    }
    marks = {"pad_token_id": 0, "eos_token_id": 2, "bos_token_id": None}
    model = Qwen3ForCausalLM(
        Qwen3Config(**settings, **marks, max_position_embeddings=8192)
    )
    qwen = tmp_path_factory.mktemp("models") / "qwen3"
    model.save_pretrained(qwen)
    tokenizer.save_pretrained(qwen)
    return {
        "embedded:minilm": tiny_bert,
        "embedded:e5": tiny_bert,
        "jhu-clsp/mmBERT-base": tiny_modernbert,
        "answerdotai/ModernBERT-large": tiny_modernbert,
        "embedded:smollm2": tiny_llama,
        **dict.fromkeys(
            ("Qwen/Qwen3-4B-Instruct-2507", "Qwen/Qwen3-8B", "Qwen/Qwen3-14B"), qwen
        ),
    }


def small(name: str, bases: dict[str, Path], folder: Path) -> dict[str, Any]:
    """The config ``name`` on tiny models and made-up rows."""
    settings = read_yaml(f"train/{name}")
    settings["output_dir"] = str(folder / "judge")
    if "args" in settings:  # one epoch, and a batch that one small set fills
        settings["args"] |= {"num_train_epochs": 1, "per_device_train_batch_size": 4}
        settings["args"] |= {"eval_strategy": "epoch", "gradient_accumulation_steps": 1}
        settings["args"] |= {"save_strategy": "epoch"}
        for name_of_steps in ("eval_steps", "save_steps"):
            settings["args"].pop(name_of_steps, None)
    model = settings["model"]
    if "base" in model or model["family"] != "linear":
        model["base"] = str(bases[model["base"]])
    if model.get("head") == "generative":
        model["answer_tokens"] = 48
    rubric = {d.name: d for d in load_rubric(settings["rubric"])}
    rng = np.random.default_rng(0)
    for part in ("train", "validation", "test"):
        for number, entry in enumerate(settings.get(part, ())):
            _small_entry(entry, folder / f"{part}-{number}.jsonl", rubric, rng)
    return settings


def _small_entry(
    entry: dict[str, Any],
    path: Path,
    rubric: dict[str, Dimension],
    rng: np.random.Generator,
) -> None:
    # planting needs conversations that make sense
    if entry["source"].startswith("chitchat"):
        entry["limit"] = 60
        if "plant" in entry:
            entry["plant"] |= {"per_issue": 4, "clean_count": 8}
        return
    entry["source"] = str(path)
    named = entry.get("dimensions") or list(rubric)
    judged = named if isinstance(named, dict) else {n: n for n in named}
    scales = {
        source: (rubric[name].low, rubric[name].high) for source, name in judged.items()
    }
    rows = []
    for _ in range(24):
        texts = [" ".join(rng.choice(WORDS, 5)) for _ in range(8)]
        rows.append(
            (texts, {n: float(rng.integers(a, b + 1)) for n, (a, b) in scales.items()})
        )
    # The shares of some configs are by chatbot.
    write_rated(path, rows, chatbots=("a", "b", "c", "d"), scales=scales)


def run(
    command: list[str], settings: dict[str, Any], folder: Path, **environment: str
) -> None:
    """Train to the end; the judge is there, checked, and told once."""
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(settings, allow_unicode=True), encoding="utf-8")
    done = subprocess.run(
        [*command, str(SCRIPT), "--config", str(path)],
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.stdout.count("judge saved and checked") == 1, (
        done.stdout + done.stderr
    )[-3000:]
    judge = folder / "judge"
    assert require_golden_scores(judge, {}) <= 1e-5
    assert (judge / "README.md").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_a_training_config_runs(
    name: str, processes: int, bases: dict[str, Path], tmp_path: Path
):
    settings = small(name, bases, tmp_path)
    if processes == 1:
        run([sys.executable], settings, tmp_path)
        return
    run(
        [*LAUNCH, "--config_file", str(CONFIGS / "accelerate" / "cpu.yaml")],
        settings,
        tmp_path,
        **CPU,
    )
    facts = json.loads((tmp_path / "judge" / "judge.json").read_text()).get("facts", {})
    by_steps = settings["model"]["family"] in ("encoder", "lora")
    assert facts.get("processes") == (2 if by_steps else None)


ZERO = ["--deepspeed_config_file", str(CONFIGS / "deepspeed" / "zero2_cpu.json")]
LAUNCHERS: list[tuple[str, list[str], int, dict[str, str]]] = [
    ("cpu", [], 2, CPU),
    ("cpu", ["--num_processes", "1"], 1, CPU),
    ("gpu1", ["--cpu"], 1, {}),
]
PARTED: list[tuple[str, list[str], int, dict[str, str]]] = [
    (name, [*ZERO, "--num_processes", str(count), *more], count, {})
    for name, more in (
        ("cpu_deepspeed", []),
        ("gpu8", []),
        ("nodes", ["--num_machines", "1", "--main_process_ip", "127.0.0.1"]),
    )
    for count in (1, 2)
]


def test_every_launchers_file_is_run() -> None:
    shipped = {path.stem for path in (CONFIGS / "accelerate").glob("*.yaml")}
    assert shipped == {name for name, *_ in (*LAUNCHERS, *PARTED)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, options, processes, environment",
    [*LAUNCHERS, *(pytest.param(*each, marks=needs_deepspeed) for each in PARTED)],
)
def test_a_launchers_file_runs(
    name: str,
    options: list[str],
    processes: int,
    environment: dict[str, str],
    bases: dict[str, Path],
    tmp_path: Path,
) -> None:
    settings = small("mmbert_medal", bases, tmp_path)
    command = [
        *LAUNCH,
        "--config_file",
        str(CONFIGS / "accelerate" / f"{name}.yaml"),
        *options,
    ]
    run(command, settings, tmp_path, **environment)
    facts = json.loads((tmp_path / "judge" / "judge.json").read_text())["facts"]
    assert facts["processes"] == processes
    parted = "--deepspeed_config_file" in options
    assert facts["strategy"] == (
        "zero2" if parted else {"gpu1": "single"}.get(name, "ddp")
    )
