"""Numbers written as words in English, Spanish and Chinese, 0 to 100."""

from __future__ import annotations

from functools import lru_cache

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
_ZH = "零一二三四五六七八九"
ZH_DIGITS = "零〇一二两三四五六七八九十百"


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
    if len(plain) == 1 and plain in _ZH:
        return _ZH.index(plain)
    tens, ten, unit = plain.partition("十")
    if not ten or len(tens) > 1 or len(unit) > 1:
        return None
    if not all(part in _ZH[1:] for part in (tens, unit)):
        return None
    return 10 * (_ZH.index(tens) if tens else 1) + (_ZH.index(unit) if unit else 0)
