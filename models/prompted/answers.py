"""Reads scores from a language model's answer.

The steps, strictest first: JSON that the backend held to its schema, strict JSON of the whole
answer, a JSON object among other text that follows the schema, a line of one documented form
(``SCORE_LINE``), prose of one documented form if the judge allows it (``_prose_score``), and an
answer to a second question for the number alone. Anything else is unscored with its reason:
nothing is clipped, repaired or guessed. A reasoning block before the answer is cut, and one code
fence around the whole answer is removed.
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
AnswerReading = AnswerFormat | Literal["prose"]
Step = Literal["schema", "json", "line", "prose", "again"]

MOST_CHARACTERS = 100_000  # of an answer; a longer one is not read
LABELS = (  # of a score line, with one dimension, instead of its name
    "score",
    "rating",
    "final score",
    "final rating",
    "overall score",
    "overall rating",
    "puntuación",
    "bewertung",
    "note",
    "pontuação",
    "avaliação",
    "评分",
    "分数",
    "得分",
)
_NUMBER = r"-?\d{1,6}(?:\.\d{1,2})?"
_PLAIN_NUMBER = re.compile(_NUMBER, re.ASCII)
_MARKUP = r"[\s*_`#\[\]]{0,12}"
_FENCE = re.compile(r"```\w{0,12}")
_BLANK = re.compile(r"\s*")
_LINE = re.compile(r"[^\n]+")
_BLOCK = r"(?:think(?:ing)?|thought|reasoning)"
_OPEN = re.compile(rf"\s*[<\[]({_BLOCK})[>\]]", re.IGNORECASE)
_CLOSE = re.compile(rf"[<\[]/({_BLOCK})[>\]]", re.IGNORECASE)
# The end of a block that the prompt itself opened, as chat templates do: a line of its own.
_CLOSE_ALONE = re.compile(
    rf"^[ \t]{{0,4}}</{_BLOCK}>[ \t]{{0,4}}$", re.IGNORECASE | re.MULTILINE
)
_RESULT = "[RESULT]"
_QUOTATION_MARKS = tuple("\"'“„«‹「『‘‚")
# In prose: a sentence that begins with "I would give this a 70", in English, Spanish or Chinese.
# Only these words stand before the number; its scale, the end or a reason follows. So neither a
# denial ("I would not give"), a condition ("if it were shorter") nor a report is a score.
_PROSE = re.compile(
    r"(?<![^.!?。！？])[\s*_`]{0,12}"
    r"(?:(?:(?:Based on|On a scale) [^.,:;!?\"“”\n\d]{1,100}, )?"
    r"I(?:['’](?:d|ll)| would| will)? (?:give|rate|score|assign)"
    r"(?: (?:this|it|the|response|reply|dialogue|conversation|an?|score|rating|of|as|at))*"
    r"|(?:En una escala [^.,:;¿?\"“”\n\d]{1,100}, )?(?:yo )?(?:le )?(?:daría|doy)"
    r"(?: (?:a|esta|este|la|el|respuesta|diálogo|conversación|una?|puntuación|de))*"
    r"|我(?:会|要)?[给为对]?[这该]?[个条段]?(?:回应|回复|回答|对话|它)?[打评给]?)"
    r"[\s*_`]{0,12}(?P<number>\d{1,6}(?:\.\d{1,2})?)(?![\d%]|[.,]\d)[\s*_`]{0,12}(?:points?|puntos?|分)?"
    r"(?:[\s*_`(（,，]{0,12}(?:/|out of|de|sobre|满分)\s?(?P<top>\d{1,6})(?![\d%]|[.,]\d)分?)?"
    r"[\s*_`)）]{0,12}(?:(?:to|for) (?:this|the) (?:response|reply|dialogue|conversation))?"
    r"\s{0,12}(?:on a scale (?:of|from)\s{0,20})?"
    r"(?:$|(?=[.!?\n。！？])|(?=[,，]?\s?(?:because|since|porque|因为)))",
    re.IGNORECASE,
)
_ANY_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
# Characters of a line that repeats a turn; anybody writes shorter ones.
_SHORTEST_COPY = 12


class AnswerShape(Config):
    """``format`` json: an object with the fields ``score`` and ``comment`` (None: no comment); with
    several dimensions one under each key, or without comment a bare number. ``line``: the score
    line of a free-text answer is its ``last`` line, ``any`` line (if several differ, none), or the
    ``result``: what follows its last [RESULT], with the text before as the comment. ``prose``: any
    line, or else the only number of the text (see ``_prose_score``)."""

    format: AnswerFormat = "json"
    score: str = "score"
    comment: str | None = None
    line: Literal["last", "any", "result", "prose"] = "last"


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


class UnreadError(Exception):
    """No score can be read from an answer; the message is the reason."""


def read_answers(
    completion: Completion,
    fields: Sequence[AnswerField],
    shape: AnswerShape,
    material: Sequence[str] = (),
) -> dict[str, Answer]:
    """Returns the Answer for each of ``fields`` by its name. Text outside JSON that repeats one of
    the turns ``material`` is a quotation, not a score."""
    try:
        answers = _read(completion, fields, shape, material)
    except UnreadError as error:
        answers = {field.name: Answer(reason=str(error)) for field in fields}
    if completion.finish == "length":
        for field in fields:
            answer = answers[field.name]
            # A 7 at the end of a cut answer may be the beginning of 70.
            is_end = answer.span is not None and answer.span[1] == len(completion.text)
            value = answer.value or 0
            if is_end and 0 < 10 * value <= field.scale[1]:
                answer = Answer(reason=f"{answer.value:g} may be a part of the score")
            if answer.value is None:
                reason = f"{answer.reason} (the answer was cut at its token limit)"
                answer = replace(answer, reason=reason)
            answers[field.name] = answer
    return answers


def _read(
    completion: Completion,
    fields: Sequence[AnswerField],
    shape: AnswerShape,
    material: Sequence[str],
) -> dict[str, Answer]:
    """Reads an answer as JSON or as prose. Raises UnreadError if it has no score at all."""
    text = completion.text
    if completion.failed:
        raise UnreadError(completion.failure or "no answer")
    if len(text) > MOST_CHARACTERS:
        raise UnreadError(f"an answer of {len(text)} characters")
    json_answer = _json_answer(completion, fields, shape)
    if json_answer is None:
        return _read_prose(text, fields, shape, material)
    source = text[json_answer.begin : json_answer.end]
    if json_answer.has_text_around and _is_copy(source, material):
        raise UnreadError("the answer only repeats words of the dialogue")
    step: Step = "json"
    if completion.enforced and not json_answer.has_text_around:
        step = "schema"
    answers = {}
    for field in fields:
        try:
            path = _score_path(
                json_answer.value, field, shape, is_only=len(fields) == 1
            )
            answers[field.name] = _from_json(json_answer, path, field, shape, step)
        except UnreadError as error:
            answers[field.name] = Answer(reason=str(error))
    return answers


# -- JSON ------------------------------------------------------------------------------------------


class JsonAnswer(NamedTuple):
    """A JSON ``value`` in the ``text`` of a completion, where it begins and ends there, and whether
    a code fence or other text is around it."""

    value: Any
    text: str
    begin: int
    end: int
    has_text_around: bool = False


def _json_answer(
    completion: Completion, fields: Sequence[AnswerField], shape: AnswerShape
) -> JsonAnswer | None:
    """Returns the answer as JSON: all of it, its complete part if it was cut under a schema, or an
    object in it. None if it is prose; raises UnreadError as ``_object_in_text``."""
    text = completion.text
    json_answer = find_json(text)
    if json_answer is None and completion.enforced and completion.finish == "length":
        begin = text.find("{")
        entries = _complete_entries(text, begin)
        return JsonAnswer(entries, text, begin, len(text))
    if json_answer is None and shape.format == "json":
        return _object_in_text(text, fields, shape)
    return json_answer


def find_json(text: str) -> JsonAnswer | None:
    """Returns the JSON value if ``text`` is strict JSON, maybe after reasoning or in a fence; else
    None, also for a key with two values and for numbers that JSON does not have."""
    # The whole text first: a comment in JSON may mention <think>.
    for source, begin in filter(None, ((text, 0), after_thinking(text))):
        fenced = _inside_fence(source)
        if fenced is not None:
            source, begin = fenced[0], begin + fenced[1]
        try:
            value = _DECODER.decode(source)
        except (ValueError, RecursionError):
            continue
        begin = _skip(text, begin)
        end = begin + len(source.strip())
        return JsonAnswer(value, text, begin, end, fenced is not None)
    return None


def _object_in_text(
    text: str, fields: Sequence[AnswerField], shape: AnswerShape
) -> JsonAnswer | None:
    """Returns the last JSON object among other text that has all scores and comments of the schema;
    None if there is none. Raises UnreadError if two objects disagree, and for reasoning without an
    end."""
    _, begin = spoken_text(text)
    fitting = None
    scores: dict[str, object] = {}
    for json_answer in _objects(text, begin):
        complete = True
        for field in fields:
            try:
                path = _score_path(
                    json_answer.value, field, shape, is_only=len(fields) == 1
                )
            except UnreadError:
                complete = False
                continue
            score, comment = _score_and_comment(json_answer.value, path, shape)
            score = _comparable(score)
            if scores.setdefault(field.name, score) != score:
                raise UnreadError(f"two JSON objects disagree about {field.label!r}")
            complete &= shape.comment is None or isinstance(comment, str)
        if complete:
            fitting = json_answer
    return fitting


def _objects(text: str, begin: int) -> list[JsonAnswer]:
    """Returns the JSON objects among other text, without those in quotation marks or on a marked
    line; none if an opening brace begins no object, because an object after it may be a part of a
    broken one."""
    objects = []
    start = text.find("{", begin)
    while start >= 0:
        try:
            value, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            return []
        # The end of the line is enough: a long line must not be read for each object.
        line = text[max(begin, start - 80) : start].rpartition("\n")[2].strip()
        if not (line.startswith(">") or line.endswith(_QUOTATION_MARKS)):
            objects.append(JsonAnswer(value, text, start, end, has_text_around=True))
        start = text.find("{", end)
    return objects


def _inside_fence(text: str) -> tuple[str, int] | None:
    """Returns what stands between a first line ``` and a last line ```, and where it begins; None
    if ``text`` has other lines around it."""
    begin = len(text) - len(text.lstrip())
    first, _, rest = text.strip().partition("\n")
    content, newline, last = rest.rpartition("\n")
    if not newline or last.strip() != "```" or not _FENCE.fullmatch(first.rstrip()):
        return None
    return content, begin + len(first) + 1


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    entries: dict[str, object] = {}
    for key, value in pairs:
        if _comparable(entries.setdefault(key, value)) != _comparable(value):
            raise ValueError(f"the key {key!r} has two values")
        entries[key] = value
    return entries


def _comparable(value: Any) -> Any:
    """Returns a JSON value with numbers in place of texts that are numbers: "4" and "4.0" are the
    same score."""
    if isinstance(value, str) and _PLAIN_NUMBER.fullmatch(value.strip()):
        return float(value)
    if isinstance(value, dict):
        return {key: _comparable(entry) for key, entry in value.items()}
    return value


# int refuses NaN and Infinity, which are no numbers of JSON.
_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=int)


def _entries_at(text: str, start: int) -> Iterator[tuple[str, Any, int, int]]:
    """Yields (key, value, where the value begins, where it ends) for the entries of the JSON object
    that begins at ``start``. Raises ValueError, IndexError or RecursionError where the text is cut
    or is no JSON."""
    position, mark = start, "{"
    while text[position] == mark:
        key, position = _DECODER.raw_decode(text, _skip(text, position + 1))
        colon = _skip(text, position)
        if text[colon] != ":" or not isinstance(key, str):
            raise ValueError(f"no key and colon before character {colon}")
        begin = _skip(text, colon + 1)
        value, end = _DECODER.raw_decode(text, begin)
        yield key, value, begin, end
        position, mark = _skip(text, end), ","


def _complete_entries(text: str, start: int) -> dict[str, Any]:
    """Returns the complete entries of the object at ``start`` that was cut at the token limit; none
    if a key has two values, or the server ignored the schema and wrote no object."""
    entries: dict[str, Any] = {}
    try:
        for key, value, _, end in _entries_at(text, start):
            # A number at the very end may lack digits: only a comma completes an entry.
            if text[_skip(text, end)] != ",":
                break
            if entries.setdefault(key, value) != value:
                return {}
    except (ValueError, IndexError, RecursionError):
        pass  # here it was cut
    return entries


def _locate(json_answer: JsonAnswer, path: Sequence[str]) -> tuple[int, int]:
    """Returns where the value at ``path`` begins and ends in the completion's text."""
    start, end = json_answer.begin, json_answer.end
    for name in path:
        entries = _entries_at(json_answer.text, start)
        start, end = next((begin, end) for key, _, begin, end in entries if key == name)
    return start, end


