"""Reads scores from a language model's answer.

The steps, strictest first: JSON that the backend held to its schema, strict JSON of the whole
answer, a line of one documented form (``SCORE_LINE``), and an answer to a second question for the
number alone. Anything else is unscored with its reason: nothing is clipped, repaired or guessed.
A reasoning block before the answer is cut, and one code fence around the whole answer is removed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Any, Literal, NamedTuple

from medal_judges.config import Config
from medal_judges.models.llm.protocol import Completion

Scale = tuple[float, float]
AnswerFormat = Literal["json", "number", "none"]
Step = Literal["schema", "json", "line", "again"]

MOST_CHARACTERS = 100_000  # of an answer; a longer one is not read
LABELS = (  # of a score line, with one dimension, instead of its name
    *(
        "score",
        "rating",
        "final score",
        "final rating",
        "overall score",
        "overall rating",
    ),
    *(
        "puntuación",
        "bewertung",
        "note",
        "pontuação",
        "avaliação",
        "评分",
        "分数",
        "得分",
    ),
)
_NUMBER = r"-?\d{1,6}(?:\.\d{1,2})?"
_PLAIN_NUMBER = re.compile(_NUMBER, re.ASCII)
_MARKUP = r"[\s*_`#\[\]]{0,12}"
_FENCE = re.compile(r"\s*```\w{0,12}\s*\n(.*)\n\s*```\s*", re.DOTALL)
_BLANK = re.compile(r"\s*")
_LINE = re.compile(r"[^\n]+")
_DECODER = json.JSONDecoder()
_BLOCK = r"(?:think(?:ing)?|thought|reasoning)"
_OPEN = re.compile(rf"\s*[<\[]({_BLOCK})[>\]]", re.IGNORECASE)
_CLOSE = re.compile(rf"[<\[]/({_BLOCK})[>\]]", re.IGNORECASE)
# The end of a block that the prompt itself opened, as chat templates do: a line of its own.
_CLOSE_ALONE = re.compile(
    rf"^[ \t]{{0,4}}</{_BLOCK}>[ \t]{{0,4}}$", re.IGNORECASE | re.MULTILINE
)
_RESULT = "[RESULT]"
_SHORTEST_COPY = (
    12  # characters of a line that repeats a turn; anybody writes shorter ones
)


class AnswerShape(Config):
    """``format`` json: an object with the fields ``score`` and ``comment`` (None: no comment); with
    several dimensions one under each key, or without comment a bare number. ``line``: the score
    line of a free-text answer is its ``last`` line, ``any`` line (if several differ, none), or the
    ``result``: what follows its last [RESULT], with the text before as the comment."""

    format: AnswerFormat = "json"
    score: str = "score"
    comment: str | None = None
    line: Literal["last", "any", "result"] = "last"


@dataclass(frozen=True, slots=True)
class AnswerField:
    """One number of an answer: for the dimension ``name``, which JSON calls ``key``, on ``scale``.
    ``binary``: 0 or 1 only."""

    name: str
    key: str
    label: str
    scale: Scale
    binary: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The score of one dimension in one answer: ``value`` on the requested scale and the ``step``
    that read it, or None and a ``reason``. ``span``: the place of the number in the completion's
    text. ``chances``: the distribution over all ratings, if the model reports one; ``mass``: their
    sum before normalization; ``samples``: the number of answers that were counted (0: none)."""

    value: float | None = None
    reason: str | None = None
    step: Step | None = None
    comment: str | None = None
    span: tuple[int, int] | None = None
    chances: tuple[float, ...] | None = None
    mass: float = 0.0
    samples: int = 0


