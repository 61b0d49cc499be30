"""Reads scores from a language model's response, for judging, labelling and generation.

A response is JSON, or has a score line (``Score: 4``). Any other response has no score but a
reason. Nothing is clipped, repaired or guessed."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from medal_judges.config import Config
from medal_judges.models.llm.protocol import Completion

Scale = tuple[float, float]
AnswerFormat = Literal["json", "number", "none"]
AnswerReading = AnswerFormat | Literal["prose"]
Step = Literal["schema", "json", "line", "prose", "again"]

MOST_CHARACTERS = 100_000  # of a response; a longer one is not read
# Labels of a score line about the only dimension, besides its name.
LABELS = (
    "score",
    "rating",
    "final score",
    "final rating",
    "overall score",
    "overall rating",
)
_RESULT = "[RESULT]"
_NUMBER = r"-?\d{1,6}(?:\.\d{1,2})?"
_PLAIN_NUMBER = re.compile(_NUMBER, re.ASCII)
_MARKUP = r"[\s*_`#]{0,12}"
_FENCE = re.compile(r"```\w{0,12}\s*")
_LINE = re.compile(r"[^\n]+")
_BLOCK = r"(?:think(?:ing)?|thought|reasoning)"
_OPEN = re.compile(rf"\s*[<\[]{_BLOCK}[>\]]", re.IGNORECASE)
_CLOSE = re.compile(rf"[<\[]/{_BLOCK}[>\]]", re.IGNORECASE)
# The end of a block that the prompt itself opened; inside a line it is a quotation.
_CLOSE_ALONE = re.compile(
    rf"^[ \t]{{0,4}}</{_BLOCK}>[ \t]{{0,4}}$", re.IGNORECASE | re.MULTILINE
)
# A sentence that begins with "I would give this a 70". Only these words stand before the number, so
# neither a denial ("I would not give") nor a condition ("if it were shorter") is a score.
_PROSE = re.compile(
    r"(?<![^.!?])[\s*_`]{0,12}"
    r"(?:(?:Based on|On a scale) [^.,:;!?\"“”\n]{1,100}, )?"
    r"I(?:['’](?:d|ll)| would| will)? (?:give|rate|score|assign)"
    r"(?: (?:this|it|the|response|reply|dialogue|conversation|an?|score|rating|of|as|at))*"
    r" [*_`]{0,4}(?P<number>\d{1,6}(?:\.\d{1,2})?)(?![\d%]|[.,]\d)[*_`]{0,4}(?: points?)?"
    r"(?:\s?(?:/|out of)\s?(?P<top>\d{1,6})(?![\d%]|[.,]\d))?[*_`]{0,4}"
    r"(?: (?:to|for) (?:this|the) (?:response|reply|dialogue|conversation))?"
    r"(?: on a scale (?:of|from) [^.,:;!?\n]{1,30})?"
    r"(?:$|(?=[.!?\n])|(?=,? (?:because|since) ))",
    re.IGNORECASE,
)
_ANY_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


class AnswerShape(Config):
    """How a prompt asks the model to write its score.

    Attributes:
        format: ``json``: a JSON object. ``number``: a number in free text. ``none``: any text,
            without a score.
        score: The key of the score in a JSON answer: ``label`` in ``{"label": 4}``.
        comment: The key of the comment in a JSON answer. None asks for no comment.
        line: Where the score may be in an answer that is not JSON. ``last``: in its last line.
            ``any``: in any line. ``prose``: in any line, or in a sentence such as "I would give
            this a 70".
    """

    format: AnswerFormat = "json"
    score: str = "score"
    comment: str | None = None
    line: Literal["last", "any", "prose"] = "last"


@dataclass(frozen=True, slots=True)
class AnswerField:
    """A score that the model's answer should contain, for one dimension.

    Attributes:
        name: The name of the dimension, such as ``nonrepetition``.
        key: The dimension's key in a JSON answer: ``empathy`` in ``{"empathy": 4}``.
        label: The dimension's name in a line of text: ``non-repetition`` in ``non-repetition: 70``.
        scale: The (lowest, highest) valid score.
        binary: Whether only 0 and 1 are valid.
    """

    name: str
    key: str
    label: str
    scale: Scale
    binary: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The score of one dimension, as read from the answer of a language model.

    If a score was read, ``value`` and ``step`` are set. If not, ``reason`` is set. ``chances`` and
    ``mass`` come from the model's log-probabilities, and may be set even if no score was read.

    Attributes:
        value: The score on the scale that the prompt asks for. None if it could not be read.
        reason: Why the score could not be read, such as ``7 is outside the scale 1 to 5``.
        step: How the score was written: ``schema`` (JSON with an enforced schema), ``json`` (JSON
            without one), ``line`` (a line such as ``Score: 4``), ``prose`` (a sentence), or
            ``again`` (in the answer to a second question).
        comment: The model's explanation.
        span: The (start, end) of the score in the answer's text, in characters. None if unknown.
        chances: The probability of each rating that the model may give, lowest rating first. They
            add up to 1. None if unknown.
        mass: The sum of the ratings' probabilities before they were made to add up to 1. It is 0 if
            ``chances`` is None.
        repeats: If the same question was asked several times, the score in each answer (None if it
            could not be read). Otherwise empty.
    """

    value: float | None = None
    reason: str | None = None
    step: Step | None = None
    comment: str | None = None
    span: tuple[int, int] | None = None
    chances: tuple[float, ...] | None = None
    mass: float = 0.0
    repeats: tuple[float | None, ...] = ()


