"""Reads which of the shown options an answer chooses (DIET, section 3.2).

Strict: a JSON list of numbers or texts; numbers alone (``2, 4 and 5``); one option's own text a
line, with or without a number before it; or ``none``. Models renumber what they choose, so that an
option's text goes before a number. Any other answer is asked for again, for the numbers alone.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from medal_judges.models.llm.protocol import Completion
from medal_judges.models.prompted.answers import (
    after_thinking,
    mentions_thinking,
    shown,
    strict_json,
)

MOST_CHARACTERS = 20_000  # of an answer; a longer one is not read
_MARKS = str.maketrans(dict.fromkeys("*_`#|\"'“”‘’()[]{}（）【】「」『』《》", " "))
_BULLET = re.compile(r"(?m)^\s*[-•]\s+")
_ENDS = re.compile(r"(?m)(?<=\d)[.)]?[ \t]*$")  # the mark after the only number of a line
_AND = r"(?:and|y|e|et|und)"
_BETWEEN = rf"(?:[,;、&+] ?(?:{_AND} )?| {_AND} |[和与]| |\s*\n\s*)"
_NUMBERS = re.compile(rf"\s*\d{{1,3}}(?:{_BETWEEN}\d{{1,3}})*\s*[.。]?\s*", re.IGNORECASE)
_OPTIONS = re.compile(
    rf"(?:options?|opciones|选项)[:：]? ?(?=\d+(?:(?:, ?| {_AND} )\d+)*\.?\Z)", re.I
)


@dataclass(frozen=True, slots=True)
class Choice:
    """Indices of the chosen options in the shown list, from 0; None with a ``reason`` if the answer
    cannot be read. "None" chooses nothing: no indices."""

    indices: frozenset[int] | None
    reason: str | None = None


def read_choice(completion: Completion, options: Sequence[str]) -> Choice:
    """What a completion chooses of ``options``, which were numbered from 1."""
    if completion.finish == "failed":
        return Choice(None, completion.failure or "no answer")
    if completion.finish == "length":
        return Choice(None, "the answer was cut at its token limit")
    spoken = after_thinking(completion.text)
    if spoken is None or mentions_thinking(spoken[0]):
        return Choice(None, "the end of the reasoning is not marked")
    text = spoken[0].strip()
    if not text:
        return Choice(None, "an empty answer")
    if len(text) > MOST_CHARACTERS:
        return Choice(None, f"an answer of {len(text)} characters")
    chosen = _listed(text, options) or _numbered(text) or _texts(text.splitlines(), options)
    if _plain(text) == "none":
        chosen = []
    if chosen is None:
        return Choice(None, f"no list of options: {shown(text)}")
    if beyond := sorted(i + 1 for i in chosen if not 0 <= i < len(options)):
        return Choice(None, f"option {beyond[0]} of {len(options)}")
    return Choice(frozenset(chosen))


def _listed(text: str, options: Sequence[str]) -> list[int] | None:
    """A JSON list of numbers or texts, or an object with one such list."""
    found = strict_json(text)
    value = found[0] if found else None
    if isinstance(value, dict):
        lists = [each for each in value.values() if isinstance(each, list)]
        value = lists[0] if len(lists) == 1 else None
    if not isinstance(value, list) or not value:
        return None
    if all(isinstance(each, int) and not isinstance(each, bool) for each in value):
        return [each - 1 for each in value]
    return _texts(value, options) if all(isinstance(each, str) for each in value) else None


def _numbered(text: str) -> list[int] | None:
    """Numbers and nothing else, but for the word "options" before them."""
    plain = unicodedata.normalize("NFKC", text.translate(_MARKS)).strip()
    plain = _OPTIONS.sub("", _ENDS.sub("", _BULLET.sub("", plain)))
    if not _NUMBERS.fullmatch(plain):
        return None
    return [int(number) - 1 for number in re.findall(r"\d{1,3}", plain)]


def _texts(lines: Sequence[str], options: Sequence[str]) -> list[int] | None:
    """The option that each line repeats, after its own number if it has one."""
    by_text = {_plain(option): i for i, option in enumerate(options)}
    chosen, numbers = [], 0
    for line in filter(str.strip, lines):
        number = re.match(r"\W{0,6}\d{1,3}[.):、]\s*", line)
        numbers += number is not None
        option = by_text.get(_plain(line[number.end() :] if number else line))
        if option is None:
            return None
        chosen.append(option)
    # All options, some of them with a number: the numbers may be the choice.
    return None if len(set(chosen)) == len(options) and 0 < numbers < len(chosen) else chosen


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))
