"""The checks by name: what each measures, how long it may take, how its process is started."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import medal_judges.configs

from . import adapters, encoder, language
from .measure import Row, Setting


@dataclass(frozen=True, slots=True)
class Check:
    """``run`` gives the rows of ``title``; ``seconds``: the limit of its process. ``launcher``: by
    itself, or by ``accelerate launch`` with DeepSpeed. ``limit_scale`` of the small form."""

    title: str
    run: Callable[[Setting], Iterator[Row]]
    seconds: int
    launcher: Literal["plain", "zero2", "zero3"] = "plain"


CHECKS: dict[str, Check] = {
    "agreement": Check("Scores of a GPU and of a CPU", encoder.agreement, 90),
    "score-large": Check(
        "ModernBERT-large scores, bf16",
        lambda s: encoder.scoring(s, "ModernBERT-large"),
        180,
    ),
    "lora": Check("LoRA on Qwen3-4B", adapters.adapters, 180),
    "prefix": Check("Follow-ups on Qwen3-4B, bf16", language.prefixes, 180),
    "generate": Check("Answers of Qwen3-4B, bf16", language.generation, 120),
    "train-large": Check(
        "ModernBERT-large learns",
        lambda s: encoder.training(s, "ModernBERT-large"),
        210,
    ),
    "memory": Check("Memory runs out", encoder.memory, 75),
    "command": Check("The whole of medal train", encoder.command, 120),
    "zero2": Check("LoRA on Qwen3-4B, ZeRO-2", adapters.sharded, 150, "zero2"),
    "zero3": Check("LoRA on Qwen3-4B, ZeRO-3", adapters.sharded, 150, "zero3"),
    "qlora": Check("QLoRA on Qwen3-4B", adapters.quantised, 150),
    "generative": Check("Qwen3-4B learns to write answers", adapters.generative, 150),
    "score-base": Check(
        "ModernBERT-base scores, bf16",
        lambda s: encoder.scoring(s, "ModernBERT-base"),
        150,
    ),
    "train-base": Check(
        "ModernBERT-base learns", lambda s: encoder.training(s, "ModernBERT-base"), 150
    ),
    "score-mmbert": Check(
        "mmBERT-base scores, bf16", lambda s: encoder.scoring(s, "mmBERT-base"), 150
    ),
    "train-mmbert": Check(
        "mmBERT-base learns", lambda s: encoder.training(s, "mmBERT-base"), 150
    ),
}


def work(name: str, setting: Setting, result: Path) -> None:
    """Run a check in this process; each row is appended to ``result`` as it comes, so that a
    process that is ended keeps what it has measured."""
    for row in CHECKS[name].run(setting):
        with result.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(asdict(row)) + "\n")
            stream.flush()
            os.fsync(stream.fileno())


def command(name: str, script: Path, arguments: list[str], *, cpu: bool) -> list[str]:
    """The command line of a check's process."""
    launcher = CHECKS[name].launcher
    if launcher == "plain":
        return [sys.executable, str(script), *arguments]
    configs = Path(medal_judges.configs.__path__[0])
    settings = configs / "deepspeed" / f"{launcher}{'_cpu' * cpu}.json"
    return [
        *(sys.executable, "-m", "accelerate.commands.launch"),
        *(
            "--config_file",
            str(configs / "accelerate" / "gpu8.yaml"),
            "--num_processes",
            "1",
        ),
        *("--deepspeed_config_file", str(settings)),
        *(str(script), *arguments),
    ]
