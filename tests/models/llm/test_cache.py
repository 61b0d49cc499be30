"""The cache of answers: nothing is requested twice, no answer is lost, failures are sent again."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from medal_judges.errors import SourceError
from medal_judges.models.llm.answer_cache import AnswerCache, answer_key
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    Message,
    TokenChoice,
    failed_completion,
)


def ask(text: str, **fields: object) -> ChatRequest:
    return ChatRequest((Message("user", text),), **fields)  # type: ignore[arg-type]


OTHERS = [
    {"seed": 0},
    {"seed": 1},
    {"temperature": 0.5},
    {"top_p": 0.9},
    {"max_tokens": 7},
    {"schema": {"type": "object"}},
    {"top_logprobs": 3},
    {"presence_penalty": 0.6},
    {"presence_penalty": -0.6},
    {"accept_truncated": True},
    {"frequency_penalty": 1.0},
]


def test_every_field_of_a_request_makes_another_key() -> None:
    requests = [ask("one"), *(ask("one", **fields) for fields in OTHERS), ask("one ")]
    requests += [ChatRequest((Message("system", "one"),))]
    requests += [ChatRequest((Message("user", "o"), Message("user", "ne")))]
    assert len({answer_key("m", request) for request in requests}) == len(requests)
    assert answer_key("other", requests[0]) != answer_key("m", requests[0])


def test_an_answer_comes_back_as_it_was_and_a_failure_does_not(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path / "answers.sqlite")
    tokens = (TokenChoice("x", -0.25, {"x": -0.25, "y": -1.5}),)
    answer = Completion("\u00e9", enforced=True, tokens=tokens)
    cache.save_unfailed("a", answer)
    cache.save_unfailed("b", failed_completion("it fails"))
    cache.save_unfailed("c", Completion("half a pair: \ud83d"))
    assert AnswerCache(cache.path).find(["a", "b", "c", "d"]) == {"a": answer}
    cache.save_unfailed("a", Completion("new"))
    assert cache.find(["a"])["a"].text == "new"


def test_a_file_that_is_not_a_cache_is_named(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(SourceError, match=r"answers\.sqlite"):
        AnswerCache(path).find(["a"])


WRITER = """
import sys
from pathlib import Path
from medal_judges.models.llm.answer_cache import AnswerCache
from medal_judges.models.llm.protocol import Completion
cache = AnswerCache(Path(sys.argv[1]))
for number in range(1_000_000):
    cache.save_unfailed(f"{sys.argv[2]}-{number}", Completion(chr(233) * (number * 7919 % 20000)))
    print(number, flush=True)  # printed only when it is on disk
"""


def test_kill_9_loses_no_answer_that_two_processes_wrote(tmp_path: Path) -> None:
    path, counts = tmp_path / "answers.sqlite", []
    command = [sys.executable, "-c", WRITER, str(path)]
    writers = []
    for label in ("a", "b"):
        pipe = subprocess.PIPE
        writers.append(subprocess.Popen([*command, label], stdout=pipe, text=True))
    for process in writers:
        assert process.stdout is not None
        for _ in range(20):
            process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
        rest = process.stdout.read().splitlines(keepends=True)
        assert process.wait() == -signal.SIGKILL
        counts.append(20 + len([line for line in rest if line.endswith("\n")]))
    for label, count in zip(("a", "b"), counts, strict=True):
        found = AnswerCache(path).find(f"{label}-{n}" for n in range(count))
        for number in range(count):
            assert found[f"{label}-{number}"].text == "\u00e9" * (number * 7919 % 20000)
