"""Stops and restarts: what runs is finished, and a client loses nothing."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from medal_judges.inference.serving.client import Client, ServiceError
from medal_judges.models.base.judge import Judge
from medal_judges.records.judgement import Judgement

from .conftest import Served, Start, talk

Serve = Callable[..., Any]


@pytest.fixture
def slow(serve: Serve, start: Start) -> Callable[..., Served]:
    pytest.importorskip("openai")

    def begin(*words: str, delay: float) -> Served:
        model = serve(delay=delay)
        own = {"model": "openai:tester", "base_url": model.url, "cache": False}
        return start(
            "dstc12_baseline",
            f"llm={json.dumps(own)}",
            *words,
            OPENAI_API_KEY="sk-test",
        )

    return begin


def test_sigterm_finishes_what_was_accepted_and_refuses_what_is_new(
    slow: Callable[..., Served],
) -> None:
    served = slow(delay=0.5)
    # two windows
    rows = {"dialogues": [talk(n, turns=2).to_record() for n in range(32)]}
    with ThreadPoolExecutor(3) as pool:
        asked = [
            pool.submit(httpx.post, f"{served.address}/score", json=rows, timeout=60)
            for _ in range(2)
        ]
        time.sleep(0.4)
        served.process.send_signal(signal.SIGTERM)
        time.sleep(0.4)
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{served.address}/health")
        answers = [each.result() for each in asked]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert all(len(answer.json()["judgements"]) == 32 for answer in answers)
    assert served.process.wait(timeout=30) == 0


def test_kill_and_restart_under_load_loses_nothing(start: Start) -> None:
    first = start("length")
    talks = [talk(n, turns=2 + n % 9) for n in range(240)]
    got: dict[int, list[Judgement]] = {}
    lock = threading.Lock()

    def ask(numbers: list[int]) -> None:
        with Client(first.address, patience=60) as client:
            for number in numbers:
                judged = list(client.score([talks[number]]))
                with lock:
                    got[number] = judged

    threads = [
        threading.Thread(target=ask, args=(list(range(k, 240, 8)),)) for k in range(8)
    ]
    for each in threads:
        each.start()
    while len(got) < 30:
        time.sleep(0.01)
    first.stop(signal.SIGKILL)
    at_kill = len(got)
    start("length", "--port", str(first.port))
    for each in threads:
        each.join(timeout=60)
    assert at_kill < 240 and sorted(got.keys()) == list(range(240))
    for number, expected in enumerate(Judge.from_pretrained("length").score(talks)):
        (judgement,) = got[number]
        assert judgement.id == expected.id
        assert judgement.scores == pytest.approx(expected.scores, abs=4e-5)


def test_a_server_that_is_not_there_is_said_when_patience_ends() -> None:
    nowhere = Client("http://127.0.0.1:9", patience=0.3)
    with nowhere, pytest.raises(ServiceError, match="cannot be reached") as caught:
        nowhere.judge()
    assert caught.value.status is None and "medal serve" in str(caught.value)
