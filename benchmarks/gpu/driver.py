"""Runs the checks one after the other, each in its process; the journal of what is done."""

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
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from medal_judges.storage.jsonl import Journal

from .checks import CHECKS, command, work
from .measure import Outcome, Row, Setting, State, outcome
from .report import into_documents, show

SCRIPT = Path(__file__).with_name("check.py")
ROOT = SCRIPT.parents[2]
PACKAGES = (
    *("torch", "transformers", "accelerate", "peft", "deepspeed"),
    *("bitsandbytes", "flash-attn", "triton"),
)
LEAST_SECONDS = 20  # with less left no check is begun
SMALL_TIMES = 6  # the small form on a busy CPU may take so many times a check's limit
NO_GPU, TIME_UP = 2, 3


def device_name() -> str:
    """The GPU's name and driver-side memory, or ``CPU``."""
    import torch

    if not torch.cuda.is_available():
        return "CPU"
    about = torch.cuda.get_device_properties(0)
    return (
        f"{about.name}, {about.total_memory / 2**30:.0f} GiB, CUDA {torch.version.cuda}"
    )


def versions() -> dict[str, str]:
    """Installed versions of what the numbers depend on."""
    found = {"python": sys.version.split()[0]}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def run_check(name: str, setting: Setting, device: str, limit: float) -> Outcome:
    """Run a check in a process of its own, ended after ``limit`` seconds."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        result, log = Path(folder) / "rows.jsonl", Path(folder) / "log"
        own = ["--work", name, "--result", str(result), "--models", str(setting.folder)]
        line = command(
            name, SCRIPT, own + ["--small"] * setting.small, cpu=device == "CPU"
        )
        environment = os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1"}
        paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        with log.open("w") as stream:
            process = subprocess.Popen(
                line,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=ROOT,
                start_new_session=True,
            )
            try:
                status: int | None = process.wait(limit)
            except subprocess.TimeoutExpired:
                status = None
            finally:
                _end(process)
        lines = result.read_text("utf-8").splitlines() if result.exists() else []
        rows, said = [Row(**json.loads(each)) for each in lines], ""
        if status is None:
            said = f"ended after {limit:.0f} s"
        elif status and not rows:
            said = f"exit status {status}: {_last_words(log)}"
        if status != 0 or any(row.state == "failed" for row in rows):
            print(_tail(log), file=sys.stderr)
    states = {row.state for row in rows}
    state: State = "done"
    if said or "failed" in states:
        state = "failed"
    elif states <= {"not run"}:
        state = "not run"
    spent = time.monotonic() - start
    form = "small" if setting.small else "full"
    today = date.today().isoformat()
    return Outcome(
        name, form, device, versions(), today, round(spent, 1), state, said, rows
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what is left of the check's session."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _tail(log: Path, size: int = 4000) -> str:
    return log.read_text("utf-8", "replace")[-size:]


def _last_words(log: Path) -> str:
    lines = [each for each in _tail(log).splitlines() if each.strip()]
    return lines[-1][:300] if lines else "it said nothing"


def kept(journal: Path, form: str, device: str) -> dict[str, Outcome]:
    """The last outcome of each check of this form, on this device with these versions."""
    here = json.dumps(versions(), sort_keys=True)
    found = Journal(journal).by_key(outcome, lambda each: each.key).values()
    return {o.check: o for o in found if o.key[1:] == (form, device, here)}


def run_all(
    names: Sequence[str],
    setting: Setting,
    journal: Path,
    minutes: float,
    *,
    fresh: bool = False,
) -> int:
    """Run what is not done yet (``fresh``: all), within ``minutes``; the exit status."""
    device, end = device_name(), time.monotonic() + 60 * minutes
    form = "small" if setting.small else "full"
    before = {} if fresh else kept(journal, form, device)
    done = {name for name, each in before.items() if each.state == "done"}
    late = []
    for name in names:
        if name in done:
            print(f"{name}: done before", flush=True)
            continue
        left = end - time.monotonic()
        limit = CHECKS[name].seconds * (SMALL_TIMES if setting.small else 1)
        if left < LEAST_SECONDS:
            late.append(name)
            continue
        found = run_check(name, setting, device, min(limit, left))
        if found.seconds < limit and found.said.startswith("ended after"):
            # its own time was not up: it is begun again by the next run
            late.append(name)
            continue
        Journal(journal).append([found])
        print(
            f"{name}: {found.state} in {found.seconds:.0f} s {found.said}", flush=True
        )
    outcomes = kept(journal, form, device)
    show([outcomes[name] for name in names if name in outcomes])
    if late:
        print(
            f"the time was up before {', '.join(late)}: run it again, the rest is kept"
        )
    if any(o.state == "failed" for n, o in outcomes.items() if n in names):
        return 1
    return TIME_UP if late else 0


def arguments(about: str) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--small", action="store_true", help="tiny shapes, on a CPU too"
    )
    parser.add_argument("--only", nargs="+", choices=sorted(CHECKS), metavar="NAME")
    parser.add_argument("--fresh", action="store_true", help="do again what is done")
    parser.add_argument("--minutes", type=float, default=9.0, help="of the whole run")
    parser.add_argument(
        "--journal", type=Path, default=ROOT / "runs" / "gpu" / "journal.jsonl"
    )
    parser.add_argument(
        "--models",
        type=Path,
        default=ROOT / "runs" / "gpu" / "models",
        help="where random weights are made and kept",
    )
    parser.add_argument(
        "--report", action="store_true", help="the journal's table into the docs"
    )
    parser.add_argument("--list", action="store_true", help="the names of the checks")
    parser.add_argument("--work", choices=sorted(CHECKS), help=argparse.SUPPRESS)
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def main(about: str) -> int:
    """The command; its exit status."""
    options = arguments(about)
    setting = Setting(options.models.resolve(), options.small)
    if options.work:
        work(options.work, setting, options.result)
        return 0
    if options.list:
        print("\n".join(f"{name}: {check.title}" for name, check in CHECKS.items()))
        return 0
    if options.report:
        journal = Journal(options.journal).by_key(outcome, lambda each: each.key)
        into_documents(CHECKS, list(journal.values()))
        return 0
    if device_name() == "CPU" and not options.small:
        print(
            "gpu-check: there is no GPU here; python benchmarks/gpu/check.py --small shows on a "
            "CPU that the checks work",
            file=sys.stderr,
        )
        return NO_GPU
    names = [name for name in CHECKS if not options.only or name in options.only]
    # the check's process is ended too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    return run_all(
        names, setting, options.journal, options.minutes, fresh=options.fresh
    )
