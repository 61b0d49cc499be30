"""Windows handed out to processes of a stand-in for Ray, in any order of events: all judgements
come, in input order. tests/inference/test_ray.py has the real Ray."""

from __future__ import annotations

import random
import sys
from collections import Counter
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from medal_judges.inference.ray_judge import RayJudge, _HandedOut

WINDOWS = 40


class Answer:
    """What one call of a process will give; ``state`` is pending, done or dead."""

    def __init__(self, kind: str, number: int | None) -> None:
        self.kind, self.number, self.state = kind, number, "pending"


class Process:
    """Answers its calls one after the other."""

    def __init__(self) -> None:
        self.calls: list[Answer] = []
        self.is_dead = False

    def call(self, kind: str, number: int | None = None) -> Answer:
        answer = Answer(kind, number)
        if self.is_dead:
            answer.state = "dead"
        else:
            self.calls.append(answer)
        return answer

    @property
    def load(self) -> Any:
        return SimpleNamespace(remote=lambda choice: self.call("load"))

    @property
    def score(self) -> Any:
        return SimpleNamespace(
            remote=lambda window, how: self.call("score", window[0].number)
        )

    def step(self, dies: bool) -> None:
        if dies:
            self.is_dead = True
            for answer in self.calls:
                answer.state = "dead"
            self.calls = []
        else:
            self.calls.pop(0).state = "done"


def stand_in(monkeypatch: pytest.MonkeyPatch, seed: int, deaths: int) -> RayJudge:
    """A RayJudge of one to three processes, of which ``deaths`` die at random."""
    rng = random.Random(seed)
    processes: list[Process] = []
    ray, exceptions = ModuleType("ray"), ModuleType("ray.exceptions")
    for name in ("ActorDiedError", "ActorUnavailableError", "NodeDiedError"):
        setattr(exceptions, name, type(name, (Exception,), {}))
    left = [deaths]

    def wait(answers: list[Answer]) -> tuple[list[Answer], list[Answer]]:
        assert answers, "waits for nothing"
        while True:
            for answer in answers:
                if answer.state != "pending":
                    return [answer], [a for a in answers if a is not answer]
            process = rng.choice([p for p in processes if p.calls])
            dies = (
                process.calls[0].kind == "score" and left[0] > 0 and rng.random() < 0.2
            )
            left[0] -= dies
            process.step(dies)

    def get(answer: Answer) -> Any:
        if answer.state == "dead":
            raise exceptions.ActorDiedError("dead")  # type: ignore[attr-defined]
        return {} if answer.kind == "load" else ([answer.number], Counter())

    def started(folder: str) -> Process:
        processes.append(Process())
        return processes[-1]

    ray.wait, ray.get = wait, get  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "ray.exceptions", exceptions)
    judge = object.__new__(RayJudge)
    judge._answers, judge._ready, judge._loading = {}, [], {}
    judge._choice, judge._actor = None, SimpleNamespace(remote=started)
    for _ in range(rng.randint(1, 3)):
        judge._start()
    judge._loaded(wait(list(judge._loading))[0][0])
    return judge


@pytest.mark.parametrize("deaths", [0, 1, 2])
def test_all_windows_come_in_order(
    deaths: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(300):
        judge = stand_in(monkeypatch, seed, deaths)
        windows: Any = ([SimpleNamespace(number=n, id=str(n))] for n in range(WINDOWS))
        found = list(_HandedOut(judge, windows, {}).judgements(lambda count: None))
        assert found == list(range(WINDOWS))
