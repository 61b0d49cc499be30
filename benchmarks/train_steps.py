"""Seconds and memory a step of training, for two checkouts of this project in pairs.

    python benchmarks/train_steps.py before=/tmp/before after=. --pairs 3

Trains a flat encoder (MiniLM, 22M, all weights) and a LoRA judge (SmolLM2, 135M, scoring) on
made-up dialogues with one and two processes on the CPU, by each checkout's own command line, in
fp32. Every process notes when a step ends and stops after the last: loading, golden scores and the
check do not count. The two checkouts take turns; a figure is the median of the pairs' medians, and
memory is that of the largest process. The load is printed beside them: on a busy machine only the
ratio says anything.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

WORDS = "the film was good but I like music and trains more than books about a city"
ROWS_A_STEP = 8
WARM, STEPS = 1, 5  # the first step allocates memory and is left out
MODELS: dict[str, dict[str, Any]] = {
    "encoder": {"family": "encoder", "base": "embedded:minilm", "max_tokens": 256},
    "lora": {
        "family": "lora",
        "base": "embedded:smollm2",
        "max_tokens": 512,
        "rank": 16,
    },
}
# Python runs this before the program, whatever the checkout: it knows nothing of the project.
HOOK = f"""
import os, resource, time
from torch.optim.optimizer import register_optimizer_step_post_hook

times = []

def note(*_):
    times.append(time.perf_counter())
    if len(times) == {WARM + STEPS}:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        with open(os.path.join(os.environ["STEP_TIMES"], str(os.getpid())), "w") as stream:
            stream.write(" ".join(map(str, [peak, *times])))
        os._exit(0)

register_optimizer_step_post_hook(note)
"""


def write_rows(path: Path, count: int) -> None:
    rng, words = random.Random(0), WORDS.split()
    with path.open("w", encoding="utf-8") as stream:
        for number in range(count):
            turns = []
            for turn in range(8):
                role = "assistant" if turn % 2 else "user"
                turns.append(
                    {"role": role, "content": " ".join(rng.choices(words, k=15))}
                )
            row = {
                "id": str(number),
                "lang": "en",
                "dialogue": turns,
                "level": "dialogue",
            }
            row |= {
                "labels": {"overall": rng.randint(1, 5)},
                "scales": {"overall": [1, 5]},
            }
            stream.write(json.dumps(row) + "\n")


def settings(code: Path, model: str, processes: int, folder: Path) -> dict[str, Any]:
    """The config of a run of one epoch in the form that ``code`` reads."""
    config: dict[str, Any] = {
        "name": "steps",
        "output_dir": str(folder / "judge"),
        "rubric": "overall",
        "model": dict(MODELS[model]),
        "train": [{"source": str(folder / "rows.jsonl")}],
    }
    batch = ROWS_A_STEP // processes
    if (code / "training" / "train.py").is_file():
        arguments = {"num_train_epochs": 1, "per_device_train_batch_size": batch}
        return config | {"args": arguments | {"save_strategy": "no"}}
    if model == "encoder":  # the loop of our own, before transformers' Trainer
        config["model"] |= {
            "shape": "flat",
            "net": "sequence",
            "pooling": "mean",
            "features": [],
        }
    optim = {"epochs": 1, "batch_size": batch, "mixed_precision": "no"}
    return config | {"optim": optim, "stop": {"keep": "last"}}


def run(code: Path, model: str, processes: int) -> tuple[float, float]:
    """(median seconds a step, MB of the largest process) of a run."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "hook").mkdir()
        (folder / "times").mkdir()
        (folder / "hook" / "sitecustomize.py").write_text(HOOK, encoding="utf-8")
        write_rows(folder / "rows.jsonl", (WARM + STEPS + 2) * ROWS_A_STEP)
        config = settings(code, model, processes, folder)
        (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        script = [str(code / "training" / "train.py")]
        if not Path(script[0]).is_file():
            script = ["-m", "medal_judges.training"]
        command = [sys.executable]
        if processes > 1:
            accelerate = str(code / "configs" / "accelerate" / "cpu.yaml")
            command += ["-m", "accelerate.commands.launch", "--config_file", accelerate]
        environment = os.environ | {
            "PYTHONPATH": f"{folder / 'hook'}:{code / 'src'}",
            "STEP_TIMES": str(folder / "times"),
            "ACCELERATE_USE_CPU": "true",
            "OMP_NUM_THREADS": str(2 // processes),
            "HF_HUB_OFFLINE": "1",
        }
        command += [*script, "--config", str(folder / "config.yaml")]
        done = subprocess.run(
            command, env=environment, cwd=code, capture_output=True, text=True
        )
        noted = [path.read_text().split() for path in (folder / "times").iterdir()]
        if len(noted) != processes:
            raise SystemExit(
                f"{code}: {' '.join(command)}\n{done.stdout}\n{done.stderr[-3000:]}"
            )
        ends = [float(number) for number in noted[0][WARM:]]
        seconds = [end - start for start, end in pairwise(ends)]
        return statistics.median(seconds), max(float(numbers[0]) for numbers in noted)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("code", nargs="+", metavar="NAME=CHECKOUT")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--processes", nargs="+", type=int, default=[1, 2])
    options = parser.parse_args()
    checkouts = dict(pair.split("=", 1) for pair in options.code)
    names = list(checkouts)
    for model in options.models:
        for processes in options.processes:
            seconds: dict[str, list[float]] = {name: [] for name in names}
            peaks: dict[str, list[float]] = {name: [] for name in names}
            for pair in range(options.pairs):
                for name in names if pair % 2 else reversed(names):
                    second, peak = run(
                        Path(checkouts[name]).resolve(), model, processes
                    )
                    seconds[name].append(second)
                    peaks[name].append(peak)
            for name in names:
                listed = ", ".join(f"{second:.2f}" for second in seconds[name])
                middle, peak = (
                    statistics.median(seconds[name]),
                    statistics.median(peaks[name]),
                )
                figures = f"{middle:.2f} s a step ({listed}), {peak:.0f} MB"
                load = f"load {os.getloadavg()[0]:.1f}"
                print(
                    f"{model}, {processes} processes, {name}: {figures}; {load}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
