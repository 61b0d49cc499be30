"""The API backend against a server process: faults, limits, money, secrets, kill -9."""

import json
import logging
import re
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medal_judges.errors import ConfigError
from medal_judges.inference.judge_choice import choose_judge
from medal_judges.models.llm.cost import CostLimitError, load_prices
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.protocol import ChatRequest, LanguageModel, Message
from medal_judges.models.llm.server import REASONING_TOKENS, ServerStopError
from medal_judges.reading.dialogues import read_dialogues

from ...forked import medal, start

pytest.importorskip("openai", reason="the API's client is in the extra api")

SECRET = "sk-" + "secret" * 5
SCHEMA = {
    "type": "object",
    "properties": {"overall": {"type": "integer", "minimum": 1, "maximum": 5}},
    "required": ["overall"],
    "additionalProperties": False,
}
CONTENT = "choices.0.message.content"
Serve = Callable[..., Any]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDAL_JUDGES_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)


def remote(server: Any, **settings: Any) -> LanguageModel:
    own = {"model": "openai:tester", "base_url": server.url, "cache": False}
    return load_llm({**own, **settings})


def asked(count: int, **settings: Any) -> list[ChatRequest]:
    settings = {"max_tokens": 100, **settings}
    return [
        ChatRequest((Message("user", f"Question {i}?"),), **settings)
        for i in range(count)
    ]


def prices(tmp_path: Path, **price: float) -> str:
    path = tmp_path / "prices.yaml"
    table = {"tester": {"input": 1.0, "output": 100.0, **price}}
    path.write_text(json.dumps({"models": table}))
    return str(path)


def sent(server: Any) -> list[dict[str, Any]]:
    return [each["body"] for each in server.told("requests")]


# -- faults ------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["429", "500", "timeout", "truncated", "dropped"])
def test_what_passes_is_sent_again(serve: Serve, fault: str) -> None:
    server = serve(fault=fault, every=4, hang=3.0)
    done = remote(server, timeout=1.0).chat(asked(12))
    assert [c.finish for c in done] == ["stop"] * 12
    # A request sent again is known by its key: 12 keys, whatever struck.
    assert len(server.told("counts")) == 12 and server.total("seen") > 12


@pytest.mark.parametrize(
    ("fault", "words", "tries"),
    [
        *(("500", "HTTP 500", 2), ("malformed", "not valid JSON", 1)),
        *(("truncated", "no connection", 2), ("no_choice", "not a chat completion", 1)),
        *(("error_inside", "overloaded", 1), ("refusal", "I would rather not", 1)),
        *(("filter", "content_filter", 1), ("moderated", "input was flagged", 1)),
        ("400", "rules of the house", 1),
    ],
)
def test_what_stays_is_a_failure_with_its_reason(
    serve: Serve, fault: str, words: str, tries: int
):
    server = serve(fault=fault, times=-1, every=2, idempotent=False)
    done = remote(server, attempts=2).chat(asked(4))
    failed = [c for c in done if c.finish == "failed"]
    assert len(failed) == 2 and all(words in (c.failure or "") for c in failed)
    assert server.total("seen") == 2 + 2 * tries
    # What a server under load sends may pass; the rest is the same the next time.
    passing = ("500", "malformed", "truncated", "no_choice", "error_inside")
    assert {c.transient for c in failed} == {fault in passing}


def test_a_truncated_answer_says_so_unless_truncation_is_intended(serve: Serve) -> None:
    server = serve(fault="length", times=-1)
    [cut] = remote(server).chat(asked(1))
    assert cut.finish == "length" and "limit of 100 tokens" in (cut.failure or "")
    for intended in ({"max_tokens": 16}, {"accept_truncated": True}):
        [done] = remote(server).chat(asked(1, **intended))
        assert (done.finish, done.failure, done.text) == ("length", None, '{"overa')
    assert server.total("seen") == 3


# -- what is sent ------------------------------------------------------------------------------


