"""Kept answers: of which weights they are, that they are announced, that bad ones are misses."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="the API's client is in the extra api")

from medal_judges.inference.judge_choice import cached_answers
from medal_judges.models.base.judge import Judge
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.protocol import ChatRequest, LanguageModel, Message
from medal_judges.models.llm.server.wire import identity_in

Serve = Callable[..., Any]
VLLM = {"id": "tester", "object": "model", "owned_by": "vllm", "max_model_len": 4096}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDAL_JUDGES_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")


def model(server: Any, folder: Path, **more: Any) -> LanguageModel:
    """Another server under the same settings: only its address is another one."""
    own = {"model": "openai:tester", "base_url": server.url, "cache": str(folder), "attempts": 1}
    return load_llm({**own, "longest_wait": 0.05, **more})


def asked(count: int) -> list[ChatRequest]:
    return [ChatRequest((Message("user", f"Question {i}?"),), max_tokens=50) for i in range(count)]


def test_other_weights_behind_the_same_name_do_not_give_the_old_answers(
    serve: Serve, tmp_path: Path
) -> None:
    first = serve(served=VLLM | {"root": "/weights/one", "created": 1})
    model(first, tmp_path).chat(asked(3))
    again = serve(served=VLLM | {"root": "/weights/one", "created": 2})
    model(again, tmp_path).chat(asked(3))
    assert (first.total("answered"), again.total("seen")) == (3, 0)
    other = serve(served=VLLM | {"root": "/weights/two", "created": 2})
    model(other, tmp_path).chat(asked(3))
    assert other.total("answered") == 3
    assert "/weights" not in "".join(p.read_text() for p in tmp_path.rglob("*") if p.is_file())


def test_what_tells_weights_apart() -> None:
    def listing(**fields: Any) -> dict[str, Any]:
        return {"object": "list", "data": [{"id": "other", "root": "x"}, VLLM | fields]}

    one = identity_in(listing(root="org/name", created=1), "tester")
    assert one is not None and one == identity_in(listing(root="org/name", created=2), "tester")
    assert one != identity_in(listing(root="org/name", meta={"n_params": 5}), "tester")
    assert identity_in(listing(created=1), "tester") is None  # nothing that weights depend on
    for foreign in (None, [], {"data": None}, {"data": ["tester"]}, {"data": [{"id": 5}]}):
        assert identity_in(foreign, "tester") is None


def _dialogues(path: Path) -> Path:
    turns = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi."}]
    rows = [{"id": f"d{i}", "lang": "en", "dialogue": [*turns, *turns][: 2 + i]} for i in range(3)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _medal(*words: object) -> subprocess.CompletedProcess[str]:
    code = "from medal_judges.cli import main; main()"
    command = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, env=dict(os.environ))


def test_kept_answers_are_announced_and_can_be_refused(serve: Serve, tmp_path: Path) -> None:
    server, file = serve(), _dialogues(tmp_path / "in.jsonl")
    llm = json.dumps({"model": "openai:tester", "base_url": server.url})
    command = ["score", file, f"llm={llm}", "--judge", "judges/dstc12_baseline.yaml"]
    first = _medal(*command, "--out", tmp_path / "a.jsonl")
    assert first.returncode == 0 and "from the cache" not in first.stderr
    second = _medal(*command, "--out", tmp_path / "b.jsonl")
    assert "3 of 3 answers served from the cache" in second.stderr
    assert "--no-cache" in second.stderr and server.total("seen") == 3
    third = _medal(*command, "--out", tmp_path / "c.jsonl", "--no-cache")
    assert third.returncode == 0 and "from the cache" not in third.stderr
    assert server.total("seen") == 6
    wrong = _medal("score", file, "--judge", "configs/judges/length.yaml", "--no-cache")
    assert wrong.returncode == 2 and "Traceback" not in wrong.stderr
    judge = Judge.from_pretrained("judges/dstc12_baseline.yaml", llm=json.loads(llm))
    assert cached_answers([judge, judge]) is None


@pytest.mark.parametrize("usage", [None, {"prompt_tokens": -5, "completion_tokens": -9}, "none"])
def test_an_answer_without_a_believable_usage_costs_its_highest_price(
    serve: Serve, tmp_path: Path, usage: Any
) -> None:
    from medal_judges.models.llm.cost import CostLimitError

    prices = tmp_path / "prices.yaml"
    table = {"tester": {"input": 0.0, "output": 100.0}}
    prices.write_text(json.dumps({"date": "2026-01-01", "source": "t", "models": table}))
    server = serve(change={"usage": usage})
    paid = {"prices": str(prices), "max_in_flight": 1}
    with pytest.raises(CostLimitError, match=r"\$0.0200 spent, 4 of 9"):  # 50 tokens: half a cent
        model(server, tmp_path / "kept", max_cost=0.022, **paid).chat(asked(9))
    [done] = model(server, tmp_path / "more", **paid).chat(asked(1))
    assert done.usage.money == pytest.approx(0.005) and done.usage.output == 0


SECRET = "sk-" + "quoted" * 5


@pytest.mark.parametrize(
    "change",
    [
        {"error": {"message": f"no account for Bearer {SECRET}"}},
        {"error": f"Authorization: {SECRET}"},
        {"choices.0.message.refusal": f"I will not, {SECRET}"},
        {"choices.0.message.content": f"You sent {SECRET}"},
    ],
)
def test_a_key_that_the_server_quotes_stands_nowhere(
    serve: Serve,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    change: dict[str, Any],
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    caplog.set_level(logging.DEBUG, logger="medal_judges")
    request = ChatRequest((Message("user", "Hello"),), max_tokens=50, top_logprobs=5)
    [done] = model(serve(change=change), tmp_path).chat([request])
    kept = "".join(p.read_text() for p in tmp_path.rglob("*") if p.is_file())
    assert "***" in f"{done.failure} {done.text}"
    assert not any(SECRET in text for text in (repr(done), kept, caplog.text))
