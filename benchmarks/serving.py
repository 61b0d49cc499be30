"""``medal serve`` beside ``medal score``: throughput, latency, and whether an answer gets lost.

    python benchmarks/serving.py JUDGE --chats FILE [FILE ...] [--requests 5000] [--clients 32]
        [--rounds 2] [--library] [--kill]

Each round takes its part of the requests: ``medal score`` scores those chats, then a server, asked
for each in a request of its own by that many clients at once (a process, a connection a client);
every answer is compared with the file's. ``--kill`` ends the server with SIGKILL after a third of
the answers and starts it again. Server, clients and ``medal score`` share the machine: look at the
ratio, not at the rates.
"""

from __future__ import annotations

import argparse
import asyncio
import atexit
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from medal_judges.inference.serving.client import Client
from medal_judges.records.dialogue import Dialogue, parse_dialogue_line
from medal_judges.records.judgement import parse_judgement
from medal_judges.storage.jsonl import read_records, to_line, write_records

MEDAL = [sys.executable, "-m", "medal_judges"]


def scored(chats: Path, judge: str) -> tuple[dict[str, dict[str, float | None]], float]:
    """Scores by id, and dialogues a second, of ``medal score``."""
    out = chats.with_name("scores.jsonl")
    command = [
        *MEDAL,
        "score",
        str(chats),
        "--judge",
        judge,
        "--out",
        str(out),
        "--overwrite",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (rate,) = re.findall(r": ([\d.]+) dialogues/s", done.stderr)
    return {
        one.id: dict(one.scores) for one in read_records(out, parse_judgement)
    }, float(rate)


def start(judge: str, log: Path, port: int = 0) -> tuple[subprocess.Popen[bytes], str]:
    """A server, and its address."""
    log.write_text("")
    command = [*MEDAL, "serve", judge, "--port", str(port)]
    with log.open("a") as stream:
        process = subprocess.Popen(command, stderr=stream)
    while not (found := re.findall(r" on (http://\S+)", log.read_text())):
        if process.poll() is not None:
            raise SystemExit(log.read_text())
        time.sleep(0.05)
    return process, str(found[-1])


async def ask(
    address: str, chats: list[Dialogue], clients: int, answered: Any, library: bool
) -> list[Any]:
    """(id that was asked, id and scores that came, seconds) of every request. ``library``: through
    Client; else over bare sockets, so that on a small machine the clients' own work does not
    take the server's place."""
    waiting = iter(chats)
    rows: list[Any] = []

    async def with_client() -> None:
        with Client(address, patience=300.0) as client:
            for chat in waiting:
                begin = time.perf_counter()
                judged = await asyncio.to_thread(lambda c=chat: [*client.score([c])])
                rows.append((chat.id, judged, time.perf_counter() - begin))
                answered.value = len(rows)

    async def with_socket() -> None:
        host, _, port = address.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        for chat in waiting:
            body = to_line(chat).encode()
            head = f"POST /score HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
            begin = time.perf_counter()
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            told = await reader.readuntil(b"\r\n\r\n")
            length = int(re.findall(rb"content-length: (\d+)", told)[0])
            answer = await reader.readexactly(length)
            if b" 200 " not in told[:15]:
                raise SystemExit(f"refused: {answer.decode()}")
            rows.append((chat.id, answer, time.perf_counter() - begin))
        writer.close()

    await asyncio.gather(
        *((with_client if library else with_socket)() for _ in range(clients))
    )
    return rows


def scores_of(answer: Any) -> list[tuple[str, dict[str, float | None]]]:
    """Id and scores of the judgements that came."""
    if isinstance(answer, bytes):
        answer = [
            parse_judgement(record) for record in json.loads(answer)["judgements"]
        ]
    return [(one.id, dict(one.scores)) for one in answer]


def client_process(
    address: str,
    chats: list[Dialogue],
    clients: int,
    answered: Any,
    results: Any,
    library: bool,
) -> None:
    begin = time.perf_counter()
    rows = asyncio.run(ask(address, chats, clients, answered, library))
    seconds = time.perf_counter() - begin
    results.put(
        ([(asked, scores_of(answer), took) for asked, answer, took in rows], seconds)
    )


def served(
    judge: str,
    chats: list[Dialogue],
    clients: int,
    place: Path,
    *,
    library: bool,
    kill: bool,
) -> tuple[list[Any], float]:
    """What came for every request, and how long it took altogether."""
    log = place / "server.log"
    process, address = start(judge, log)
    # the newest of the two
    atexit.register(lambda: process.poll() is None and process.kill())
    spawn = multiprocessing.get_context("spawn")
    answered, results = spawn.Value("i", 0), spawn.Queue()
    # Imports, and the first touch of the weights.
    assert asyncio.run(ask(address, chats[:1], 1, answered, library=True))
    answered.value = 0
    own = (address, chats, clients, answered, results, library)
    asking = spawn.Process(target=client_process, args=own)
    asking.start()
    if kill:
        while answered.value < len(chats) // 3:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        print(f"  killed after {answered.value} answers", flush=True)
        process, _ = start(judge, log, int(address.rpartition(":")[2]))
    rows, seconds = results.get(timeout=900)
    asking.join()
    process.send_signal(signal.SIGTERM)
    print(f"  exit code of the server after SIGTERM: {process.wait()}")
    return rows, seconds


def report(
    rows: list[Any],
    seconds: float,
    expected: dict[str, dict[str, float | None]],
    rate: float,
) -> float:
    """The ratio of throughputs; prints it and what was wrong."""
    wrong, worst = 0, 0.0
    for asked, judged, _ in rows:
        if [id for id, _ in judged] != [asked]:
            wrong += 1
            continue
        for name, value in judged[0][1].items():
            other = expected[asked][name]
            if value is None or other is None:
                wrong += value is not other
            else:
                worst = max(worst, abs(value - other))
    p50, p95, p99 = np.quantile([took for *_, took in rows], [0.5, 0.95, 0.99]) * 1000
    own = len(rows) / seconds
    print(
        f"  {len(rows)} requests answered, {len({asked for asked, *_ in rows})} different, {wrong} "
        f"crossed or missing, scores within {worst:.1e} of the file's\n"
        f"  medal score {rate:.1f}/s, medal serve {own:.1f}/s: ratio {own / rate:.2f}; "
        f"p50 {p50:.0f} ms, p95 {p95:.0f} ms, p99 {p99:.0f} ms",
        flush=True,
    )
    return own / rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("judge")
    parser.add_argument("--chats", nargs="+", required=True)
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--library", action="store_true", help="ask through Client")
    parser.add_argument(
        "--kill", action="store_true", help="and kill the server meanwhile"
    )
    given = parser.parse_args()
    found = [
        chat for file in given.chats for chat in read_records(file, parse_dialogue_line)
    ]
    chats = [
        replace(found[n % len(found)], id=f"{n}", meta={}, context={})
        for n in range(given.requests)
    ]
    threads, ratios = os.environ.get("OMP_NUM_THREADS", "default"), []
    print(f"{len(found)} chats, {given.requests} requests, OMP_NUM_THREADS={threads}")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for number in range(given.rounds):
            part = chats[number :: given.rounds]
            write_records(place / "chats.jsonl", part)
            print(f"round {number + 1}", flush=True)
            expected, rate = scored(place / "chats.jsonl", given.judge)
            rows, seconds = served(
                given.judge,
                part,
                given.clients,
                place,
                library=given.library or given.kill,
                kill=given.kill,
            )
            ratios.append(report(rows, seconds, expected, rate))
    print(f"median ratio of {len(ratios)} rounds: {np.median(ratios):.2f}")


if __name__ == "__main__":
    main()
