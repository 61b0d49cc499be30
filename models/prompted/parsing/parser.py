"""From a completion to scores: JSON held to its schema, strict JSON, a tolerant reading, or none.

The parser sees the completion and the turns that were shown, never the prompt around them. What it
cannot read for certain is unscored, with the reason in words; nothing is clipped and nothing is
repaired by guessing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from medal_judges.models.llm.protocol import Completion
from medal_judges.models.prompted.parsing.answer import AnswerField, AnswerShape, ParsedAnswer, Step
from medal_judges.models.prompted.parsing.candidates import MOST_NUMBERS, quotations, reported
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
    marked_values,
    off_scale,
    read_number,
    shown,
)
from medal_judges.models.prompted.parsing.thinking import after_thinking, mentions_thinking

_HUGE = 1e15
_FENCE = re.compile(r"```\w{0,12}")
_LONGEST_LINE = 2_000
_SHORTEST_COPY = 12
# An object, or a line or a sentence in it, with a digit. A full stop inside a number ends none.
_WITH_NUMBER = re.compile(
    r"\{[^{}\n]{0,200}\d[^{}\n]{0,200}\}"
    r"|(?:[^\n.!?。！？\d{]|[.!?](?=\S))*\d(?:[^\n.!?。！？{]|[.!?](?=\S))*[.!?。！？]?"
)


def parse_answer(
    completion: Completion,
    fields: Sequence[AnswerField],
    shape: AnswerShape,
    material: Sequence[str] = (),
) -> dict[str, ParsedAnswer]:
    """For each of ``fields`` what the completion says of it, by the dimension's name. A sentence, a
    line or an object that stands word for word in one of the turns ``material`` is a quotation,
    also where nothing marks it as one; an answer that is JSON and nothing else is the model's."""
    if completion.finish == "failed":
        return {f.name: ParsedAnswer(None, completion.failure or "no answer") for f in fields}
    cut = " (the answer was cut at its token limit)" if completion.finish == "length" else ""
    text, offset = completion.text, 0
    value, reason = _strict(text), None
    if value is None:  # a comment may speak of <think>: JSON has no thought before it
        spoken = after_thinking(text)
        if spoken is None:
            reason = "the reasoning did not come to an end"
        else:
            text, offset = spoken
            value = _strict(text)
            if value is None and mentions_thinking(text):
                reason = "nobody can say where the reasoning ends"
    if reason is not None:
        return {f.name: ParsedAnswer(None, reason + cut) for f in fields}
    step: Step = "schema" if completion.enforced else "json"
    parsed = _Answer(text, fields, shape, material).read(value, step)
    return {name: _placed(each, offset, cut) for name, each in parsed.items()}


def _strict(text: str) -> tuple[object] | None:
    """The JSON value that ``text`` is; None where it is none."""
    try:
        return (strict_json(text.strip()),)
    except NotJson:
        return None


def _placed(parsed: ParsedAnswer, offset: int, cut: str) -> ParsedAnswer:
    if parsed.value is None:
        return replace(parsed, reason=f"{parsed.reason}{cut}", start=None, end=None)
    if parsed.start is None or parsed.end is None:
        return parsed
    return replace(parsed, start=parsed.start + offset, end=parsed.end + offset)


