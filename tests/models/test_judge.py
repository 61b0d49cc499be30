"""What every judge gets from its base class."""

import json
import math
from collections.abc import Sequence

import pytest

from medal_judges import Dialogue, Judge, Turn
from medal_judges.inference.scoring import ScoreReport
from medal_judges.models.base.judge import ScoreRequest
from medal_judges.models.batching import batch_longest_first, retry_on_oom
from medal_judges.records.dimension import load_rubric
from medal_judges.records.judgement import Contributions, Judgement
from medal_judges.records.signature import Signature
from medal_judges.storage.jsonl import json_line


class Constant(Judge):
    """A family that says the same of every dialogue, and keeps the size of its batches."""

    family = "constant"
    dimensions = tuple(
        d for d in load_rubric("medal") if d.name in ("overall", "repetitive")
    )

    def __init__(self, **scores: float | None) -> None:
        self.said, self.batches = scores, []

    def signature(self) -> Signature:
        return Signature(judge="constant", version="0")

    def _prepare(self, items: Sequence[ScoreRequest]) -> None:
        for item in items:
            item.tokens = len(item.dialogue.turns)

    def _score_batch(
        self, items: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        self.batches.append(len(items))
        lists = {
            name: (value, 0.5) for name, value in self.said.items() if value is not None
        }
        told = {name: Contributions(given, 0.0) for name, given in lists.items()}
        return [
            Judgement(scores=self.said, distributions=lists, contributions=told)
            for _ in items
        ]


def dialogues(count: int) -> list[Dialogue]:
    """Dialogues of 0 to 4 answers."""
    pair = (Turn("user", "How was it?"), Turn("assistant", "Long, and then some."))
    return [Dialogue(str(n), pair * (n % 5) or pair[:1]) for n in range(count)]


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_unscored_and_counted(broken: float) -> None:
    report = ScoreReport()
    (found,) = Constant(overall=3.5, repetitive=broken).score(dialogues(2)[1:])
    report.add(found)
    line = json.loads(json_line(found))
    assert line["scores"] == {"overall": None, "repetitive": None}
    assert report.failures == {line["failure"]: 1} and report.scored == 0


def test_messages_and_records_of_chats_are_scored() -> None:
    judge = Judge.from_pretrained("length")
    messages = [
        {"role": "user", "content": "Hi!"},
        {"role": "assistant", "content": "Hello."},
    ]
    (one, named) = judge.score([messages, {"id": "a", "messages": messages}])
    assert named.id == "a" and named.scores == pytest.approx(one.scores, abs=4e-5)
    assert "'overall': 1.3" in repr(one)


def test_every_item_comes_once_and_fits_the_budget() -> None:
    lengths = [5, 90, 1, 33, 33, 7, 64, 2, 120]
    batches = list(batch_longest_first(range(len(lengths)), lambda i: lengths[i], 100))
    assert sorted(i for b in batches for i in b) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= 100
    assert batches[0] == [8]  # longest first, and longer than the budget: alone


def test_retry_on_oom_keeps_order_and_goes_down_to_what_fits() -> None:
    sizes: list[int] = []

    def run(batch: list[int]) -> list[int]:
        sizes.append(len(batch))
        if len(batch) > 2:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return [10 * item for item in batch]

    assert retry_on_oom(run, list(range(7))) == [0, 10, 20, 30, 40, 50, 60]
    assert sizes[0] == 7 and max(sizes[-2:]) <= 2
