"""Over HTTP come the numbers of ``medal score``, each to whom it belongs."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from medal_judges.inference.scoring import ScoreOptions
from medal_judges.inference.serving.client import Client
from medal_judges.models.base.judge import Judge
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.judgement import Judgement

from .conftest import Served, talk

TALKS = [talk(n, turns=2 + n % 9) for n in range(90)]


@pytest.fixture(scope="module")
def served(
    judge_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    log = tmp_path_factory.mktemp("log") / "server.log"
    running = Served([str(judge_folder), "--port", "0"], {}, log)
    yield running
    running.process.kill()
    running.process.wait()


@pytest.fixture(scope="module")
def judge(judge_folder: Path) -> Judge:
    return Judge.from_pretrained(judge_folder)


def assert_same(got: list[Judgement], expected: list[Judgement]) -> None:
    assert [(one.id, one.turn, one.judge) for one in got] == [
        (one.id, one.turn, one.judge) for one in expected
    ]
    for one, other in zip(got, expected, strict=True):
        assert one.scores == pytest.approx(other.scores, abs=4e-5)
        assert (one.failure, one.truncated_turns) == (
            other.failure,
            other.truncated_turns,
        )
        assert one.unknown_language == other.unknown_language


@pytest.mark.parametrize("level", ["dialogue", "turn", "last"])
def test_any_mix_of_requests_gives_the_judges_numbers(
    served: Served, judge: Judge, level: str
) -> None:
    options = ScoreOptions(level=level)  # type: ignore[arg-type]
    expected: dict[str, list[Judgement]] = {talk.id: [] for talk in TALKS}
    for judgement in options.score(judge, TALKS):
        expected[judgement.id].append(judgement)
    rng, left, requests = random.Random(1), list(TALKS), []
    rng.shuffle(left)
    while left:
        size = rng.choice([1, 1, 1, 2, 5, 20])
        requests.append(left[:size])
        left = left[size:]
    with Client(served.address) as client, ThreadPoolExecutor(12) as pool:
        got = list(
            pool.map(lambda talks: list(client.score(talks, level=level)), requests)
        )
    for talks, judged in zip(requests, got, strict=True):
        assert_same(judged, [one for talk in talks for one in expected[talk.id]])


def test_messages_and_lines_score_the_same(served: Served) -> None:
    messages = [{"role": turn.role, "content": turn.content} for turn in TALKS[3].turns]
    parts = [
        m | {"content": [{"type": "text", "text": m["content"]}]} for m in messages
    ]
    answers = [
        httpx.post(f"{served.address}/score", json=body).json()["judgements"][0]
        for body in (
            {"messages": messages, "lang": "en"},
            {
                "messages": [{"role": "system", "content": "Be kind."}, *parts],
                "lang": "en",
            },
            {"id": "a line", "lang": "en", "dialogue": messages},
            {"dialogues": [{"id": 7, "lang": "en", "dialogue": messages}]},
        )
    ]
    for answer in answers:
        assert answer["scores"] == pytest.approx(answers[0]["scores"], abs=4e-5)
    assert [answer["id"] for answer in answers[2:]] == ["a line", "7"]
    assert answers[0]["id"] == answers[1]["id"]  # made of what was said


def test_reasoning_is_left_out_and_counted(served: Served) -> None:
    said = [
        {"role": "user", "content": "Is it open?"},
        {"role": "assistant", "content": "Yes."},
    ]
    thought = [said[0], {"role": "assistant", "content": "<think>no</think>Yes."}]
    bodies: list[dict[str, object]] = [
        {"messages": said},
        {"messages": thought},
        {
            "dialogues": [
                {"id": "a", "dialogue": thought},
                {"prompt": "Is it open?", "output": "Yes."},
            ]
        },
    ]
    plain, *others = [
        httpx.post(f"{served.address}/score", json=b).json() for b in bodies
    ]
    assert "folded" not in plain
    for answer in others:
        assert answer["folded"] == {"thoughts left out": 1}
        for judgement in answer["judgements"]:
            expected = plain["judgements"][0]["scores"]
            assert judgement["scores"] == pytest.approx(expected, abs=1e-5)


def test_a_dialogue_without_an_answer_is_unscored_with_its_reason(
    served: Served,
) -> None:
    silent = Dialogue("silent", (Turn("user", "Anybody?"),), lang="en")
    with Client(served.address) as client:
        first, second = client.score([silent, TALKS[0]])
    assert (first.scored, first.failure) == (False, "no assistant turn to judge")
    assert second.scored


def test_what_the_server_says_of_its_judge(served: Served, judge: Judge) -> None:
    with Client(served.address) as client:
        about = client.judge()
    assert about["signature"] == str(judge.signature())
    assert about["dimensions"] == [
        dimension.to_record() for dimension in judge.dimensions
    ]
    assert about["languages"] is None and about["family"] == "linear"


def test_what_is_served_states_its_dimensions_once_and_the_client_knows_them(
    served: Served, judge: Judge
) -> None:
    rows = [talk.to_record() for talk in TALKS[:3]]
    answer = httpx.post(f"{served.address}/score", json={"dialogues": rows}).json()[
        "judgements"
    ]
    stated = [dimension.to_record() for dimension in judge.dimensions]
    assert answer[0]["dimensions"] == stated
    assert ["dimensions" in row for row in answer] == [True, False, False]
    with Client(served.address) as client:
        judgements = list(client.score(TALKS[:70]))
    assert {judgement.dimensions for judgement in judgements} == {judge.dimensions}
    assert [judgement.chat for judgement in judgements] == [
        talk.chat_hash for talk in TALKS[:70]
    ]


def test_metrics_count_what_was_asked(served: Served) -> None:
    def figure(name: str) -> float:
        page = httpx.get(f"{served.address}/metrics").text
        (line,) = [line for line in page.splitlines() if line.startswith(f"{name} ")]
        return float(line.split()[1])

    with Client(served.address) as client:
        list(client.score([TALKS[0]]))
        before = figure('medal_judgements_total{scored="yes"}')
        list(client.score(TALKS[:70]))  # two requests: the client parts what it sends
        assert figure('medal_judgements_total{scored="yes"}') - before == 70
    assert (
        figure("medal_window_dialogues_sum") >= 71 and figure("medal_tokens_total") > 71
    )


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"messages": [{"role": "usher", "content": "x"}]}, "messages[0].role"),
        ({"messages": []}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"id": "a", "dialogue": [{"role": "user"}]}, "dialogue[0].content"),
        ({"messages": [{"role": "user", "content": "x"}], "dialogue": []}, "dialogue"),
        (
            {"messages": [{"role": "user", "content": "x"}], "lang": "Klingonish"},
            "lang",
        ),
        ({"dialogues": []}, "dialogues"),
        ({"dialogues": [3]}, "dialogues[0]"),
        ({"dialogues": [{"id": "a", "dialogue": [3]}]}, "dialogues[0].dialogue[0]"),
        ({"messages": [{"role": "user", "content": "x"}], "levels": "turn"}, "levels"),
        ({"messages": [{"role": "user", "content": "x"}], "level": "word"}, "level"),
        (
            {"messages": [{"role": "user", "content": "x"}], "dimensions": ["x"]},
            "dimensions[0]",
        ),
        (
            {"messages": [{"role": "user", "content": "x"}], "dimensions": []},
            "dimensions",
        ),
        ({"messages": [{"role": "user", "content": "x"}], "lang": 7}, "lang"),
        (
            b'{"messages": [{"role": "user", "content": "\\ud800"}]}',
            "messages[0].content",
        ),
        (
            {"messages": [{"role": "user", "content": "x"}], "unknown_language": 1},
            "unknown_language",
        ),
        ({}, "messages"),
        ({"lang": "en", "turns": []}, "turns"),
        ([], "(body)"),
        ("a chat", "(body)"),
    ],
)
def test_a_bad_row_is_422_and_the_field_is_named(
    served: Served, body: object, field: str
) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    answer = httpx.post(f"{served.address}/score", content=content, headers=headers)
    assert (answer.status_code, answer.json()["field"]) == (422, field), answer.text


def test_equal_ids_of_several_clients_do_not_cross(
    served: Served, judge: Judge
) -> None:
    talks = [talk(n, id="1", turns=2 + n % 5) for n in range(30)]
    with Client(served.address) as client, ThreadPoolExecutor(15) as pool:
        got = list(pool.map(lambda one: next(client.score([one])), talks))
        (first, second) = client.score(talks[:2])
    assert_same(got, [next(judge.score([one])) for one in talks])
    assert_same([first, second], got[:2])
