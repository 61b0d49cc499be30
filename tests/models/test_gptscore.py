"""GPTScore on the embedded model: the likelihood by hand, and the maps onto the scale."""

import math
from typing import Any

import pytest

from medal_judges.models.base.judge import make_score_requests
from medal_judges.models.base.saving import load_judge
from medal_judges.models.llm.local.model import LocalModel
from medal_judges.models.llm.protocol import LanguageModel
from medal_judges.models.prompted.geval import GPTScoreJudge

from ..talks import talk
from .conftest import token_logs, told

TALK = [
    "Hi! I hiked in the Alps.",
    "How lovely, which route?",
    "Around Mont Blanc.",
    "Great!",
]


def load(llm: LanguageModel, **options: Any) -> GPTScoreJudge:
    options = {"dimensions": ["overall", "understandability"]} | options
    judge = load_judge("configs/judges/gptscore.yaml", llm=llm, **options)
    assert isinstance(judge, GPTScoreJudge)
    return judge


def by_hand(model: LocalModel, prompt: str, answer: str) -> float:
    """Mean log-probability of the answer's tokens, one plain pass."""
    logs = token_logs(model, prompt, "Answer:", answer)
    return sum(logs) / len(logs)


def test_likelihood_of_yes_equals_a_plain_pass(tiny_lm: LocalModel) -> None:
    judge = load(tiny_lm)
    (judged,) = judge.score([talk(*TALK)])
    (item,) = make_score_requests(talk(*TALK), "dialogue")
    for name in ("overall", "understandability"):
        prompt = told(judge, item, name)[0].content
        raw = by_hand(tiny_lm, prompt, "Yes")
        assert judged.details[name]["raw"] == pytest.approx(raw, abs=1e-3)
    overall = math.exp(judged.details["overall"]["raw"])
    assert judged.scores["overall"] == pytest.approx(1 + 4 * overall, abs=1e-9)
    chance = math.exp(judged.details["understandability"]["raw"])
    assert judged.scores["understandability"] == pytest.approx(chance, abs=1e-9)
    chances = judged.distributions["understandability"]
    assert chances == pytest.approx([1 - chance, chance], abs=1e-9)


def test_turns_of_a_dialogue_equal_single_ones(tiny_lm: LocalModel) -> None:
    judge = load(tiny_lm, dimensions=["overall"])
    for judged in judge.score([talk(*TALK)], level="turn"):
        (alone,) = judge.score([talk(*TALK[: (judged.turn or 0) + 1])], level="last")
        assert judged.scores == pytest.approx(alone.scores, abs=1e-4)
