"""Everything that the package does on a GPU, measured in one command that needs no network.

    make gpu-check                                # nine minutes at most; run it again to go on
    python benchmarks/gpu/check.py [--only NAME ...] [--fresh] [--minutes 9] [--results FILE]
    python benchmarks/gpu/check.py --small             # the same in a tiny form, on a CPU too
    python benchmarks/gpu/check.py --report            # the results into docs/howto/gpu.md

Each check is a process of its own with a time limit, so that memory that runs out in one ends no
other. What is done stands in the results (JSON) and is not done again on the same device with the
same versions, but with --fresh. Exit status: 0 all is well, 1 a number is wrong or a check failed,
2 there is no GPU, 3 the time was up before the last check.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).resolve()
ROOT = SCRIPT.parents[2]
RESULTS = ROOT / "runs" / "gpu" / "results.json"
MODELS = ROOT / "runs" / "gpu" / "models"
# Check -> its title, and the seconds that it may take.
CHECKS = {
    "agreement": ("Scores of a GPU and of a CPU", 90),
    "score-large": ("ModernBERT-large scores, bf16", 180),
    "lora": ("LoRA on Qwen3-4B", 180),
    "prefix": ("Follow-ups on Qwen3-4B, bf16", 180),
    "train-large": ("Fine-tuning ModernBERT-large", 210),
    "memory": ("Memory runs out", 75),
    "command": ("The whole of medal train", 120),
    "zero2": ("LoRA on Qwen3-4B, ZeRO-2", 150),
    "qlora": ("QLoRA on Qwen3-4B", 150),
}
COLUMNS = ["check", "what", "tokens/s", "of the matrix peak", "memory, GiB", "result"]
PACKAGES = "torch transformers accelerate peft deepspeed bitsandbytes flash-attn triton"
LEAST_SECONDS = 20  # with less left no check is begun
SMALL_TIMES = 6  # the small form on a busy CPU may take so many times a check's limit
Outcome = dict[str, Any]  # check, form, device, versions, date, state, said, rows


def about_machine() -> tuple[str, dict[str, str]]:
    """The GPU's name and memory, or ``CPU``, and the versions that the numbers depend on."""
    import torch

    device = "CPU"
    if torch.cuda.is_available():
        gpu = torch.cuda.get_device_properties(0)
        gib = gpu.total_memory / 2**30
        device = f"{gpu.name}, {gib:.0f} GiB, CUDA {torch.version.cuda}"
    versions = {"python": sys.version.split()[0]}
    for package in PACKAGES.split():
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return device, versions


def work(name: str, models: Path, small: bool, result: Path) -> None:
    """Run a check in this process. Each row is appended to ``result`` as it comes, so that a
    process that is ended keeps what it has measured."""
    from gpu import adapters, encoder, language
    from gpu.measure import Setting

    run = {
        "agreement": encoder.agreement,
        "score-large": encoder.scoring,
        "lora": adapters.adapters,
        "prefix": language.prefixes,
        "train-large": encoder.training,
        "memory": encoder.memory,
        "command": encoder.command,
        "zero2": adapters.sharded,
        "qlora": adapters.quantised,
    }[name]
    for row in run(Setting(models, small)):
        with result.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(asdict(row)) + "\n")


def command(name: str, arguments: list[str], on_cpu: bool) -> list[str]:
    """The command line of a check's process."""
    if name != "zero2":
        return [sys.executable, str(SCRIPT), *arguments]
    settings = ROOT / "configs" / "deepspeed" / f"zero2{'_cpu' * on_cpu}.json"
    launch = [
        sys.executable,
        "-m",
        "accelerate.commands.launch",
        "--num_processes",
        "1",
    ]
    launch += ["--config_file", str(ROOT / "configs" / "accelerate" / "gpu8.yaml")]
    launch += ["--deepspeed_config_file", str(settings)]
    return [*launch, str(SCRIPT), *arguments]


def run_check(name: str, models: Path, small: bool, limit: float) -> Outcome:
    """Run a check in a process of its own, ended after ``limit`` seconds."""
    device, versions = about_machine()
    with tempfile.TemporaryDirectory() as folder:
        result, log = Path(folder) / "rows.jsonl", Path(folder) / "log"
        result.touch()
        arguments = ["--work", name, "--models", str(models), *["--small"] * small]
        line = command(name, [*arguments, "--results", str(result)], device == "CPU")
        environment = os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1"}
        with log.open("w") as stream:
            process = subprocess.Popen(
                line,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=ROOT,
                start_new_session=True,
            )
            said = ""
            try:
                status = process.wait(limit)
            except subprocess.TimeoutExpired:
                status, said = 1, f"ended after {limit:.0f} s"
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        rows = [json.loads(each) for each in result.read_text("utf-8").splitlines()]
        tail = log.read_text("utf-8", "replace")[-4000:]
    if status and not said and not rows:
        said = f"exit status {status}: {tail.strip().splitlines()[-1:]}"
    states = {row["state"] for row in rows}
    state = "done"
    if said or "failed" in states:
        state = "failed"
        print(tail, file=sys.stderr)
    elif states <= {"not run"}:
        state = "not run"
    return {
        "check": name,
        "form": "small" if small else "full",
        "device": device,
        "versions": versions,
        "date": date.today().isoformat(),
        "state": state,
        "said": said,
        "rows": rows,
    }


