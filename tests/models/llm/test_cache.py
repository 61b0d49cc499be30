"""The cache of answers: nothing is asked twice, nothing kept is lost, failures are asked again."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from medal_judges.errors import SourceError
from medal_judges.models.llm.answer_store import AnswerStore, chat_key, likelihood_key
from medal_judges.models.llm.cache import CachedModel
from medal_judges.models.llm.cost import Usage
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    Continuation,
    LanguageModel,
    Likelihood,
    Message,
    OnAnswer,
    TokenChoice,
    collect,
)


class Counting(LanguageModel):
    """Answers with the length of the question and counts what it is asked; "fail" fails."""

    name, context = "counting/model", 4096

    def __init__(self, template: str = "a") -> None:
        self.asked: list[ChatRequest] = []
        self.scored: list[list[Continuation]] = []
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

    def loglikelihood(
        self, groups: Sequence[Sequence[Continuation]], *, joint: bool = False
    ) -> list[list[Likelihood]]:
        self.scored += [list(group) for group in groups]
        return [
            [Likelihood((-0.1 * len(c.text),), -1.0 if joint else None, 1) for c in group]
            for group in groups
        ]

    def count_tokens(self, messages: Sequence[Message]) -> int:
        return 7

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


def found(store: AnswerStore, keys: Sequence[str]) -> dict[str, object]:
    return store.find(keys, lambda record: record)


def ask(text: str, **fields: object) -> ChatRequest:
    return ChatRequest((Message("user", text),), **fields)  # type: ignore[arg-type]


def say(text: str, after: str = "hello") -> Continuation:
    return Continuation((Message("user", after),), text)


@pytest.mark.parametrize("kind", [Counting, OneByOne])
def test_a_second_run_asks_nothing_and_answers_the_same(
    kind: type[Counting], tmp_path: Path
) -> None:
    requests = [ask("one"), ask("three", top_logprobs=2), ask("seventeen"), ask("cut")]
    first = CachedModel(kind(), tmp_path).chat(requests)
    inner = kind()
    second = CachedModel(inner, tmp_path).chat(requests)
    assert inner.asked == []
    assert [c.text for c in first] == ["3", "5", "9", "3"]
    assert not any(c.usage.from_cache for c in first)
    assert second == [replace(c, usage=replace(c.usage, from_cache=True)) for c in first]
    assert second[0].usage.to_record()["money"] == 0.0


@pytest.mark.parametrize("kind", [Counting, OneByOne])
def test_equal_requests_of_one_call_are_asked_once(kind: type[Counting], tmp_path: Path) -> None:
    inner = kind()
    answers = CachedModel(inner, tmp_path).chat([ask("one"), ask("two!"), ask("one")])
    assert len(inner.asked) == 2
    assert [c.text for c in answers] == ["3", "4", "3"]
    assert [c.usage.from_cache for c in answers] == [False, False, True]


@pytest.mark.parametrize("kind", [Counting, OneByOne])
def test_a_failure_is_told_and_asked_again(kind: type[Counting], tmp_path: Path) -> None:
    inner = kind()
    cached = CachedModel(inner, tmp_path)
    for _ in range(2):
        failed, fine = cached.chat([ask("fail"), ask("fine")])
        assert (failed.finish, failed.failure, fine.text) == ("failed", "it fails", "4")
    assert [r.messages[-1].content for r in inner.asked].count("fail") == 2
    assert len(cached.store) == 1


def test_answers_are_kept_as_they_arrive_not_at_the_end(tmp_path: Path) -> None:
    cached = CachedModel(OneByOne(), tmp_path)
    with pytest.raises(KeyboardInterrupt):
        cached.chat([ask("break"), ask("one"), ask("two!")])
    inner = OneByOne()
    assert [c.text for c in CachedModel(inner, tmp_path).chat([ask("one"), ask("two!")])] == [
        "3",
        "4",
    ]
    assert inner.asked == []


def test_a_backend_that_reports_nothing_gives_failures(tmp_path: Path) -> None:
    class Silent(Counting):
        def chat_each(self, requests: Sequence[ChatRequest], on_answer: OnAnswer) -> None:
            return

    (answer,) = CachedModel(Silent(), tmp_path).chat([ask("one")])
    assert answer.finish == "failed"


OTHER_REQUESTS = {
    "seed": {"seed": 0},
    "other seed": {"seed": 1},
    "temperature": {"temperature": 0.5},
    "top_p": {"top_p": 0.9},
    "max_tokens": {"max_tokens": 7},
    "schema": {"schema": {"type": "object"}},
    "top_logprobs": {"top_logprobs": 3},
    "prefill": {"prefill": "{"},
}


def test_every_field_of_a_request_makes_another_entry(tmp_path: Path) -> None:
    requests = [ask("one"), *(ask("one", **fields) for fields in OTHER_REQUESTS.values())]
    requests += [ask("one ")]
    requests += [ChatRequest((Message("system", "one"),))]
    requests += [ChatRequest((Message("user", "o"), Message("user", "ne")))]
    assert len({chat_key("m", request) for request in requests}) == len(requests)
    assert chat_key("m", ask("one", temperature=0)) == chat_key("m", ask("one", temperature=0.0))
    assert chat_key("other", requests[0]) != chat_key("m", requests[0])
    inner = Counting()
    CachedModel(inner, tmp_path).chat(requests)
    assert len(inner.asked) == len(requests)


def test_another_fingerprint_is_another_model(tmp_path: Path) -> None:
    CachedModel(Counting("a"), tmp_path).chat([ask("one")])
    inner = Counting("b")
    CachedModel(inner, tmp_path).chat([ask("one")])
    assert len(inner.asked) == 1


def test_attributes_are_the_inner_models(tmp_path: Path) -> None:
    cached = CachedModel(Counting("t"), tmp_path)
    assert (cached.name, cached.context, cached.count_tokens([])) == ("counting/model", 4096, 7)
    assert cached.fingerprint() == {"template": "t"}


def test_half_a_surrogate_pair_can_be_asked(tmp_path: Path) -> None:
    cached = CachedModel(Counting(), tmp_path)
    assert [c.text for c in cached.chat([ask("a\ud83d")]) + cached.chat([ask("a\ud83d")])] == [
        "2",
        "2",
    ]


def test_likelihoods_are_kept_and_only_the_missing_of_a_group_are_asked(tmp_path: Path) -> None:
    inner = Counting()
    cached = CachedModel(inner, tmp_path)
    first = cached.loglikelihood([[say("a"), say("bb")], [], [say("a"), say("ccc")]])
    assert inner.scored == [[say("a"), say("bb")], [say("ccc")]]
    inner.scored.clear()
    again = cached.loglikelihood([[say("ccc"), say("dddd")], [say("bb")]])
    assert inner.scored == [[say("dddd")]]
    assert again == [[first[2][1], Likelihood((-0.4,), None, 1)], [first[0][1]]]
    assert cached.loglikelihood([[say("a")]], joint=True)[0][0].prefix_logprob == -1.0
    assert cached.loglikelihood([[say("a")]])[0][0].prefix_logprob is None
    keys = {likelihood_key("m", c, joint=False) for c in (say("a"), say("a", "x"), say("b"))}
    assert len(keys) == 3


def test_a_torn_line_costs_that_line_only_wherever_it_is_torn(tmp_path: Path) -> None:
    whole = AnswerStore(tmp_path / "whole.jsonl")
    for number in range(3):
        whole.append({f"k{number}": {"text": "é" * number}})
    content = whole.path.read_bytes()
    for length in range(len(content) + 1):
        path = tmp_path / f"{length}.jsonl"
        path.write_bytes(content[:length])
        before = found(AnswerStore(path), ["k0", "k1", "k2"])
        AnswerStore(path).append({"new": {"text": "new"}})
        after = found(AnswerStore(path), ["k0", "k1", "k2", "new"])
        assert after.pop("new") == {"text": "new"}
        assert before.items() <= after.items()  # a last line without its break is whole after all
        assert all(after[f"k{n}"] == {"text": "é" * n} for n in range(len(after)))
    assert len(after) == 3


def test_rubbish_in_the_file_is_left_out(tmp_path: Path) -> None:
    store = AnswerStore(tmp_path / "answers.jsonl")
    store.append({"a": 1})
    with store.path.open("ab") as stream:
        stream.write(b'\xff\xfe\x00\x00\n[1]\n{"key": "b"}\nnull\n' + b"\0" * 4096)
    store.append({"c": 2})
    assert found(AnswerStore(store.path), ["a", "b", "c"]) == {"a": 1, "c": 2}


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SourceError, match="cannot be kept"):
        AnswerStore(tmp_path / "file" / "answers.jsonl").append({"a": 1})


WRITER = """
import sys
from pathlib import Path
from medal_judges.models.llm.answer_store import AnswerStore
store = AnswerStore(Path(sys.argv[1]))
for number in range(int(sys.argv[3])):
    text = chr(233) * (number * 7919 % 20000)
    store.append({f"{sys.argv[2]}-{number}": {"number": number, "text": text}})
    print(number, flush=True)  # said only when it is kept
