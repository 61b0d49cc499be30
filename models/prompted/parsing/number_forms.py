"""The numbers that stand in a text, in every form that a score is written in.

8, 8.5, 8/10, 8 out of 10, 85%, eight, 八分, 8分（满分10分）; ranges, fractions and alternatives
too, so that their parts are not taken for a score. Each quantifier is bounded, or cannot give back
what it took: the time taken is in proportion to the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from medal_judges.models.prompted.parsing.answer import Scale

_EN = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    "nineteen",
)
_EN_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_ES = (
    *("cero", "uno", "dos", "tres", "cuatro", "cinco", "seis", "siete", "ocho", "nueve", "diez"),
    *("once", "doce", "trece", "catorce", "quince", "dieciséis", "diecisiete", "dieciocho"),
    *("diecinueve", "veinte", "veintiuno", "veintidós", "veintitrés", "veinticuatro"),
    *("veinticinco", "veintiséis", "veintisiete", "veintiocho", "veintinueve"),
)
_ES_TENS = ("treinta", "cuarenta", "cincuenta", "sesenta", "setenta", "ochenta", "noventa")
_ZH_VALUES = "零一二三四五六七八九"
ZH_DIGITS = "零〇一二两三四五六七八九十百"

LETTER = "A-Za-zÀ-ÖØ-öø-ÿ"
BLANK = r"\s{0,3}"
UNITS = r"(?:points?|pts|puntos?|stars?|estrellas|punkten?|pontos|punti|étoiles|分|点|點)"
# A number that no letter, digit, point or sign touches, and that is no time of day.
_DIGITS = (
    rf"(?<![{LETTER}\d.,\-])(?<!\d:)[-+]?\d+(?:[.,]\d+)*"
    rf"(?![{LETTER}\d²³¹¼-¾⅐-⅞]|{BLANK}[¼-¾⅐-⅞])(?!{BLANK}:{BLANK}\d)"
)
_ZH = f"[{ZH_DIGITS}]{{1,8}}"


# label: behind a word for the score. verb: behind a verb of rating. share: of the scale's top.
# points: its unit is that of a score. alone: on a line of its own. lead: the text begins with it.
Evidence = Literal["label", "verb", "share", "points", "alone", "lead"]
Objection = Literal["quoted", "reported", "unreal", "negated", "bounded", "defined", "counted"]


@dataclass(frozen=True, slots=True)
class Number:
    """``value`` None has a ``reason``: a range, a fraction. ``spelled``: written as a word.
    ``kind`` is the form it has in the text; what speaks for it and against it is ``evidence`` and
    ``objection``."""

    start: int
    end: int
    value: float | None
    reason: str = ""
    spelled: bool = False
    kind: str = "number"
    evidence: Evidence | None = None
    objection: Objection | None = None


def plain_text(text: str) -> str:
    """Digits of any script as ASCII, marks of Markdown and quotes as blanks; same length."""
    return "".join(map(_plain_character, text))


@lru_cache(maxsize=4096)
def _plain_character(c: str) -> str:
    if unicodedata.category(c) == "Nd":
        return str(unicodedata.decimal(c))
    if c in "*_`#|\"'“”‘’()[]{}<>（）【】「」『』《》«»$\\":
        return "'" if c == "’" else c if c == "'" else " "
    return {"／": "/", "：": ":", "－": "-", "−": "-", "％": "%", "＋": "+", "．": "."}.get(c, c)


def _by_first_letter(phrases: Sequence[str]) -> str:
    """One of ``phrases``, tried by their first letter: most positions in a text need one look."""
    groups: dict[str, list[str]] = {}
    for phrase in phrases:
        groups.setdefault(phrase[0], []).append(re.escape(phrase[1:]))
    return "|".join(f"{first}(?:{'|'.join(rests)})" for first, rests in groups.items())


@lru_cache(maxsize=1)
def _patterns() -> re.Pattern[str]:
    spelled = _by_first_letter(sorted(number_words(), key=len, reverse=True))
    word = rf"(?<![{LETTER}-])(?:{spelled})(?![{LETTER}-])"
    any_number = rf"(?:{_DIGITS}|{word})"
    follows = r"for\b|on\b|in\b|por\b|en\b|because\b|porque\b|and\b"
    after = rf"{BLANK}(?:$|[.,;:!?\n。，；！]|{UNITS}|{follows})"
    top = rf"(?P<top>\d+(?:[.,]\d+)?|{word})"
    dash = rf"{BLANK}分?{BLANK}(?:-|–|—|~|to|through|hasta|bis|à|至|到){BLANK}"
    return re.compile(
        "|".join(
            [
                rf"(?P<part>{_DIGITS}){BLANK}/{BLANK}(?P<under>\d+(?:[.,]\d+)?)(?P<chain>{BLANK}/)?",
                rf"(?P<zhpart>{_DIGITS}|{_ZH}){BLANK}分?{BLANK}[,，]?{BLANK}满分{BLANK}(?:为|是)?"
                rf"{BLANK}(?P<zhtop>\d+|{_ZH}){BLANK}分?",
                rf"(?P<outof>{any_number}){BLANK},?{BLANK}"
                rf"(?:out of|of|over|sobre|de|von|sur|em|su){BLANK}"
                rf"(?:a possible )?{top}(?={after})",
                rf"(?P<range>{_DIGITS}{dash}\d+|\b(?:between|entre|zwischen)\s\d+(?:[.,]\d+)?"
                r"\s(?:and|y|und|et|e)\s\d+)",
                rf"(?P<either>{_DIGITS}(?:\sor|\so|\soder|\sou|或者?|或是)\s?(?:even\s)?(?:an?\s)?\d+)",
                rf"(?P<zhfraction>(?:{_ZH}|\d+)分之(?:{_ZH}|\d+))",
                rf"(?P<percent>{_DIGITS}){BLANK}%",
                rf"(?P<number>{_DIGITS})",
                rf"(?P<zhdecimal>{_ZH}点{_ZH})分?",
                rf"(?P<zh>{_ZH})(?P<fen>分(?![钟析别享之]))?",
                rf"(?P<word>{word})",
            ]
        ),
        re.IGNORECASE | re.MULTILINE,
    )


_KINDS = (
    *("part", "zhpart", "outof", "range", "either", "zhfraction", "percent"),
    *("number", "zhdecimal", "zh", "word"),
)
_UPPER = {"part": "under", "zhpart": "zhtop", "outof": "top"}


def numbers_in(text: str, scale: Scale, binary: bool) -> Iterator[Number]:
    """The numbers of a ``text`` that plain_text made, in order. Of shares (8/10) the first number
    counts where the second is the top of ``scale``."""
    for m in _patterns().finditer(text):
        kind = next(k for k in _KINDS if m[k] is not None)
        yield _of_kind(kind, m, scale, binary)


def _of_kind(kind: str, m: re.Match[str], scale: Scale, binary: bool) -> Number:
    start, end = m.span(kind)
    if kind in _UPPER:
        return _share(kind, m, scale, binary)
    if kind == "either":
        told = ", ".join(re.findall(r"\d+(?:[.,]\d+)*", m[kind]))
        return Number(start, end, None, f"more than one number ({told})", kind=kind)
    if kind in ("range", "zhfraction"):
        reason = f"a {'range' if kind == 'range' else 'fraction'}"
        return Number(start, end, None, reason, kind=kind)
    if kind == "percent" and scale != (0, 100):
        return Number(start, end, None, "a percentage", kind=kind)
    value, reason = _value(m[kind])
    # 十分 is "very"; 一 and the like are everywhere: loose ones count before 分 only.
    bare = kind == "word" or (kind == "zh" and (m["fen"] is None or m[kind] == "十"))
    return Number(start, end, value, reason, spelled=bare, kind=kind)


def _share(kind: str, m: re.Match[str], scale: Scale, binary: bool) -> Number:
    """``8/10``: the first number, where the second is the top of the scale asked for."""
    start, end = m.span(kind)
    top, _ = _value(m[_UPPER[kind]])
    if binary or m["chain"]:
        return Number(start, end, None, "a fraction", kind="share")
    if top != scale[1]:
        reason = f"a score out of {m[_UPPER[kind]]}, not {scale[1]:g},"
        return Number(start, end, None, reason, kind="share")
    value, reason = _value(m[kind])
    return Number(start, end, value, reason, kind="share")


def _value(text: str) -> tuple[float | None, str]:
    """The number that ``text`` writes, or None and why not."""
    lowered = " ".join(text.lower().split())
    if lowered in number_words():
        return float(number_words()[lowered]), ""
    if text[0] in ZH_DIGITS:
        return _chinese(text)
    sign, body = (-1, text[1:]) if text[0] == "-" else (1, text.lstrip("+"))
    if len(body) > 15:
        return None, "a number too long to be a score"
    if re.fullmatch(r"[1-9]\d{0,2}[.,]\d{3}", body):
        return None, f"{text}, which may be thousands or a fraction,"
    if re.fullmatch(r"\d+(?:[.,]\d+)?", body):
        return sign * float(body.replace(",", ".")), ""
    for group, point in ((",", "."), (".", ",")):
        if re.fullmatch(rf"\d{{1,3}}(?:\{group}\d{{3}})+(?:\{point}\d+)?", body):
            return sign * float(body.replace(group, "").replace(point, ".")), ""
    return None, f"{text}, which is not one number,"


def _chinese(text: str) -> tuple[float | None, str]:
    whole, point, rest = text.partition("点")
    value = chinese_number(whole)
    digits = [chinese_number(c) for c in rest]
    if value is None or (point and any(d is None or d > 9 for d in digits)):
        return None, f"{text}, which is not one number,"
    return float(f"{value}.{''.join(map(str, digits))}" if point else value), ""


# -- numbers as words, 0 to 100 --------------------------------------------------------------------


@lru_cache(maxsize=1)
def number_words() -> dict[str, int]:
    """Lower-case word or phrase -> number, English and Spanish together (no word is in both)."""
    words = {word: i for i, word in enumerate(_EN)} | {word: i for i, word in enumerate(_ES)}
    words["una"] = 1
    for t, ten in enumerate(_EN_TENS, 2):
        words[ten] = 10 * t
        for unit in range(1, 10):
            words[f"{ten}-{_EN[unit]}"] = words[f"{ten} {_EN[unit]}"] = 10 * t + unit
    for t, ten in enumerate(_ES_TENS, 3):
        words[ten] = 10 * t
        for unit in range(1, 10):
            words[f"{ten} y {_ES[unit]}"] = 10 * t + unit
    hundreds = ("one hundred", "a hundred", "hundred", "cien", "ciento")
    return words | dict.fromkeys(hundreds, 100)


def chinese_number(text: str) -> int | None:
    """``text`` made of ZH_DIGITS alone as a number from 0 to 100, None where it is none.

    八 8, 十 10, 十二 12, 八十五 85, 一百 100. A row of digits such as 八五 is none: it could be 85
    or two numbers.
    """
    plain = text.replace("〇", "零").replace("两", "二")
    if plain in ("百", "一百"):
        return 100
    if len(plain) == 1 and plain in _ZH_VALUES:
        return _ZH_VALUES.index(plain)
    tens, ten, unit = plain.partition("十")
    if not ten or len(tens) > 1 or len(unit) > 1:
        return None
    if not all(part in _ZH_VALUES[1:] for part in (tens, unit)):
        return None
    return 10 * (_ZH_VALUES.index(tens) if tens else 1) + (_ZH_VALUES.index(unit) if unit else 0)