def cells(outcome: Outcome, title: str) -> list[list[str]]:
    """The lines of a check: what, tokens/s, share, memory and the result in words."""
    lines = []
    for row in outcome["rows"]:
        formats = {"tokens_per_s": ",.0f", "share": ".0%", "memory_gib": ".1f"}
        numbers = []
        for name, form in formats.items():
            numbers.append("" if row[name] is None else format(row[name], form))
        state = "" if row["state"] == "done" else f"{row['state']}: "
        lines.append([title, row["what"], *numbers, state + row["said"]])
    if outcome["said"]:
        lines.append([title, "", "", "", "", f"{outcome['state']}: {outcome['said']}"])
    return [
        [cell.replace("|", "/").replace("\n", " ") for cell in line] for line in lines
    ]


def into_documents(outcomes: dict[str, Outcome]) -> None:
    """Write the tables of docs/howto/gpu.md: the rows, and what they were measured on."""
    sys.path.insert(0, str(ROOT / "tests"))
    import doc_tables

    lines, runs = [COLUMNS], {}
    for name, (title, _) in CHECKS.items():
        outcome = outcomes.get(name)
        if outcome is None:
            lines.append([f"{title} (`{name}`)", "", "", "", "", "not run"])
            continue
        lines += cells(outcome, f"{title} (`{name}`)")
        versions = ", ".join(map(" ".join, outcome["versions"].items()))
        runs.setdefault((outcome["date"], outcome["device"], versions), []).append(name)
    doc_tables.write_csv("gpu", lines)
    about = [[*machine, ", ".join(names)] for machine, names in sorted(runs.items())]
    doc_tables.write_csv("gpu_runs", [["date", "device", "versions", "checks"], *about])
    doc_tables.rewrite_pages()


def machine_of(outcome: Outcome) -> tuple[str, dict[str, str], str]:
    """What a check is done again for."""
    return outcome["device"], outcome["versions"], outcome["form"]


def run_all(names: Sequence[str], options: argparse.Namespace) -> int:
    """Run what is not done yet within the time; returns the exit status."""
    outcomes: dict[str, Outcome] = {}
    if options.results.exists():
        outcomes = json.loads(options.results.read_text("utf-8"))
    here = (*about_machine(), "small" if options.small else "full")
    end = time.monotonic() + 60 * options.minutes
    late = []
    for name in names:
        before = outcomes.get(name)
        is_done = before is not None and before["state"] == "done"
        if is_done and not options.fresh and machine_of(before) == here:
            print(f"{name}: done before", flush=True)
            continue
        left = end - time.monotonic()
        limit = CHECKS[name][1] * (SMALL_TIMES if options.small else 1)
        if left < LEAST_SECONDS:
            late.append(name)
            continue
        outcome = run_check(name, options.models, options.small, min(limit, left))
        outcomes[name] = outcome
        options.results.parent.mkdir(parents=True, exist_ok=True)
        options.results.write_text(json.dumps(outcomes, indent=1), encoding="utf-8")
        for line in cells(outcome, name):
            print("  ".join(filter(None, line)), flush=True)
    if late:
        print(f"the time was up before {', '.join(late)}: run it again")
    if any(outcomes[name]["state"] == "failed" for name in names if name in outcomes):
        return 1
    return 3 if late else 0


def main() -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", nargs="+", choices=CHECKS, default=[*CHECKS])
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--models", type=Path, default=MODELS)
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--work", choices=CHECKS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.report:
        into_documents(json.loads(options.results.read_text("utf-8")))
        return 0
    sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "src")]
    try:
        device, _ = about_machine()
    except ModuleNotFoundError as error:
        print(f"gpu-check: {error.name} is not installed", file=sys.stderr)
        return 2
    if options.work:
        work(options.work, options.models.resolve(), options.small, options.results)
        return 0
    if device == "CPU" and not options.small:
        print(
            "gpu-check: there is no GPU here; --small works on a CPU", file=sys.stderr
        )
        return 2
    # the check's process is ended too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    return run_all(options.only, options)


if __name__ == "__main__":
    sys.exit(main())