def test_settings_on_the_wire(serve: Serve) -> None:
    server = serve()
    penalties = {"presence_penalty": 0.6, "frequency_penalty": 1.0}
    request = asked(1, schema=SCHEMA, top_logprobs=5, seed=7, **penalties)[0]
    [done] = remote(server).chat([request])
    [body] = sent(server)
    assert body["temperature"] == 0 and body["top_p"] == 1 and body["seed"] == 7
    assert body["response_format"]["json_schema"]["schema"] == SCHEMA
    assert done.enforced and 1 <= json.loads(done.text)["overall"] <= 5
    assert "".join(t.text for t in done.tokens) == done.text
    assert done.tokens[0].alternatives[done.tokens[0].text] == pytest.approx(-0.1)
    assert penalties.items() <= body.items()
    assert "reasoning_effort" not in body and "accept_truncated" not in body


def test_paper_meep_sends_what_the_paper_sends(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "says.py").write_text(
        "def answer(body):\n    return 'Score: 85\\nIt is lively.'\n"
    )
    server = serve(script=str(tmp_path / "says.py"))
    llm = {"model": "openai:tester", "base_url": server.url, "cache": False}
    talk = {
        "id": "d",
        "dialogue": [
            {"role": "user", "content": "Hi <b>!"},
            {"role": "assistant", "content": "Guess who I met?"},
        ],
    }
    for role in ("expert", "none"):
        judge = choose_judge("paper_meep").with_options(llm=llm, role=role).load()
        [found] = judge.score(read_dialogues([talk]), level="turn")
        assert found.scores == pytest.approx({"engagingness": 85.0}, abs=1e-3)
    first, second = sent(server)
    sent_fields = {"model", "messages", "max_tokens", "temperature", "top_p", "seed"}
    assert set(first) == sent_fields
    assert (first["temperature"], first["top_p"]) == (0, 1)
    system, user = first["messages"]
    assert system["role"] == "system" and second["messages"] == [user]
    assert (
        "\n\nContext:\nUser: Hi <b>!\n\nResponse: Guess who I met?\n\nScore:"
        in user["content"]
    )
    assert user["content"].endswith("Score:") and "JSON" not in user["content"]


def test_a_reasoning_model_gets_its_own_budget_and_the_limit_its_other_name(
    serve: Serve,
) -> None:
    server = serve(refuse=["max_tokens"])
    remote(server, reasoning_effort="high").chat(asked(1))
    remote(server).chat(asked(1))
    bodies = [body for body in sent(server) if "max_tokens" not in body]
    assert [body["max_completion_tokens"] for body in bodies] == [REASONING_TOKENS, 100]


# -- money -------------------------------------------------------------------------------------


def test_shipped_prices_are_those_of_the_servers_that_charge_them() -> None:
    shipped = load_prices()
    assert shipped.find_price("gpt-4.1-2025-04-14") == shipped.find_price("gpt-4.1")
    assert shipped.find_price("gpt-4.1-mini") != shipped.find_price("gpt-4.1")
    assert shipped.find_price("gpt-17") is None
    assert shipped.find_price("gpt-4o", "http://127.0.0.1:8000/v1") is None
    google = "https://generativelanguage.googleapis.com/v1beta/openai/"
    assert shipped.find_price("gemini-2.0-flash", google) is not None


def test_tokens_and_money_of_each_answer(serve: Serve, tmp_path: Path) -> None:
    [done] = remote(serve(), prices=prices(tmp_path, cached=0.5)).chat(asked(1))
    assert (done.usage.input, done.usage.cached) == (2, 1)
    assert (done.usage.output, done.usage.reasoning) == (10, 4)
    assert done.usage.money == pytest.approx((1 * 1.0 + 1 * 0.5 + 10 * 100) / 1e6)


def test_the_limit_of_cost_is_never_passed_and_what_is_answered_is_kept(
    serve: Serve, tmp_path: Path
) -> None:
    server = serve()
    settings = {"prices": prices(tmp_path), "cache": True}
    with pytest.raises(CostLimitError, match="spent"):
        remote(server, max_cost=0.03, **settings).chat(asked(100))
    spent = server.total("answered") * (2 * 1.0 + 10 * 100) / 1e6
    assert 0.015 < spent <= 0.03
    remote(server, max_cost=1.0, **settings).chat(asked(100))
    assert server.total("answered") == 100 and server.total("seen") == 100


