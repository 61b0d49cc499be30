"""Who may ask, how much, and what is said where it is too much."""

from __future__ import annotations

import json
import re
import select
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from medal_judges.cli import app
from medal_judges.errors import ConfigError
from medal_judges.inference.serving.client import Client, ServiceError

from .conftest import Served, Start, talk

TOKEN = "a-token-that-nobody-guesses-42"
SMALL = ["--max-body", "1", "--max-dialogues", "5", "--max-turns", "10"]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    log = tmp_path_factory.mktemp("log") / "server.log"
    running = Served(
        ["length", "--port", "0", *SMALL], {"MEDAL_JUDGES_TOKEN": TOKEN}, log
    )
    yield running
    running.process.kill()
    running.process.wait()


def post(served: Served, **more: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {TOKEN}"} | more.pop("headers", {})
    return httpx.post(f"{served.address}/score", headers=headers, **more)


@pytest.mark.parametrize(
    ("host", "token", "said"),
    [
        ("0.0.0.0", None, "no token is set"),
        ("::", None, "no token is set"),
        ("0.0.0.0", "", "16 or more"),
        ("127.0.0.1", "tooshort", "16 or more"),
        ("127.0.0.1", "two words of a token", "16 or more"),
        ("127.0.0.1", "ein-Schlüssel-für-alle", "16 or more"),
    ],
)
def test_without_a_good_token_no_other_machine_is_let_in(
    monkeypatch: pytest.MonkeyPatch, host: str, token: str | None, said: str
) -> None:
    if token is None:
        monkeypatch.delenv("MEDAL_JUDGES_TOKEN", raising=False)
    else:
        monkeypatch.setenv("MEDAL_JUDGES_TOKEN", token)
    done = CliRunner().invoke(app, ["serve", "length", "--host", host, "--port", "0"])
    assert isinstance(done.exception, ConfigError) and said in str(done.exception)
    assert not token or token not in str(done.exception)


def test_with_a_token_the_server_may_stand_open(start: Start) -> None:
    served = start("length", "--host", "0.0.0.0", MEDAL_JUDGES_TOKEN=TOKEN)
    with Client(f"http://127.0.0.1:{served.port}", token=TOKEN) as client:
        assert len(list(client.score([talk(1)]))) == 1
    # No name is refused there: who knows the token is no page of a browser.
    host = {"Host": "judge.example", "Authorization": f"Bearer {TOKEN}"}
    assert (
        httpx.get(f"http://127.0.0.1:{served.port}/judge", headers=host).status_code
        == 200
    )


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"Authorization": "Bearer nonsense"},
        {"Authorization": TOKEN},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
        {"Authorization": f"bearer {TOKEN}\xe9"},
    ],
)
def test_a_wrong_token_gets_nothing_but_health(
    guarded: Served, header: dict[str, str]
) -> None:
    raw = {name: value.encode("latin-1") for name, value in header.items()}
    for path in ("/judge", "/metrics", "/nowhere"):
        assert httpx.get(f"{guarded.address}{path}", headers=raw).status_code == 401
    answer = httpx.post(
        f"{guarded.address}/score", headers=raw, json=talk(1).to_record()
    )
    assert answer.status_code == 401 and "Bearer" in answer.headers["WWW-Authenticate"]
    assert httpx.get(f"{guarded.address}/health").json() == {"status": "ok"}


