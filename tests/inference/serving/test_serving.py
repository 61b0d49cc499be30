"""``medal serve``: scores of medal score, refusals, limits, a clean stop, and nothing lost."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from medal_judges.errors import ConfigError
from medal_judges.inference.serving import app
from medal_judges.inference.serving.server import token_from_environment
from medal_judges.models.base.judge import Judge
from medal_judges.records.dialogue import Dialogue

from .conftest import Served, Start, talk

Serve = Callable[..., Any]
TOKEN = "a-token-of-sixteen-or-more"


def ask(served: Served, body: object, **more: Any) -> httpx.Response:
    return httpx.post(f"{served.address}/score", json=body, timeout=120, **more)


@pytest.mark.parametrize("level", ["dialogue", "turn", "last"])
def test_served_scores_are_those_of_the_judge(
    start: Start, judge_folder: Path, level: str
) -> None:
    served = start(str(judge_folder))
    talks = [talk(n, turns=2 + n % 6) for n in range(30)]
    judge = Judge.from_pretrained(judge_folder)
    expected = {}
    for judgement in judge.score(talks, level=level):  # type: ignore[arg-type]
        expected[judgement.id, judgement.turn] = judgement.scores

    def score(part: int) -> list[dict[str, Any]]:
        rows = [dialogue.to_record() for dialogue in talks[part::3]]
        answer = ask(served, {"dialogues": rows, "level": level}).json()
        assert answer["judge"] == str(judge.signature())
        return list(answer["judgements"])

    with ThreadPoolExecutor(3) as pool:
        answers = [row for rows in pool.map(score, range(3)) for row in rows]
    assert len(answers) == len(expected)
    for row in answers:
        assert row["scores"] == pytest.approx(
            expected[row["id"], row["turn"]], abs=1e-5
        )
    about = httpx.get(f"{served.address}/judge").json()
    assert about["signature"] == str(judge.signature()) and about["dimensions"]
    text = httpx.get(f"{served.address}/metrics").text
    assert "medal_dialogues_scored 30.0" in text and "chat-1" not in text


def test_what_is_refused_and_why(start: Start) -> None:
    served = start("length", "--max-body", "1", "--max-turns", "50")
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes"}]
    bodies: list[tuple[int, object]] = [
        (422, {"dialogues": [{"messages": said}, {"messages": 3}]}),
        (422, {"messages": said, "level": "word"}),
        (422, {"messages": said, "dimensions": ["fun"]}),
        (422, {"messages": said, "dialogues": [{"messages": said}]}),
        (413, {"messages": said * 26}),
        (413, {"messages": json.dumps(said * 26)}),
        (413, {"dialogues": [{"messages": said}] * 26}),
        (413, {"messages": [{"role": "user", "content": "x" * (1 << 20)}]}),
        (200, {"messages": said}),
    ]
    for status, body in bodies:
        assert ask(served, body).status_code == status, body
    assert ask(served, None, headers={"Content-Type": "text/plain"}).status_code == 415
    for content in (b"{", b"\xff", b"[" * 100_000, b'{"a": "\\ud800"}'):
        answer = httpx.post(
            f"{served.address}/score",
            content=content,
            headers={"Content-Type": "application/json"},
        )
        assert answer.status_code == 422
    host = {"Host": "judge.example"}
    assert httpx.get(f"{served.address}/judge", headers=host).status_code == 400


def test_bodies_of_many_turns_stop_nobody(start: Start) -> None:
    """Turns are counted before they are parsed."""
    served = start("length")
    call = {"id": "x", "function": {"name": "f", "arguments": "{}"}}
    pair = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b", "tool_calls": [call]},
    ]
    begin = time.monotonic()
    with ThreadPoolExecutor(9) as pool:
        large = [
            pool.submit(ask, served, {"messages": pair * 18_000}) for _ in range(8)
        ]
        small = ask(served, {"messages": pair}, headers={"X-Who": "another"})
        assert small.status_code == 200
        assert {answer.result().status_code for answer in large} == {413}
    assert time.monotonic() - begin < 60


def test_a_token_is_needed_on_an_open_address(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = start("length", MEDAL_JUDGES_TOKEN=TOKEN)
    for sent in (None, "wrong", "Bearer wrong", f"Basic {TOKEN}"):
        headers = {"Authorization": sent} if sent else {}
        assert httpx.get(f"{served.address}/judge", headers=headers).status_code == 401
        body = {"messages": []}
        assert ask(served, body, headers=headers).status_code == 401
    headers = {"Authorization": f"Bearer {TOKEN}"}
    assert httpx.get(f"{served.address}/judge", headers=headers).status_code == 200
    assert httpx.get(f"{served.address}/health").status_code == 200
    assert TOKEN not in served.log.read_text()
    monkeypatch.delenv("MEDAL_JUDGES_TOKEN", raising=False)
    with pytest.raises(ConfigError):
        token_from_environment("0.0.0.0")
    monkeypatch.setenv("MEDAL_JUDGES_TOKEN", "short")
    with pytest.raises(ConfigError) as refused:
        token_from_environment("127.0.0.1")
    assert "short" not in str(refused.value)


@pytest.fixture
def slow(serve: Serve, start: Start) -> Callable[..., Served]:
    """A server whose judge waits for a language model."""
    pytest.importorskip("openai")

    def begin(*words: str, delay: float) -> Served:
        llm = {"model": "openai:tester", "base_url": serve(delay=delay).url}
        given = f"llm={json.dumps(llm | {'cache': False})}"
        return start("dstc12_baseline", given, *words, OPENAI_API_KEY="sk-test")

    return begin


def test_sigterm_finishes_what_was_accepted(slow: Callable[..., Served]) -> None:
    served = slow(delay=0.5)
    rows = {"dialogues": [talk(n, turns=2).to_record() for n in range(32)]}
    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(ask, served, rows) for _ in range(2)]
        time.sleep(1)
        served.process.send_signal(signal.SIGTERM)
        assert [answer.result().status_code for answer in answers] == [200, 200]
    assert served.process.wait(timeout=30) == 0


def test_a_request_ends_at_its_timeout_and_a_full_queue_says_when(
    slow: Callable[..., Served],
) -> None:
    served = slow("--timeout", "1", "--max-waiting", "10", delay=3)
    rows = {"dialogues": [talk(n, turns=2).to_record() for n in range(100)]}
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(ask, served, rows)
        time.sleep(0.5)
        full = ask(served, rows)
        assert full.status_code == 429 and int(full.headers["Retry-After"]) > 0
        assert first.result().status_code == 503
    # The rows of the request that ended are dropped.
    assert served.stop() == 0


def test_parsing_ends_with_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    def parse_slowly(*given: object) -> list[Dialogue]:
        time.sleep(3)
        return []

    monkeypatch.setattr(app, "parse_rows", parse_slowly)
    limits = app.ServeLimits(timeout=0.2)
    service = app.ScoreService(Judge.from_pretrained("length"), limits)
    row = talk(0, turns=2).to_record()
    with TestClient(app.start_app(service, None, None)) as client:
        start = time.perf_counter()
        assert client.post("/score", json=row).status_code == 503
        assert time.perf_counter() - start < 2


def test_kill_and_restart_under_load_mixes_nothing_up(start: Start) -> None:
    first = start("length")
    talks = [talk(n, turns=2 + n % 9) for n in range(60)]
    answers: dict[int, Any] = {}

    def score(numbers: range) -> None:
        for number in numbers:
            while number not in answers:
                try:
                    answer = ask(first, talks[number].to_record())
                    (answers[number],) = answer.json()["judgements"]
                except httpx.TransportError:
                    time.sleep(0.2)

    threads = [
        threading.Thread(target=score, args=(range(k, 60, 4),)) for k in range(4)
    ]
    for thread in threads:
        thread.start()
    while len(answers) < 20:
        time.sleep(0.01)
    first.stop(signal.SIGKILL)
    start("length", "--port", str(first.port))
    for thread in threads:
        thread.join(60)
    judge = Judge.from_pretrained("length")
    for number, judgement in enumerate(judge.score(talks)):
        assert answers[number]["scores"] == pytest.approx(judgement.scores, abs=1e-9)
