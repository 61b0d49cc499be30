"""The table of hostile answers: what each gives, and which step read it."""

from __future__ import annotations

import pytest

from medal_judges.models.llm.protocol import Completion
from medal_judges.models.prompted.parsing.answer import AnswerField, AnswerShape, ParsedAnswer
from medal_judges.models.prompted.parsing.parser import parse_answer

NUMBER = AnswerShape(format="number")
JSON = AnswerShape(score="score", comment="explanation")
LABELS = AnswerShape(score="label", comment="comment")


def one(
    text: str, scale: tuple[float, float], binary: bool = False, **more: object
) -> ParsedAnswer:
    wanted = AnswerField("relevance", "relevance", "relevance", scale, binary)
    completion = Completion(text, **more)  # type: ignore[arg-type]
    return parse_answer(completion, [wanted], JSON)["relevance"]


# (answer, scale, score): free text, or a bare number
READ = [
    ("4", (1, 5), 4),
    (" 4 \n", (1, 5), 4),
    ("8.5", (0, 10), 8.5),
    ("8,5", (0, 10), 8.5),
    ("8/10", (0, 10), 8),
    ("8.5 / 10", (0, 10), 8.5),
    ("4 out of 5", (1, 5), 4),
    ("I'd say 4 out of 5.", (1, 5), 4),
    ("four out of five", (1, 5), 4),
    ("Score: 4/5 because of 2 slips", (1, 5), 4),
    ("Score: 4", (1, 5), 4),
    ("**Score:** 4", (1, 5), 4),
    ("**4**", (1, 5), 4),
    ("# Rating\n\nRating: `4`", (1, 5), 4),
    ("Rating: [[4]]", (1, 5), 4),
    ("Score (1-5): 4", (1, 5), 4),
    ("On a scale from 1 to 5 I would give this a 4.", (1, 5), 4),
    ("4\n\nThe chatbot missed 2 of the points.", (1, 5), 4),
    ("Relevance = 70. It answered 3 questions.", (0, 100), 70),
    ("85%", (0, 100), 85),
    ("85 points", (0, 100), 85),
    ("Score - 4", (1, 5), 4),
    ("Score: +4", (1, 5), 4),
    ("Score: -4", (-5, 5), -4),
    ("Four (4)", (1, 5), 4),
    ("four", (1, 5), 4),
    ("Score: eighty-five", (0, 100), 85),
    ("Puntuación: 4", (1, 5), 4),
    ("Puntuación: ochenta y cinco.", (0, 100), 85),
    ("4 de 5", (1, 5), 4),
    ("cuatro sobre cinco", (1, 5), 4),
    ("４", (1, 5), 4),
    ("８５", (0, 100), 85),
    ("评分：４", (1, 5), 4),
    ("评分：八十五", (0, 100), 85),
    ("得分:85分", (0, 100), 85),
    ("我给四分。", (1, 5), 4),
    ("两分", (1, 5), 2),
    ("八点五分", (0, 10), 8.5),
    ("8分（满分10分）", (0, 10), 8),
    ("五分制，我给4分", (1, 5), 4),
    ("<think>It may be 2 or 3.</think>\n4", (1, 5), 4),
    ("It may be 2.\n</think>\n\nScore: 4", (1, 5), 4),
    ("Score: 4\nScore: 4", (1, 5), 4),
    ("1. The flow is good.\n2. So is the tone.\nScore: 4", (1, 5), 4),
    ("Relevance: 3.0", (1, 5), 3),
    ("1", (1, 5), 1),
    ("0", (0, 8), 0),
]
# (answer, scale, words that the reason has)
UNREAD = [
    ("", (1, 5), "empty"),
    (" \n\t ", (1, 5), "empty"),
    ("The answers are good.", (1, 5), "no number"),
    ("The chatbot is one of the best.", (1, 5), "no number"),
    ("十分有趣", (0, 10), "no number"),
    ("一个很好的回答", (1, 5), "no number"),
    ("I'm sorry, but I cannot rate this.", (1, 5), "refusal"),
    ("I cannot give this a score of 5.", (1, 5), "refusal"),
    ("As an AI, I have no opinion. 3", (1, 5), "refusal"),
    ("Lo siento, no puedo dar 4 puntos.", (1, 5), "refusal"),
    ("抱歉，我无法给出5分", (1, 5), "refusal"),
    ("8/10", (1, 5), "out of 10"),
    ("4 out of 10", (1, 5), "out of 10"),
    ("8分（满分10分）", (1, 5), "out of 10"),
    ("百分之八十", (0, 100), "fraction"),
    ("五分之四", (1, 5), "fraction"),
    ("4/5/3", (1, 5), ""),
    ("1-5", (1, 5), "no number"),
    ("3-4", (1, 5), "range"),
    ("Score: 3-4", (1, 5), "range"),
    ("3 to 4", (1, 5), "range"),
    ("Score: 3至4", (1, 5), "range"),
    ("0", (1, 5), "outside"),
    ("6", (1, 5), "outside"),
    ("101", (0, 100), "outside"),
    ("-4", (1, 5), "outside"),
    ("Score: -4", (1, 5), "outside"),
    ("−4", (1, 5), "outside"),
    ("Score: 120", (0, 100), "outside"),
    ("1,000", (0, 100), "thousands"),
    ("1,234,567", (0, 100), "outside"),
    ("5%", (1, 5), "percentage"),
    ("4½", (1, 5), "no number"),
    ("4²", (1, 5), "no number"),
    ("10:30", (0, 100), "no number"),
    ("GPT4 is good", (1, 5), "no number"),
    ("4 or 5", (1, 5), "more than one"),
    ("3 for the first turn and 5 for the second", (1, 5), "more than one"),
    ("Score: 4. Final score: 5", (1, 5), "more than one"),
    ("Relevance: 4\nRelevance: 2", (1, 5), "more than one"),
    ("1. Good\n2. Bad", (1, 5), "no number"),
    # echoes of the prompt
    ("Give a score from 0 to 100, 0 means dull and 100 means lively. Score:", (0, 100), "more"),
    ("A score of 1 means no. A score of 2 means partly. A score of 3 means yes.", (1, 3), "more"),
    ('{"score": <0-100>, "explanation": "..."}', (0, 100), "no number"),
    ("<think>Let me see: 4 is fair", (1, 5), "reasoning"),
    ("八五", (0, 100), "not one number"),
    ("9" * 5000, (0, 100), ""),
]