def _skip(text: str, position: int) -> int:
    blank = _BLANK.match(text, position)
    assert blank is not None  # it may be empty
    return blank.end()


def _score_path(
    value: object, field: AnswerField, shape: AnswerShape, *, is_only: bool
) -> list[str]:
    """Returns the keys that lead to the score for ``field``, the only dimension if ``is_only``, in
    the JSON ``value``. A bare number has none. Raises UnreadError."""
    if not isinstance(value, dict):
        if is_only and _is_number(value):
            return []
        raise UnreadError(f"a JSON answer without the key {field.key!r}")
    names = [field.key, field.label, field.name]
    if is_only:
        names.append(shape.score)
    keys = set(map(_normal_key, names))
    entries = {key: entry for key, entry in value.items() if _normal_key(key) in keys}
    if not entries:
        raise UnreadError(f"no key {field.key!r} in the JSON answer")
    first_key, first_entry = next(iter(entries.items()))
    first = _comparable(first_entry)
    if any(_comparable(entry) != first for entry in entries.values()):
        raise UnreadError(f"the keys {', '.join(map(repr, entries))} differ")
    if not isinstance(first_entry, dict):
        return [first_key]
    if shape.score not in first_entry:
        raise UnreadError(f"no {shape.score!r} under {first_key!r} in the JSON answer")
    return [first_key, shape.score]


