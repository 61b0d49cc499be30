"""``medal score`` beside other ways to read the same turns with the same encoder, in one run.

    python tests/speed/against_peers.py run RESULTS.jsonl --peers PYTHON [--chats 300] [--only WORD]
    python tests/speed/against_peers.py table RESULTS.jsonl [--keep]

Every row is a process of its own and one line of RESULTS; the same command goes on after the last
row that stands there. Peers get the distinct turns (MiniLM, chit-chat, none longer than the judge's
window) and give vectors; ``medal score`` reads chats from a file, and besides measures turns, gives
scores and writes them. Agreement is of the scores that the embedded judge gives with a peer's
vectors, with those of ``medal score`` in fp32. ``--peers`` names a Python with
sentence-transformers, optimum's ONNX and OpenVINO backends and nncf, whose transformers is an older
one than ours.
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from encoder_batching import mixed_dialogues
from into_docs import doc_tables
from into_docs import keep as keep_table
from peer_encoder import PEERS
from scipy.stats import spearmanr

from medal_judges.dialogue import Dialogue
from medal_judges.jsonl import read_records, write_records
from medal_judges.judgement import parse_judgement
from medal_judges.models.base.judge import Judge
from medal_judges.models.embedded import resolve
from medal_judges.models.encoder.judge import EncoderJudge

OURS = {f"medal score, {p}": p for p in ("fp32", "bf16")}
COLD = "medal score, ten dialogues"
ELSEWHERE = ("onnx", "openvino")  # backends of the peers' own Python
HEADER = (
    "",
    "tokens/s",
    "share of the bare forward",
    "dialogues/s",
    "start-up, s",
    "peak, MB",
    "largest difference of a score",
    "Spearman",
)


def chosen(count: int, judge: EncoderJudge) -> tuple[list[Dialogue], list[str], list[list[int]]]:
    """Chats whose turns all fit the window, their distinct turns, and those in tokens."""
    kept: list[Dialogue] = []
    for dialogue in mixed_dialogues(count * 2):
        pieces = judge.turns.pieces([turn.content for turn in dialogue.turns])
        if all(len(each) == 1 for each in pieces) and len(kept) < count:
            kept.append(dialogue)
    texts = list(dict.fromkeys(t.content for d in kept for t in d.turns))
    return kept, texts, [each[0] for each in judge.turns.pieces(texts)]


def timed(command: Sequence[str]) -> tuple[str, float, float]:
    """(what it printed, wall seconds, peak MB) of a process."""
    begin = time.time()
    environment = os.environ | {"BEGIN": str(begin)}
    peak = 0.0
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
        status = Path(f"/proc/{process.pid}/status")
        while process.poll() is None:  # getrusage would count what this process held when it forked
            if found := re.search(r"VmHWM:\s+(\d+)", status.read_text()):
                peak = int(found[1]) / 1024
            time.sleep(0.02)
        wall = time.time() - begin
        log.seek(0)
        told = log.read()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, told)
    return told, wall, peak


def scored(place: Path, chats: Path, dtype: str) -> tuple[dict[str, Any], list[float]]:
    """A run of ``medal score``, and its scores."""
    out = place / "scores.jsonl"
    command = [sys.executable, "-m", "medal_judges", "score", str(chats), "--out", str(out)]
    told, wall, peak = timed([*command, "--overwrite", "--dtype", dtype, "--device", "cpu"])
    (seconds,) = re.findall(r"dialogues in ([\d.]+) s", told)
    judged = read_records(out, parse_judgement)
    row = {"seconds": float(seconds), "start": wall - float(seconds), "wall": wall, "peak": peak}
    return row, [float(one.scores["overall"] or np.nan) for one in judged]


def agreement(
    judge: EncoderJudge,
    chats: list[Dialogue],
    pieces: list[list[int]],
    vectors: np.ndarray,
    exact: list[float],
) -> dict[str, float]:
    """Largest difference and rank correlation of the scores with ``vectors`` to ``exact``."""
    import torch

    table = dict(zip(map(tuple, pieces), torch.from_numpy(vectors), strict=True))
    judge._embedded = lambda texts: torch.stack([table[tuple(t[0])] for t in texts])  # type: ignore[method-assign]
    return against(exact, [float(j.scores["overall"] or np.nan) for j in judge.score(chats)])


def against(exact: list[float], found: list[float]) -> dict[str, float]:
    largest = max(abs(a - b) for a, b in zip(exact, found, strict=True))
    return {"difference": largest, "spearman": float(spearmanr(exact, found).statistic)}


def run(results: Path, peers: str, count: int, only: str) -> None:
    known = (
        [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    )
    done = {row["row"] for row in known}
    judge = Judge.from_pretrained("boxed", device="cpu")
    assert isinstance(judge, EncoderJudge)
    chats, texts, pieces = chosen(count, judge)
    tokens = sum(map(len, pieces))
    scores_file = results.with_suffix(".scores.json")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        write_records(place / "chats.jsonl", chats)
        write_records(place / "ten.jsonl", chats[:10])
        (place / "texts.json").write_text(json.dumps(texts))

        def keep(name: str, row: dict[str, Any]) -> None:
            line = {"row": name, "chats": count, "turns": len(texts), "tokens": tokens, **row}
            with results.open("a") as out:
                out.write(json.dumps(line) + "\n")
            print(json.dumps(line), flush=True)

        for name, dtype in OURS.items():
            if name not in done and only in name:
                row, scores = scored(place, place / "chats.jsonl", dtype)
                if dtype == "fp32":
                    scores_file.write_text(json.dumps(scores))
                exact = json.loads(scores_file.read_text())
                keep(name, row | against(exact, scores))
        if COLD not in done and only in COLD:
            rows = [scored(place, place / "ten.jsonl", "fp32")[0] for _ in range(3)]
            keep(COLD, min(rows, key=lambda row: float(row["wall"])))
        exact = json.loads(scores_file.read_text())
        for name in PEERS:
            if name in done or only not in name:
                continue
            python = peers if any(word in name for word in ELSEWHERE) else sys.executable
            script, vectors = str(Path(__file__).with_name("peer_encoder.py")), place / "v.npy"
            vectors.unlink(missing_ok=True)
            model = resolve("embedded:minilm")
            given = [name, model, str(place / "texts.json"), str(vectors)]
            try:
                told, _, peak = timed([python, script, *given])
            except subprocess.CalledProcessError as error:  # a row that is missing says "not run"
                print(f"{name}: {error.output[-1500:]}", flush=True)
                continue
            row = json.loads(told.splitlines()[-1]) | {"peak": peak}
            if vectors.exists():
                row |= agreement(judge, chats, pieces, np.load(vectors), exact)
            keep(name, row)


def table(results: Path) -> list[list[str]]:
    """The rows of the document's table, the header first, the quickest row next."""
    rows = {row["row"]: row for row in map(json.loads, results.read_text().splitlines())}
    bare = {p: rate(rows[f"bare packed forward, {p}"]) for p in ("fp32", "bf16")}
    found = [list(HEADER)]
    for name, row in sorted(rows.items(), key=lambda each: -rate(each[1])):
        if name == COLD:
            continue
        precision = name.rpartition(", ")[2]
        share = f"{rate(row) / bare[precision]:.2f}" if precision in bare else ""
        same = ["", ""]
        if "spearman" in row:
            same = [f"{row['difference']:.1e}", f"{row['spearman']:.5f}"]
        cells = [f"{rate(row):,.0f}", share, f"{row['chats'] / row['seconds']:.1f}"]
        cells += [f"{row['start']:.1f}", f"{row['peak']:.0f}", *same]
        found.append([f"**{name}**" if name in OURS else name, *cells])
    missing = [name for name in [*OURS, *PEERS] if name not in rows]
    found += [[name, "not run", *[""] * (len(HEADER) - 2)] for name in missing]
    if (cold := rows.get(COLD)) is not None:
        told = f"{cold['wall']:.1f} s from the command to its end"
        found.append([COLD, "", "", "", told, f"{cold['peak']:.0f}", "", ""])
    return found


def rate(row: dict[str, Any]) -> float:
    return float(row["tokens"] / row["seconds"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("results", type=Path)
    running.add_argument("--peers", required=True)
    running.add_argument("--chats", type=int, default=1000)
    running.add_argument("--only", default="", help="rows whose name holds this word")
    writing = commands.add_parser("table")
    writing.add_argument("results", type=Path)
    writing.add_argument("--keep", action="store_true", help="write the document's table")
    given = parser.parse_args()
    if given.command == "run":
        run(given.results, given.peers, given.chats, given.only)
    else:
        keep_table(
            "against_peers" if given.keep else None, doc_tables.markdown(table(given.results))
        )


if __name__ == "__main__":
    main()