@dataclass(frozen=True, slots=True)
class _Answer:
    """The text behind any reasoning, and what it was asked for."""

    text: str
    fields: Sequence[AnswerField]
    shape: AnswerShape
    material: Sequence[str] = ()

    def read(self, strict: tuple[object] | None, step: Step) -> dict[str, ParsedAnswer]:
        """What the text says of each field, in the strictest way that reads it; ``strict`` holds
        the JSON value that the text is."""
        if not self.text.strip():
            return self._unread("an empty answer")
        if strict is None:
            return self._tolerant()
        (value,), start = strict, len(self.text) - len(self.text.lstrip())
        if isinstance(value, dict):
            return {f.name: self._from_object(value, f, step, start) for f in self.fields}
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if len(self.fields) == 1 and number:
            span = (start, start + len(self.text.strip()))
            return {self.fields[0].name: _of_value(value, self.fields[0], step, None, span)}
        return self._tolerant()

    def _unread(self, reason: str) -> dict[str, ParsedAnswer]:
        return {f.name: ParsedAnswer(None, reason) for f in self.fields}

    def _tolerant(self) -> dict[str, ParsedAnswer]:
        text = self.text
        if len(text) > MOST_CHARACTERS:
            told = f"an answer of {len(text)} characters; {MOST_CHARACTERS} are read"
            return self._unread(told)
        own = without_material(text, self.material)
        if own != text:
            if not re.search(r"\w", own):
                return self._unread("nothing but words of the dialogue")
            return replace(self, text=own, material=())._tolerant()
        objects = [o for o in objects_in(text) if self._speaks(o.value)]
        if objects and all(o.value == objects[0].value for o in objects):
            return self._from_embedded(objects)
        if objects:
            return self._unread(f"{len(objects)} JSON objects that differ")
        opening = re.match(r"\s{0,100}(?:```\w{0,12}\s{0,20})?(?=\{)", text)
        if opening is not None:
            try:
                entries, length = first_entries(text[opening.end() :])
            except NotJson:
                entries, length = {}, 0
            if self._speaks(entries):
                return self._from_broken(entries, opening.end() + length)
        if len(self.fields) == 1:
            only = self.fields[0]
            parsed = read_number(text, only.scale, names=only.names, binary=only.binary)
            # A free answer is a comment too where it says more than its number.
            says_more = len(re.findall(r"[^\W\d_]+", text)) > 2
            return {only.name: _tolerated(parsed, text.strip() if says_more else None)}
        return {f.name: _from_lines(text, f) for f in self.fields}

    # -- objects -----------------------------------------------------------------------------------

    def _speaks(self, record: Mapping[str, object]) -> bool:
        return any(self._entries(record, field) for field in self.fields)

    def _entries(self, record: Mapping[str, object], field: AnswerField) -> dict[str, object]:
        """The entries of an object that speak of ``field``, by their own spelling of the key."""
        names = (*field.names, self.shape.score) if len(self.fields) == 1 else field.names
        keys = {_bare(name) for name in names}
        return {key: value for key, value in record.items() if _bare(key) in keys}

    def _from_object(
        self, record: Mapping[str, object], field: AnswerField, step: Step, start: int
    ) -> ParsedAnswer:
        """What the object says of ``field`` that opens at ``start``."""
        entries = self._entries(record, field)
        if not entries:
            return ParsedAnswer(None, f"no key {field.key!r} in the JSON answer")
        key, value = next(iter(entries.items()))
        if any(other != value for other in entries.values()):
            return ParsedAnswer(None, f"the keys {', '.join(map(repr, entries))} differ")
        path, holder = [key], record
        if isinstance(value, dict):
            holder, inner = value, self.shape.score
            if inner not in value:
                return ParsedAnswer(None, f"no {inner!r} under {key!r} in the JSON answer")
            path, value = [key, inner], value[inner]
        if key not in (field.key, self.shape.score):
            step = "tolerant"
        comment = holder.get(self.shape.comment) if self.shape.comment else None
        comment = comment.strip() or None if isinstance(comment, str) else None
        return _of_value(value, field, step, comment, locate(self.text, start, path))

    def _from_embedded(self, objects: Sequence[ObjectIn]) -> dict[str, ParsedAnswer]:
        """What an object says that stands in other text: nothing where it is quoted as somebody
        else's words, and nothing on a dimension for which the other text marks another number."""
        if any(_is_quoted(self.text, o.start, o.end) for o in objects):
            return self._unread("a JSON object in somebody else's words")
        outside = self.text
        for each in objects:
            blanks = " " * (each.end - each.start)
            outside = outside[: each.start] + blanks + outside[each.end :]
        outside = _FENCE.sub(lambda m: " " * len(m[0]), outside)
        answers: dict[str, ParsedAnswer] = {}
        for f in self.fields:
            parsed = self._from_object(objects[0].value, f, "tolerant", objects[0].start)
            # Of several dimensions only the lines that name this one speak of it.
            beside = [outside] if len(self.fields) == 1 else _lines_of(outside, f.names)
            others = {v for rest in beside for v in marked_values(rest, f.scale, f.names)}
            if parsed.value is not None and others - {parsed.value}:
                told = f"a number beside the JSON object that says {f.label!r} too"
                parsed = ParsedAnswer(None, told)
            answers[f.name] = parsed
        return answers

    def _from_broken(self, entries: Mapping[str, object], done: int) -> dict[str, ParsedAnswer]:
        """What the whole entries say at the beginning of an object that was cut, or is no JSON
        later. Where the rest, from ``done`` on, names a dimension's key once more, nobody can say
        what that means."""
        rest = self.text[done:].lower()
        answers: dict[str, ParsedAnswer] = {}
        for f in self.fields:
            keys = {*f.names, self.shape.score} if len(self.fields) == 1 else set(f.names)
            told = "|".join(re.escape(key.lower()) for key in keys)
            if re.search(rf"[\"'](?:{told})[\"']\s{{0,3}}:", rest):
                reason = f"more than one entry {f.key!r} in an object that is no JSON"
                answers[f.name] = ParsedAnswer(None, reason)
            else:
                answers[f.name] = self._from_object(entries, f, "tolerant", done)
        return answers


def _bare(key: str) -> str:
    return re.sub(r"[\W_]+", "_", key.strip().lower()).strip("_")


