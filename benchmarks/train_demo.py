"""Fine-tunes multilingual-e5-small on people's ratings with two processes, and benchmarks it.

    python benchmarks/train_demo.py [--out NAME] [STEP ...]

Steps, all by default: ``interrupted`` (regression under DDP, killed after its first checkpoint),
``resumed`` (to its end), ``classification`` (under ZeRO-2), ``benchmark`` (beside boxed, length and
repetition) and ``table``, which prints the table or writes it to docs/results/data/NAME.csv and
into the documents. ``make train-demo`` takes about 12 minutes on two cores. Without
$MEDAL_JUDGES_DATA the ratings are chitchat's.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import into_docs
import psutil

ROOT = Path(__file__).parent.parent
RUN = Path("runs/train_demo")
BIN = Path(sys.executable).parent
DDP = ("--config_file", "configs/accelerate/cpu.yaml")
ZERO_2 = (
    "--config_file",
    "configs/accelerate/cpu_deepspeed.yaml",
    "--deepspeed_config_file",
    "configs/deepspeed/zero2_cpu.json",
)
REGRESSION = (f"output_dir={RUN / 'regression'}",)
CLASSES = (
    f"output_dir={RUN / 'classification'}",
    "name=train_demo_classes",
    "rubric=dstc12",  # whose overall has levels
    "only=[overall]",
    "model.heads.overall.kind=classification",
)
# Without $MEDAL_JUDGES_DATA: what partners said of 7,168 conversations on Telegram.
CHITCHAT = "dimensions: {interesting: overall}, rescale: standardise, min_turns: 6, max_turns: 60"
CHITCHAT_TRAINING = (
    f"train=[{{source: 'chitchat:train', limit: 900, {CHITCHAT}}}]",
    f"validation=[{{source: 'chitchat:validation', limit: 150, {CHITCHAT}}}]",
)
CHITCHAT_SETS = (
    "sets=[{name: chitchat test, source: 'chitchat:test', dimensions: {interesting: overall}, "
    "limit: 300}]",
)


def has_ratings() -> bool:
    return bool(os.environ.get("MEDAL_JUDGES_DATA"))


def launch(
    options: Sequence[str], overrides: Sequence[str]
) -> tuple[list[str], dict[str, str]]:
    """Returns the command line of a training run by two processes, and its environment."""
    command = [str(BIN / "accelerate"), "launch", *options, "training/train.py"]
    command += ["--config", "train_demo", *overrides]
    if not has_ratings():
        command += CHITCHAT_TRAINING
    environment = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    if options == DDP:
        environment["ACCELERATE_USE_CPU"] = "true"
    return command, os.environ | environment


def interrupted() -> None:
    """Starts anew under DDP, and kills the processes after the first checkpoint."""
    shutil.rmtree(RUN, ignore_errors=True)
    command, environment = launch(DDP, REGRESSION)
    running = psutil.Popen(command, env=environment)
    while not list(RUN.glob("regression/checkpoints/checkpoint-*/trainer_state.json")):
        if running.poll() is not None:
            sys.exit(f"the run ended before its first checkpoint: {running.returncode}")
        time.sleep(0.5)
    # The launcher dies first, so that it ends nothing in order; its processes are no group.
    processes = [running, *running.children(recursive=True)]
    seconds = [sum(process.cpu_times()[:2]) for process in processes]
    for process in processes:
        process.kill()
    psutil.wait_procs(processes)
    print(f"killed after {sum(seconds):.0f} CPU seconds")


def resumed() -> None:
    """Types the same command again, which goes on from the checkpoint."""
    command, environment = launch(DDP, REGRESSION)
    subprocess.run(command, env=environment, check=True)


def classification() -> None:
    """Trains the same encoder under ZeRO-2 to tell five classes."""
    command, environment = launch(ZERO_2, CLASSES)
    subprocess.run(command, env=environment, check=True)


def benchmark() -> None:
    """Scores people's dialogues that neither encoder learnt from."""
    command = [str(BIN / "medal"), "benchmark", "--config", "train_demo"]
    if not has_ratings():
        command += CHITCHAT_SETS
    subprocess.run(command, env=os.environ | {"HF_HUB_OFFLINE": "1"}, check=True)


def table() -> str:
    """Returns the figures of the benchmark: a line a judge, a column a set."""
    with (RUN / "benchmark/tables/figures.csv").open(
        encoding="utf-8", newline=""
    ) as file:
        figures = [row for row in csv.DictReader(file) if row["dimension"] == "overall"]
    cells: dict[tuple[str, str], str] = {}
    sets: dict[str, str] = {}
    for figure in figures:
        place = (figure["judge"], figure["set"])
        if figure["metric"] == "spearman":
            sets[figure["set"]] = f"{figure['set']} (n {figure['n']})"
            interval = f"[{float(figure['low']):.2f}, {float(figure['high']):.2f}]"
            cells[place] = f"{float(figure['value']):.2f} {interval}"
    for figure in figures:
        if figure["metric"] == "within_system" and figure["value"]:
            cells[figure["judge"], figure["set"]] += f" ({float(figure['value']):.2f})"
    judges = dict.fromkeys(judge for judge, _ in cells)
    lines = [["judge", "learnt from", "trained by", *sets.values()]]
    for judge in judges:
        lines.append(
            [judge, *how_trained(judge), *(cells[judge, name] for name in sets)]
        )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def how_trained(judge: str) -> tuple[str, str]:
    """Returns what an encoder of this script learnt from and how, empty for other judges."""
    folder = RUN / judge.removeprefix("e5, ")
    if not folder.is_dir():
        return "", ""
    facts = json.loads((folder / "judge.json").read_text(encoding="utf-8"))["facts"]
    data = json.loads((folder / "data.json").read_text(encoding="utf-8"))
    learnt = [
        f"{row['source']} ({row['rows']})" for row in data if row["part"] == "train"
    ]
    how = f"{facts['strategy']}, {facts['processes']} processes, {facts['steps']} steps"
    return ", ".join(learnt), how


STEPS: dict[str, Callable[[], None]] = {
    "interrupted": interrupted,
    "resumed": resumed,
    "classification": classification,
    "benchmark": benchmark,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out")
    parser.add_argument("steps", nargs="*", default=[*STEPS, "table"])
    options = parser.parse_args()
    os.chdir(ROOT)
    for step in options.steps:
        if step == "table":
            into_docs.keep(options.out, table())
            continue
        begun = time.monotonic()
        STEPS[step]()
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = time.monotonic() - begun
        processor = used.ru_utime + used.ru_stime  # without what was killed
        print(
            f"{step}: {seconds:.0f} s; {processor:.0f} CPU seconds so far", flush=True
        )


if __name__ == "__main__":
    main()
