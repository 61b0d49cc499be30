"""One process with all threads beside one process a core with one thread each, whole commands.

python tests/speed/workers.py CHATS --judge length --judge repetition --judge boxed
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CORES = len(os.sched_getaffinity(0))
_SAID = re.compile(r"dialogues in ([0-9.]+) s: ([0-9.]+) dialogues/s")


def measured(chats: Path, judge: str, workers: int, out: Path) -> tuple[float, float]:
    """(Seconds of the command, dialogues/s while judging)."""
    environ = {**os.environ, "OMP_NUM_THREADS": str(CORES // workers)}
    command = [sys.executable, "-m", "medal_judges", "score", str(chats), "--judge", judge]
    command += ["--workers", str(workers), "--out", str(out), "--min-coverage", "0", "--overwrite"]
    start = time.perf_counter()
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    said = _SAID.search(done.stderr)
    assert said is not None, done.stderr
    return time.perf_counter() - start, float(said[2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("chats", type=Path)
    parser.add_argument("--judge", action="append", required=True)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for judge in asked.judge:
            rates = []
            for workers in (1, CORES):
                out = Path(folder) / f"{workers}.jsonl"
                seconds, rate = measured(asked.chats, judge, workers, out)
                rates.append(rate)
                print(f"{judge}: {workers} x {CORES // workers} threads: {rate:.1f} dialogues/s, "
                      f"{seconds:.1f} s in all", flush=True)  # fmt: skip
            print(f"{judge}: {rates[1] / rates[0]:.2f} times", flush=True)


if __name__ == "__main__":
    main()
