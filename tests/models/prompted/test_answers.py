"""The reader of responses: which forms it reads, and that text of others never becomes a score."""

import pytest
from tests.models.prompted.hostile_answers import HOSTILE
from tests.models.prompted.prose_answers import PROSE

from medal_judges.models.llm.protocol import Completion
from medal_judges.models.prompted.answers import (
    Answer,
    AnswerField,
    AnswerShape,
    read_answers,
    without_thinking,
)

JSON = AnswerShape(score="score", comment="explanation")
LABELS = AnswerShape(score="label", comment="comment")
NUMBER = AnswerShape(format="number")
IN_PROSE = AnswerShape(format="number", line="prose")


def one(
    text: str,
    scale: tuple[float, float] = (0, 10),
    shape: AnswerShape = JSON,
    binary: bool = False,
    **more: object,
) -> Answer:
    wanted = AnswerField("relevance", "relevance", "relevance", scale, binary)
    completion = Completion(text, **more)  # type: ignore[arg-type]
    return read_answers(completion, [wanted], shape)["relevance"]


@pytest.mark.parametrize("shape", [LABELS, IN_PROSE])
@pytest.mark.parametrize(
    ("text", "own"), [pytest.param(t, o, id=n) for n, t, o in HOSTILE]
)
def test_text_of_others_is_no_score(
    text: str, own: float | None, shape: AnswerShape
) -> None:
    wanted = AnswerField("overall", "overall", "overall", (1, 5))
    answer = read_answers(Completion(text), [wanted], shape)["overall"]
    assert answer.value in (own, None), answer
    assert (answer.reason is None) == (answer.value is not None)


@pytest.mark.parametrize("shape", [NUMBER, IN_PROSE])
@pytest.mark.parametrize(("text", "scale", "score"), PROSE)
def test_prose_is_not_misread(
    text: str, scale: tuple[float, float], score: float | None, shape: AnswerShape
) -> None:
    answer = one(text, scale, shape)
    assert answer.value in (score, None), answer
    assert (answer.reason is None) == (answer.value is not None)


SENTENCES = {
    "I would give this a 70 out of 100": 70,
    "Sure! I'd rate the response **62.5**/100.": 62.5,
    "I would assign a score of 40 to this response, because it asks.": 40,
    "On a scale from 0 to 100, I would give it 55.": 55,
    "I'd give the reply a score of 100 out of 100 on a scale of 0-100.": 100,
    "Based on the context, I would score this response as 0.": 0,
    "It is dull.\nStill.\nI rate it 3.": 3,
}
UNSAID = [
    "I would give it 70, or maybe 60.",
    "I would give it a 70. For warmth alone, 90.",
    "I would give it a 70. It asks 2 questions.",
    "I would rate this 7/10.",
    "I'd give it 7 out of 10, which is 70/100.",
    "I'd rate it 70%.",
    "I would give it a 70 if it were shorter.",
    "I would not give it a 70.",
]


@pytest.mark.parametrize("text", SENTENCES)
def test_meeps_sentence_is_read(text: str) -> None:
    answer = one(text, (0, 100), IN_PROSE)
    assert (answer.value, answer.step) == (SENTENCES[text], "prose"), answer
    assert answer.span and float(text[slice(*answer.span)]) == SENTENCES[text]
    assert one(text, (0, 100), NUMBER).value is None  # other judges do not read prose


@pytest.mark.parametrize("text", UNSAID)
def test_other_prose_is_unscored_with_a_reason(text: str) -> None:
    answer = one(text, (0, 100), IN_PROSE)
    assert answer.value is None and answer.reason


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ('{"score": 4, "explanation": "Fine."}', "json"),
        ('```json\n{"score": 4}\n```', "json"),
        ('{"Relevance": {"score": 4}}', "json"),
        ('{"score": "4"}', "json"),
        ("<think>5, no</think>\n\n4", "json"),
        ("so it is 5\n</think>\n\nScore: 4", "line"),
        ("4", "json"),
        ("**Score:** 4/10.", "line"),
        ("It is fine.\nRelevance: 4", "line"),
        ("Feedback: It is fine. [RESULT] 4", "line"),
    ],
)
def test_forms_that_are_read(text: str, step: str) -> None:
    answer = one(text)
    assert (answer.value, answer.step) == (4, step), answer
    if answer.span is not None:
        assert text[slice(*answer.span)] == "4"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I cannot rate this.",
        "Score: 4. It is good.",
        "Score: 4\nIt is good.",
        "Score: 4\nScore: 5",
        "> Score: 5",
        "Score: 4/7",
        "Score: 11",
        "4½",
        "1,000",
        'Here you are: {"score": 8}',
        '{"score": 8} {"score": 8}',
        '{"score": 8, "score": 2}',
        '{"score": 8, "Relevance": 2}',
        '{"score": NaN}',
        '{"score": null}',
        '{"score": [8]}',
        '{"other": 8}',
        "true",
        "[" * 50_000,
        "<think>It is 4",
        "It says </think> and\n4",
        "9" * 100_001,
    ],
)
def test_forms_that_stay_unscored(text: str) -> None:
    answer = one(text)
    assert answer.value is None and answer.reason


@pytest.mark.parametrize("text", ["Score: 7", "7", '{"score": 7'])
def test_what_was_cut_is_not_a_score(text: str) -> None:
    assert one(text, finish="length").value is None
    assert one(f"{text}\nIt is", finish="length").value in (7, None)


def test_a_schema_and_a_failure_are_told() -> None:
    assert one('{"score": 4}', enforced=True).step == "schema"
    assert one("", finish="failed", failure="HTTP 429").reason == "HTTP 429"
    assert without_thinking("<think>a</think> b") == "b"
