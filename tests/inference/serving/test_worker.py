"""The queue is fair, and one bad dialogue costs no other its score."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from medal_judges.errors import ConfigError
from medal_judges.inference.scoring import ScoreOptions
from medal_judges.inference.serving.worker import (
    FairQueue,
    JudgeWorker,
    ScoreJob,
    Window,
)
from medal_judges.models.base.judge import Judge, ScoreRequest
from medal_judges.models.llm.cost import CostLimitError
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement
from medal_judges.records.signature import Signature

from .conftest import talk


class PickyJudge(Judge):
    """Scores the number of turns; raises ``error`` for dialogues whose id says so."""

    family = "picky"
    dimensions = (Dimension("overall", "ordinal", 1, 5),)

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.windows: list[int] = []

    def signature(self) -> Signature:
        return Signature("picky")

    def _prepare(self, requests: Sequence[ScoreRequest]) -> None:
        self.windows.append(len(requests))

    def _score_batch(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        if self.error is not None and any("bad" in r.dialogue.id for r in requests):
            raise self.error
        return [
            Judgement(scores={"overall": 1.0 + len(r.dialogue.turns) % 5})
            for r in requests
        ]


def job(count: int, options: ScoreOptions | None = None, **more: int) -> ScoreJob:
    talks = [talk(n, **more) for n in range(count)]
    return ScoreJob(talks, options or ScoreOptions(), lambda reason: None)


def shares(window: Window, *jobs: ScoreJob) -> list[int]:
    return [sum(each is one for each, _ in window) for one in jobs]


def test_every_waiting_request_has_its_part_of_a_window() -> None:
    queue = FairQueue(rows=8, budget=10**6)
    large, small, other = job(1000), job(1), job(5)
    queue.put(large)
    assert shares(queue.take(0), large) == [8]
    queue.put(small)
    queue.put(other)
    assert shares(queue.take(0), large, small, other) == [4, 1, 3]
    assert shares(queue.take(0), large, small, other) == [6, 0, 2]
    assert queue.waiting() == 1000 - 18


def test_a_long_dialogue_lets_small_ones_go_first(judge_folder: Path) -> None:
    judge = Judge.from_pretrained(judge_folder)
    judge.token_budget = 200
    long, longer, short = talk(1, turns=60), talk(2, turns=60), talk(3)
    turns = ScoreOptions(level="turn")
    queue = FairQueue(rows=8, budget=200)
    finished: list[str] = []
    jobs = []
    for name, dialogue, options in (
        ("long", long, turns),
        ("longer", longer, turns),
        ("short", short, ScoreOptions()),
        ("another", short, ScoreOptions(level="last")),
    ):

        def finish(reason: str | None, name: str = name) -> None:
            assert reason is None
            finished.append(name)

        jobs.append(ScoreJob([dialogue], options, finish))
        queue.put(jobs[-1])
    worker = JudgeWorker(judge, queue, 0.0, lambda rows, judged: None)
    for _ in range(2):
        worker._score(queue.take(0))
    assert finished == ["short", "another", "long", "longer"]
    for job in jobs:
        alone = list(job.options.score(judge, job.dialogues))
        for judgement, expected in zip(job.judgements[0], alone, strict=True):
            assert judgement.turn == expected.turn
            assert judgement.scores == pytest.approx(expected.scores, abs=4e-5)


@pytest.mark.parametrize(
    ("error", "failed", "transient"),
    [
        (ValueError("the words of a chat"), ["bad 3", "bad 9"], False),
        (CostLimitError("stopped before the limit"), ["bad 3", "bad 9"], True),
        (
            ConfigError("a wrong key"),
            None,
            False,
        ),  # no dialogue is at fault: all say so
    ],
)
def test_a_failure_stays_with_its_rows(
    error: Exception, failed: list[str] | None, transient: bool
) -> None:
    judge = PickyJudge(error)
    talks = [talk(n, id=f"bad {n}" if n in (3, 9) else f"good {n}") for n in range(16)]
    worker = JudgeWorker(
        judge, FairQueue(16, 10**6), 0.0, lambda rows, seconds, judged: None
    )
    judged = [one for (one,) in worker.judged(talks, ScoreOptions())]
    assert [one.id for one in judged] == [each.id for each in talks]
    missing = [one for one in judged if not one.scored]
    assert [one.id for one in missing] == (failed or [each.id for each in talks])
    assert {one.transient for one in missing} == {transient}
    assert all(one.failure and "words of a chat" not in one.failure for one in missing)
    assert all(one.judge == "judge:picky" and "overall" in one.scores for one in judged)