"""


def writer(path: Path, label: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), label, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def check(path: Path, label: str, said: int) -> None:
    """Everything that a writer said it kept is there, whole."""
    keys = [f"{label}-{number}" for number in range(said)]
    records = found(AnswerStore(path), keys)
    for number, key in enumerate(keys):
        assert records[key] == {"number": number, "text": "é" * (number * 7919 % 20000)}


def test_kill_9_loses_no_answer_that_was_kept(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    for round_ in range(3):
        process = writer(path, f"r{round_}", 1_000_000)
        assert process.stdout is not None
        for _ in range(20 + 7 * round_):
            process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
        rest = process.stdout.read().splitlines(keepends=True)
        assert process.wait() == -signal.SIGKILL
        whole = [line for line in rest if line.endswith("\n")]
        check(path, f"r{round_}", 20 + 7 * round_ + len(whole))
    for round_ in range(3):
        check(path, f"r{round_}", 20 + 7 * round_)


def test_two_processes_write_one_file_and_a_third_reads_on(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    reader = AnswerStore(path)
    processes = [writer(path, label, 150) for label in ("a", "b")]
    while any(process.poll() is None for process in processes):
        reader.refresh()
        time.sleep(0.01)
    for process in processes:
        assert process.stdout is not None
        process.stdout.close()
        assert process.returncode == 0
    for label in ("a", "b"):
        check(path, label, 150)
    assert (len(reader), reader.torn) == (300, 0)
