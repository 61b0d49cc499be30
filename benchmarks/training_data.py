"""Memory and time of a training run's start on files of several sizes, first and second time.

    python benchmarks/training_data.py [--sizes 10000 100000 1000000] [--plain 10000]

Each start is a process of its own: it reads the rows, checks them against 200 held-out ones,
tokenises them for an encoder on embedded MiniLM (net: sequence, which reads no features), cuts an
epoch's batches and takes three steps of four dialogues. The memory told is the
highest anonymous one of the process (what is mapped from files can be dropped at any time), and
the same with mapped files. ``--plain`` sizes are read into memory instead, as small files are.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

HELD_OUT = 200
WORDS = 3000


def write_rows(path: Path, count: int, seed: int) -> None:
    """Dialogues of 4 to 12 turns of 4 to 20 made-up words; about 1,000 characters each."""
    rng = np.random.default_rng(seed)
    letters = np.array(list("abcdefghijklmnoprstu"))
    words = ["".join(rng.choice(letters, rng.integers(3, 9))) for _ in range(WORDS)]
    with path.open("w", encoding="utf-8") as stream:
        for number in range(count):
            turns = []
            for place in range(2 * int(rng.integers(2, 7))):
                chosen = rng.integers(0, WORDS, int(rng.integers(4, 21)))
                role = ("user", "assistant")[place % 2]
                turns.append({"role": role, "content": " ".join(words[i] for i in chosen)})
            row = {"id": f"{path.stem}-{number}", "lang": "en", "dialogue": turns}
            labels = {"overall": [int(rng.integers(1, 6))]}
            stream.write(json.dumps(row | {"labels": labels, "scales": {"overall": [1, 5]}}) + "\n")


class Watch:
    """The highest memory of this process, looked at every 50 ms: (anonymous, resident) in MB."""

    def __init__(self) -> None:
        self.highest = {"RssAnon": 0, "VmRSS": 0}
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        while True:
            for line in Path("/proc/self/status").read_text().splitlines():
                name, _, value = line.partition(":")
                if name in self.highest:
                    self.highest[name] = max(self.highest[name], int(value.split()[0]) // 1000)
            time.sleep(0.05)


def start(folder: Path, plain: bool) -> None:
    """One start in this process; prints a line of JSON."""
    import torch

    from medal_judges.config import build_config
    from medal_judges.models.encoder.judge import EncoderJudge
    from medal_judges.records.dimension import load_rubric
    from medal_judges.training.config import TrainConfig
    from medal_judges.training.loop.loop import epoch_batches
    from medal_judges.training.rows import row_store
    from medal_judges.training.rows.rows import load_rows
    from medal_judges.training.run import start_loop

    row_store.LARGE = 10**12 if plain else 1
    model = {"family": "encoder", "base": "embedded:minilm", "shape": "flat", "max_tokens": 256}
    model |= {"net": "sequence", "pooling": "cls", "features": []}
    model |= {"heads": {"overall": {"kind": "regression"}}}
    settings = {
        "name": "speed",
        "output_dir": str(folder / "run"),
        "rubric": "overall",
        "model": model,
        "train": [{"source": str(folder / "train.jsonl")}],
        "validation": [{"source": str(folder / "validation.jsonl")}],
        "optim": {"batch_size": 4},
    }
    config = build_config(TrainConfig, settings, where="speed")
    dimensions = load_rubric("overall")
    torch.manual_seed(0)
    judge = EncoderJudge.create(config.model, dimensions)  # type: ignore[arg-type]
    watch, began = Watch(), time.perf_counter()
    rows = load_rows(config, dimensions)
    read = time.perf_counter() - began
    loop = start_loop(config, judge, rows.train, rows.validation, "speed")
    batches = epoch_batches(loop.train.lengths, config.optim, seed=0, epoch=0)
    ready = time.perf_counter() - began
    for batch in batches[:3]:
        loop._step([batch])
    print(json.dumps({"read": read, "ready": ready} | watch.highest))


def measured(folder: Path, plain: bool) -> dict[str, float]:
    """The figures of a start in a process of its own."""
    command = [
        sys.executable,
        __file__,
        "--start",
        str(folder),
        *(["--in-memory"] if plain else []),
    ]
    environment = os.environ | {"MEDAL_JUDGES_CACHE": str(folder / "cache")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--plain", type=int, nargs="*", default=[10_000])
    parser.add_argument("--start", type=Path, help="used by the script itself")
    parser.add_argument("--in-memory", action="store_true", help="used by the script itself")
    args = parser.parse_args()
    if args.start:
        start(args.start, args.in_memory)
        return
    table = Table(title="A training run's start (MB, s)")
    for column in (
        "dialogues",
        "file",
        "start",
        "rows read",
        "first step",
        "anonymous",
        "resident",
    ):
        table.add_column(column, justify="right")
    console = Console()
    for plain, sizes in ((True, args.plain), (False, args.sizes)):
        for count in sizes:
            with tempfile.TemporaryDirectory() as place:
                folder = Path(place)
                write_rows(folder / "train.jsonl", count, 1)
                write_rows(folder / "validation.jsonl", HELD_OUT, 2)
                size = f"{(folder / 'train.jsonl').stat().st_size / 1e6:.0f}"
                for name in ("in memory",) if plain else ("first", "second"):
                    f = measured(folder, plain)
                    times = (f"{f['read']:.1f}", f"{f['ready']:.1f}")
                    memory = (f"{f['RssAnon']:.0f}", f"{f['VmRSS']:.0f}")
                    table.add_row(f"{count:,}", size, name, *times, *memory)
                    console.print(count, name, f)
    console.print(table)


if __name__ == "__main__":
    main()