@pytest.mark.parametrize(("text", "scale", "score"), READ)
def test_answers_that_are_read(text: str, scale: tuple[float, float], score: float) -> None:
    parsed = one(text, scale)
    assert parsed.value == score, parsed.reason
    assert parsed.step in ("json", "tolerant") and parsed.reason is None


@pytest.mark.parametrize(("text", "scale", "reason"), UNREAD)
def test_answers_that_stay_unscored(text: str, scale: tuple[float, float], reason: str) -> None:
    parsed = one(text, scale)
    assert parsed.value is None and parsed.step is None
    assert parsed.reason and reason in parsed.reason


# (answer, score or None, step or part of the reason), on the scale 0 to 10
OBJECTS = [
    ('{"score": 8, "explanation": "Fine."}', 8, "json"),
    ('{"score": 8.5}', 8.5, "json"),
    ('{"relevance": 8}', 8, "json"),
    ('{"relevance": {"score": 8, "explanation": "Fine."}}', 8, "json"),
    ('{"Relevance": 8}', 8, "tolerant"),
    ('{"score": "8"}', 8, "tolerant"),
    ('{"score": "8/10"}', 8, "tolerant"),
    ('{"score": "８"}', 8, "tolerant"),
    ('```json\n{"score": 8}\n```', 8, "tolerant"),
    ('Here you are: {"score": 8} I hope it helps with your 2 questions.', 8, "tolerant"),
    ('{"score": 8,}', 8, "tolerant"),
    ('{"score": 8, // out of 10\n "explanation": "It\'s fine",}', 8, "tolerant"),
    ('{"score": 8, /* not 9 */ "explanation": "see http://a.b/c"}', 8, "tolerant"),
    ("{'score': 8, 'explanation': 'good'}", 8, "tolerant"),
    ('{"score": 8, "explanation": "two\nlines"}', 8, "tolerant"),
    ('{"score": 8, "explanation": "I gave 8, not 9, out of {10}"}', 8, "json"),
    ('<think>{"score": 2}</think>{"score": 8}', 8, "json"),
    ('{"score": 8/10}', 8, "tolerant"),
    ('{"score": 8}\n{"score": 8}', 8, "tolerant"),
    ('{"score": 8, "score": 8}', 8, "json"),
    ('{"score": 8, "score": 2}', None, "more than one"),
    ('{"score": 8}\n{"score": 2}', None, "differ"),
    ('{"score": 8, "relevance": 2}', None, "differ"),
    ('{"score": true}', None, "True"),
    ('{"score": "true"}', None, "no number"),
    ('{"score": null}', None, "None"),
    ('{"score": [8]}', None, "[8]"),
    ('{"score": 11}', None, "outside"),
    ('{"score": -8}', None, "outside"),
    ('{"score": "0-10"}', None, "no number"),
    ('{"score": "high"}', None, "no number"),
    ('{"quality": 8}', None, "no key"),
    ("{}", None, "no key"),
    ('{"score": NaN}', None, "no number"),
    ('{"score": 1e999}', None, "no number"),
    ('{"score": ' + "9" * 4000 + "}", None, "no number"),
    ("[8]", 8, "tolerant"),
    ("[7, 8]", None, "more than one"),
    ("true", None, "no number"),
    ('"8"', 8, "tolerant"),
    ("{" * 3000, None, "no number"),
]


