"""``medal score`` beside other ways to read the same turns with the same encoder.

    python benchmarks/against_peers.py run RESULTS.jsonl ROW [ROW ...] --peers PYTHON [--chats 300]
    python benchmarks/against_peers.py agree RESULTS.jsonl [--chats 300]
    python benchmarks/against_peers.py cold RESULTS.jsonl [--times 5]
    python benchmarks/against_peers.py table RESULTS.jsonl [--keep]

Every row is a process of its own. A run is one stretch: ``medal score`` in the precisions of the
rows asked for (int8: bf16), then those rows (parts of their names), each a line of RESULTS; a
row's ratio is to the ``medal score`` of its own stretch: the machine is not equally fast at all
times. The table has each row's last stretch, and the ratios of all.
Peers get the distinct turns (MiniLM, chit-chat, none longer than the judge's window) and give
vectors; ``medal score`` reads chats from a file, and besides measures turns, gives scores and
writes them. Agreement is of the scores that the embedded judge gives with a peer's vectors, with
those of ``medal score`` in fp32: ``agree`` tells it of the last vectors of each peer.
``--peers`` names a Python with sentence-transformers, optimum's ONNX and OpenVINO backends and
nncf, whose transformers is an older one than ours; what they export lies in the folder
RESULTS.exported, and is made by the first run that asks for it.
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
from into_docs import doc_tables
from into_docs import keep as keep_table
from peer_encoder import PEERS
from scipy.stats import spearmanr

from medal_judges.data_prep.sources.registry import load_rows
from medal_judges.models.base.judge import Judge
from medal_judges.models.linear.judge import LinearJudge
from medal_judges.models.model_files import resolve_model
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import parse_judgement
from medal_judges.storage.jsonl import read_records, write_records

OURS = {f"medal score, {p}": p for p in ("fp32", "bf16")}
COLD = "medal score, ten dialogues"
ELSEWHERE = ("onnx", "openvino")  # backends of the peers' own Python
HEADER = (
    "",
    "tokens/s",
    "speed of medal score / speed of this tool",
    "dialogues/s",
    "start-up, s",
    "peak memory, MB",
    "largest difference of a score",
    "Spearman",
)


def mixed_dialogues(count: int) -> list[Dialogue]:
    """Chit-chat conversations of 2 to 60 turns, in file order."""
    rows = (row.dialogue for row in load_rows("chitchat"))
    return [d for d in rows if d.assistant_turns and len(d.turns) <= 60][:count]


def chosen(
    count: int, judge: LinearJudge
) -> tuple[list[Dialogue], list[str], list[list[int]]]:
    """Chats whose turns all fit the window, their distinct turns, and those in tokens."""
    encoder = judge.reader.encoder
    assert encoder is not None
    kept: list[Dialogue] = []
    for dialogue in mixed_dialogues(count * 2):
        ids = encoder.token_ids([turn.content for turn in dialogue.turns])
        if max(map(len, ids)) <= encoder.limit and len(kept) < count:
            kept.append(dialogue)
    texts = list(dict.fromkeys(t.content for d in kept for t in d.turns))
    return kept, texts, [encoder.to_pieces(ids)[0] for ids in encoder.token_ids(texts)]


def timed(command: Sequence[str]) -> tuple[str, float, float]:
    """(what it printed, wall seconds, peak MB) of a process."""
    begin = time.time()
    environment = os.environ | {"BEGIN": str(begin)}
    peak = 0.0
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, env=environment
        )
        status = Path(f"/proc/{process.pid}/status")
        # getrusage would count what this process held when it forked
        while process.poll() is None:
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
    command = [
        sys.executable,
        "-m",
        "medal_judges",
        "score",
        str(chats),
        "--out",
        str(out),
    ]
    told, wall, peak = timed(
        [*command, "--overwrite", "--device", "cpu", f"dtype={dtype}"]
    )
    (seconds,) = re.findall(r"dialogues in ([\d.]+) s", told)
    judged = read_records(out, parse_judgement)
    row = {
        "seconds": float(seconds),
        "start": wall - float(seconds),
        "wall": wall,
        "peak": peak,
    }
    return row, [float(one.scores["overall"] or np.nan) for one in judged]


def agreement(
    judge: LinearJudge,
    chats: list[Dialogue],
    pieces: list[list[int]],
    vectors: np.ndarray,
    exact: list[float],
) -> dict[str, float]:
    """Largest difference and rank correlation of the scores with ``vectors`` to ``exact``."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    table = dict(zip(map(tuple, pieces), unit, strict=True))
    encoder = judge.reader.encoder
    assert encoder is not None
    encoder.embed = lambda texts, budget: np.stack([table[tuple(t[0])] for t in texts])  # type: ignore[method-assign]
    return against(
        exact, [float(j.scores["overall"] or np.nan) for j in judge.score(chats)]
    )


def against(exact: list[float], found: list[float]) -> dict[str, float]:
    largest = max(abs(a - b) for a, b in zip(exact, found, strict=True))
    return {"difference": largest, "spearman": float(spearmanr(exact, found).statistic)}


