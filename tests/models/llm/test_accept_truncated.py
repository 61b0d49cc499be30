"""Answers that are taken as they are: empty ones, and ones cut at their limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.protocol import ChatRequest, LanguageModel, Message
from medal_judges.models.llm.vllm.requests import chat_settings

pytest.importorskip("openai", reason="needs the extra: pip install 'medal-judges[api]'")
Serve = Callable[..., Any]
ASKED = ChatRequest((Message("user", "Question?"),), max_tokens=100, accept_truncated=True)


def remote(server: Any, **more: Any) -> LanguageModel:
    own = {"model": "openai:tester", "base_url": server.url, "cache": False, "longest_wait": 0.2}
    return load_llm({**own, **more})


def silent(tmp_path: Path) -> str:
    """A script of a server that answers with nothing."""
    script = tmp_path / "script.py"
    script.write_text("def answer(body):\n    return ''\n", encoding="utf-8")
    return str(script)


def test_a_cut_answer_is_asked_for_once_and_is_no_failure(serve: Serve) -> None:
    server = serve(fault="length", times=-1)
    [done] = remote(server).chat([ASKED])
    assert (done.finish, done.failure, done.text) == ("length", None, '{"overa')
    assert server.total("seen") == 1


def test_an_empty_answer_is_one_where_it_is_meant(serve: Serve, tmp_path: Path) -> None:
    server = serve(script=silent(tmp_path))
    taken, failed = remote(server).chat([ASKED, replace(ASKED, accept_truncated=False)])
    assert (taken.finish, taken.failure, taken.text) == ("stop", None, "")
    assert failed.finish == "failed" and failed.failure == "an empty answer"


def test_an_empty_answer_is_kept(serve: Serve, tmp_path: Path) -> None:
    server = serve(script=silent(tmp_path))
    for _ in range(2):
        [done] = remote(server, cache=str(tmp_path / "kept")).chat([ASKED])
        assert done.finish == "stop" and server.total("seen") == 1
    assert done.usage.from_cache


@pytest.mark.parametrize(("fault", "told"), [("refusal", "refused"), ("filter", "content filter")])
def test_what_is_no_answer_stays_a_failure(serve: Serve, fault: str, told: str) -> None:
    [done] = remote(serve(fault=fault, times=-1)).chat([ASKED])
    assert done.finish == "failed" and told in (done.failure or "")


def test_the_penalty_on_the_wire_and_the_mark_not(serve: Serve) -> None:
    server = serve()
    remote(server, max_in_flight=1).chat([replace(ASKED, presence_penalty=0.6), ASKED])
    bodies = [request["body"] for request in server.told("requests")]
    assert [body.get("presence_penalty") for body in bodies] == [0.6, None]
    assert not any("accept_truncated" in body for body in bodies)


def test_a_penalty_that_the_server_refuses_is_left_out(serve: Serve) -> None:
    server = serve(refuse=["presence_penalty"])
    done = remote(server, max_in_flight=1).chat([replace(ASKED, presence_penalty=0.6)] * 2)
    assert [c.finish for c in done] == ["stop", "stop"]
    assert ["presence_penalty" in r["body"] for r in server.told("requests")] == [
        True,
        False,
        False,
    ]


def test_the_penalty_in_vllms_settings() -> None:
    assert chat_settings(replace(ASKED, presence_penalty=0.6))["presence_penalty"] == 0.6
    assert "presence_penalty" not in chat_settings(ASKED)
