"""What a server refuses: of one request, of a field of it, or of everything, which ends the run."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="the API's client is in the extra api")

from medal_judges.errors import ConfigError
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.protocol import ChatRequest, Continuation, LanguageModel, Message
from medal_judges.models.llm.server.errors import ServerError, ServerStopError
from medal_judges.models.llm.server.model import REASONING_TOKENS
from medal_judges.models.prompted.judge import tells_likelihoods

SECRET = "sk-" + "secret" * 5
Serve = Callable[..., Any]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDAL_JUDGES_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)


def remote(server: Any, **settings: Any) -> LanguageModel:
    own = {"model": "openai:tester", "base_url": server.url, "cache": False, "longest_wait": 0.2}
    return load_llm({**own, **settings})


def asked(count: int, **settings: Any) -> list[ChatRequest]:
    settings = {"max_tokens": 100, **settings}
    return [ChatRequest((Message("user", f"Question {i}?"),), **settings) for i in range(count)]


def sent(server: Any) -> list[dict[str, Any]]:
    return [each["body"] for each in server.told("requests")]


@pytest.mark.parametrize(
    ("fault", "wait", "words"),
    [
        ("quota", 1, "no credit left"),
        ("402", 1, "no credit left"),
        ("403", 1, "does not permit this"),
        ("429", 3600, "asks to wait 3600 s"),
        ("429", "date", "wait until"),
    ],
)
def test_what_no_row_can_do_anything_about_stops_the_run_at_once(
    serve: Serve, fault: str, wait: Any, words: str
) -> None:
    if wait == "date":
        wait = formatdate(time.time() + 7200, usegmt=True)
    server = serve(fault=fault, times=-1, wait=wait)
    with pytest.raises(ServerStopError, match=words) as caught:
        remote(server).chat(asked(100))
    assert "the same command then resumes" in str(caught.value)
    assert len(sent(server)) <= 8


def test_a_connection_that_is_refused_names_its_address() -> None:
    with socket.socket() as closed:  # a port on which nobody listens
        closed.bind(("127.0.0.1", 0))
        url = f"http://user:{SECRET}@127.0.0.1:{closed.getsockname()[1]}/v1"
    llm = load_llm({"model": "openai:tester", "base_url": url, "cache": False, "attempts": 1})
    [done] = llm.chat(asked(1))
    at = url.split("@")[1]
    assert (done.failure or "").startswith(f"no connection to http://{at}: ") and done.transient
    assert SECRET not in (done.failure or "")


def test_a_wrong_key_stops_at_once_and_is_not_quoted(serve: Serve) -> None:
    server = serve(fault="401", times=-1)
    with pytest.raises(ConfigError, match="refuses the key") as caught:
        remote(server).chat(asked(100))
    assert SECRET not in str(caught.value)
    assert "the key in OPENAI_API_KEY" in str(caught.value)
    assert "export OPENAI_API_KEY=" in str(caught.value)
    assert len(sent(server)) <= 8


OPENAI = "Invalid value for 'top_logprobs': must be less than or equal to {most}."
VLLM = "Requested sample logprobs of {asked}, which is greater than max allowed: {most}"


@pytest.mark.parametrize("words", [OPENAI, VLLM])
def test_refused_alternatives_are_left_out_and_a_token_is_not_taken_for_certain(
    serve: Serve, words: str
) -> None:
    server = serve(alternatives=[5, words])
    [done] = remote(server).chat(asked(1, top_logprobs=20))
    assert not done.tokens
    assert "logprobs" not in sent(server)[-1] and "top_logprobs" not in sent(server)[-1]
    [alone] = remote(serve(alone=True)).chat(asked(1, top_logprobs=20))
    assert alone.tokens and not any(token.alternatives for token in alone.tokens)


def test_the_effort_of_reasoning_is_sent_and_part_of_what_an_answer_depends_on(
    serve: Serve,
) -> None:
    server = serve()
    hard, easy = (remote(server, reasoning_effort=effort) for effort in ("high", "none"))
    hard.chat(asked(1))
    easy.chat(asked(1))
    first, second = sent(server)
    assert first["reasoning_effort"] == "high"
    assert first["max_completion_tokens"] == REASONING_TOKENS
    assert (second["reasoning_effort"], second["max_tokens"]) == ("none", 100)
    assert hard.fingerprint() != easy.fingerprint()


SAY = [[Continuation((Message("user", "Hello"),), "Hi there")]]


def test_an_echo_gives_the_likelihood_of_what_was_sent(serve: Serve) -> None:
    [[told]] = remote(serve()).loglikelihood(SAY)
    assert told.logprobs == (-0.5,) * len(" Hi there\n")


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (0.7, ServerError, "no log-probability"),
        ("-0.5", ServerError, "no log-probability"),
        (None, ConfigError, "for each token"),
    ],
)
def test_an_echo_with_other_numbers_is_no_likelihood(
    serve: Serve, value: Any, error: type[Exception], words: str
) -> None:
    server = serve(change={"choices.0.logprobs.token_logprobs.15": value})
    with pytest.raises(error, match=words):
        remote(server, attempts=1).loglikelihood(SAY)


def test_an_echo_that_omits_tokens_is_refused(serve: Serve) -> None:
    with pytest.raises(ConfigError, match="its echo omits tokens"):
        remote(serve(change={"usage.total_tokens": 99})).loglikelihood(SAY)


@pytest.mark.parametrize("change", [{"choices": "none"}, {"choices.0.logprobs": 5}])
def test_an_echo_of_another_form_is_no_traceback(serve: Serve, change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="does not return log-probabilities"):
        remote(serve(change=change), attempts=1).loglikelihood(SAY)


def test_a_wrong_key_is_not_taken_for_a_server_without_likelihoods(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    llm = remote(serve(fault="401", times=-1))
    with pytest.raises(ServerStopError, match="the key in OPENAI_API_KEY"):
        llm.loglikelihood(SAY)
    # A tokenizer's rendering takes a minute to convert here, and is not what is asked for.
    monkeypatch.setattr(type(llm), "fingerprint", lambda self: {"likelihood": "template"})
    with pytest.raises(ServerStopError, match="the key in OPENAI_API_KEY"):
        tells_likelihoods(llm)
