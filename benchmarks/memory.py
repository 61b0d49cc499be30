"""Peak memory of ``medal score`` on many dialogues beside few, each in a process of its own.

python benchmarks/memory.py --judge configs/judges/length.yaml [--many 100000] [--few 1000]
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORDS = [
    "the",
    "film",
    "was",
    "good",
    "but",
    "I",
    "like",
    "music",
    "and",
    "trains",
    "more",
    "than",
    "books",
    "about",
    "a",
    "rainy",
    "city",
]
_SCORE = "from medal_judges.cli import main; main()"


def four_turns(rng: random.Random) -> list[dict[str, str]]:
    """Four turns, each a sentence of its own."""
    return [
        {"role": role, "content": " ".join(rng.choices(WORDS, k=rng.randint(3, 9)))}
        for role in ("user", "assistant") * 2
    ]


def write_dialogues(path: Path, count: int) -> None:
    rng = random.Random(0)
    with path.open("w", encoding="utf-8") as stream:
        for number in range(count):
            turns = four_turns(rng)
            stream.write(
                json.dumps({"id": f"d{number}", "lang": "en", "dialogue": turns}) + "\n"
            )


def peak_mb(source: Path, judge: str, out: Path) -> tuple[float, float]:
    """(peak resident memory in MB, seconds) of scoring ``source`` in a child process."""
    arguments = ["score", str(source), "--judge", judge, "--out", str(out)]
    runner = [
        sys.executable,
        __file__,
        "--child",
        sys.executable,
        "-c",
        _SCORE,
        *arguments,
    ]
    start = time.perf_counter()
    done = subprocess.run(
        runner, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True
    )
    return int(done.stdout) / 1024, time.perf_counter() - start


def child(command: list[str]) -> None:
    """Run ``command`` and print the peak memory in KiB of it alone."""
    subprocess.run(
        command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--judge", required=True)
    parser.add_argument("--many", type=int, default=100_000)
    parser.add_argument("--few", type=int, default=1_000)
    options = parser.parse_args()
    peaks = []
    with tempfile.TemporaryDirectory() as folder:
        for count in (options.few, options.many):
            source = Path(folder) / f"{count}.jsonl"
            write_dialogues(source, count)
            peak, seconds = peak_mb(
                source, options.judge, Path(folder) / f"{count}.out.jsonl"
            )
            peaks.append(peak)
            print(f"{count} dialogues: peak {peak:.0f} MB, {seconds:.1f} s", flush=True)
    print(f"difference {peaks[1] - peaks[0]:.0f} MB")


if __name__ == "__main__":
    main()
