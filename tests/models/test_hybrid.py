"""The hybrid judge: its members' numbers, its own scale, no member asked for naught."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from medal_judges import Dialogue, Judge, Turn
from medal_judges.errors import JudgeLoadError
from medal_judges.models.base.golden import golden_dialogues
from medal_judges.models.base.judge import ScoreRequest
from medal_judges.models.hybrid.judge import (
    Formula,
    HybridJudge,
    Member,
    MemberConfig,
    load_member,
)
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement
from medal_judges.records.signature import Signature

from ..conftest import WORDS
from ..linear_judges import random_judge

OVERALL = Dimension("overall", "ordinal", 1, 5)
LENGTH, REPETITION = "configs/judges/length.yaml", "configs/judges/repetition.yaml"
BOTH = Formula(("length", "repetition"), (0.5, 0.25), 0.2)


def chats(count: int = 20) -> list[Dialogue]:
    """Dialogues of 2 to 9 turns; number 3 has no assistant."""
    rng = np.random.default_rng(0)
    found = []
    for number in range(count):
        roles = (
            ["user"] if number == 3 else ["user", "assistant"] * int(rng.integers(1, 5))
        )
        turns = [
            Turn(role, " ".join(rng.choice(WORDS, int(rng.integers(1, 9)))))
            for role in roles
        ]
        found.append(Dialogue(str(number), tuple(turns)))
    return found


class Counting(Judge):
    """Scores a dialogue by its number, with a distribution, and keeps what it was asked."""

    family = "counting"

    def __init__(self, *, missing: Sequence[str] = (), high: float = 5) -> None:
        self.dimensions = (Dimension("overall", "continuous", 1, high),)
        self.missing, self.asked = set(missing), list[str]()

    def signature(self) -> Signature:
        return Signature("counting")

    def _prepare(self, items: Sequence[ScoreRequest]) -> None:
        for item in items:
            item.tokens = 7

    def _score_batch(
        self, items: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        return [self._one(item) for item in items]

    def _one(self, item: ScoreRequest) -> Judgement:
        self.asked.append(item.dialogue.id)
        if item.dialogue.id in self.missing:
            return Judgement(scores={"overall": None}, failure="would not say")
        score = 1.0 + int(item.dialogue.id) % 5
        return Judgement(
            scores={"overall": score},
            usage={"money": 0.5},
            details={"overall": {"value": score}},
        )


def hybrid(line: Formula, **members: Judge) -> HybridJudge:
    opened = {name: Member(name, judge) for name, judge in members.items()}
    return HybridJudge(opened, {"overall": line}, [OVERALL])


def opened(line: Formula, **paths: str) -> HybridJudge:
    members = {n: load_member(n, MemberConfig(path=path)) for n, path in paths.items()}
    return HybridJudge(members, {"overall": line}, [OVERALL], name="both")


def overall(judgements: Sequence[Judgement]) -> list[float | None]:
    return [j.scores["overall"] for j in judgements]


def test_a_line_is_the_line_through_its_members() -> None:
    judge = opened(BOTH, length=LENGTH, repetition=REPETITION)
    found = list(judge.score(chats()))
    a, b = (
        overall(list(Judge.from_pretrained(p).score(chats())))
        for p in (LENGTH, REPETITION)
    )
    for one, first, second in zip(found, a, b, strict=True):
        if first is None or second is None:
            assert one.scores["overall"] is None
            assert one.failure and "no assistant turn to judge" in one.failure
            continue
        unit = 0.2 + 0.5 * (first - 1) / 4 + 0.25 * (second - 1) / 4
        assert one.scores["overall"] == pytest.approx(1 + 4 * unit, abs=1e-9)
    judge.window = judge.token_budget = 1
    turned = list(judge.score(chats()[::-1]))
    assert overall(turned)[::-1] == pytest.approx(overall(found), abs=1e-9)


def test_a_line_that_leaves_its_scale_is_bent_and_may_be_curved() -> None:
    steep = Formula(("a",), (3.0,), -1.0)
    units = np.array([[0.0], [0.3], [0.5], [1.0]])
    assert (np.diff(steep(units)) > 0).all()
    assert steep(units).min() > 0 and steep(units).max() < 1
    falling = Formula(("a",), (-1.0,), 1.0, curve=((0.0, 1.0), (0.2, 0.6)))
    assert falling(np.array([[0.25]]))[0] == pytest.approx(0.99 * 0.5 + 0.01 * 0.75)


def test_usage_adds_up_and_only_inputs_are_asked() -> None:
    first, second = Counting(), Counting(missing=["2"])
    mean = Formula(("a", "b"), (0.5, 0.5))
    (found,) = hybrid(mean, a=first, b=second).score([chats()[1]])
    assert found.usage == {"tokens": 14, "money": 1.0}
    assert found.details["overall"]["members"] == {"a": 2.0, "b": 2.0}
    (failed,) = hybrid(mean, a=first, b=second).score([chats()[2]])
    assert failed.scores["overall"] is None and failed.failure == "b: would not say"
    second.asked.clear()
    (found,) = hybrid(Formula(("a",), (1.0,)), a=first, b=second).score([chats()[1]])
    assert found.usage == {"tokens": 7, "money": 0.5} and second.asked == []


def test_saved_with_its_members_and_the_same_when_loaded(
    tiny_bert: Path, tmp_path: Path
) -> None:
    folder = random_judge(tiny_bert, [OVERALL]).save_pretrained(tmp_path / "member")
    judge = opened(
        Formula(("deep", "plain"), (0.6, 0.4), -0.1), deep=str(folder), plain=LENGTH
    )
    saved = judge.save_pretrained(tmp_path / "hybrid")
    (folder / "judge.json").unlink()  # nothing outside the folder is needed
    assert (saved / "members" / "deep" / "model.safetensors").is_file()
    assert str(tmp_path) not in (saved / "judge.json").read_text(encoding="utf-8")
    fresh = Judge.from_pretrained(saved)
    assert str(fresh.signature()) == str(judge.signature())
    pairs = zip(
        fresh.score(golden_dialogues()), judge.score(golden_dialogues()), strict=True
    )
    for there, here in pairs:
        assert there.scores == pytest.approx(dict(here.scores), abs=1e-5)
    outer = opened(Formula(("inner",), (1.0,)), inner=str(saved))  # holds a hybrid
    loaded = Judge.from_pretrained(outer.save_pretrained(tmp_path / "outer"))
    assert overall(list(loaded.score(chats()))) == pytest.approx(
        overall(list(judge.score(chats()))), abs=4e-5
    )
    with pytest.raises(JudgeLoadError, match="no option colour"):
        Judge.from_pretrained(saved, colour="red")


def test_the_signature_holds_the_members_and_the_numbers() -> None:
    first = opened(BOTH, length=LENGTH, repetition=REPETITION).signature()
    other = Formula(BOTH.inputs, (0.5, 0.26), 0.2)
    second = opened(other, length=LENGTH, repetition=REPETITION).signature()
    revision = Judge.from_pretrained(LENGTH).signature().revision
    assert f"length=length@{revision}" in (first.base or "")
    assert first.revision != second.revision
    assert Signature.parse(str(first)) == first