def read_answers(
    completion: Completion,
    fields: Sequence[AnswerField],
    shape: AnswerShape,
    material: Sequence[str] = (),
) -> dict[str, Answer]:
    """Returns the Answer for each of ``fields`` by its name. Text outside JSON that repeats one of
    the turns ``material`` is a quotation, not a score."""
    if completion.failed:
        return _unread(fields, completion.failure or "no answer")
    text, was_cut = completion.text, completion.finish == "length"
    if len(text) > MOST_CHARACTERS:
        answers = _unread(fields, f"an answer of {len(text)} characters")
    else:
        json_answer = find_json(text)
        if json_answer is None and completion.enforced and was_cut:
            json_answer = JsonAnswer(
                _complete_entries(text), text, text.find("{"), len(text)
            )
        if json_answer is None:
            answers = _read_prose(text, fields, shape, material)
        elif json_answer.is_fenced and _is_copy(json_answer.source, material):
            answers = _unread(fields, "the answer only repeats words of the dialogue")
        else:
            is_schema = completion.enforced and not json_answer.is_fenced
            step: Step = "schema" if is_schema else "json"
            is_only = len(fields) == 1
            answers = {
                f.name: _from_json(json_answer, f, shape, step, is_only) for f in fields
            }
    if was_cut:
        for name, answer in answers.items():
            if answer.value is None:
                reason = f"{answer.reason} (the answer was cut at its token limit)"
                answers[name] = replace(answer, reason=reason)
    return answers


def _unread(fields: Sequence[AnswerField], reason: str) -> dict[str, Answer]:
    return {field.name: Answer(reason=reason) for field in fields}


# -- JSON ------------------------------------------------------------------------------------------


class JsonAnswer(NamedTuple):
    """A JSON ``value`` in the ``text`` of a completion, where it begins and ends there, and whether
    it was in a code fence."""

    value: Any
    text: str
    begin: int
    end: int
    is_fenced: bool = False

    @property
    def source(self) -> str:
        return self.text[self.begin : self.end]


def find_json(text: str) -> JsonAnswer | None:
    """Returns the JSON value if ``text`` is strict JSON, maybe after reasoning or in a fence; else
    None, also for a key with two values and for numbers that JSON does not have."""
    # The whole text first: a comment in JSON may mention <think>.
    for source, begin in filter(None, ((text, 0), after_thinking(text))):
        fence = _FENCE.fullmatch(source)
        if fence is not None:
            source, begin = fence[1], begin + fence.start(1)
        try:
            value = json.loads(
                source, object_pairs_hook=_object, parse_constant=_refuse
            )
        except (ValueError, RecursionError):
            continue
        begin = _skip(text, begin)
        return JsonAnswer(
            value, text, begin, begin + len(source.strip()), fence is not None
        )
    return None


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    entries: dict[str, object] = {}
    for key, value in pairs:
        if entries.setdefault(key, value) != value:
            raise ValueError(f"the key {key!r} has two values")
        entries[key] = value
    return entries


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _entries_at(text: str, start: int) -> Iterator[tuple[str, Any, int, int]]:
    """Yields (key, value, where the value begins, where it ends) for the entries of the JSON object
    that begins at ``start``. Raises ValueError or IndexError where the object is cut."""
    position = start + 1
    while True:
        key, position = _DECODER.raw_decode(text, _skip(text, position))
        begin = _skip(text, _skip(text, position) + 1)  # after the colon
        value, end = _DECODER.raw_decode(text, begin)
        yield key, value, begin, end
        position = _skip(text, end) + 1  # after the comma


def _complete_entries(text: str) -> dict[str, Any]:
    """Returns the complete entries of an object that follows its schema and was cut at the token
    limit."""
    entries: dict[str, Any] = {}
    try:
        for key, value, _, end in _entries_at(text, text.find("{")):
            # A number at the very end may lack digits: only a comma completes an entry.
            if text[_skip(text, end)] == ",":
                entries[key] = value
    except (ValueError, IndexError):
        pass
    return entries


def _locate(text: str, start: int, path: Sequence[str]) -> tuple[int, int]:
    """Returns where the value at ``path`` begins and ends in the JSON object at ``start``."""
    end = start
    for name in path:
        entries = _entries_at(text, start)
        start, end = next((begin, end) for key, _, begin, end in entries if key == name)
    return start, end