def _from_json(
    json_answer: JsonAnswer,
    path: Sequence[str],
    field: AnswerField,
    shape: AnswerShape,
    step: Step,
) -> Answer:
    """Reads the score at ``path``, with the comment beside it."""
    number, comment = _score_and_comment(json_answer.value, path, shape)
    if isinstance(comment, str):
        comment = comment.strip() or None
    else:
        comment = None
    span = None
    if _is_number(number):
        span = _locate(json_answer, path)
    number = _comparable(number)
    if not (_is_number(number) or (isinstance(number, bool) and field.binary)):
        reason = f"{shown(str(number))} instead of a number"
        return Answer(reason=reason, comment=comment)
    return _scored(number, field, step, comment, span)


def _score_and_comment(
    value: Any, path: Sequence[str], shape: AnswerShape
) -> tuple[Any, object]:
    """Returns the value at ``path`` in a JSON value, and what stands beside it as the comment."""
    comment = None
    for key in path:
        comment = value.get(shape.comment)
        value = value[key]
    return value, comment


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
    """Reads the score lines of an answer that is not JSON. A dimension without one has a reason.
    The comment is the text before [RESULT] (``feedback``), also of an unscored dimension, else the
    whole text if it has several lines. Raises UnreadError for reasoning without an end, and
    without [RESULT] if ``shape`` wants it."""
    text, begin = spoken_text(completion)
    feedback = None
    if shape.line == "result":
        feedback, mark, result = text.rpartition(_RESULT)
        if not mark:
            raise UnreadError(f"no {_RESULT} in the answer {shown(result)}")
        begin += len(feedback + mark)
        feedback = feedback.strip().removeprefix("Feedback:").strip()
    lines = [line for line in _LINE.finditer(completion, begin) if line[0].strip()]
    comment = feedback
    if feedback is None and len(lines) > 1:
        comment = text.strip()
    quotation = shown(completion[begin:])
    answers: dict[str, Answer] = {}
    for field in fields:
        try:
            match = _score_line(
                lines, quotation, field, shape, is_only=len(fields) == 1
            )
        except UnreadError as error:
            answers[field.name] = Answer(reason=str(error), comment=feedback)
            continue
        number = float(match["number"])
        step: Step = "line"
        if match.re is _PROSE:
            step, comment = "prose", text.strip()
        answer = _scored(number, field, step, comment, match.span("number"))
        if answer.value is not None and _is_copy(match[0], material):
            answer = Answer(reason="the score line repeats a turn of the dialogue")
        answers[field.name] = answer
    return answers