def _of_value(
    value: object, field: AnswerField, step: Step, comment: str | None, span: tuple[int, int] | None
) -> ParsedAnswer:
    if isinstance(value, bool) and field.binary:
        return ParsedAnswer(float(value), None, "tolerant", comment)
    if isinstance(value, int | float) and not isinstance(value, bool):
        problem: str | None = "no number that could be a score"
        if abs(value) < _HUGE:  # else it is infinite, not a number, or has thousands of digits
            problem = off_scale(value, field.scale, binary=field.binary)
        if problem is not None:
            return ParsedAnswer(None, problem, comment=comment)
        return ParsedAnswer(float(value), None, step, comment, *(span or (None, None)))
    if isinstance(value, str):
        parsed = read_number(value, field.scale, names=field.names, binary=field.binary)
        return _tolerated(replace(parsed, start=None, end=None), comment)
    told = value if isinstance(value, bool) else shown(str(value))
    return ParsedAnswer(None, f"{told} where a number was asked for", comment=comment)


def _tolerated(parsed: ParsedAnswer, comment: str | None) -> ParsedAnswer:
    step: Step | None = None if parsed.value is None else "tolerant"
    return replace(parsed, step=step, comment=comment)


# -- words of the dialogue -------------------------------------------------------------------------


def without_material(text: str, material: Sequence[str]) -> str:
    """``text`` with blanks for each sentence or line that holds a number and is copied from one of
    the turns ``material``. Short ones (``Score: 5``) stay: anybody would word them so."""
    if not material:
        return text
    said = "\n".join(_normal(turn) for turn in material)
    copied = []
    for found in islice(_WITH_NUMBER.finditer(text), MOST_NUMBERS):
        words = _normal(found[0]).strip(" <>/\"'`*")
        if len(words) >= _SHORTEST_COPY and words in said:
            copied.append(found.span())
    for start, end in copied:
        text = text[:start] + " " * (end - start) + text[end:]
    return text


def _normal(text: str) -> str:
    return " ".join(text.replace("&lt;", "<").casefold().split())


# -- other text ------------------------------------------------------------------------------------


def _is_quoted(text: str, start: int, end: int) -> bool:
    """Whether the object at [start, end) stands between quotation marks, on a line marked as a
    quotation, or is introduced as what somebody else said or wants."""
    first = text.rfind("\n", 0, start) + 1
    after = text[end : end + 400].split("\n", 1)[0]
    marks = text[start - 1 : start] + text[end : end + 1]
    paired = marks in ('""', "''", "“”", "«»", "「」")
    if paired and text.strip() != marks[0] + text[start:end] + marks[1]:
        return True
    if text[first:start].lstrip().startswith(">"):
        return True
    before = _FENCE.sub("", text[:start]).rstrip()[-400:]
    here = text[first:start].strip(" `\t") != ""  # on the line of other words
    if here or before.endswith((":", "：")):
        introduction = re.split(r"[.!?。！？]\s|\n", before)[-1]
        return reported(introduction) or (here and reported(f" {after}"))
    return reported(after) if after.strip(" `.") else False


def _lines_of(text: str, names: Sequence[str]) -> list[str]:
    """What stands behind the name and a colon (or a dash), on each line that begins with one of
    ``names``. Lines that quote are left out, and what is behind a line's first 2,000 characters."""
    told = "|".join(re.escape(n.replace("_", " ")).replace(r"\ ", r"[\s_]{1,3}") for n in names)
    line = re.compile(
        rf"(?P<before>[^\w\n]{{0,12}}(?:\d{{1,2}}[^\w\n]{{1,6}})?)(?:{told})(?P<close>[^\w\n:=：→]{{0,6}}?)"
        r"(?:[:=：→]|\s[-–]\s)(?P<rest>[^\n]*)",
        re.IGNORECASE,
    )
    quoted = [(a, b) for a, b in quotations(text) if "\n" not in text[a:b]]
    rests: list[str] = []
    position = 0
    for each in text.split("\n"):
        m = line.match(each[:_LONGEST_LINE])
        begin = position + (m.start("rest") if m else 0)
        if m and ">" not in m["before"] and not any(a <= begin < b for a, b in quoted[:200]):
            rests.append(m["rest"])
        position += len(each) + 1
    return rests


def _from_lines(text: str, field: AnswerField) -> ParsedAnswer:
    """The one line of ``text`` that begins with the dimension's name and gives a number."""
    numbers = [
        read_number(rest, field.scale, names=field.names, binary=field.binary)
        for rest in _lines_of(text, field.names)
    ]
    if not numbers:
        return ParsedAnswer(None, f"no line for {field.label!r} in the answer {shown(text)}")
    if len({parsed.value for parsed in numbers}) > 1:
        return ParsedAnswer(None, f"several lines for {field.label!r} that differ")
    return _tolerated(replace(numbers[0], start=None, end=None), None)