@pytest.mark.parametrize(("text", "score", "told"), OBJECTS)
def test_objects(text: str, score: float | None, told: str) -> None:
    parsed = one(text, (0, 10))
    assert parsed.value == score, parsed
    assert parsed.step == told if score is not None else told in (parsed.reason or "")


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ('{"score": 1}', 1),
        ('{"score": 0}', 0),
        ('{"score": true}', 1),
        ('{"score": "false"}', 0),
        ('{"score": "yes"}', 1),
        ("no", 0),
        ("Relevance: yes.", 1),
        ("1", 1),
        ('{"score": 0.5}', None),
        ('{"score": "0/1"}', None),
        ('{"score": 0/1}', None),
        ('{"score": 2}', None),
        ("1/1", None),
        ("yes and no", None),
    ],
)
def test_binary_labels(text: str, score: float | None) -> None:
    parsed = one(text, (0, 1), binary=True)
    assert parsed.value == score, parsed
    assert (parsed.reason is None) == (score is not None)


def test_json_numbers_are_not_read_twice() -> None:
    assert one("1.000", (1, 5)).value == 1
    assert one("Score: 1.000", (1, 5)).value is None


def test_the_step_is_schema_only_where_the_backend_enforced_it() -> None:
    assert one('{"score": 8}', (0, 10), enforced=True).step == "schema"
    assert one('Well: {"score": 8}', (0, 10), enforced=True).step == "tolerant"


def test_a_failed_or_cut_answer_says_so() -> None:
    failed = one("", (0, 10), finish="failed", failure="HTTP 429 five times")
    assert failed.value is None and failed.reason == "HTTP 429 five times"
    cut = one('{"explanation": "It was so', (0, 10), finish="length")
    assert cut.value is None and "cut at its token limit" in (cut.reason or "")
    assert one('{"score": 8, "explanation": "It was so', (0, 10), finish="length").value == 8


def test_what_is_said_beside_the_number_is_kept() -> None:
    assert one("Score: 4. The chatbot listened well.", (1, 5)).comment is not None
    assert one("Score: 4", (1, 5)).comment is None
    assert one('{"score": 4, "explanation": " Fine. "}', (1, 5)).comment == "Fine."


def test_the_number_is_found_where_it_stands() -> None:
    for text in ("<think>7</think> Score: 8!", '{"explanation": "7", "score": 8}', " 8"):
        parsed = one(text, (0, 10))
        assert parsed.start is not None and text[parsed.start : parsed.end] == "8"


SEVERAL = [
    AnswerField(n, n, n.replace("_", " "), (0, 1), True) for n in ("unsafe", "lacks_empathy")
]
SEVERAL.append(AnswerField("overall", "overall_quality_rating", "overall", (1, 5)))


def several(text: str) -> dict[str, float | None]:
    return {k: p.value for k, p in parse_answer(Completion(text), SEVERAL, LABELS).items()}


def test_several_dimensions_in_one_answer() -> None:
    whole = (
        '{"unsafe": {"label": 1, "comment": "A threat."}, "lacks_empathy": {"label": 0, '
        '"comment": ""}, "overall_quality_rating": {"label": 2, "comment": "Poor."}}'
    )
    assert several(whole) == {"unsafe": 1, "lacks_empathy": 0, "overall": 2}
    told = parse_answer(Completion(whole), SEVERAL, LABELS)
    assert told["unsafe"].comment == "A threat." and told["lacks_empathy"].comment is None
    flat = '{"unsafe": 1, "Lacks Empathy": 0, "overall": 2}'
    assert several(flat) == {"unsafe": 1, "lacks_empathy": 0, "overall": 2}
    lines = "1. **Unsafe**: 1\n2. **Lacks Empathy**: no\n- Overall: 2/5 (poor, 3 slips)"
    assert several(lines) == {"unsafe": 1, "lacks_empathy": 0, "overall": 2}
    assert several("Unsafe: 1\nOverall: 2/5")["overall"] == 2


def test_keys_that_are_absent_leave_the_others_scored() -> None:
    found = parse_answer(Completion('{"unsafe": {"label": 1}}'), SEVERAL, LABELS)
    assert found["unsafe"].value == 1
    assert found["overall"].reason == "no key 'overall_quality_rating' in the JSON answer"
    template = '{"unsafe": {"label": 0/1, "comment": ""}, "overall": {"label": 1-5}}'
    assert set(several(template).values()) == {None}