# -- secrets -----------------------------------------------------------------------------------


def test_the_key_stands_nowhere(
    serve: Serve, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    server = serve(fault="500", every=2)
    llm = remote(server, cache=True)
    done = llm.chat(asked(4))
    assert server.told("requests") and all(c.finish == "stop" for c in done)
    kept = "".join(p.read_text("latin1") for p in tmp_path.rglob("*.sqlite"))
    shown = [caplog.text, kept, repr(done), llm.name, str(dict(llm.identity()))]
    assert len(kept) > 100 and not any(SECRET in text for text in shown)
    assert server.root not in str(dict(llm.identity()))


# -- the embedded model behind the server --------------------------------------------------------


# -- medal score -------------------------------------------------------------------------------


def _dialogues(tmp_path: Path, count: int) -> Path:
    path = tmp_path / "dialogues.jsonl"
    with path.open("w") as stream:
        for i in range(count):
            turns = [
                {"role": "user", "content": f"Hello, do you know {i} songs?"},
                {"role": "assistant", "content": f"I know {i + 1} of them."},
            ]
            stream.write(
                json.dumps({"id": f"d{i}", "lang": "en", "dialogue": turns}) + "\n"
            )
    return path


def _score(server: Any, file: Path, out: Path, *more: str, **llm: Any) -> list[str]:
    own = {"model": "openai:tester", "base_url": server.url, "cache": True}
    setting = {**own, **llm}
    return [
        *("score", str(file), f"llm={json.dumps(setting)}"),
        *("--judge", "judges/dstc12_baseline.yaml", "--out", str(out), *more),
    ]


def test_kill_9_and_start_again(serve: Serve, tmp_path: Path) -> None:
    server = serve(delay=0.03, idempotent=False)
    file, out = _dialogues(tmp_path, 200), tmp_path / "out.jsonl"
    command = _score(server, file, out, max_in_flight=4)
    first = start(*command)
    while server.total("answered") < 60:
        assert first.poll() is None, first.communicate()
        time.sleep(0.01)
    first.kill()
    first.wait()
    second = medal(*command)
    told = second.stdout + second.stderr
    assert second.returncode == 0, told
    counts = server.told("counts")
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["id"] for line in lines] == [f"d{i}" for i in range(200)]
    assert all(value is not None for line in lines for value in line["scores"].values())
    assert len(counts) == 200 and all(row["answered"] >= 1 for row in counts.values())
    twice = sum(row["answered"] - 1 for row in counts.values())
    assert twice <= 4  # what the kill cut off
    assert SECRET not in told and SECRET not in out.read_text()


def test_a_dry_run_sends_nothing_and_bounds_what_follows(
    serve: Serve, tmp_path: Path
) -> None:
    server = serve()
    file, out, table = _dialogues(tmp_path, 3), tmp_path / "out.jsonl", prices(tmp_path)
    dry = medal(*_score(server, file, out, "--dry-run", prices=table)).stdout
    assert "requests: 3, answers in the cache: 0" in dry and "at most $" in dry
    assert server.told("requests") == [] and not out.exists()
    bound = float(dry.split("at most $")[1].split()[0])
    medal(*_score(server, file, out, prices=table))
    assert sum(c["usage"]["money"] for c in map(json.loads, out.open())) <= bound
    again = medal(*_score(server, file, out, "--dry-run", prices=table)).stdout
    assert "requests: 0, answers in the cache: 3" in again


# -- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "wait", "words"),
    [
        ("quota", 1, "quota"),
        ("402", 1, "HTTP 402"),
        ("403", 1, "HTTP 403"),
        ("429", 3600, "HTTP 429"),
    ],
)
def test_what_no_row_can_do_anything_about_stops_the_run_at_once(
    serve: Serve, fault: str, wait: int, words: str
) -> None:
    server = serve(fault=fault, times=-1, wait=wait)
    with pytest.raises(ServerStopError, match=words) as caught:
        remote(server).chat(asked(100))
    assert "Type the same command again to resume" in str(caught.value)
    assert len(sent(server)) <= 8


