"""Servers that misbehave, real ones on loopback: each answer, however wrong, is a judgement without
a score and with a reason, or an error with a hint; the key goes nowhere else, and what comes back
is bounded."""

from __future__ import annotations

import gzip
import json
import logging
import socketserver
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from medal_judges.errors import ConfigError, MedalError
from medal_judges.models.llm.protocol import ChatRequest, Message
from medal_judges.models.llm.server import RemoteModel, read_answer
from medal_judges.models.llm.settings import OpenAILLM
from medal_judges.secrets import SecretFilter

from .every_command import some

KEY = "sk-secret-of-the-user-123"
Answer = Callable[[Any, dict[str, str]], None]


class Raw(socketserver.ThreadingTCPServer):
    """Takes a request whole, then lets ``answer`` write what it likes."""

    daemon_threads, allow_reuse_address = True, True
    answer: Answer
    seen: list[dict[str, str]]


class Handler(socketserver.StreamRequestHandler):
    server: Raw

    def handle(self) -> None:
        try:
            head = {"line": self.rfile.readline().decode("latin-1")}
            while line := self.rfile.readline().decode("latin-1").strip():
                name, _, value = line.partition(":")
                head[name.lower()] = value.strip()
            head["body"] = self.rfile.read(int(head.get("content-length", 0))).decode()
            self.server.seen.append(head)
            self.server.answer(self.wfile, head)
        except OSError:  # the client is gone
            pass


@contextmanager
def raw_server(answer: Answer) -> Iterator[Raw]:
    server = Raw(("127.0.0.1", 0), Handler)
    server.answer, server.seen = answer, []
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def url(server: Raw) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}/v1"


def http(status: int, body: bytes | str, **headers: str) -> Answer:
    data = body.encode() if isinstance(body, str) else body

    def answer(out: Any, _: dict[str, str]) -> None:
        lines = {"Content-Length": str(len(data)), "Content-Type": "application/json"}
        lines |= {name.replace("_", "-"): value for name, value in headers.items()}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        out.write(f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + data)

    return answer