@lru_cache(maxsize=256)
def _score_pattern(names: tuple[str, ...], is_label_optional: bool) -> re.Pattern[str]:
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


def _score_line(
    lines: Sequence[re.Match[str]],
    quotation: str,
    field: AnswerField,
    shape: AnswerShape,
    *,
    is_only: bool,
) -> re.Match[str]:
    """Returns the match of the score line for ``field`` among ``lines``, which ``quotation`` shows
    in a message. If it is the only dimension (``is_only``), the line has to be the one that
    ``shape`` names, and its label may be missing or one of LABELS. Raises UnreadError."""
    names = [name.replace("_", " ") for name in (field.key, field.label, field.name)]
    if is_only:
        names += LABELS
    pattern = _score_pattern(tuple(names), is_only)
    matches = []
    for line in lines:
        match = pattern.fullmatch(line.string, *line.span())
        if match is not None:
            matches.append(match)
    if len({match["number"] for match in matches}) > 1:
        raise UnreadError(f"several score lines that differ in {quotation}")
    line_name = f"for {field.label!r}"
    if is_only:
        line_name = f"as {shape.line} line"
        # A score line before the last line is part of the text.
        is_last = matches and matches[-1].span() == lines[-1].span()
        if shape.line in ("last", "result") and not is_last:
            matches = []
    if not matches and is_only and shape.line == "prose":
        first = lines[0]
        matches = [_prose_score(first.string, first.start(), quotation, field)]
    if not matches:
        raise UnreadError(f"no score line {line_name} in the answer {quotation}")
    _require_top(matches, field)
    return matches[-1]