@pytest.mark.parametrize(
    "reason",
    [
        "error",
        "abort",
        "insufficient_system_resource",
        "SAFETY",
        "content_filter",
        "tool_calls",
        "",
        1,
        None,
    ],
)
def test_an_answer_is_complete_only_if_its_finish_reason_says_so(
    serve: Serve, tmp_path: Path, reason: str | None
) -> None:
    server = serve(change={CONTENT: "Score: 7", "choices.0.finish_reason": reason})
    for _ in range(2):
        [done] = remote(server, cache=True).chat(asked(1))
        assert done.failed and not done.usage.from_cache


@pytest.mark.parametrize("status", [400, 422, 500])
def test_a_refused_system_role_is_folded_into_the_first_turn(
    serve: Serve, status: int
) -> None:
    server = serve(refuse_system=[status, "System role not supported"])
    talk = (Message("system", "Be brief."), Message("user", "Hello"))
    llm = remote(server)
    for _ in range(2):
        [done] = llm.chat([ChatRequest(talk)])
        assert done.finish == "stop"
    *_, body = sent(server)
    assert body["messages"] == [{"role": "user", "content": "Be brief.\n\nHello"}]
    assert len(sent(server)) == 3


def test_a_connection_that_is_refused_names_its_address() -> None:
    with socket.socket() as closed:  # a port on which nobody listens
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
    llm = load_llm(
        {"model": "openai:tester", "base_url": url, "cache": False, "attempts": 1}
    )
    # a typing error: no row can be answered
    with pytest.raises(ServerStopError) as caught:
        llm.chat(asked(100))
    assert f"at {url}: no connection: " in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_wrong_key_stops_at_once_and_is_not_quoted(serve: Serve) -> None:
    server = serve(fault="401", times=-1)
    with pytest.raises(ConfigError, match="HTTP 401") as caught:
        remote(server).chat(asked(100))
    assert SECRET not in str(caught.value)
    assert "key in OPENAI_API_KEY" in str(caught.value)
    assert len(sent(server)) <= 8


def test_the_effort_of_reasoning_is_sent_and_part_of_what_an_answer_depends_on(
    serve: Serve,
):
    server = serve()
    hard, easy = (
        remote(server, reasoning_effort=effort) for effort in ("high", "none")
    )
    hard.chat(asked(1))
    easy.chat(asked(1))
    first, second = sent(server)
    assert first["reasoning_effort"] == "high"
    assert first["max_completion_tokens"] == REASONING_TOKENS
    assert (second["reasoning_effort"], second["max_tokens"]) == ("none", 100)
    assert hard.identity() != easy.identity()


# -- the cache ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "usage", [None, {"prompt_tokens": -5, "completion_tokens": -9}, "none"]
)
def test_an_answer_without_a_believable_usage_costs_its_highest_price(
    serve: Serve, tmp_path: Path, usage: Any
) -> None:
    table = prices(tmp_path, input=0.0)
    server = serve(change={"usage": usage})
    paid = {"prices": table, "max_in_flight": 1}
    # 50 tokens: half a cent
    with pytest.raises(CostLimitError, match=r"\$0.0200 spent"):
        remote(server, cache=True, max_cost=0.022, **paid).chat(asked(9, max_tokens=50))
    [done] = remote(server, cache=True, **paid).chat(asked(1, max_tokens=50))
    assert done.usage.money == pytest.approx(0.005) and done.usage.output == 0


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
    caplog: pytest.LogCaptureFixture,
    change: dict[str, Any],
) -> None:
    caplog.set_level(logging.DEBUG, logger="medal_judges")
    request = ChatRequest((Message("user", "Hello"),), max_tokens=50, top_logprobs=5)
    [done] = remote(serve(change=change), cache=True).chat([request])
    kept = "".join(p.read_text("latin1") for p in tmp_path.rglob("*.sqlite"))
    assert done.text == "" and re.search(r"\*\*\*|contains the key", str(done.failure))
    assert not any(SECRET in text for text in (repr(done), kept, caplog.text))
