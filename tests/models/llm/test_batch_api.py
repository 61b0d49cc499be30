"""The batch API against a server in its own process: resumed, and every request ends with an answer
or a reason."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="the batch API needs the extra api")

from medal_judges.errors import ConfigError, SourceError
from medal_judges.models.llm.cache import CachedModel
from medal_judges.models.llm.cost import CostLimitError, PriceFile
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.protocol import ChatRequest, Message
from medal_judges.models.llm.server.batch import BatchModel
from medal_judges.models.llm.server.model import RemoteModel
from medal_judges.models.llm.settings import OpenAILLM

SERVER = Path(__file__).with_name("batch_server.py")
PRICES = {
    "date": "2026-01-01",
    "source": "this test",
    "batch_discount": 0.5,
    "models": {"stub": {"input": 1.0, "output": 10.0}},
}


class Stub:
    """The server and what it counted."""

    def __init__(self, port: int) -> None:
        self.root = f"http://127.0.0.1:{port}"
        self.url = f"{self.root}/v1"

    def counts(self) -> dict[str, int]:
        with urllib.request.urlopen(f"{self.root}/counts") as answer:
            return dict(json.load(answer))

    def tell(self, word: str) -> None:
        urllib.request.urlopen(f"{self.root}/{word}", data=b"").close()

    def wait_for(self, what: str, count: int) -> None:
        end = time.monotonic() + 60
        while self.counts().get(what, 0) < count:
            assert time.monotonic() < end, f"{what} never reached {count}: {self.counts()}"
            time.sleep(0.02)


@contextmanager
def serving(*options: str) -> Iterator[Stub]:
    command = [sys.executable, str(SERVER), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield Stub(int(process.stdout.readline()))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def model(
    url: str, folder: Path, *, max_cost: float | None = None, size: int = 5000
) -> CachedModel:
    config = OpenAILLM(model="stub", base_url=url, attempts=4, batch=True, max_cost=max_cost)
    remote = RemoteModel(config, PriceFile.model_validate(PRICES))
    batch = BatchModel(remote, folder / "batches", poll=0.02, size=size)
    return CachedModel(batch, folder / "answers")


def ask(text: str, **fields: Any) -> ChatRequest:
    return ChatRequest((Message("user", text),), **fields)


def test_answers_come_back_in_order_priced_and_are_paid_once(tmp_path: Path) -> None:
    with serving() as stub:
        requests = [ask("one"), ask("two"), ask("one"), ask("two", seed=0)]
        answers = model(stub.url, tmp_path, size=2).chat(requests)
        assert [a.text for a in answers] == ["re: one", "re: two", "re: one", "re: two"]
        assert answers[0].usage.money == pytest.approx(0.5 * (10 * 1.0 + 5 * 10.0) / 1e6)
        again = model(stub.url, tmp_path).chat(requests)
        assert [a.text for a in again] == [a.text for a in answers]
        assert all(a.usage.from_cache for a in again)
        assert (stub.counts()["uploads"], stub.counts()["requests"]) == (2, 3)


def test_the_setting_batch_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDAL_JUDGES_CACHE", str(tmp_path))
    setting = {"backend": "openai", "model": "stub", "batch": True}
    with serving() as stub:
        for from_cache in (False, True):
            llm = load_llm({**setting, "base_url": stub.url})
            (answer,) = llm.chat([ask("one")])
            assert (answer.text, answer.usage.from_cache) == ("re: one", from_cache)
        assert stub.counts()["requests"] == 1


CLIENT = """
import importlib.util, sys
from pathlib import Path
spec = importlib.util.spec_from_file_location("the_test", sys.argv[1])
test = importlib.util.module_from_spec(spec)
spec.loader.exec_module(test)
requests = [test.ask(f"number {i}") for i in range(20)]
answers = test.model(sys.argv[2], Path(sys.argv[3])).chat(requests)
print([a.text for a in answers] == [f"re: number {i}" for i in range(20)])
"""


def client(stub: Stub, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CLIENT, __file__, stub.url, str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def killed_while_polling(stub: Stub, folder: Path) -> None:
    first = client(stub, folder)
    stub.wait_for("polls", 1)
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()


def test_kill_9_while_polling_and_a_second_start_uploads_nothing(tmp_path: Path) -> None:
    with serving("--hold") as stub:
        killed_while_polling(stub, tmp_path)
        stub.tell("release")
        # Another set of requests takes its part of the running batch and leaves the rest.
        texts = ["number 3", "new", "number 5"]
        answers = model(stub.url, tmp_path).chat([ask(text) for text in texts])
        assert [a.text for a in answers] == [f"re: {text}" for text in texts]
        assert client(stub, tmp_path).communicate()[0].strip() == "True"
        counts = stub.counts()
        assert (counts["uploads"], counts["batches"], counts["requests"]) == (2, 2, 21)


def test_a_batch_that_the_server_has_forgotten_is_a_failure(tmp_path: Path) -> None:
    with serving("--hold") as stub:
        killed_while_polling(stub, tmp_path)
        stub.tell("forget")
        (answer,) = model(stub.url, tmp_path).chat([ask("number 0")])
        assert answer.failure == "the server does not know the batch any more"


@pytest.mark.parametrize(
    ("end", "reason"), [("expired", "expired"), ("cancelled", "cancelled"), ("failed", "no such")]
)
def test_a_batch_that_ends_badly_gives_reasons_and_is_sent_again(
    end: str, reason: str, tmp_path: Path
) -> None:
    with serving("--end", end) as stub:
        requests = [ask("one"), ask("two")]
        for start in (1, 2):
            answers = model(stub.url, tmp_path).chat(requests)
            failed = answers if end == "failed" else answers[start:]
            assert all(a.failed and a.transient and reason in str(a.failure) for a in failed)
            assert stub.counts()["batches"] == start
        # What a batch answered before it ended is cached: the second start asked for the rest.
        assert stub.counts()["requests"] == (4 if end == "failed" else 3)


def test_every_request_ends_with_an_answer_or_a_reason(tmp_path: Path) -> None:
    with serving("--busy", "2") as stub:
        texts = ["fine", "error", "silence", "malformed", "refused", "cut", "fine too"]
        answers = model(stub.url, tmp_path).chat([ask(text) for text in texts])
        assert [a.finish for a in answers] == ["stop", *["failed"] * 4, "length", "stop"]
        assert [a.failure for a in answers[1:6]] == [
            "in the batch: server_error: it broke",
            "the batch completed without an answer to this request",
            "the answer's body is not a chat completion",
            "HTTP 400: odd: bad request",
            "the answer was truncated at its limit of 256 tokens",
        ]
        assert [a.transient for a in answers[1:5]] == [True, True, True, False]


def test_the_limit_of_cost_lets_nothing_go_that_could_exceed_it(tmp_path: Path) -> None:
    with serving() as stub:
        requests = [ask(f"number {i}", max_tokens=100_000) for i in range(4)]  # $0.50 each at most
        with pytest.raises(CostLimitError, match="0 of 4"):
            model(stub.url, tmp_path, max_cost=1.1).chat(requests)
        assert "uploads" not in stub.counts()
        answers = model(stub.url, tmp_path, max_cost=2.1).chat(requests)
        assert [a.finish for a in answers] == ["stop"] * 4


def test_prefill_and_a_server_that_is_down_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="prefill"):
        model("http://127.0.0.1:9/v1", tmp_path).chat([ask("one", prefill="{")])
    remote = RemoteModel(OpenAILLM(model="stub", base_url="http://127.0.0.1:9/v1", attempts=1))
    with pytest.raises(SourceError, match="no connection to"):
        BatchModel(remote, tmp_path).chat([ask("one")])
