"""From a completion to scores: JSON held to its schema, strict JSON, a tolerant reading, or none.

The parser sees the completion only, never the prompt. What it cannot read for certain is unscored,
with the reason in words; nothing is clipped and nothing is repaired by guessing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from medal_judges.models.llm.protocol import Completion
from medal_judges.models.prompted.parsing.answer import AnswerField, AnswerShape, ParsedAnswer, Step
from medal_judges.models.prompted.parsing.embedded_object import (
    is_quoted,
    lines_of,
    opening_brace,
    without,
)
from medal_judges.models.prompted.parsing.json_text import (
    MOST_CHARACTERS,
    NotJson,
    ObjectIn,
    first_entries,
    locate,
    objects_in,
    strict_json,
)
from medal_judges.models.prompted.parsing.reading import (
    NumberReading,
    marked_values,
    off_scale,
    read_number,
    shown,
)
from medal_judges.models.prompted.parsing.thinking import after_thinking, mentions_thinking

_HUGE = 1e15


def parse_answer(
    completion: Completion, wanted: Sequence[AnswerField], answer: AnswerShape
) -> dict[str, ParsedAnswer]:
    """For each wanted dimension what the completion says of it."""
    if completion.finish == "failed":
        return _none(wanted, completion.failure or "no answer")
    text, offset = completion.text, 0
    if not _is_strict(
        text
    ):  # a comment may speak of <think>: an answer that is JSON has no thought
        spoken = after_thinking(text)
        if spoken is None:
            return _none(wanted, "the reasoning did not come to an end" + _cut(completion))
        text, offset = spoken
        if mentions_thinking(text) and not _is_strict(text):
            return _none(wanted, "nobody can say where the reasoning ends" + _cut(completion))
    read = _read(text, wanted, answer, completion)
    cut = _cut(completion)
    return {name: _placed(parsed, offset, cut) for name, parsed in read.items()}


def _is_strict(text: str) -> bool:
    try:
        strict_json(text.strip())
    except NotJson:
        return False
    return True


def _none(wanted: Sequence[AnswerField], reason: str) -> dict[str, ParsedAnswer]:
    return {w.name: ParsedAnswer(None, reason) for w in wanted}


def _cut(completion: Completion) -> str:
    return " (the answer was cut at its token limit)" if completion.finish == "length" else ""


def _placed(parsed: ParsedAnswer, offset: int, cut: str) -> ParsedAnswer:
    if parsed.value is None:
        return replace(parsed, reason=f"{parsed.reason}{cut}")
    if parsed.start is None or parsed.end is None:
        return parsed
    return replace(parsed, start=parsed.start + offset, end=parsed.end + offset)


def _read(
    text: str, wanted: Sequence[AnswerField], answer: AnswerShape, completion: Completion
) -> dict[str, ParsedAnswer]:
    if not text.strip():
        return _none(wanted, "an empty answer")
    start = len(text) - len(text.lstrip())
    try:
        value = strict_json(text.strip())
    except NotJson:
        return _tolerant(text, wanted, answer)
    step: Step = "schema" if completion.enforced else "json"
    if isinstance(value, dict):
        return {w.name: _from_object(value, w, wanted, answer, step, text, start) for w in wanted}
    if len(wanted) == 1 and isinstance(value, int | float) and not isinstance(value, bool):
        span = (start, start + len(text.strip()))
        return {wanted[0].name: _number(value, wanted[0], step, None, span)}
    return _tolerant(text, wanted, answer)


# -- objects ---------------------------------------------------------------------------------------


def _tolerant(
    text: str, wanted: Sequence[AnswerField], answer: AnswerShape
) -> dict[str, ParsedAnswer]:
    if len(text) > MOST_CHARACTERS:
        return _none(wanted, f"an answer of {len(text)} characters; {MOST_CHARACTERS} are read")
    told = [
        o for o in objects_in(text) if any(_entries(o.value, w, wanted, answer) for w in wanted)
    ]
    if told and all(o.value == told[0].value for o in told):
        return _from_embedded(text, told, wanted, answer)
    if told:
        return _none(wanted, f"{len(told)} JSON objects that differ")
    if (broken := opening_brace(text)) is not None:
        entries, done = _first_entries(text, broken)
        if any(_entries(entries, w, wanted, answer) for w in wanted):
            return _from_broken(text, entries, done, wanted, answer)
    if len(wanted) == 1:
        only = wanted[0]
        reading = read_number(text, only.scale, names=only.names, binary=only.binary)
        return {only.name: _of_reading(reading, _remark(text))}
    return {w.name: _from_lines(text, w) for w in wanted}


def _from_embedded(
    text: str, told: Sequence[ObjectIn], wanted: Sequence[AnswerField], answer: AnswerShape
) -> dict[str, ParsedAnswer]:
    """What an object says that stands in other text: nothing where it is quoted as somebody
    else's words, and nothing on a dimension for which the other text marks another number."""
    spans = [(o.start, o.end) for o in told]
    if any(is_quoted(text, start, end) for start, end in spans):
        return _none(wanted, "a JSON object in somebody else's words")
    outside = without(text, spans)
    read: dict[str, ParsedAnswer] = {}
    for w in wanted:
        read[w.name] = _from_object(
            told[0].value, w, wanted, answer, "tolerant", text, told[0].start
        )
        others = _values_beside(outside, w, alone=len(wanted) == 1)
        if read[w.name].value is not None and others - {read[w.name].value}:
            read[w.name] = ParsedAnswer(
                None, f"a number beside the JSON object that says {w.label!r} too"
            )
    return read