def test_the_right_token_is_let_in_and_stands_in_no_log(
    guarded: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(guarded.address, token=TOKEN) as client:
        assert len(list(client.score([talk(1)]))) == 1
    monkeypatch.setenv("MEDAL_JUDGES_TOKEN", TOKEN)
    with Client(guarded.address) as client:
        assert client.judge()["family"] == "linear"
    with Client(guarded.address, token="wrong-wrong-wrong") as client:
        with pytest.raises(ServiceError, match="401") as caught:
            client.judge()
        assert "wrong-wrong" not in str(caught.value)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    assert TOKEN not in httpx.get(f"{guarded.address}/metrics", headers=headers).text
    assert TOKEN not in guarded.log.read_text()


def test_a_rebound_name_and_a_page_of_another_site_are_refused(guarded: Served) -> None:
    host = {"Host": "evil.example:8000"}
    assert httpx.get(f"{guarded.address}/health", headers=host).status_code == 421
    body = json.dumps(talk(1).to_record())
    # What a browser sends to another site without asking first.
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = post(guarded, content=body, headers={"Content-Type": kind})
        assert answer.status_code == 415, answer.text
    kind = "application/json; charset=utf-8"
    assert (
        post(guarded, content=body, headers={"Content-Type": kind}).status_code == 200
    )


def test_too_large_is_413_with_and_without_a_length(guarded: Served) -> None:
    row = {"id": "a", "dialogue": [{"role": "assistant", "content": "x" * (2 << 20)}]}
    body = json.dumps(row).encode()
    json_type = {"Content-Type": "application/json"}

    def chunks() -> Iterator[bytes]:
        for begin in range(0, len(body), 1 << 16):
            yield body[begin : begin + (1 << 16)]

    for content in (body, chunks()):
        answer = post(guarded, content=content, headers=json_type)
        assert answer.status_code == 413, answer.text
    # A length that is told is enough: the server does not wait for the body.
    with socket.create_connection(("127.0.0.1", guarded.port), timeout=5) as raw:
        raw.sendall(
            b"POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            + f"Authorization: Bearer {TOKEN}\r\nContent-Length: 99999999999999\r\n\r\n".encode()
        )
        assert raw.recv(100).startswith(b"HTTP/1.1 413")
    # Small in bytes, many in turns or rows.
    turns = [{"role": "assistant", "content": "x"}] * 11
    for name, own in (("messages", {}), ("dialogue", {"id": "a"})):
        answer = post(guarded, json={name: turns, **own})
        assert (answer.status_code, answer.json()["field"]) == (413, "messages")
    answer = post(guarded, json={"dialogues": [{"messages": turns[:2]}] * 6})
    assert (answer.status_code, answer.json()["field"]) == (413, "dialogues")
    assert (
        post(guarded, json={"dialogues": [{"messages": turns[:2]}] * 5}).status_code
        == 200
    )


Serve = Callable[..., Any]


@pytest.fixture
def slow(serve: Serve, start: Start, tmp_path: Path) -> Callable[..., Served]:
    """``slow(*words, delay=...)`` serves a judge that asks a scripted model over HTTP."""
    pytest.importorskip("openai")
    cache = str(tmp_path / "cache")

    def begin(*words: str, delay: float, **llm: Any) -> Served:
        model = serve(delay=delay)
        own = {"model": "openai:tester", "base_url": model.url, "cache": False, **llm}
        return start(
            "dstc12_baseline",
            f"llm={json.dumps(own)}",
            *words,
            OPENAI_API_KEY="sk-test-key",
            MEDAL_JUDGES_CACHE=cache,
        )

    return begin


def test_a_full_queue_is_429_and_the_client_comes_back(
    slow: Callable[..., Served],
) -> None:
    served = slow("--max-waiting", "20", delay=0.1)
    rows = {"dialogues": [talk(n, turns=2).to_record() for n in range(20)]}
    with ThreadPoolExecutor(8) as pool:
        raw = list(
            pool.map(
                lambda _: httpx.post(f"{served.address}/score", json=rows, timeout=60),
                range(6),
            )
        )
        codes = sorted(answer.status_code for answer in raw)
        assert codes[0] == 200 and codes[-1] == 429
        assert all(
            1 <= int(answer.headers["Retry-After"]) <= 60
            for answer in raw
            if answer.status_code == 429
        )
        with Client(served.address) as client:
            batches = [[talk(n, id=f"{k}-{n}") for n in range(20)] for k in range(3)]
            got = list(pool.map(lambda batch: list(client.score(batch)), batches))
    assert [[one.id for one in group] for group in got] == [
        [one.id for one in batch] for batch in batches
    ]


def test_too_slow_is_503_and_a_client_that_left_is_not_waited_for(
    slow: Callable[..., Served],
) -> None:
    served = slow("--timeout", "2", delay=0.4)
    # ten windows
    rows = {"dialogues": [talk(n, turns=2).to_record() for n in range(160)]}
    answer = httpx.post(f"{served.address}/score", json=rows, timeout=60)
    assert answer.status_code == 503 and int(answer.headers["Retry-After"]) > 0
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{served.address}/score", json=rows, timeout=0.3)
    # Of both only windows under way were scored; the next client waits for no more than one.
    with Client(served.address, patience=0) as client:
        assert len(list(client.score([talk(1)]))) == 1
    page = httpx.get(f"{served.address}/metrics").text
    assert 'medal_requests_total{status="499"} 1.0' in page
    assert 'medal_requests_total{status="503"} 1.0' in page


def test_the_limit_of_cost_is_kept_and_rows_say_so(
    slow: Callable[..., Served], tmp_path: Path
) -> None:
    prices = tmp_path / "prices.yaml"
    listed = (
        "{date: a day, source: a test, models: {tester: {input: 1.0, output: 2.0}}}"
    )
    prices.write_text(listed)
    served = slow("--max-cost", "0.005", delay=0.0, prices=str(prices), cache=True)
    with Client(served.address) as client:
        judged = list(client.score([talk(n, turns=2) for n in range(32)]))
    missing = [one for one in judged if not one.scored]
    assert 0 < len(missing) < 32
    assert all("limit of" in (one.failure or "") and one.transient for one in missing)
    page = httpx.get(f"{served.address}/metrics").text
    (spent,) = re.findall(r"^medal_dollars_spent (\S+)", page, re.MULTILINE)
    assert 0 < float(spent) <= 0.005
    assert "sk-test-key" not in served.log.read_text()


def test_bodies_that_arrive_or_wait_are_held_up_to_a_limit(start: Start) -> None:
    """Sixteen bodies of the maximum size; a further one is refused, and room is made again."""
    served = start("length", "--max-body", "1")
    size = 1 << 20
    head = f"POST /score HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {size}\r\n"
    head += "Content-Type: application/json\r\n\r\n"
    connections = [
        socket.create_connection(("127.0.0.1", served.port)) for _ in range(17)
    ]
    for connection in connections:
        connection.sendall(head.encode() + b" " * (size - 1))
    readable, _, _ = select.select(connections, [], [], 20)
    assert [connection.recv(12) for connection in readable] == [b"HTTP/1.1 429"]
    for connection in connections:
        connection.close()
    answer = httpx.post(f"{served.address}/score", json=talk(1).to_record(), timeout=20)
    assert answer.status_code == 200


def test_a_long_turn_of_a_client_that_left_does_not_block_others(
    start: Start, tmp_path: Path
) -> None:
    served = start("boxed")
    long_turns = [
        {"role": "user", "content": "Go on?"},
        {"role": "assistant", "content": "I went hiking with nine old cats. " * 20_000},
    ]
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{served.address}/score", json={"messages": long_turns}, timeout=2)
    short = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]
    answer = httpx.post(f"{served.address}/score", json={"messages": short}, timeout=90)
    assert answer.json()["judgements"][0]["scores"]["overall"] is not None
    assert "the clients have left" in served.log.read_text()
