"""The batch API against a server of its own process: resumed, split, and every end has a reason."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="the batch API needs the extra api")

from medal_judges.errors import ConfigError
from medal_judges.models.llm.cache import CachedModel
from medal_judges.models.llm.cost import CostLimitError, PriceFile
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.protocol import ChatRequest, Message
from medal_judges.models.llm.server.batch import BatchModel
from medal_judges.models.llm.server.batch_files import (
    BatchJob,
    BatchJournal,
    read_results,
    request_line,
    split,
)
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


def model(url: str, folder: Path, *, max_cost: float | None = None, **options: Any) -> CachedModel:
    config = OpenAILLM(model="stub", base_url=url, attempts=4, longest_wait=0.1, max_cost=max_cost)
    remote = RemoteModel(config, PriceFile.model_validate(PRICES))
    batch = BatchModel(remote, folder / "batches", poll=0.02, **options)
    return CachedModel(batch, folder / "answers")


def ask(text: str, **fields: Any) -> ChatRequest:
    return ChatRequest((Message("user", text),), **fields)


def left(folder: Path) -> list[Path]:
    return list((folder / "batches").glob("*/*.jsonl"))


def test_answers_come_back_in_order_priced_and_are_paid_once(tmp_path: Path) -> None:
    with serving() as stub:
        requests = [ask("one"), ask("two"), ask("one"), ask("two", seed=0)]
        answers = model(stub.url, tmp_path).chat(requests)
        assert [a.text for a in answers] == ["re: one", "re: two", "re: one", "re: two"]
        assert answers[0].usage.money == pytest.approx(0.5 * (10 * 1.0 + 5 * 10.0) / 1e6)
        again = model(stub.url, tmp_path).chat(requests)
        assert [a.text for a in again] == [a.text for a in answers]
        assert all(a.usage.from_cache for a in again)
        assert (stub.counts()["uploads"], stub.counts()["requests"]) == (1, 3)
        assert left(tmp_path) == []


def test_the_setting_batch_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDAL_JUDGES_CACHE", str(tmp_path))
    setting = {"backend": "openai", "model": "stub", "batch": True}
    with serving() as stub:
        for from_cache in (False, True):
            llm = load_llm({**setting, "base_url": stub.url})
            (answer,) = llm.chat([ask("one")])
            assert (answer.text, answer.usage.from_cache) == ("re: one", from_cache)
        assert stub.counts()["requests"] == 1
    assert {path.name for path in tmp_path.iterdir()} == {"answers", "batches"}


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


def kill(process: subprocess.Popen[str]) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


def test_kill_9_while_polling_and_a_second_start_uploads_nothing(tmp_path: Path) -> None:
    with serving("--hold") as stub:
        first = client(stub, tmp_path)
        stub.wait_for("polls", 2)
        kill(first)
        second = client(stub, tmp_path)
        stub.wait_for("polls", stub.counts()["polls"] + 2)
        stub.tell("release")
        assert second.communicate()[0].strip() == "True"
        counts = stub.counts()
        assert (counts["uploads"], counts["batches"], counts["requests"]) == (1, 1, 20)


def test_a_batch_whose_id_was_never_written_down_is_found_by_its_tag(tmp_path: Path) -> None:
    """As after kill -9 between the making of a batch and the writing of its id."""
    with serving("--hold") as stub:
        first = client(stub, tmp_path)
        stub.wait_for("polls", 1)
        kill(first)
        (path,) = left(tmp_path)
        before, made = path.read_text().splitlines(keepends=True)
        assert json.loads(before)["batch"] is None and json.loads(made)["batch"] is not None
        path.write_text(before)
        stub.tell("release")
        assert client(stub, tmp_path).communicate()[0].strip() == "True"
        assert stub.counts()["batches"] == 1


def test_a_lost_answer_to_the_making_of_a_batch_makes_no_second_one(tmp_path: Path) -> None:
    with serving("--lose-batch") as stub:
        (answer,) = model(stub.url, tmp_path).chat([ask("one")])
        assert answer.text == "re: one"
        assert (stub.counts()["batches"], stub.counts()["lists"]) == (1, 1)


def test_a_job_that_never_became_a_batch_is_uploaded_again(tmp_path: Path) -> None:
    with serving() as stub:
        cached = model(stub.url, tmp_path)
        assert isinstance(cached.inner, BatchModel)
        journal = cached.inner.journal
        with journal.lock:
            journal.save(BatchJob(["some key"], file="file-9"))
            journal.save(BatchJob(["some key"], file="file-9", tried=True))
        assert cached.chat([ask("one")])[0].text == "re: one"
        assert left(tmp_path) == []


def test_another_set_of_requests_takes_its_part_and_leaves_the_rest(tmp_path: Path) -> None:
    with serving("--hold") as stub:
        first = client(stub, tmp_path)
        stub.wait_for("polls", 1)
        kill(first)
        stub.tell("release")
        texts = ["number 3", "new", "number 5"]
        answers = model(stub.url, tmp_path).chat([ask(text) for text in texts])
        assert [a.text for a in answers] == [f"re: {text}" for text in texts]
        assert stub.counts()["requests"] == 21
        assert client(stub, tmp_path).communicate()[0].strip() == "True"
        assert stub.counts()["requests"] == 21
        assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("end", "reason"), [("expired", "expired"), ("cancelled", "cancelled"), ("failed", "no such")]
)
def test_a_batch_that_ends_badly_gives_reasons_and_is_asked_again(
    end: str, reason: str, tmp_path: Path
) -> None:
    with serving("--end", end) as stub:
        requests = [ask("one"), ask("two")]
        for start in (1, 2):
            answers = model(stub.url, tmp_path).chat(requests)
            failed = answers if end == "failed" else answers[start:]
            assert all(a.finish == "failed" and reason in str(a.failure) for a in failed)
            assert all(a.transient for a in failed)
            assert stub.counts()["batches"] == start
            assert left(tmp_path) == []
        # What a batch answered before it ended is kept: the second start asked for the second only.
        assert stub.counts()["requests"] == (4 if end == "failed" else 3)


def test_every_request_ends_with_an_answer_or_a_reason(tmp_path: Path) -> None:
    with serving("--busy", "2") as stub:
        texts = ["fine", "error", "silence", "malformed", "refused", "fine too"]
        answers = model(stub.url, tmp_path).chat([ask(text) for text in texts])
        assert [a.finish for a in answers] == ["stop", *["failed"] * 4, "stop"]
        assert [a.failure for a in answers[1:5]] == [
            "in the batch: server_error: it broke",
            "the batch ended without an answer to this request",
            "the answer's body is not a chat completion",
            "HTTP 400: odd: bad request",
        ]
        assert [a.transient for a in answers[1:5]] == [True, True, True, False]


def test_an_answer_that_was_cut_is_asked_once_more_with_twice_the_room(tmp_path: Path) -> None:
    with serving() as stub:
        limits = {"cut a": 600, "fine": 256, "cut b": 40, "cut c": 1}  # 1: a cut is meant
        requests = [ask(text, max_tokens=limit) for text, limit in limits.items()]
        answers = model(stub.url, tmp_path).chat(requests)
        assert [(a.text, a.finish) for a in answers] == [
            ("re: cut a", "stop"),
            ("re: fine", "stop"),
            ("re: cut b", "length"),
            ("re: cut c", "length"),
        ]
        assert [a.usage.output for a in answers] == [10, 5, 10, 5]
        assert (stub.counts()["batches"], stub.counts()["requests"]) == (2, 6)
        assert left(tmp_path) == []


def test_a_cut_answer_that_is_accepted_truncated_needs_one_batch(tmp_path: Path) -> None:
    with serving() as stub:
        request = replace(ask("cut a", max_tokens=600), accept_truncated=True, presence_penalty=0.6)
        [answer] = model(stub.url, tmp_path).chat([request])
        assert (answer.finish, answer.failure, answer.usage.output) == ("length", None, 5)
        assert (stub.counts()["batches"], stub.counts()["requests"]) == (1, 1)
        assert left(tmp_path) == []


def test_a_field_that_the_server_refuses_is_left_out_in_all_batches(tmp_path: Path) -> None:
    with serving("--refuse", "top_p") as stub:
        answers = model(stub.url, tmp_path, max_requests=2).chat([ask(f"{i}") for i in range(5)])
        assert [a.text for a in answers] == [f"re: {i}" for i in range(5)]
        assert stub.counts()["batches"] == 6


def test_a_batch_that_the_server_has_forgotten_is_a_failure(tmp_path: Path) -> None:
    with serving("--hold") as stub:
        first = client(stub, tmp_path)
        stub.wait_for("polls", 1)
        kill(first)
        stub.tell("forget")
        (answer,) = model(stub.url, tmp_path).chat([ask("number 0")])
        assert answer.failure == "the server does not know the batch any more"


def test_the_limit_of_cost_lets_only_what_fits_go(tmp_path: Path) -> None:
    with serving() as stub:
        requests = [ask(f"number {i}", max_tokens=100_000) for i in range(4)]  # $0.50 each at most
        with pytest.raises(CostLimitError, match="0 of 4"):
            model(stub.url, tmp_path, max_cost=0.4).chat(requests)
        assert "uploads" not in stub.counts()
        answers = model(stub.url, tmp_path, max_cost=1.1).chat(requests)
        assert [a.finish for a in answers] == ["stop"] * 4
        assert stub.counts()["batches"] == 2  # two fit, cost next to nothing, and so two more do


def test_a_lead_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="prefill"):
        model("http://127.0.0.1:9/v1", tmp_path).chat([ask("one", prefill="{")])


def test_files_keep_to_both_limits() -> None:
    lines = [(f"k{i}", request_line(f"k{i}", {"n": "x" * i})) for i in range(10)]
    by_count = list(split(lines, max_requests=4))
    assert [len(keys) for keys, _ in by_count] == [4, 4, 2]
    by_size = list(split(lines, max_bytes=300))
    assert all(len(content) <= 300 for _, content in by_size)
    for parts in (by_count, by_size):
        assert b"".join(content for _, content in parts) == b"".join(line for _, line in lines)
        assert [key for keys, _ in parts for key in keys] == [key for key, _ in lines]
    assert [keys for keys, _ in split(lines[:2], max_bytes=1)] == [["k0"], ["k1"]]
    assert list(split([])) == []


def test_line_breaks_of_other_scripts_do_not_break_a_line() -> None:
    body = {"choices": "a\u2028b\x85c"}
    record = {"custom_id": "k", "response": {"status_code": 200, "body": body}, "error": None}
    content = json.dumps(record, ensure_ascii=False).encode() + b'\n{"custom_id": "to'
    (result,) = read_results(content)
    assert (result.key, result.body) == ("k", body)


def test_old_jobs_are_left_out(tmp_path: Path) -> None:
    journal = BatchJournal(tmp_path)
    journal.save(BatchJob(["a"], created=time.time() - 30 * 86400))
    journal.save(BatchJob(["b"]))
    (left,) = journal.jobs()
    assert left.keys == ["b"]
    journal.settle(left, ["b"])
    assert journal.jobs() == [] and not journal.journal.path.exists()
