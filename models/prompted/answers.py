"""Reads scores from a language model's answer.

The steps, strictest first: JSON that the backend held to its schema, strict JSON of the whole
answer, a line of one documented form (``SCORE_LINE``), and an answer to a second question for the
number alone. Anything else is unscored with its reason: nothing is clipped, repaired or guessed.
A reasoning block before the answer is cut, and one code fence around the whole answer is removed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from medal_judges.config import Config
from medal_judges.models.llm.protocol import Completion

Scale = tuple[float, float]
AnswerFormat = Literal["json", "number", "none"]
Step = Literal["schema", "json", "line", "again"]

MOST_CHARACTERS = 100_000  # of an answer; a longer one is not read
LABELS = (  # of a score line, with one dimension, instead of its name
    *("score", "rating", "final score", "final rating", "overall score", "overall rating"),
    *("puntuación", "bewertung", "note", "pontuação", "avaliação", "评分", "分数", "得分"),
)
_NUMBER = r"-?\d{1,6}(?:\.\d{1,2})?"
_BARE = re.compile(_NUMBER, re.ASCII)
_MARKUP = r"[\s*_`#\[\]]{0,12}"
_FENCE = re.compile(r"\s*```\w{0,12}\s*\n(.*)\n\s*```\s*", re.DOTALL)
_BLANK = re.compile(r"\s*")
_DECODER = json.JSONDecoder()
_BLOCK = r"(?:think(?:ing)?|thought|reasoning)"
_OPEN = re.compile(rf"\s*[<\[]({_BLOCK})[>\]]", re.IGNORECASE)
_CLOSE = re.compile(rf"[<\[]/({_BLOCK})[>\]]", re.IGNORECASE)
# The end of a block that the prompt itself opened, as chat templates do: a line of its own.
_CLOSE_ALONE = re.compile(rf"^[ \t]{{0,4}}</{_BLOCK}>[ \t]{{0,4}}$", re.IGNORECASE | re.MULTILINE)
_RESULT = "[RESULT]"
_SHORTEST_COPY = 12  # characters of a line that repeats a turn; anybody writes shorter ones


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
    """Returns the Answer for each of ``fields``. Text outside JSON that repeats one of the turns
    ``material`` is a quotation, not a score."""
    if completion.failed:
        return {f.name: Answer(reason=completion.failure or "no answer") for f in fields}
    cut = " (the answer was cut at its token limit)" if completion.finish == "length" else ""

    def unread(reason: str) -> dict[str, Answer]:
        return {f.name: Answer(reason=reason + cut) for f in fields}

    text, offset = completion.text, 0
    if len(text) > MOST_CHARACTERS:
        return unread(f"an answer of {len(text)} characters")
    found = find_json(text)
    if found is None and completion.enforced and cut:
        found = _whole_entries(text), text, 0, False
    if found is not None:
        value, text, offset, fenced = found
        if fenced and _is_copy(text, material):
            return unread("the answer only repeats words of the dialogue")
    else:
        spoken = after_thinking(text)
        if spoken is None:
            return unread("the reasoning does not end")
        text, offset = spoken
        if _CLOSE.search(text):
            return unread("the end of the reasoning is unclear")
        if not text.strip():
            return unread("an empty answer")
        if shape.line == "result":
            before, mark, text = text.rpartition(_RESULT)
            offset += len(before + mark)
            if not mark:
                return unread(f"no {_RESULT} in the answer {shown(text)}")
    step: Step = "schema" if completion.enforced and not (found and found[3]) else "json"
    answers: dict[str, Answer] = {}
    for f in fields:
        if found is not None:
            answer = _from_json(value, f, shape, text, single=len(fields) == 1)
            answer = answer if answer.value is None else replace(answer, step=step)
        else:
            answer = read_line(text, f, single=len(fields) == 1, which=shape.line)
            if shape.line == "result":
                answer = replace(answer, comment=before.strip().removeprefix("Feedback:").strip())
            start = text.rfind("\n", 0, answer.span[0]) + 1 if answer.span else 0
            if answer.span and _is_copy(text[start:].split("\n", 1)[0], material):
                answer = Answer(reason="the score line repeats a turn of the dialogue")
        if answer.value is None:
            answer = replace(answer, reason=f"{answer.reason}{cut}")
        elif answer.span is not None:
            answer = replace(answer, span=(answer.span[0] + offset, answer.span[1] + offset))
        answers[f.name] = answer
    return answers


# -- JSON ------------------------------------------------------------------------------------------


def find_json(text: str) -> tuple[Any, str, int, bool] | None:
    """(value, its source, where that begins in ``text``, whether it was in a code fence) if
    ``text`` is strict JSON, maybe after reasoning or in a fence; else None."""
    # The whole text first: a comment in JSON may mention <think>.
    for source, offset in filter(None, ((text, 0), after_thinking(text))):
        if (value := strict_json(source)) is not None:
            return value[0], source, offset, False
        fenced = _FENCE.fullmatch(source)
        if fenced is not None and (value := strict_json(fenced[1])) is not None:
            return value[0], fenced[1], offset + fenced.start(1), True
    return None


def strict_json(text: str) -> tuple[Any] | None:
    """(value,) of ``text`` if it is one JSON value and nothing else; None otherwise, also for a key
    with two values and for numbers that JSON does not have."""
    try:
        return (json.loads(text, object_pairs_hook=_object, parse_constant=_refuse),)
    except (ValueError, RecursionError):
        return None


def _whole_entries(text: str) -> dict[str, Any]:
    """The complete entries of an object that follows its schema and was cut at the token limit."""
    entries: dict[str, Any] = {}
    place = text.find("{") + 1
    try:
        while True:
            key, place = _DECODER.raw_decode(text, _skip(text, place))
            value, place = _DECODER.raw_decode(text, _skip(text, _skip(text, place) + 1))
            place = _skip(text, place)
            if text[place] == ",":
                entries[key] = value
            place += 1
    except (ValueError, IndexError):
        return entries


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made: dict[str, object] = {}
    for key, value in pairs:
        if key in made and made[key] != value:
            raise ValueError(f"the key {key!r} has two values")
        made[key] = value
    return made


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _from_json(
    value: Any, field: AnswerField, shape: AnswerShape, text: str, *, single: bool
) -> Answer:
    """Reads the score for ``field`` from the JSON value ``value``, whose source is ``text``."""
    begin = len(text) - len(text.lstrip())
    if not isinstance(value, dict):
        if single and _is_number(value):
            return _scored(value, field, None, (begin, len(text.rstrip())))
        return Answer(reason=f"a JSON answer without the key {field.key!r}")
    names = {
        _bare_key(name)
        for name in (field.key, field.label, field.name, *([shape.score] if single else []))
    }
    entries = {key: each for key, each in value.items() if _bare_key(key) in names}
    if not entries:
        return Answer(reason=f"no key {field.key!r} in the JSON answer")
    if any(each != next(iter(entries.values())) for each in entries.values()):
        return Answer(reason=f"the keys {', '.join(map(repr, entries))} differ")
    path, holder = [next(iter(entries))], value
    number = entries[path[0]]
    if isinstance(number, dict):
        if shape.score not in number:
            return Answer(reason=f"no {shape.score!r} under {path[0]!r} in the JSON answer")
        path, holder, number = [*path, shape.score], number, number[shape.score]
    comment = holder.get(shape.comment) if shape.comment else None
    comment = comment.strip() or None if isinstance(comment, str) else None
    if isinstance(number, bool) and field.binary:
        return Answer(float(number), comment=comment)
    if isinstance(number, str) and _BARE.fullmatch(number.strip()):
        return _scored(float(number), field, comment, None)
    if not _is_number(number):
        return Answer(reason=f"{shown(str(number))} instead of a number", comment=comment)
    return _scored(number, field, comment, _locate(text, begin, path))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _bare_key(key: str) -> str:
    return re.sub(r"[\W_]+", "_", key.strip().lower()).strip("_")


def _locate(text: str, start: int, path: Sequence[str]) -> tuple[int, int]:
    """Returns where the value at ``path`` begins and ends in the JSON object at ``start``."""
    end = start
    for wanted in path:
        place = start + 1
        while True:
            key, place = _DECODER.raw_decode(text, _skip(text, place))
            begin = _skip(text, _skip(text, place) + 1)  # after the colon
            _, end = _DECODER.raw_decode(text, begin)
            if key == wanted:
                start = begin
                break
            place = _skip(text, end) + 1  # after the comma
    return start, end


def _skip(text: str, position: int) -> int:
    found = _BLANK.match(text, position)
    return found.end() if found else position


# -- a line ----------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _score_line(names: tuple[str, ...], bare: bool) -> re.Pattern[str]:
    """SCORE_LINE: ``Score: 4``, ``bare`` or the number alone. The top of the scale may follow
    (``4/5``), and markup is ignored."""
    words = "|".join(re.escape(n).replace(r"\ ", r"[ _]") for n in sorted(names, key=len)[::-1])
    label = rf"(?:{words}){_MARKUP}[:：=]"
    return re.compile(
        rf"{_MARKUP}(?:{label}{_MARKUP}){'?' if bare else ''}"
        rf"(?P<number>{_NUMBER})(?:\s?/\s?(?P<top>\d{{1,6}}))?{_MARKUP}[.。]?{_MARKUP}",
        re.IGNORECASE | re.ASCII,
    )


def read_line(
    text: str,
    field: AnswerField,
    *,
    single: bool = True,
    which: Literal["last", "any", "result"] = "last",
) -> Answer:
    """The number of the score line for ``field``. If it is the only dimension (``single``),
    ``which`` line has to be it, and its label may be missing or one of LABELS."""
    names = tuple(name.replace("_", " ") for name in (field.key, field.label, field.name))
    pattern = _score_line((*names, *LABELS) if single else names, single)
    lines = [m for m in re.finditer(r"[^\n]+", text) if m[0].strip()]
    found = [(line, m) for line in lines if (m := pattern.fullmatch(line[0]))]
    if len({m["number"] for _, m in found}) > 1:
        return Answer(reason=f"several score lines that differ in {shown(text)}")
    if which != "any" and single and lines:
        found = [(line, m) for line, m in found if line.start() == lines[-1].start()]
    if not found:
        place = f"as {which} line" if single else f"for {field.label!r}"
        return Answer(reason=f"no score line {place} in the answer {shown(text)}")
    line, m = found[-1]
    if m["top"] and (field.binary or float(m["top"]) != field.scale[1]):
        return Answer(reason=f"a score out of {m['top']}, not {field.scale[1]:g}")
    span = (line.start() + m.start("number"), line.start() + m.end("number"))
    comment = text.strip() if len(lines) > 1 else None
    answer = _scored(float(m["number"]), field, comment, span)
    return answer if answer.value is None else replace(answer, step="line")


def _scored(
    value: float, field: AnswerField, comment: str | None, span: tuple[int, int] | None
) -> Answer:
    """``value`` as an Answer, unscored if it is not on the scale."""
    low, high = field.scale
    number = f"{value:g}" if abs(value) < 1e15 else "a huge number"
    if field.binary and value not in (0, 1):
        return Answer(reason=f"{number} is neither 0 nor 1", comment=comment)
    if not low <= value <= high:
        reason = f"{number} is outside the scale {low:g} to {high:g}"
        return Answer(reason=reason, comment=comment)
    return Answer(float(value), comment=comment, span=span)


def _is_copy(text: str, material: Sequence[str]) -> bool:
    """Whether ``text`` is part of one of the turns ``material``."""
    words, *turns = (" ".join(t.replace("&lt;", "<").casefold().split()) for t in (text, *material))
    return len(words) >= _SHORTEST_COPY and any(words in turn for turn in turns)


def shown(text: str) -> str:
    """``text`` on one line, shortened for a message."""
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
        tags = [m.span() for m, _ in zip(_CLOSE.finditer(text), range(2), strict=False)]
        alone = _CLOSE_ALONE.search(text)
        if len(tags) == 1 and alone is not None:
            end = alone.end()
    return text[end:], end


def mentions_thinking(text: str) -> bool:
    return _CLOSE.search(text) is not None