def _skip(text: str, position: int) -> int:
    blank = _BLANK.match(text, position)
    return blank.end() if blank else position


def _from_json(
    json_answer: JsonAnswer,
    field: AnswerField,
    shape: AnswerShape,
    step: Step,
    is_only: bool,
) -> Answer:
    """Reads the score for ``field``, the only dimension if ``is_only``, from a JSON answer."""
    value = json_answer.value
    if not isinstance(value, dict):
        if is_only and _is_number(value):
            return _scored(
                value, field, step, None, (json_answer.begin, json_answer.end)
            )
        return Answer(reason=f"a JSON answer without the key {field.key!r}")
    names = [field.key, field.label, field.name]
    if is_only:
        names.append(shape.score)
    keys = set(map(_normal_key, names))
    entries = {key: entry for key, entry in value.items() if _normal_key(key) in keys}
    if not entries:
        return Answer(reason=f"no key {field.key!r} in the JSON answer")
    first_key, number = next(iter(entries.items()))
    if any(entry != number for entry in entries.values()):
        return Answer(reason=f"the keys {', '.join(map(repr, entries))} differ")
    path, holder = [first_key], value
    if isinstance(number, dict):
        if shape.score not in number:
            return Answer(
                reason=f"no {shape.score!r} under {first_key!r} in the JSON answer"
            )
        path, holder, number = [first_key, shape.score], number, number[shape.score]
    comment = holder.get(shape.comment)
    comment = (comment.strip() or None) if isinstance(comment, str) else None
    if isinstance(number, bool) and field.binary:
        return _scored(number, field, step, comment, None)
    if isinstance(number, str) and _PLAIN_NUMBER.fullmatch(number.strip()):
        return _scored(float(number), field, step, comment, None)
    if not _is_number(number):
        return Answer(
            reason=f"{shown(str(number))} instead of a number", comment=comment
        )
    span = _locate(json_answer.text, json_answer.begin, path)
    return _scored(number, field, step, comment, span)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _normal_key(key: str) -> str:
    return re.sub(r"[\W_]+", "_", key.strip().lower()).strip("_")


# -- a line ----------------------------------------------------------------------------------------


def _read_prose(
    completion: str,
    fields: Sequence[AnswerField],
    shape: AnswerShape,
    material: Sequence[str],
) -> dict[str, Answer]:
    """Reads the score lines of an answer that is not JSON."""
    spoken = after_thinking(completion)
    if spoken is None:
        return _unread(fields, "the reasoning does not end")
    text, begin = spoken
    if mentions_thinking(text):
        return _unread(fields, "the end of the reasoning is unclear")
    if not text.strip():
        return _unread(fields, "an empty answer")
    feedback = None
    if shape.line == "result":
        feedback, mark, result = text.rpartition(_RESULT)
        if not mark:
            return _unread(fields, f"no {_RESULT} in the answer {shown(result)}")
        begin += len(feedback + mark)
        feedback = feedback.strip().removeprefix("Feedback:").strip()
    answers: dict[str, Answer] = {}
    for field in fields:
        line, answer = _read_line(
            completion, begin, field, shape, is_only=len(fields) == 1
        )
        if feedback is not None:
            answer = replace(answer, comment=feedback)
        if answer.value is not None and _is_copy(line, material):
            answer = Answer(reason="the score line repeats a turn of the dialogue")
        answers[field.name] = answer
    return answers


@lru_cache(maxsize=256)
def _score_line(names: tuple[str, ...], is_label_optional: bool) -> re.Pattern[str]:
    """Returns the pattern of SCORE_LINE: ``Score: 4``, or the number alone. The top of the scale
    may follow (``4/5``), and markup is ignored."""
    longest_first = sorted(names, key=len)[::-1]
    words = "|".join(re.escape(name).replace(r"\ ", r"[ _]") for name in longest_first)
    label = rf"(?:{words}){_MARKUP}[:：=]"
    return re.compile(
        rf"{_MARKUP}(?:{label}{_MARKUP}){'?' if is_label_optional else ''}"
        rf"(?P<number>{_NUMBER})(?:\s?/\s?(?P<top>\d{{1,6}}))?{_MARKUP}[.。]?{_MARKUP}",
        re.IGNORECASE | re.ASCII,
    )