def run(results: Path, peers: str, count: int, asked: Sequence[str]) -> None:
    names = [name for name in PEERS if any(word in name for word in asked)]
    precisions = [reference(name) for name in names] or list(OURS.values())
    judge = Judge.from_pretrained("boxed", device="cpu")
    assert isinstance(judge, LinearJudge)
    chats, texts, pieces = chosen(count, judge)
    facts = {"chats": count, "turns": len(texts), "tokens": sum(map(len, pieces))}
    facts["stretch"] = int(time.time())
    kept = beside(results)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        write_records(place / "chats.jsonl", chats)
        (place / "texts.json").write_text(json.dumps(texts))
        for name, dtype in OURS.items():
            if dtype in precisions:
                row, scores = scored(place, place / "chats.jsonl", dtype)
                (kept / f"{dtype}.{count}.json").write_text(json.dumps(scores))
                keep(results, {"row": name, **facts, **row})
        for name in names:
            python = (
                peers if any(word in name for word in ELSEWHERE) else sys.executable
            )
            given = [name, resolve_model("embedded:minilm"), str(place / "texts.json")]
            given += [str(kept / f"{name}.{count}.npy"), str(kept)]
            try:
                script = str(Path(__file__).with_name("peer_encoder.py"))
                told, _, peak = timed([python, script, *given])
            except subprocess.CalledProcessError as error:
                # a row that is missing says "not run"
                print(f"{name}: {error.output[-1500:]}", flush=True)
                continue
            row = json.loads(told.splitlines()[-1]) | {"peak": peak}
            keep(results, {"row": name, **facts, **row})


def agree(results: Path, count: int) -> None:
    judge = Judge.from_pretrained("boxed", device="cpu")
    assert isinstance(judge, LinearJudge)
    chats, _, pieces = chosen(count, judge)
    kept = beside(results)
    exact = json.loads((kept / f"fp32.{count}.json").read_text())
    for name, dtype in OURS.items():
        found = json.loads((kept / f"{dtype}.{count}.json").read_text())
        keep(results, {"row": name, "agreement": against(exact, found)})
    for name in PEERS:
        if (vectors := kept / f"{name}.{count}.npy").exists():
            found = agreement(judge, chats, pieces, np.load(vectors), exact)
            keep(results, {"row": name, "agreement": found})


def beside(results: Path) -> Path:
    """The folder of what peers exported, of vectors and of scores."""
    folder = results.with_suffix(".files")
    folder.mkdir(exist_ok=True)
    return folder


def keep(results: Path, line: dict[str, Any]) -> None:
    with results.open("a") as out:
        out.write(json.dumps(line) + "\n")
    print(
        {k: round(v, 4) if isinstance(v, float) else v for k, v in line.items()},
        flush=True,
    )


def cold(results: Path, times: int) -> None:
    """From the command to its end on ten dialogues, ``times`` times."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        write_records(place / "ten.jsonl", mixed_dialogues(20)[:10])
        rows = [scored(place, place / "ten.jsonl", "fp32")[0] for _ in range(times)]
    rows.sort(key=lambda row: float(row["wall"]))
    walls = [row["wall"] for row in rows]
    keep(results, {"row": COLD, **rows[len(rows) // 2], "walls": walls})


def reference(name: str) -> str:
    """The precision of ours that stands beside a row."""
    precision = name.rpartition(", ")[2]
    return "bf16" if precision == "int8" else precision


def table(results: Path) -> list[list[str]]:
    """The rows of the document's table, the header first, the quickest row next."""
    every = [json.loads(line) for line in results.read_text().splitlines()]
    agreements = {x["row"]: x["agreement"] for x in every if "agreement" in x}
    lines = [x for x in every if "agreement" not in x]
    ours = {(x["row"], x["stretch"]): rate(x) for x in lines if x["row"] in OURS}
    rows = {x["row"]: x for x in lines}
    found = [list(HEADER)]
    for name, row in sorted(rows.items(), key=lambda each: -rate(each[1])):
        if name == COLD:
            continue
        ratios = ""
        if name not in OURS:
            beside = f"medal score, {reference(name)}"
            stretches = {x["stretch"]: x for x in lines if x["row"] == name}
            ratios = ", ".join(
                f"{ours[beside, when] / rate(x):.2f}"
                for when, x in sorted(stretches.items())
            )
        same = ["", ""]
        if (told := agreements.get(name)) is not None and "encoder" not in name:
            same = [f"{told['difference']:.1e}", f"{told['spearman']:.5f}"]
        cells = [f"{rate(row):,.0f}", ratios, f"{row['chats'] / row['seconds']:.1f}"]
        cells += [f"{row['start']:.1f}", f"{row['peak']:.0f}", *same]
        found.append([f"**{name}**" if name in OURS else name, *cells])
    missing = [name for name in [*OURS, *PEERS] if name not in rows]
    found += [[name, "not run", *[""] * (len(HEADER) - 2)] for name in missing]
    if (cold := rows.get(COLD)) is not None:
        told = f"{cold['wall']:.1f} s from the command to its end"
        found.append([COLD, "", "", "", told, f"{cold['peak']:.0f}", "", ""])
    return found


def rate(row: dict[str, Any]) -> float:
    return float(row["tokens"] / row["seconds"]) if "tokens" in row else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("results", type=Path)
    running.add_argument("rows", nargs="*", help="words of their names")
    running.add_argument("--peers", default=sys.executable)
    running.add_argument("--chats", type=int, default=300)
    agreeing = commands.add_parser("agree")
    agreeing.add_argument("results", type=Path)
    agreeing.add_argument("--chats", type=int, default=300)
    starting = commands.add_parser("cold")
    starting.add_argument("results", type=Path)
    starting.add_argument("--times", type=int, default=5)
    writing = commands.add_parser("table")
    writing.add_argument("results", type=Path)
    writing.add_argument(
        "--keep", action="store_true", help="write the document's table"
    )
    given = parser.parse_args()
    if given.command == "run":
        run(given.results, given.peers, given.chats, given.rows)
    elif given.command == "agree":
        agree(given.results, given.chats)
    elif given.command == "cold":
        cold(given.results, given.times)
    else:
        keep_table(
            "against_peers" if given.keep else None,
            doc_tables.markdown(table(given.results)),
        )


if __name__ == "__main__":
    main()