def _require_top(matches: Sequence[re.Match[str]], field: AnswerField) -> None:
    """Raises UnreadError if a score line states another top of the scale than its own."""
    for match in matches:
        top = match["top"]
        if top and (field.binary or float(top) != field.scale[1]):
            raise UnreadError(f"a score out of {top}, not {field.scale[1]:g}")


def _prose_score(
    completion: str, begin: int, quotation: str, field: AnswerField
) -> re.Match[str]:
    """Returns the match of ``_PROSE`` in ``completion`` from ``begin`` on. Raises UnreadError if
    there is none, or another number than the score and the ends of the scale ("0 to 100")."""
    low, high = field.scale
    scale = rf"\b{low:g}\s?(?:-|–|to|and|al?|y|[到至])\s?{high:g}\b"
    # Blanks instead of the scale: the score keeps its place.
    spoken = re.sub(
        scale, lambda match: " " * len(match[0]), completion[begin:], flags=re.ASCII
    )
    match = _PROSE.search("." * begin + spoken)
    if match is None:
        raise UnreadError(f"no number that is said to be the score in {quotation}")
    if not set(_ANY_NUMBER.findall(spoken)) <= {match["number"], match["top"]}:
        raise UnreadError(f"several numbers in {quotation}")
    return match


def _scored(
    value: float,
    field: AnswerField,
    step: Step,
    comment: str | None,
    span: tuple[int, int] | None,
) -> Answer:
    """Returns ``value`` as an Answer, unscored if it is not on the scale."""
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


def _is_copy(text: str, material: Sequence[str]) -> bool:
    """Returns whether ``text`` is part of one of the turns ``material``, whatever white space is in
    it."""
    words = _normal_words(text)
    if len(words) < _SHORTEST_COPY:
        return False
    letters = words.replace(" ", "")
    return any(letters in _normal_words(turn).replace(" ", "") for turn in material)


def _normal_words(text: str) -> str:
    return " ".join(text.replace("&lt;", "<").casefold().split())


def shown(text: str) -> str:
    """Returns ``text`` on one line, shortened for a message."""
    line = " ".join(text[:400].split())
    if len(line) > 60:
        line = line[:57] + "..."
    return repr(line)


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


def without_thinking(text: str) -> str:
    """Returns the text after the reasoning; empty if the reasoning does not end."""
    spoken = after_thinking(text)
    if spoken is None:
        return ""
    return spoken[0].strip()


def spoken_text(text: str) -> tuple[str, int]:
    """Returns (the text after the reasoning, where it begins). Raises UnreadError if the reasoning
    does not end, or nothing follows it."""
    spoken = after_thinking(text)
    if spoken is None:
        raise UnreadError("the reasoning does not end")
    if _CLOSE.search(spoken[0]):
        raise UnreadError("the end of the reasoning is unclear")
    if not spoken[0].strip():
        raise UnreadError("an empty answer")
    return spoken
