"""The options of ``medal serve``, on a real server."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the server is in the extra serve")
import httpx

from medal_judges.models.base import judge as judges

from ..forked import Forked, start
from .files import RECORDS, Files
from .table import TYPED, medal, row

Serve = Callable[..., Any]


class Served:
    """A running ``medal serve``. Its log has a line ``batch N`` for each batch of N dialogues."""

    def __init__(self, words: list[str], log: Path) -> None:
        TYPED.append(["serve", *words])
        self.log = log
        log.touch()
        self.process: Forked = start("serve", *words, first=self._watched)
        self.address = self._address()

    def _watched(self) -> None:
        with self.log.open("a") as stream:
            os.dup2(stream.fileno(), 1)
            os.dup2(stream.fileno(), 2)
        batches = judges.budget_batches

        def logged(*arguments: Any, **named: Any) -> Iterator[Any]:
            for batch in batches(*arguments, **named):
                os.write(2, f"batch {len(batch)}\n".encode())
                yield batch

        judges.budget_batches = logged  # type: ignore[assignment]

    def _address(self) -> str:
        for _ in range(1200):
            if found := re.findall(r"serving .* on (http://\S+)", self.log.read_text()):
                return str(found[-1])
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        raise AssertionError(self.log.read_text())

    def score(self, *records: dict[str, Any], **more: Any) -> httpx.Response:
        body = {"dialogues": list(records), **more}
        return httpx.post(f"{self.address}/score", json=body, timeout=60)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    running: list[Served] = []

    def begin(*words: object) -> Served:
        log = tmp_path / f"server{len(running)}.log"
        typed = [str(word) for word in words]
        if "--port" not in typed:
            typed += ["--port", "0"]
        running.append(Served(typed, log))
        return running[-1]

    yield begin
    for server in running:
        server.process.kill()
        server.process.wait()


def chat(number: int = 0, **fields: Any) -> dict[str, Any]:
    return {key: RECORDS[number][key] for key in ("id", "lang", "dialogue")} | fields


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@row(
    "serve",
    *(
        "--host",
        "--port",
        "--max-body",
        "--max-dialogues",
        "--max-turns",
        "--unknown-language",
    ),
    "--token-budget",
)
def test_address_and_limits(served: Callable[..., Served], english_judge: Path) -> None:
    port = free_port()
    limits = [
        "--max-body",
        1,
        "--max-dialogues",
        3,
        "--max-turns",
        2,
        "--token-budget",
        1,
    ]
    words = [english_judge, "--host", "localhost", "--port", port, *limits]
    server = served(*words, "--unknown-language", "refuse")
    assert re.fullmatch(rf"http://(localhost|127.0.0.1|\[::1\]):{port}", server.address)
    first, second = server.score(chat(), chat(1, lang="zh")).json()["judgements"]
    assert first["scores"]["overall"] is not None
    assert second["failure"] == "in 'zh'; the judge supports en"
    assert server.score(*map(chat, range(3))).status_code == 200
    assert set(re.findall(r"batch \d+", server.log.read_text())) == {"batch 1"}
    assert server.score(*map(chat, range(4))).status_code == 413
    assert server.score(chat(dialogue=RECORDS[0]["dialogue"] * 2)).status_code == 413
    long = [{"role": "user", "content": "a" * (1 << 20)}]
    assert server.score(chat(dialogue=long)).status_code == 413
    done = medal("serve", "length", "--host", "0.0.0.0")
    assert done.code == 2 and "MEDAL_JUDGES_TOKEN" in done.err


@row(
    "serve",
    "--no-cache",
    "--repeats",
    "--timeout",
    "--max-waiting",
    "--drain",
    "--max-cost",
)
def test_a_judge_that_asks_a_server(
    served: Callable[..., Served], serve: Serve, files: Files
) -> None:
    model = serve(delay=0.3)
    words = ["dstc12_baseline", "llm=openai:tester", f"llm.base_url={model.url}"]
    words += [f"llm.prices={files.prices}"]
    server = served(*words, "--no-cache", "--repeats", 2, "--max-waiting", 2)
    for total in (2, 4):  # two answers, and none from the cache
        assert server.score(chat()).status_code == 200
        assert len(model.told("requests")) == total
    with ThreadPoolExecutor(6) as pool:
        answers = list(
            pool.map(lambda n: server.score(chat(n), chat(n + 6)).status_code, range(6))
        )
    assert 429 in answers and 200 in answers
    slow = serve(delay=3.0)
    words[2] = f"llm.base_url={slow.url}"
    hasty = served(*words, "--timeout", 0.2, "--drain", 0.2)
    assert hasty.score(chat()).status_code == 503
    (question, _) = RECORDS[1]["dialogue"]
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(hasty.score, chat(1))
        # Not any request: the first chat is asked about again after its timeout.
        while (
            question["content"] not in str(slow.told("requests")) and not answer.done()
        ):
            time.sleep(0.01)
        hasty.process.send_signal(signal.SIGTERM)
        assert answer.result().status_code == 503
    assert hasty.process.wait(timeout=60) == 0
    poor = served(*words, "--max-cost", "0.000001")
    (judgement,) = poor.score(chat()).json()["judgements"]
    assert "before the limit of $1e-06" in judgement["failure"]


@row("serve", "--device", "--dtype", "--revision")
@pytest.mark.parametrize(
    ("option", "value", "error"),
    [
        ("--device", "cpu", "no weights, so --device changes nothing"),
        ("--dtype", "bf16", "no weights, so --dtype changes nothing"),
        ("--revision", "v9", "revision 'v9' is of a judge on the Hub"),
    ],
)
def test_the_judge(option: str, value: str, error: str) -> None:
    for typed in ("--device=cpu", "--dtype=bf16", "--revision=v9", f"{option}={value}"):
        done = medal("serve", "length", typed)
        assert done.code == 2
    assert error in done.err
