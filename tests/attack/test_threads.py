"""Judges from threads, event loops and other processes: every dialogue is judged, a limit of cost
holds and never locks up, and nobody shares one unasked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from medal_judges import Judge
from medal_judges.records.dialogue import Dialogue

from ..conftest import Running
from ..forked import Forked
from ..talks import talk

Serve = Callable[..., Running]
THREADS = 24


def dialogues(number: int, count: int = 2) -> list[Dialogue]:
    """Other ones for each thread, so that no answer is in the cache."""
    said = [f"hello, this is {number}", "hi, how was the film", "long"]
    texts = ([f"{text} {n}" for text in said * (1 + n)] for n in range(count))
    return [talk(*each, id=f"{number}-{n}") for n, each in enumerate(texts)]


@pytest.fixture
def settings(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("MEDAL_JUDGES_CACHE", str(tmp_path / "cache"))
    prices = tmp_path / "prices.yaml"
    price = {"input": 1.0, "output": 1.0}
    prices.write_text(json.dumps({"models": {"m": price}}))

    def llm(**more: Any) -> dict[str, Any]:
        server = more.pop("server", None) or serve(delay=0.02)
        own = {"backend": "openai", "model": "m", "base_url": server.url}
        return own | {"cache": False, "prices": str(prices)} | more

    return llm


def prompted(llm: dict[str, Any]) -> Judge:
    return Judge.from_pretrained("medal", llm=llm)


def ended(work: Callable[[], Any], seconds: float = 60) -> Any:
    """What ``work`` gives or raises, on a thread that is not waited for longer than ``seconds``."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert found, "it locked up"
    return found[0]


def judged(judge: Judge, number: int) -> list[Any]:
    return list(judge.score(dialogues(number)))


def test_one_judge_on_many_threads(settings: Any) -> None:
    judge = prompted(settings())
    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(lambda n: judged(judge, n), range(THREADS)))
    for n, rows in enumerate(found):
        assert [row.id for row in rows] == [d.id for d in dialogues(n)]
        assert all(row.failure is None for row in rows), rows


def test_trained_judges_on_threads(made_judges: dict[str, Path]) -> None:
    judge = Judge.from_pretrained(made_judges["linear"])

    def scores(number: int) -> list[Any]:
        return [row.scores["overall"] for row in judged(judge, number)]

    with ThreadPoolExecutor(12) as pool:
        for n, together in enumerate(list(pool.map(scores, range(12)))):
            assert together == pytest.approx(scores(n), abs=1e-5)


# -- other processes ------------------------------------------------------------------------------


def _forked(judge: Judge, number: int) -> Any:
    process = Forked(lambda: print(json.dumps(_judged_in_child(judge, number))))
    return json.loads(process.communicate()[0])


def _judged_in_child(judge: Judge, number: int) -> Any:
    try:
        return [[row.id, row.failure] for row in judge.score(dialogues(number))]
    except BaseException as error:
        return f"{type(error).__name__}: {error}"


def _children(judge: Judge, count: int = 2) -> list[Any]:
    """What the judge says in ``count`` processes at once."""
    with ThreadPoolExecutor(count) as pool:
        work = [pool.submit(_forked, judge, n) for n in range(count)]
        return [ended(each.result, 120) for each in work]


@pytest.mark.parametrize("family", ["api", "linear"])
def test_a_judge_passed_to_processes(
    family: str, settings: Any, made_judges: dict[str, Path]
) -> None:
    judge = (
        prompted(settings())
        if family == "api"
        else Judge.from_pretrained(made_judges[family])
    )
    if family == "api":  # a forked torch must not have started its threads
        judged(judge, 7)
    for n, rows in enumerate(_children(judge)):
        assert rows == [[d.id, None] for d in dialogues(n)]
