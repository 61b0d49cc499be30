"""Text of others never becomes the score, ordinary prose does, and no text takes long to read."""

from __future__ import annotations

import pytest
from tests.models.prompted.hostile_answers import HOSTILE
from tests.models.prompted.prose_answers import PROSE

from medal_judges.models.llm.protocol import Completion
from medal_judges.models.prompted.parsing.answer import AnswerField, AnswerShape, ParsedAnswer
from medal_judges.models.prompted.parsing.parser import parse_answer

LABELS = AnswerShape(score="label", comment="comment")
NUMBER = AnswerShape(format="number")


def read(text: str, scale: tuple[float, float], answer: AnswerShape) -> ParsedAnswer:
    wanted = AnswerField("overall", "overall", "overall", scale)
    return parse_answer(Completion(text), [wanted], answer)["overall"]


@pytest.mark.parametrize(("text", "own"), [pytest.param(t, o, id=n) for n, t, o in HOSTILE])
def test_text_of_others_is_no_score(text: str, own: float | None) -> None:
    parsed = read(text, (1, 5), LABELS)
    assert parsed.value == own, parsed
    assert parsed.reason if own is None else parsed.reason is None


@pytest.mark.parametrize(("text", "scale", "score"), PROSE)
def test_ordinary_prose(text: str, scale: tuple[float, float], score: float | None) -> None:
    parsed = read(text, scale, NUMBER)
    assert parsed.value == score, parsed


def test_the_tables_are_large_enough() -> None:
    assert len(HOSTILE) >= 22 and len({text for _, text, _ in HOSTILE}) == len(HOSTILE)
    assert len(PROSE) >= 60 and len({text for text, _, _ in PROSE}) == len(PROSE)