class UnreadError(Exception):
    """No score can be read from an answer. The message is the reason."""


def read_answers(
    completion: Completion, fields: Sequence[AnswerField], shape: AnswerShape
) -> dict[str, Answer]:
    """Reads the score of each dimension from a model's answer.

    Args:
        completion: The model's answer.
        fields: The scores to look for, one for each dimension.
        shape: How the prompt asked the model to write the scores.

    Returns:
        Dimension -> Answer. If no score could be read, the Answer has a ``reason``, such as ``7 is
        outside the scale 1 to 5``.
    """
    text = completion.text
    is_cut = completion.finish == "length"
    if is_cut:
        text = text.rpartition("\n")[0]  # its last line is not finished
    try:
        if completion.failed:
            raise UnreadError(completion.failure or "no answer")
        if len(text) > MOST_CHARACTERS:
            raise UnreadError(f"an answer of {len(text)} characters")
        return _parse_scores(text, fields, shape, enforced=completion.enforced)
    except UnreadError as error:
        reason = str(error)
    if is_cut:
        reason += " (the answer was cut at its token limit)"
    return {field.name: Answer(reason=reason) for field in fields}


def _parse_scores(
    text: str, fields: Sequence[AnswerField], shape: AnswerShape, *, enforced: bool
) -> dict[str, Answer]:
    """Reads the score of each dimension from ``text``, which is JSON or has lines with a score,
    such as ``empathy: 4``.

    Args:
        fields: The scores to look for, one for each dimension.
        shape: How the prompt asked the model to write the scores.
        enforced: Whether the backend enforced a JSON schema.

    Returns:
        Dimension -> Answer. An Answer without a score has a ``reason``.

    Raises:
        UnreadError: The reasoning (``<think>...``) does not end, or no answer follows it.
    """
    begin = 0
    try:
        # The whole text first: a comment in JSON may mention <think>.
        value = parse_json(text)
    except ValueError:
        begin = answer_start(text)
        try:
            value = parse_json(text[begin:])
        except ValueError:
            return _read_score_lines(text, begin, fields, shape)
    step: Step = "json"
    if enforced:
        step = "schema"
    answers = {}
    for field in fields:
        try:
            path, number, comment = _find_score_and_comment(
                value, field, shape, len(fields) == 1
            )
        except UnreadError as error:
            answers[field.name] = Answer(reason=str(error))
            continue
        span = _number_span(text, begin, path)
        answers[field.name] = _to_checked_answer(number, field, step, comment, span)
    return answers


# -- JSON ------------------------------------------------------------------------------------------