def _values_beside(text: str, w: AnswerField, *, alone: bool) -> set[float | None]:
    """The scores that ``text`` marks; of several dimensions only those on lines that name ``w``."""
    if not text.strip():
        return set()
    if alone:
        return marked_values(text, w.scale, w.names)
    return {v for rest in lines_of(text, w.names) for v in marked_values(rest, w.scale, w.names)}


def _first_entries(text: str, start: int) -> tuple[dict[str, Any], int]:
    try:
        entries, done = first_entries(text[start:])
    except NotJson:
        return {}, start
    return entries, start + done


def _from_broken(
    text: str,
    entries: Mapping[str, Any],
    done: int,
    wanted: Sequence[AnswerField],
    answer: AnswerShape,
) -> dict[str, ParsedAnswer]:
    """What the whole entries say at the beginning of an object that was cut, or is no JSON later.
    Where the rest names a dimension's key once more, nobody can say what that means."""
    rest = text[done:].lower()
    read: dict[str, ParsedAnswer] = {}
    for w in wanted:
        keys = {*w.names, answer.score} if len(wanted) == 1 else set(w.names)
        if any(re.search(rf"[\"']{re.escape(key.lower())}[\"']\s{{0,3}}:", rest) for key in keys):
            read[w.name] = ParsedAnswer(
                None, f"more than one entry {w.key!r} in an object that is no JSON"
            )
        else:
            read[w.name] = _from_object(entries, w, wanted, answer, "tolerant", text, done)
    return read


def _remark(text: str) -> str | None:
    """A free answer where it says more than its number."""
    return text.strip() if len(re.findall(r"[^\W\d_]+", text)) > 2 else None


def _entries(
    found: Mapping[str, Any], w: AnswerField, wanted: Sequence[AnswerField], answer: AnswerShape
) -> dict[str, Any]:
    """The entries of an object that speak of ``w``, by their own spelling of the key."""
    keys = {_bare(name) for name in w.names}
    if len(wanted) == 1:
        keys.add(_bare(answer.score))
    return {key: value for key, value in found.items() if _bare(key) in keys}


def _bare(key: str) -> str:
    return re.sub(r"[\W_]+", "_", key.strip().lower()).strip("_")


def _from_object(
    found: Mapping[str, Any],
    w: AnswerField,
    wanted: Sequence[AnswerField],
    answer: AnswerShape,
    step: Step,
    text: str,
    start: int,
) -> ParsedAnswer:
    """What the object says of ``w`` that opens at ``start`` in ``text``."""
    entries = _entries(found, w, wanted, answer)
    if not entries:
        return ParsedAnswer(None, f"no key {w.key!r} in the JSON answer")
    key, value = next(iter(entries.items()))
    if any(other != value for other in entries.values()):
        return ParsedAnswer(None, f"the keys {', '.join(map(repr, entries))} differ")
    path, holder = [key], found
    if isinstance(value, dict):
        holder, inner = value, answer.score
        if inner not in value:
            return ParsedAnswer(None, f"no {inner!r} under {key!r} in the JSON answer")
        path, value = [key, inner], value[inner]
    if key not in (w.key, answer.score):
        step = "tolerant"
    comment = holder.get(answer.comment) if answer.comment else None
    comment = comment.strip() or None if isinstance(comment, str) else None
    return _of_value(value, w, step, comment, locate(text, start, path))


def _of_value(
    value: Any, w: AnswerField, step: Step, comment: str | None, span: tuple[int, int] | None
) -> ParsedAnswer:
    if isinstance(value, bool):
        if not w.binary:
            return ParsedAnswer(None, f"{value} where a number was asked for", comment=comment)
        return ParsedAnswer(float(value), None, "tolerant", comment)
    if isinstance(value, int | float):
        return _number(value, w, step, comment, span)
    if isinstance(value, str):
        reading = read_number(value, w.scale, names=w.names, binary=w.binary)
        return _of_reading(NumberReading(reading.value, reading.reason), comment)
    return ParsedAnswer(None, f"{shown(str(value))} where a number was asked for", comment=comment)


def _number(
    value: float, w: AnswerField, step: Step, comment: str | None, span: tuple[int, int] | None
) -> ParsedAnswer:
    if not abs(value) < _HUGE:  # infinite, not a number, or thousands of digits
        return ParsedAnswer(None, "no number that could be a score", comment=comment)
    if problem := off_scale(value, w.scale, binary=w.binary):
        return ParsedAnswer(None, problem, comment=comment)
    start, end = span or (None, None)
    return ParsedAnswer(float(value), None, step, comment, start, end)


def _of_reading(reading: NumberReading, comment: str | None) -> ParsedAnswer:
    if reading.value is None:
        return ParsedAnswer(None, reading.reason, comment=comment)
    return ParsedAnswer(reading.value, None, "tolerant", comment, reading.start, reading.end)


# -- lines -----------------------------------------------------------------------------------------


def _from_lines(text: str, w: AnswerField) -> ParsedAnswer:
    """The one line of ``text`` that begins with the dimension's name and gives a number."""
    readings = [
        read_number(rest, w.scale, names=w.names, binary=w.binary)
        for rest in lines_of(text, w.names)
    ]
    if not readings:
        return ParsedAnswer(None, f"no line for {w.label!r} in the answer {shown(text)}")
    if len({r.value for r in readings}) > 1:
        return ParsedAnswer(None, f"several lines for {w.label!r} that differ")
    return _of_reading(NumberReading(readings[0].value, readings[0].reason), None)
