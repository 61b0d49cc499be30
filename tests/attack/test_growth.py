"""No text, however made, keeps a reader busy: every reader of foreign text on strings that made one
of them cubic, quadratic or exponential, or that are the kind which does.

A reader that is not linear takes minutes to years for one of these. The guard is a guard against
hanging, not a measurement.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from medal_judges.data_prep.followups import parse_list
from medal_judges.data_prep.generation.protocol import parse_utterance, parse_verdict
from medal_judges.models.base.judge import Judge
from medal_judges.models.llm.protocol import Completion
from medal_judges.models.prompted.answers import (
    MOST_CHARACTERS,
    AnswerField,
    AnswerShape,
    read_answers,
    without_thinking,
)
from medal_judges.models.trained_metrics.turn_metric import sentences
from medal_judges.records.dialogue import Dialogue
from medal_judges.storage.jsonl import json_line

from ..talks import spoken

ONE = [AnswerField("overall", "overall", "overall", (1, 5))]
SEVERAL = [
    *ONE,
    AnswerField("lacks_empathy", "lacks_empathy", "lacks empathy", (0, 1), binary=True),
]
LABELS = AnswerShape(score="label", comment="comment")
IN_PROSE = AnswerShape(format="number", line="prose")


def _answer(
    wanted: list[AnswerField], shape: AnswerShape = LABELS
) -> Callable[[str], Any]:
    return lambda text: read_answers(Completion(text), wanted, shape)


# Readers of text of any length, and how much of it they are given here.
READERS: dict[str, tuple[Callable[[str], Any], int]] = {
    "one dimension": (_answer(ONE), MOST_CHARACTERS),
    "several dimensions": (_answer(SEVERAL), MOST_CHARACTERS),
    "prose": (_answer(ONE, IN_PROSE), MOST_CHARACTERS),
    "thinking": (without_thinking, 300_000),
    "utterance": (parse_utterance, 100_000),
    "verdict": (parse_verdict, 300_000),
    "follow-ups": (parse_list, 200_000),
    "sentences": (sentences, 100_000),
}
# What is repeated between a beginning and an end.
ATOMS = (
    *(" ", "\n", "```", "'", "\\'", "“", "[", ",", "(", "{'a':", "{}", '>"{} ', "//"),
    *("-", ">", "1", "1. ", "1/", "1:", "一", "。", "a", "a-", "@a", "END ", "\\_"),
    *("</think>", "score ", "overall", "i would ", "the user says ", "two thousand "),
)
WRAPS = [("", ""), ("Score: 4", "x"), ("{", "5"), ("4\n", "\n5"), ("```", "x")]


@contextmanager
def no_longer_than(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError("this reader is not linear")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _grown(atom: str, wrap: tuple[str, str], length: int) -> str:
    begin, end = wrap
    return (begin + atom * (length // len(atom)))[: length - len(end)] + end


@pytest.mark.parametrize("reader", READERS)
def test_no_text_keeps_a_reader_busy(reader: str) -> None:
    read, length = READERS[reader]
    for i, atom in enumerate(ATOMS):
        with no_longer_than(20):
            read(_grown(atom, WRAPS[i % len(WRAPS)], length // 4))


def _calls(turns: int) -> int:
    """Returns the number of calls that scoring each answer of a dialogue takes."""
    judge = Judge.from_pretrained("repetition")
    dialogue = Dialogue(
        "a", spoken(*(f"turn {number} of it" for number in range(turns)))
    )
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        lines = [
            json_line(judgement) for judgement in judge.score([dialogue], level="turn")
        ]
    finally:
        sys.setprofile(None)
    assert len(lines) == turns // 2
    return calls + sum(map(len, lines))


def test_scoring_each_answer_takes_twice_as_much_for_twice_the_turns() -> None:
    assert _calls(500) < 2.2 * _calls(250)