def _read_line(
    completion: str,
    begin: int,
    field: AnswerField,
    shape: AnswerShape,
    *,
    is_only: bool,
) -> tuple[str, Answer]:
    """Returns (the score line for ``field`` after ``begin``, its Answer). If it is the only
    dimension (``is_only``), the line has to be the one that ``shape`` names, and its label may be
    missing or one of LABELS."""
    text = completion[begin:]
    names = tuple(
        name.replace("_", " ") for name in (field.key, field.label, field.name)
    )
    pattern = _score_line((*names, *LABELS) if is_only else names, is_only)
    lines = [line for line in _LINE.finditer(completion, begin) if line[0].strip()]
    matches = list(
        filter(None, (pattern.fullmatch(completion, *line.span()) for line in lines))
    )
    if len({match["number"] for match in matches}) > 1:
        return "", Answer(reason=f"several score lines that differ in {shown(text)}")
    if is_only and shape.line != "any":
        matches = [match for match in matches if match.start() == lines[-1].start()]
    if not matches:
        line_name = f"as {shape.line} line" if is_only else f"for {field.label!r}"
        return "", Answer(
            reason=f"no score line {line_name} in the answer {shown(text)}"
        )
    match = matches[-1]
    top = match["top"]
    if top and (field.binary or float(top) != field.scale[1]):
        return "", Answer(reason=f"a score out of {top}, not {field.scale[1]:g}")
    comment = text.strip() if len(lines) > 1 else None
    number = float(match["number"])
    return match[0], _scored(number, field, "line", comment, match.span("number"))


def _scored(
    value: float,
    field: AnswerField,
    step: Step,
    comment: str | None,
    span: tuple[int, int] | None,
) -> Answer:
    """Returns ``value`` as an Answer, unscored if it is not on the scale."""
    low, high = field.scale
    number = f"{value:g}" if abs(value) < 1e15 else "a huge number"
    if field.binary and value not in (0, 1):
        return Answer(reason=f"{number} is neither 0 nor 1", comment=comment)
    if not low <= value <= high:
        reason = f"{number} is outside the scale {low:g} to {high:g}"
        return Answer(reason=reason, comment=comment)
    return Answer(float(value), step=step, comment=comment, span=span)


def _is_copy(text: str, material: Sequence[str]) -> bool:
    """Returns whether ``text`` is part of one of the turns ``material``."""
    words = _normal_words(text)
    if len(words) < _SHORTEST_COPY:
        return False
    return any(words in _normal_words(turn) for turn in material)


def _normal_words(text: str) -> str:
    return " ".join(text.replace("&lt;", "<").casefold().split())


def shown(text: str) -> str:
    """Returns ``text`` on one line, shortened for a message."""
    line = " ".join(text[:400].split())
    return repr(line if len(line) <= 60 else line[:57] + "...")


# -- reasoning -------------------------------------------------------------------------------------


def after_thinking(text: str) -> tuple[str, int] | None:
    """(the text after the reasoning, where it begins); None if the reasoning does not end. If the
    prompt itself opened it, the only closing tag of the text ends it, if it is a line of its own: a
    tag inside a sentence or a comment is a quotation."""
    end = 0
    while (opened := _OPEN.match(text, end)) is not None:
        closed = _CLOSE.search(text, opened.end())
        if closed is None:
            return None
        end = closed.end()
    if end == 0:
        tags = list(islice(_CLOSE.finditer(text), 2))
        alone = _CLOSE_ALONE.search(text)
        if len(tags) == 1 and alone is not None:
            end = alone.end()
    return text[end:], end


def mentions_thinking(text: str) -> bool:
    return _CLOSE.search(text) is not None
