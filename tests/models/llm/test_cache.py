"""The cache of answers: nothing is requested twice, no answer is lost, failures are sent again, and
a bad line is a miss."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from medal_judges.models.llm.cost import Usage
from medal_judges.models.llm.loading import AnswerStore, CachedModel, chat_key
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    Message,
    OnAnswer,
    TokenChoice,
    collect,
)

from ...talks import ChatModel


class Counting(ChatModel):
    """Answers with the length of the question and counts the questions; "fail" fails."""

    name = "counting/model"

    def __init__(self, template: str = "a") -> None:
        self.asked: list[ChatRequest] = []
        self.template = template

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        self.asked += requests
        return [self.answer(request) for request in requests]

    def answer(self, request: ChatRequest) -> Completion:
        text = request.messages[-1].content
        if text == "fail":
            return Completion("", finish="failed", failure="it fails")
        usage = Usage(input=len(text), output=1, money=0.5)
        tokens = (TokenChoice("x", -0.25, {"x": -0.25, "y": -1.5}),)
        if text == "cut":
            return Completion("3", finish="length", failure="it was cut", usage=usage)
        return Completion(str(len(text)), enforced=True, tokens=tokens, usage=usage)

    def fingerprint(self) -> Mapping[str, str]:
        return {"template": self.template}


class OneByOne(Counting):
    """Reports each answer as it arrives, last first, and breaks off before the request "break"."""

    def chat_each(self, requests: Sequence[ChatRequest], on_answer: OnAnswer) -> None:
        for index in reversed(range(len(requests))):
            if requests[index].messages[-1].content == "break":
                raise KeyboardInterrupt
            self.asked.append(requests[index])
            on_answer(index, self.answer(requests[index]))

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        return collect(self.chat_each, requests)


def ask(text: str, **fields: object) -> ChatRequest:
    return ChatRequest((Message("user", text),), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [Counting, OneByOne])
def test_a_second_run_asks_nothing_and_answers_the_same(
    kind: type[Counting], tmp_path: Path
):
    requests = [ask("one"), ask("three", top_logprobs=2), ask("a\ud83d"), ask("cut")]
    first = CachedModel(kind(), tmp_path).chat(requests)
    inner = kind()
    second = CachedModel(inner, tmp_path).chat(requests)
    assert inner.asked == []
    assert [c.text for c in first] == ["3", "5", "2", "3"]
    assert not any(c.usage.from_cache for c in first)
    assert second == [
        replace(c, usage=replace(c.usage, from_cache=True)) for c in first
    ]
    assert second[0].usage.to_record()["money"] == 0.0


@pytest.mark.parametrize("kind", [Counting, OneByOne])
def test_equal_requests_are_sent_once_and_failures_again(
    kind: type[Counting], tmp_path: Path
):
    inner = kind()
    cached = CachedModel(inner, tmp_path)
    answers = cached.chat([ask("one"), ask("two!"), ask("one")])
    assert len(inner.asked) == 2
    assert [c.text for c in answers] == ["3", "4", "3"]
    assert [c.usage.from_cache for c in answers] == [False, False, True]
    for _ in range(2):
        failed, fine = cached.chat([ask("fail"), ask("fine")])
        assert (failed.finish, failed.failure, fine.text) == ("failed", "it fails", "4")
    assert [r.messages[-1].content for r in inner.asked].count("fail") == 2


OTHERS = [
    *(
        {"seed": 0},
        {"seed": 1},
        {"temperature": 0.5},
        {"top_p": 0.9},
        {"max_tokens": 7},
    ),
    *({"schema": {"type": "object"}}, {"top_logprobs": 3}, {"prefill": "{"}),
    *(
        {"presence_penalty": 0.6},
        {"presence_penalty": -0.6},
        {"accept_truncated": True},
    ),
    *({"frequency_penalty": 1.0}, {"unlimited": True}),
]


def test_every_field_of_a_request_makes_another_entry(tmp_path: Path) -> None:
    requests = [ask("one"), *(ask("one", **fields) for fields in OTHERS), ask("one ")]
    requests += [ChatRequest((Message("system", "one"),))]
    requests += [ChatRequest((Message("user", "o"), Message("user", "ne")))]
    assert len({chat_key("m", request) for request in requests}) == len(requests)
    assert chat_key("m", ask("one", temperature=0)) == chat_key(
        "m", ask("one", temperature=0.0)
    )
    assert chat_key("other", requests[0]) != chat_key("m", requests[0])
    inner = Counting("b")
    CachedModel(Counting("a"), tmp_path).chat(requests)
    CachedModel(inner, tmp_path).chat(requests)  # another fingerprint is another model
    assert len(inner.asked) == len(requests)


def found(path: Path, *keys: str) -> dict[str, str]:
    return {k: c.text for k, c in AnswerStore(path).find(keys).items()}


def test_a_torn_line_costs_that_line_only_wherever_it_is_torn(tmp_path: Path) -> None:
    whole = AnswerStore(tmp_path / "whole.jsonl")
    for number in range(3):
        whole.append(f"k{number}", Completion("é" * number))
    content = whole.path.read_bytes()
    for length in range(0, len(content) + 1, 3):
        path = tmp_path / f"{length}.jsonl"
        path.write_bytes(content[:length])
        before = found(path, "k0", "k1", "k2")
        AnswerStore(path).append("new", Completion("new"))
        after = found(path, "k0", "k1", "k2", "new")
        assert after.pop("new") == "new"
        assert before.items() <= after.items()
        assert all(after[f"k{n}"] == "é" * n for n in range(len(after)))


BAD = [
    b'{"key": "a", "answer": {"text": "5", "finish": "failed"}}',
    b'{"key": "a", "answer": {"text": "5", "usage": {"input": 1e400}}}',
]


@pytest.mark.parametrize("line", BAD)
def test_a_bad_line_is_a_miss_and_does_not_hide_the_next_answer(
    line: bytes, tmp_path: Path
):
    store = AnswerStore(tmp_path / "answers.jsonl")
    store.append("b", Completion("2"))
    with store.path.open("ab") as stream:
        stream.write(line + b"\n")
    assert found(store.path, "a", "b") == {"b": "2"}
    store.append("a", Completion("1"))
    assert found(store.path, "a", "b") == {"a": "1", "b": "2"}


WRITER = """
import sys
from pathlib import Path
from medal_judges.models.llm.loading import AnswerStore
from medal_judges.models.llm.protocol import Completion
store = AnswerStore(Path(sys.argv[1]))
for number in range(int(sys.argv[3])):
    store.append(f"{sys.argv[2]}-{number}", Completion(chr(233) * (number * 7919 % 20000)))
    print(number, flush=True)  # printed only when it is on disk
"""


def writer(path: Path, label: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), label, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def check(path: Path, label: str, written: int) -> None:
    """Every answer that a writer reported is there, whole."""
    texts = found(path, *(f"{label}-{number}" for number in range(written)))
    for number in range(written):
        assert texts[f"{label}-{number}"] == "é" * (number * 7919 % 20000)


def test_kill_9_loses_no_answer_that_was_written(tmp_path: Path) -> None:
    path, counts = tmp_path / "answers.jsonl", []
    for round_ in range(2):
        process = writer(path, f"r{round_}", 1_000_000)
        assert process.stdout is not None
        for _ in range(20 + 7 * round_):
            process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
        rest = process.stdout.read().splitlines(keepends=True)
        assert process.wait() == -signal.SIGKILL
        counts.append(
            20 + 7 * round_ + len([line for line in rest if line.endswith("\n")])
        )
    for round_, count in enumerate(counts):
        check(path, f"r{round_}", count)