def chat(content: object, **fields: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": content}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "x", "choices": [choice], "usage": usage} | fields


def model(address: str, **more: Any) -> RemoteModel:
    given = {"model": "m", "base_url": address, "attempts": 2, "timeout": 5}
    return RemoteModel(OpenAILLM(**(given | {"api_key_env": "HARD_KEY"} | more)))


def asked(address: str, **more: Any) -> Any:
    return model(address, **more).chat([ChatRequest((Message("user", "hello"),))])[0]


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARD_KEY", KEY)


def endless(out: Any, _: dict[str, str]) -> None:
    out.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
    while True:
        out.write(b" " * 65536)


def slow_header(out: Any, _: dict[str, str]) -> None:
    for byte in b"HTTP/1.1 200 OK\r\nX-A: " + b"a" * 1000:
        out.write(bytes([byte]))
        out.flush()
        time.sleep(0.05)


def reset_in_body(out: Any, _: dict[str, str]) -> None:
    data = json.dumps(chat("4")).encode()
    out.write(
        f"HTTP/1.1 200 OK\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data[:40]
    )


def silent(out: Any, _: dict[str, str]) -> None:
    time.sleep(3)


BOMB = gzip.compress(b" " * (1 << 27))
FILTERED = {"message": {"content": None}, "finish_reason": "content_filter"}
BROKEN: dict[str, Answer] = {
    "HTML": http(
        200, "<html><body>Please log in</body></html>", Content_Type="text/html"
    ),
    "half JSON": http(200, json.dumps(chat("4"))[:50]),
    "deep": http(200, "[" * 100_000),
    "no choices": http(200, json.dumps({"id": "x", "choices": []})),
    "content of parts": http(200, json.dumps(chat([{"type": "image"}]))),
    "refusal": http(
        200, json.dumps({"choices": [{"message": {"content": None, "refusal": "no"}}]})
    ),
    "an error inside": http(200, json.dumps({"error": {"message": f"quota of {KEY}"}})),
    "reset in the body": reset_in_body,
    "endless": endless,
    "slow header": slow_header,
    "packed": http(200, BOMB, Content_Encoding="gzip"),
    "two lengths": lambda out, _: out.write(
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 9\r\n\r\n12345"
    ),
}


@pytest.mark.parametrize("kind", some(BROKEN))
def test_a_broken_answer_is_none_with_a_reason(
    kind: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("medal_judges.models.llm.server.LONGEST_WAIT", 1.0)
    start = time.monotonic()
    with raw_server(BROKEN[kind]) as server:
        done = asked(url(server), timeout=1.0)
    assert done.finish == "failed" and done.failure and done.text == ""
    assert KEY not in done.failure and len(done.failure) < 1000
    assert time.monotonic() - start < 10
    assert KEY not in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    "key",
    ["sk-hidden\nX-Other: 1", "sk-hidden\x1b[0m", "sk-hidden-é", "sk-\u200bhidden"],
)
def test_a_key_that_no_header_carries_is_refused_without_being_shown(
    monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("HARD_KEY", key)
    with pytest.raises(
        ConfigError, match="the key in HARD_KEY has a control"
    ) as caught:
        model("http://127.0.0.1:9/v1")
    assert "hidden" not in str(caught.value)


def test_a_key_that_a_server_quotes_is_shown_in_no_form(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    key = 'sk-a/b+c=d"e-12345'
    monkeypatch.setenv("HARD_KEY", key)
    forms = [key, b64encode(key.encode()).decode(), quote(key, safe="")]
    forms.append(json.dumps(key)[1:-1])
    caplog.handler.addFilter(SecretFilter())
    body = json.dumps({"error": {"message": " ".join(forms)}})
    with raw_server(http(500, body)) as server:
        done = asked(url(server))
    assert "/v1/chat/completions" in caplog.text and done.failure
    for form in forms:
        assert form not in caplog.text and form not in repr(done)


@pytest.mark.parametrize(
    "proxy", ["ftp://ann:hidden-word@127.0.0.1:9", "http://ann:hidden-word@127.0.0.1:x"]
)
def test_a_proxy_that_cannot_be_used_is_refused_without_its_password(
    proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(ConfigError, match="a proxy of the environment") as caught:
        asked("http://example.invalid/v1")
    assert "hidden-word" not in f"{caught.value}{caught.value.hint}"
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("status", [301, 307])
@pytest.mark.parametrize("place", ["elsewhere", "same host", "file"])
def test_redirects_take_neither_dialogues_nor_key_elsewhere(
    status: int, place: str
) -> None:
    with raw_server(http(200, json.dumps(chat("5")))) as other:
        places = {
            "elsewhere": url(other),
            "same host": "/v2",
            "file": "file:///etc/passwd",
        }
        headers = {} if place == "none" else {"Location": places[place]}
        with raw_server(http(status, "", **headers)) as server:
            with pytest.raises(MedalError, match="redirects") as stopped:
                asked(url(server))
            assert len(server.seen) == 1
        assert not other.seen
    assert "llm.base_url" in (stopped.value.hint or "") and KEY not in str(
        stopped.value
    )


# -- fields of an answer, generated ------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=10), inner, max_size=3)
    ),
    max_leaves=8,
)
COUNTS = st.one_of(JSON, st.integers(-5, 50), st.floats(), st.just("12"), st.just(True))
TOKEN = st.fixed_dictionaries(
    {},
    optional={
        "token": JSON,
        "logprob": JSON,
        "top_logprobs": st.lists(JSON, max_size=3) | JSON,
    },
)
ANSWERS = st.fixed_dictionaries(
    {},
    optional={
        "choices": st.one_of(
            JSON,
            st.lists(
                st.fixed_dictionaries(
                    {
                        "message": JSON
                        | st.fixed_dictionaries({"content": JSON, "refusal": JSON})
                    },
                    optional={
                        "finish_reason": JSON
                        | st.sampled_from(["stop", "length", "content_filter"]),
                        "logprobs": JSON
                        | st.fixed_dictionaries({"content": st.lists(TOKEN)}),
                    },
                ),
                min_size=1,
                max_size=2,
            ),
        ),
        "usage": JSON
        | st.fixed_dictionaries(
            {
                "prompt_tokens": COUNTS,
                "completion_tokens": COUNTS,
                "total_tokens": COUNTS,
            },
            optional={"prompt_tokens_details": JSON, "completion_tokens_details": JSON},
        ),
        "error": JSON,
    },
)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(answer=JSON | ANSWERS)
def test_no_answer_makes_a_reader_fail(answer: Any) -> None:
    """Whatever a server writes: a completion that can be kept and read back, or a RequestError."""
    from dataclasses import asdict

    from medal_judges.models.llm.answer_cache import COMPLETION
    from medal_judges.models.llm.server import RequestError

    try:
        done = read_answer(answer, ChatRequest((Message("user", "x"),), top_logprobs=5))
    except RequestError:
        return
    assert done.usage.input >= 0 and done.usage.output >= 0
    if done.finish != "failed":
        assert COMPLETION.validate_json(json.dumps(asdict(done)), strict=True) == done
