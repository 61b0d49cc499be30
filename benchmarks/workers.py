"""One process with all threads beside one process a core with one thread each, whole commands.

python benchmarks/workers.py run CHATS RAW.jsonl --judge boxed --dtype bf16   (a judge at a time)
python benchmarks/workers.py table RAW.jsonl --keep workers
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from into_docs import keep

CORES = len(os.sched_getaffinity(0))
_SAID = re.compile(r"([\d]+) dialogues in [0-9.]+ s: ([0-9.]+) dialogues/s")


def measured(options: argparse.Namespace, workers: int, out: Path) -> dict[str, object]:
    """What one run of the command did: dialogues/s while judging, and seconds in all."""
    environ = {**os.environ, "OMP_NUM_THREADS": str(CORES // workers)}
    command = [sys.executable, "-m", "medal_judges", "score", options.chats, "--overwrite"]
    command += ["--judge", options.judge, "--workers", str(workers), "--out", str(out)]
    command += ["--min-coverage", "0", *(["--dtype", options.dtype] if options.dtype else [])]
    start = time.perf_counter()
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    said = _SAID.search(done.stderr)
    assert said is not None, done.stderr
    return {
        "judge": " ".join([options.judge, *([options.dtype] if options.dtype else [])]),
        "dialogues": int(said[1]),
        "workers": workers,
        "rate": float(said[2]),
        "seconds": time.perf_counter() - start,
    }


def run(options: argparse.Namespace) -> None:
    """Measure one process and several, one after the other, and add both to the file."""
    with tempfile.TemporaryDirectory() as folder, open(options.raw, "a") as stream:
        for workers in (1, CORES):
            found = measured(options, workers, Path(folder) / f"{workers}.jsonl")
            stream.write(json.dumps(found) + "\n")
            stream.flush()
            print(found, flush=True)


def table(options: argparse.Namespace) -> None:
    """The table of all that the file holds; of equal runs the last."""
    with open(options.raw) as stream:
        rows = [json.loads(line) for line in stream]
    by = {(row["judge"], row["workers"]): row for row in rows}
    heads = [f"1 x {CORES} threads", f"{CORES} x 1 thread"]
    said = [f"dialogues/s, {head}" for head in heads] + ["times"]
    said += [f"seconds in all, {head}" for head in heads]
    lines = [f"| | dialogues | {' | '.join(said)} |"]
    for judge in dict.fromkeys(row["judge"] for row in rows):
        one, several = by[judge, 1], by[judge, CORES]
        times = several["rate"] / one["rate"]
        cells = [f"{one['dialogues']:,}", f"{one['rate']:,.0f}", f"{several['rate']:,.0f}"]
        cells += [f"{times:.2f}", f"{one['seconds']:.1f}", f"{several['seconds']:.1f}"]
        lines.append(f"| `{judge}` | {' | '.join(cells)} |")
    keep(options.keep, "\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("run")
    one.add_argument("chats")
    one.add_argument("raw", type=Path)
    one.add_argument("--judge", required=True)
    one.add_argument("--dtype")
    one.set_defaults(do=run)
    other = commands.add_parser("table")
    other.add_argument("raw", type=Path)
    other.add_argument("--keep")
    other.set_defaults(do=table)
    options = parser.parse_args()
    options.do(options)


if __name__ == "__main__":
    main()