def parse_json(text: str) -> Any:
    """Returns the JSON value in ``text``, which may be in a code fence.

    Raises:
        ValueError: ``text`` is not one JSON value, contains NaN or Infinity, gives one key two
            different values, or is nested too deeply.
    """
    first, _, after = text.strip().partition("\n")
    inside, _, last = after.rpartition("\n")
    if last.strip() == "```" and _FENCE.fullmatch(first):
        text = inside
    try:
        # int refuses NaN and Infinity.
        return json.loads(
            text, object_pairs_hook=_object_without_conflicts, parse_constant=int
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _object_without_conflicts(pairs: list[tuple[str, object]]) -> dict[str, object]:
    entries = dict(pairs)
    for key, value in pairs:
        if entries[key] != value:
            raise ValueError(f"the key {key!r} has two values")
    return entries


def _find_score_and_comment(
    value: object, field: AnswerField, shape: AnswerShape, is_only: bool
) -> tuple[list[str], Any, str | None]:
    """Finds the score and the comment for one dimension in a JSON answer.

    Args:
        value: The parsed JSON.
        field: The dimension's keys to look for.
        shape: How the prompt asked the model to write its score.
        is_only: Whether the answer is about this dimension alone.

    Returns:
        (keys that lead to the score, score, comment), such as ``(["empathy", "score"], 4,
            "warm")``.

    Raises:
        UnreadError: There is no score, or there are two different scores.
    """
    if not isinstance(value, dict):
        if not is_only or isinstance(value, list):
            raise UnreadError(f"a JSON answer without the key {field.key!r}")
        return [], value, None
    names = [field.key, field.label, field.name]
    if is_only:
        names.append(shape.score)
    keys = set(map(_normalise_key, names))
    path: list[str] = []
    score: Any = None
    for key, entry in value.items():
        if _normalise_key(key) in keys:
            if path and entry != score:
                raise UnreadError(f"the keys {path[0]!r} and {key!r} differ")
            path, score = path or [key], entry
    if not path:
        raise UnreadError(f"no key {field.key!r} in the JSON answer")
    comment = value.get(shape.comment)
    if isinstance(score, dict):
        if shape.score not in score:
            raise UnreadError(
                f"no {shape.score!r} under {path[0]!r} in the JSON answer"
            )
        comment = score.get(shape.comment)
        path.append(shape.score)
        score = score[shape.score]
    if isinstance(comment, str):
        return path, score, comment.strip() or None
    return path, score, None


def _number_span(text: str, begin: int, path: Sequence[str]) -> tuple[int, int] | None:
    """Returns the (start, end) of the score in a JSON answer, or None if it is not found.

    Args:
        text: The answer.
        begin: The index in ``text`` at which the JSON begins.
        path: The keys that lead to the score, such as ``["empathy", "score"]``.
    """
    steps = []
    for key in path:
        steps.append(re.escape(json.dumps(key, ensure_ascii=False)) + r"\s*:\s*")
    pattern = r"\{\s*".join(steps) + r"(-?\d[\d.eE+-]*)"
    match = re.search(pattern, text[begin:])
    if match is None:
        return None
    return begin + match.start(1), begin + match.end(1)


@lru_cache(maxsize=1024)
def _normalise_key(key: str) -> str:
    return re.sub(r"[\W_]+", "_", key.strip().lower()).strip("_")


# -- a line ----------------------------------------------------------------------------------------


def _read_score_lines(
    text: str, begin: int, fields: Sequence[AnswerField], shape: AnswerShape
) -> dict[str, Answer]:
    """Reads the scores from an answer with lines such as ``Score: 4``, or with a sentence if
    ``shape`` allows ``prose``.

    Args:
        text: The answer, which is not JSON.
        begin: The index in ``text`` after the model's reasoning.
        fields: The scores to look for, one for each dimension.
        shape: How the prompt asked the model to write the scores.

    Returns:
        Dimension -> Answer. An Answer without a score has a ``reason``.
    """
    quotation = snippet(text[begin:])
    before, mark, _ = text[begin:].rpartition(_RESULT)
    comment = before.strip().removeprefix("Feedback:").strip() or None
    lines = list(_LINE.finditer(text, begin + len(before + mark)))
    lines = [line for line in lines if line[0].strip()]
    if not mark and len(lines) > 1:
        comment = text[begin:].strip()
    answers: dict[str, Answer] = {}
    for field in fields:
        step: Step = "line"
        try:
            match = _find_score_line(lines, quotation, field, shape, len(fields) == 1)
            if match is None and shape.line == "prose":
                step, comment = "prose", text.strip()
                match = _find_prose_score(text, begin, field)
            if match is None:
                raise UnreadError(f"no score for {field.label!r} in {quotation}")
            top = match["top"]
            if top and (field.binary or float(top) != field.scale[1]):
                raise UnreadError(f"a score out of {top}, not {field.scale[1]:g}")
        except UnreadError as error:
            answers[field.name] = Answer(reason=str(error))
            continue
        number = float(match["number"])
        answers[field.name] = _to_checked_answer(
            number, field, step, comment, match.span("number")
        )
    return answers


@lru_cache(maxsize=256)
def _score_line_pattern(
    names: tuple[str, ...], is_label_optional: bool
) -> re.Pattern[str]:
    """Returns the pattern of a score line such as ``Score: 4`` or ``**Score:** 4/5``. Its groups
    are ``number`` (4) and ``top`` (5).

    Args:
        names: The labels that may come before the colon, such as ``score``.
        is_label_optional: Whether a number without a label also matches.
    """
    longest_first = sorted(names, key=len)[::-1]
    words = "|".join(re.escape(name).replace(r"\ ", r"[ _]") for name in longest_first)
    label = rf"(?:(?:{words}){_MARKUP}[:：=]{_MARKUP})"
    if is_label_optional:
        label += "?"
    return re.compile(
        rf"{_MARKUP}{label}(?P<number>{_NUMBER})(?:\s?/\s?(?P<top>\d{{1,6}}))?"
        rf"{_MARKUP}[.。]?{_MARKUP}",
        re.IGNORECASE | re.ASCII,
    )


def _find_score_line(
    lines: Sequence[re.Match[str]],
    quotation: str,
    field: AnswerField,
    shape: AnswerShape,
    is_only: bool,
) -> re.Match[str] | None:
    """Returns the match of the line with the score for ``field``, such as ``Score: 4``, or None.

    Args:
        lines: A match for each line of the answer that is not empty.
        quotation: The beginning of the answer, to quote in an error message.
        shape: How the prompt asked the model to write its score.
        is_only: Whether the answer is about this dimension alone, so that the score needs no label.

    Raises:
        UnreadError: Several lines have different scores.
    """
    names = [name.replace("_", " ") for name in (field.key, field.label, field.name)]
    if is_only:
        names += LABELS
    pattern = _score_line_pattern(tuple(names), is_only)
    matches = []
    for line in lines:
        match = pattern.fullmatch(line.string, *line.span())
        if match is not None:
            matches.append(match)
    if len({match["number"] for match in matches}) > 1:
        raise UnreadError(f"several score lines that differ in {quotation}")
    if not matches:
        return None
    # A score line before the last line is part of the text.
    if is_only and shape.line == "last" and matches[-1].span() != lines[-1].span():
        return None
    return matches[-1]


def _find_prose_score(
    text: str, begin: int, field: AnswerField
) -> re.Match[str] | None:
    """Returns the match of a sentence such as "I would give this a 70" in an answer, or None.

    Args:
        text: The answer.
        begin: The index in ``text`` at which to start.
        field: The score to look for.

    Raises:
        UnreadError: The text has another number that is not an end of the scale.
    """
    match = _PROSE.search(text, begin)
    if match is not None:
        expected = {match["number"], match["top"], *(f"{end:g}" for end in field.scale)}
        if not expected.issuperset(_ANY_NUMBER.findall(text, begin)):
            raise UnreadError(f"several numbers in {snippet(text[begin:])}")
    return match


def _to_checked_answer(
    value: Any,
    field: AnswerField,
    step: Step,
    comment: str | None,
    span: tuple[int, int] | None,
) -> Answer:
    """Checks the score ``value`` and returns it as an Answer, with a ``reason`` if it is not valid.

    Args:
        field: The dimension and its scale.
        step: How the score was written, such as ``json``.
        comment: The model's explanation.
        span: The (start, end) of the score in the model's answer, in characters.
    """
    if isinstance(value, str) and _PLAIN_NUMBER.fullmatch(value.strip()):
        value, span = float(value), None
    is_number = isinstance(value, int | float)
    if not is_number or (isinstance(value, bool) and not field.binary):
        reason = f"{snippet(str(value))} instead of a number"
        return Answer(reason=reason, comment=comment)
    low, high = field.scale
    number = "a huge number"
    if abs(value) < 1e15:
        number = f"{value:g}"
    if field.binary and value not in (0, 1):
        return Answer(reason=f"{number} is neither 0 nor 1", comment=comment)
    if not low <= value <= high:
        reason = f"{number} is outside the scale {low:g} to {high:g}"
        return Answer(reason=reason, comment=comment)
    return Answer(float(value), step=step, comment=comment, span=span)


def snippet(text: str) -> str:
    """Returns ``text`` on one line, in quotation marks. If it has more than 60 characters, the end
    is replaced by three dots."""
    line = " ".join(text[:400].split())
    if len(line) > 60:
        line = line[:57] + "..."
    return repr(line)


# -- reasoning -------------------------------------------------------------------------------------


def answer_start(text: str) -> int:
    """Returns the index in ``text`` at which the answer begins: after a block of reasoning such as
    ``<think>...</think>``, or 0 if there is none.

    Raises:
        UnreadError: The reasoning does not end, its end is unclear, or nothing follows it.
    """
    opened = _OPEN.match(text)
    if opened:
        closed = _CLOSE.search(text, opened.end())
        if closed is None:
            raise UnreadError("the reasoning does not end")
    else:
        closed = _CLOSE_ALONE.search(text)
    begin = 0
    if closed:
        begin = closed.end()
    if _CLOSE.search(text, begin):
        raise UnreadError("the end of the reasoning is unclear")
    if not text[begin:].strip():
        raise UnreadError("an empty answer")
    return begin


def without_thinking(text: str) -> str:
    """Returns ``text`` without the reasoning at its beginning, or an empty string if there is no
    answer after it."""
    try:
        return text[answer_start(text) :].strip()
    except UnreadError:
        return ""
