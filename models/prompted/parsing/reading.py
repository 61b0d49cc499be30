"""The one number that a free text gives as its score, or the reason why it gives none.

Nothing is guessed: two different numbers, a range, a scale other than the one asked for, a number
outside it, a number that nothing marks as the score, or one that the text only quotes all leave the
answer unscored. candidates.py says what speaks for and against each number.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from medal_judges.models.prompted.parsing.answer import ParsedAnswer, Scale
from medal_judges.models.prompted.parsing.candidates import (
    MOST_NUMBERS,
    candidates,
    quotations,
    reported,
)
from medal_judges.models.prompted.parsing.json_text import MOST_CHARACTERS
from medal_judges.models.prompted.parsing.number_forms import ZH_DIGITS, Number, plain_text
from medal_judges.models.prompted.parsing.score_words import LABELS

_REFUSAL = re.compile(
    r"\W{0,20}(?:(?:i['’]?m|i am) (?:very |really )?sorry|sorry\b|as an ai\b"
    r"|(?:i['’]?m|i am) (?:unable|not able)|i (?:can(?:['’]t|not| not)|won['’]t|will not|refuse)"
    r"|lo siento|no puedo|como (?:una )?ia\b"
    r"|抱歉|很抱歉|对不起|我(?:无法|不能)|作为(?:一个)?(?:ai|人工智能))",
    re.IGNORECASE,
)
# <score>4</score>, and marks of emphasis as HTML has them.
_SCORE_TAG = re.compile(r"<(score|rating|grade|answer|label|mark)>(?=\s{0,8}[\d-])", re.IGNORECASE)
_OTHER_TAG = re.compile(
    r"</?(?:score|rating|grade|answer|label|mark|b|i|u|em|strong|p|br ?/?)>", re.I
)
_LIST_MARK = re.compile(
    r"^[ \t]{0,8}(?:[-•][ \t]{1,3})?\d{1,2}[.)、](?=[ \t]{1,8}\S)", re.MULTILINE
)
_SCALE_NAME = re.compile(
    r"\b\d{1,4}\s{0,3}-?\s{0,3}(?:points?|puntos)\s{1,3}(?:likert\s{1,3})?(?:scale|escala)"
    rf"|[{ZH_DIGITS}]{{1,4}}分制|\d{{1,4}}\s{{0,3}}分制|escala\s{{1,3}}de\s{{1,3}}\d{{1,4}}\s{{1,3}}puntos",
    re.IGNORECASE,
)


def read_number(
    text: str, scale: Scale, *, names: Sequence[str] = (), binary: bool = False
) -> ParsedAnswer:
    """The score in ``text`` on ``scale``; ``names`` are what the dimension may be called in it.

    A number counts behind a label (``Score: 4``) or a verb of rating, as a share of the scale's
    top, with its unit, alone on a line, or at the beginning; all that count have to agree. Any
    other counts in an answer of three words at most without a colon (``User: 3`` is an echo).
    ``binary`` wants 0 or 1, or a plain yes or no.
    Number words and Chinese numerals count after a label or a verb, in ``four out of five``, as the
    whole answer, and (Chinese) before 分.
    """
    if not text.strip():
        return ParsedAnswer(None, "an empty answer")
    if len(text) > MOST_CHARACTERS:
        return ParsedAnswer(
            None, f"an answer of {len(text)} characters; {MOST_CHARACTERS} are read"
        )
    if _REFUSAL.match(text):
        return ParsedAnswer(None, f"a refusal: {shown(text)}")
    text = _untagged(text)
    plain = _without_scale(plain_text(text), scale)
    if binary and (word := _yes_or_no(text, plain, names)) is not None:
        return ParsedAnswer(word)
    numbers = candidates(text, plain, scale, names, binary=binary)
    if len(numbers) > MOST_NUMBERS:
        return ParsedAnswer(None, f"more than {MOST_NUMBERS} numbers in {shown(text)}")
    return _settled(numbers, scale, binary, text)


def marked_values(text: str, scale: Scale, names: Sequence[str]) -> set[float | None]:
    """All values that ``text`` marks as a score, whoever says so: what a score that was found
    elsewhere in the answer must not contradict."""
    text = _untagged(text)
    plain = _without_scale(plain_text(text), scale)
    numbers = candidates(text, plain, scale, names, binary=False)
    marked = [c for c in numbers if _is_marked(c) or (c.objection and c.evidence in _FORMAL)]
    return {c.value for c in marked if c.kind != "range"}


# Evidence that a number in somebody else's words may have too: such a number is a rival.
_FORMAL = ("label", "share", "points")
_NO_RIVALS = ("negated", "bounded", "defined", "counted")


def _is_marked(c: Number) -> bool:
    return c.evidence is not None and c.objection is None


def _settled(numbers: Sequence[Number], scale: Scale, binary: bool, text: str) -> ParsedAnswer:
    marked = [c for c in numbers if _is_marked(c)]
    loose = [c for c in numbers if c.evidence is None and c.objection is None and not c.spelled]
    if not marked and len(re.findall(r"[^\W\d_]+", text)) <= 3 and ":" not in text:
        # the answer's last word: "a solid 4"
        marked, loose = [c for c in loose if not re.search(r"\w", text[c.end :])], []
    if not marked:
        return ParsedAnswer(None, f"{_unmarked(numbers, loose)} in the answer {shown(text)}")
    if bad := next((c for c in marked if c.value is None), None):
        return ParsedAnswer(None, f"{bad.reason} in {shown(text)}")
    rivals = [c for c in numbers if c.evidence in _FORMAL and c.objection in ("quoted", "reported")]
    if all(c.evidence == "lead" for c in marked):
        rivals += [c for c in loose if c.value is not None and scale[0] <= c.value <= scale[1]]
    values = sorted({c.value for c in (*marked, *rivals) if c.value is not None})
    if len(values) > 1:
        told = ", ".join(f"{v:g}" for v in values[:5])
        return ParsedAnswer(None, f"more than one number ({told}) in {shown(text)}")
    if problem := off_scale(values[0], scale, binary=binary):
        return ParsedAnswer(None, problem)
    first = marked[0]
    if first.spelled:
        return ParsedAnswer(values[0])
    return ParsedAnswer(values[0], start=first.start, end=first.end)


def _unmarked(numbers: Sequence[Number], loose: Sequence[Number]) -> str:
    """Why none of ``numbers`` is the score."""
    defined = {c.value for c in numbers if c.objection == "defined"}
    others = {c.value for c in loose}
    if len(told := sorted(v for v in defined | others if v is not None)) > 1:
        return f"more than one number ({', '.join(f'{v:g}' for v in told[:5])})"
    if bad := next((c for c in numbers if c.value is None and not c.objection), None):
        return bad.reason
    if told:
        return f"no number that is marked as the score ({told[0]:g} is not)"
    objections = {c.objection for c in numbers}
    if objections & {"quoted", "reported"}:
        return "no number but in somebody else's words"
    if objections & {"negated", "bounded", "unreal"}:
        return "no number but a bound, or one that is denied or only thought of,"
    return "no number"


def off_scale(value: float, scale: Scale, *, binary: bool = False) -> str | None:
    """Why ``value`` is no score on ``scale``; None where it is one. Scores are never clipped."""
    if binary and value not in (0, 1):
        return f"{value:g} is neither 0 nor 1"
    if not scale[0] <= value <= scale[1]:
        return f"{value:g} is outside the scale {scale[0]:g} to {scale[1]:g}"
    return None


def shown(text: str) -> str:
    """``text`` on one line and short, for a message."""
    line = " ".join(text[:400].split())
    return repr(line if len(line) <= 60 else line[:57] + "...")


# -- what is certainly no score --------------------------------------------------------------------


def _untagged(text: str) -> str:
    """``text`` with labels for tags that name a score, and blanks for those of layout; as long."""
    return _blanked(_OTHER_TAG, _SCORE_TAG.sub(lambda tag: f" {tag[1]}:", text))


def _without_scale(text: str, scale: Scale) -> str:
    """Blanks for list marks and for mentions of the scale itself, such as ``0 to 100``."""
    marks = [m for m, _ in zip(_LIST_MARK.finditer(text), range(2), strict=False)]
    # A list begins with 1: "4. It flows well." is a score and its reason.
    if len(marks) > 1 or not marks or text[: marks[0].start()].strip() or "1" in _digits(marks[0]):
        text = _blanked(_LIST_MARK, text)
    return _blanked(_scale_mention(scale), _blanked(_SCALE_NAME, text))


def _digits(mark: re.Match[str]) -> list[str]:
    return re.findall(r"\d+", mark[0])


def _blanked(pattern: re.Pattern[str], text: str) -> str:
    return pattern.sub(lambda m: " " * len(m[0]), text)


@lru_cache(maxsize=256)
def _scale_mention(scale: Scale) -> re.Pattern[str]:
    low, high = (re.escape(f"{v:g}") for v in scale)
    blank = r"\s{0,3}"
    return re.compile(
        rf"(?<![\d.,-]){low}{blank}分?{blank}"
        rf"(?:-|–|—|~|to|through|and|al?|hasta|y|und|bis|et|à|e|至|到){blank}"
        rf"{high}(?![\d.,]{{0,8}}\d)(?!{blank}[-–/]{blank}\d)",
        re.IGNORECASE,
    )


# -- yes and no ------------------------------------------------------------------------------------

_YES = {"yes": 1.0, "true": 1.0, "sí": 1.0, "是": 1.0, "no": 0.0, "false": 0.0, "否": 0.0}


def _yes_or_no(text: str, plain: str, names: Sequence[str]) -> float | None:
    """1 or 0 where the whole answer, or what stands behind a label and a colon, is yes or no."""
    word = plain.strip(" \n\t.。!,").lower()
    if word in _YES:
        return _YES[word]
    before, colon, rest = word.rpartition(":")
    value = _YES.get(rest.strip())
    if value is None or not colon or len(before) > 60 or reported(before) or quotations(text):
        return None
    spoken = {n.replace("_", " ").lower() for n in names} | set(LABELS)
    return value if before.rstrip().endswith(tuple(filter(None, spoken))) else None
