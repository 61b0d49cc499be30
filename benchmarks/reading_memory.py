"""Peak memory and speed of reading many chats beside few, each in a process of its own.

python benchmarks/reading_memory.py [--container parquet] [--many 1000000] [--few 1000]

Containers: parquet, jsonl, csv (one turn a row), json (an array).
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from memory import four_turns

from medal_judges.reading.dialogues import ReadingReport, read_dialogues

_BLOCK = 10_000


def chats(count: int) -> Iterator[dict[str, Any]]:
    """Chats of four turns, each turn a sentence of its own."""
    rng = random.Random(0)
    for number in range(count):
        model = f"bot-{number % 9}"
        yield {
            "id": f"d{number}",
            "lang": "en",
            "model": model,
            "messages": four_turns(rng),
        }


def write(path: Path, container: str, count: int) -> None:
    if container == "parquet":
        _write_parquet(path, count)
        return
    with path.open("w", encoding="utf-8", newline="") as stream:
        if container == "csv":
            writer = csv.writer(stream)
            writer.writerow(["conversation_id", "role", "content", "model"])
            for chat in chats(count):
                for turn in chat["messages"]:
                    writer.writerow(
                        [chat["id"], turn["role"], turn["content"], chat["model"]]
                    )
            return
        between = ",\n" if container == "json" else "\n"
        stream.write("[" if container == "json" else "")
        for number, chat in enumerate(chats(count)):
            stream.write((between if number else "") + json.dumps(chat))
        stream.write("]" if container == "json" else "\n")


def _write_parquet(path: Path, count: int) -> None:
    """One row group for all rows, as writers do by default up to a million."""
    blocks, block = [], []
    for chat in chats(count):
        block.append(chat)
        if len(block) == _BLOCK:
            blocks.append(pa.Table.from_pylist(block))
            block = []
    table = pa.concat_tables(blocks + ([pa.Table.from_pylist(block)] if block else []))
    pq.write_table(table.combine_chunks(), path)


def child(path: str) -> None:
    """Read ``path``; print how many dialogues, the peak memory in KiB, and seconds."""
    start, reading = time.perf_counter(), ReadingReport()
    for _ in read_dialogues(path, reading=reading):
        pass
    seconds = time.perf_counter() - start
    print(reading.read, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, seconds)


def measured(path: Path) -> tuple[int, float, float]:
    """(Dialogues, peak in MB, seconds) of reading ``path`` in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--child", str(path)],
        stdout=subprocess.PIPE,
        check=True,
    )
    read, peak, seconds = done.stdout.split()
    return int(read), int(peak) / 1024, float(seconds)


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2])
        return
    if sys.argv[1:2] == ["--write"]:
        write(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--container", default="parquet")
    parser.add_argument("--many", type=int, default=1_000_000)
    parser.add_argument("--few", type=int, default=1_000)
    options = parser.parse_args()
    peaks = []
    with tempfile.TemporaryDirectory() as folder:
        for count in (options.few, options.many):
            path = Path(folder) / f"{count}.{options.container}"
            # A process begins with its parent's peak: who measures must not have made the file.
            made = [
                sys.executable,
                __file__,
                "--write",
                str(path),
                options.container,
                str(count),
            ]
            subprocess.run(made, check=True)
            read, peak, seconds = measured(path)
            assert read == count
            peaks.append(peak)
            size = path.stat().st_size / 1e6
            print(
                f"{count} chats ({size:.0f} MB): peak {peak:.0f} MB, {seconds:.1f} s",
                flush=True,
            )
    print(f"{options.container}: difference {peaks[1] - peaks[0]:.0f} MB")


if __name__ == "__main__":
    main()
