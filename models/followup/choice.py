"""Which of the shown options an answer chooses (DIET, section 3.2): by text, then by number.

Models renumber what they choose, count it, explain what they leave out. So an option's own text
goes before any number; a number counts where the grammar says that it names an option, and an
answer that cannot be read for certain is not read.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from medal_judges.models.llm.protocol import Completion
from medal_judges.models.prompted.answers import (
    after_thinking,
    mentions_thinking,
    shown,
    strict_json,
)

MOST_CHARACTERS = 20_000  # of an answer; a longer one is not read


@dataclass(frozen=True, slots=True)
class Choice:
    """Indices of the chosen options in the list that was shown, from 0; None with a ``reason``
    where the answer cannot be read. An answer that says "none" has chosen nothing: no indices."""

    indices: frozenset[int] | None
    reason: str | None = None


_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_CLAUSE = re.compile(
    r"\n|(?<=[^\d\s])[.!?](?=\s|$)|(?<=\d)\.(?=\s+[^\W\d])|[;；。！？]"
    r"|,?\s(?:but|pero|aber|mais)\s|(?:，|,)?但是?|[:：](?!\d\d)"
)
_N = r"(?:#|no\.\s?|nº\s?|第)?\d{1,3}(?!\d)[.)]?(?:个|项|条|号)?"
_SPAN = r"\s?(?:-|–|to|through|a|hasta|至|到)\s?"
_AND = (
    r"\s{0,2}(?:[,，、&/+;]\s?(?:and|y|e|und|et|和|与)?|\b(?:and|y|e|und|et)\b|[和与及跟])\s{0,2}"
)
_ONE = rf"{_N}(?:{_SPAN}{_N})?"
_LIST = rf"{_ONE}(?:(?:{_AND}|\s)(?:(?:options?|number|opción|选项)\s)?{_ONE}){{0,60}}"
_LISTS = re.compile(rf"(?<![\w.#])(?:{_LIST})(?![^\W\d_])|(?<=[\u3400-\u9fff])(?:{_LIST})", re.I)
_NOUN = (
    r"(?:options?|numbers?|follow-?ups?|choices?|opci[oó]n(?:es)?|n[uú]meros?|respuestas?|选项|编号"
    r"|句子?|第)"
)
_PICKS = (
    r"(?:choose|chose|chosen|select(?:ed|ion)?|pick(?:ed)?|go with|keep|choice|answer|final|fit|are"
    r"|is|elijo|elegir[ií]a|escojo|escoger[ií]a|selecciono|seleccionar[ií]a|selecci[oó]n"
    r"|me quedo con|son|respuesta|选择?|选了|挑选?|答案|是|为)"
)
_THE = r"(?:(?:the|las?|los|el|of|these|estas)\s)?"
_PICKED = re.compile(
    rf"{_PICKS}\s{{0,2}}(?:would be\s)?{_THE}(?:{_NOUN}\s{{0,2}})?$", re.IGNORECASE
)
_NAMED = re.compile(rf"{_NOUN}\s{{0,2}}(?:#|no\.)?$", re.IGNORECASE)
_COUNTS = re.compile(
    r"\s?(?:of\b|de\b|out of|个|项(?!、)|(?:more|other|best|suitable|such|good)?\s?"
    r"(?:options|follow-?ups|opciones|reactions|utterances|responses|frases))",
    re.IGNORECASE,
)
_NOT_BEFORE = re.compile(
    r"(?:\b(?:not|except(?: for)?|excluding|exclude|without|leave out|skip|drop|all but"
    r"|rather than|instead of|no|excepto|salvo|menos|sin|descarto|ni)\b|n['’]t\b"
    r"|除了|不选|不包括|排除|不要)[^,，\d]{0,25}$",
    re.IGNORECASE,
)
_NOT_AFTER = re.compile(
    r"\s?(?:以外|之外)?\s?(?:(?:do|does|is|are|would|seem)(?:n['’]t|\snot)\b"
    r"|(?:is|are|seem)\s(?:less|too|un|ir)|no\s(?:encaja|sirve|son|es|vale)"
    r"|都?不(?:合适|适合|相关|选|符合))",
    re.IGNORECASE,
)
_ALL = re.compile(
    r"(?:^|choose |select |pick |elijo |elegiría |selecciono |选择?)\W{0,3}"
    r"(?:all(?: of them| (?:of )?(?:the )?options| the follow-ups)?|every option|the entire set"
    r"|todas(?: las opciones)?|全部(?:选项)?|所有(?:选项)?)"
    r"(?=\W{0,3}$|\s(?:except|but|excepto|salvo|menos)|，?除)",
    re.IGNORECASE,
)
_NONE = re.compile(
    r"\W{0,9}(?:none(?: of (?:them|these|the options)(?: \w+){0,3})?|no option(?: \w+){0,3}"
    r"|nothing fits|ninguna?(?: \w+){0,4}|都不(?:合适|适合|选|符合)|没有合适的(?:选项)?|无)"
    r"\W{0,9}$",
    re.IGNORECASE,
)
_DENIED = re.compile(r"\b(?:not|except|excluding|without|no|excepto)\b(?: \w+){0,3} $|不选\W?$")


def read_choice(completion: Completion, options: Sequence[str]) -> Choice:
    """What a completion chooses of ``options``, which were numbered from 1."""
    if completion.finish == "failed":
        return Choice(None, completion.failure or "no answer")
    if completion.finish == "length":
        return Choice(None, "the answer was cut at its token limit")
    spoken = after_thinking(completion.text)
    if spoken is None or mentions_thinking(spoken[0]):
        return Choice(None, "nobody can say where the reasoning ends")
    text = spoken[0].strip()
    if not text:
        return Choice(None, "an empty answer")
    if len(text) > MOST_CHARACTERS:
        return Choice(None, f"an answer of {len(text)} characters")
    if (listed := _as_json(text, options)) is not None:
        return listed
    return _read(text, options)


def _read(text: str, options: Sequence[str]) -> Choice:
    by_text, own_numbers = _texts(text, options)
    numbers = _numbers(text, options)
    if by_text:
        told = numbers.indices or frozenset()
        repeats_all = len(by_text) == len(options) and 0 < len(told) < len(options)
        if repeats_all and not own_numbers:
            return numbers
        return Choice(by_text if own_numbers else by_text | told)
    return numbers


def _as_json(text: str, options: Sequence[str]) -> Choice | None:
    """A JSON list of numbers or texts, or an object with one such list; None for anything else."""
    found = strict_json(text)
    value = found[0] if found else None
    if isinstance(value, dict):
        lists = [each for each in value.values() if isinstance(each, list)]
        value = lists[0] if len(lists) == 1 else None
    if not isinstance(value, list):
        return None
    indices: set[int] = set()
    for each in value:
        read = Choice(None)
        if isinstance(each, int) and not isinstance(each, bool):
            read = _in_range({each - 1}, options)
        elif isinstance(each, str):
            read = _read(each, options)
        if read.indices is None:
            return Choice(None, read.reason or f"no list of options: {shown(text)}")
        indices |= read.indices
    return Choice(frozenset(indices))


# -- by text ---------------------------------------------------------------------------------------


def _texts(text: str, options: Sequence[str]) -> tuple[frozenset[int], bool]:
    """(options whose text stands in ``text``, whether ``text`` has numbers of its own for them)."""
    chosen: set[int] = set()
    own_numbers = False
    longest = sorted(range(len(options)), key=lambda i: -len(options[i]))
    for line in re.split(r"\n|(?<=[.!?”\"])\s(?=\d{1,2}[.):]\s)", text):
        plain = f" {_plain(line)} "
        number = re.match(r"\W{0,6}(\d{1,3})[.):、]", line)
        here: set[int] = set()
        for i in longest:
            at = _position(plain, _plain(options[i]))
            if at is None:
                continue
            if not _DENIED.search(plain[: at[0]][-60:]):
                here.add(i)
            plain = plain[: at[0]] + " \0 " + plain[at[1] :]
        if not here and number and (near := _nearest(line[number.end() :], options)) is not None:
            here.add(near)
        own_numbers |= number is not None and bool(here) and int(number[1]) - 1 not in here
        chosen |= here
    return frozenset(chosen), own_numbers


def _position(plain: str, option: str) -> tuple[int, int] | None:
    """Where ``option`` stands in ``plain``; one of a single short word only as the whole of it."""
    if _CJK.search(option):
        at = plain.find(option)
        return None if at < 0 else (at, at + len(option))
    if len(option.split()) < 2:
        bare = re.sub(r"^\s*(?:\d{1,3}\s)?|\s+$", "", plain)
        return (0, len(plain)) if option and bare == option else None
    at = plain.find(f" {option} ")
    return None if at < 0 else (at, at + len(option) + 1)


def _nearest(text: str, options: Sequence[str]) -> int | None:
    """The option that ``text`` is a shortened form of; None without one, or with two."""
    said = set(_plain(text).split())
    shares = []
    for option in options:
        words = set(_plain(option).split())
        shares.append(len(said & words) / len(said | words) if said else 0.0)
    best = max(shares, default=0.0)
    near = [i for i, share in enumerate(shares) if share == best]
    return near[0] if best >= 0.6 and len(near) == 1 else None


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


# -- by number -------------------------------------------------------------------------------------


def _numbers(text: str, options: Sequence[str]) -> Choice:
    """The options that ``text`` names by number, all, or none."""
    picked: set[int] = set()
    named: set[int] = set()
    left_out: set[int] = set()
    every = none = read = False
    for clause in filter(None, (c.strip() for c in _CLAUSE.split(_bare(text)) if c)):
        every |= _ALL.search(clause) is not None
        none |= _NONE.match(clause) is not None
        for how, indices in _lists(clause):
            read = True
            {"picked": picked, "named": named, "left out": left_out}[how].update(indices)
    if every:
        picked = set(range(len(options)))
    chosen = (picked or named) - left_out
    if not chosen and none and not left_out:
        return Choice(frozenset())
    if not chosen:
        reason = "no number that names an option" if read else "no option named"
        return Choice(None, f"{reason} in {shown(text)}")
    return _in_range(chosen, options)


def _in_range(indices: set[int], options: Sequence[str]) -> Choice:
    if beyond := sorted(p + 1 for p in indices if not 0 <= p < len(options)):
        return Choice(None, f"option {beyond[0]} of {len(options)}")
    return Choice(frozenset(indices))


def _bare(text: str) -> str:
    """Digits of any script as ASCII, other marks than those of a sentence as blanks."""
    return "".join(map(_bare_character, text))


@lru_cache(maxsize=4096)
def _bare_character(c: str) -> str:
    if unicodedata.category(c) == "Nd":
        return str(unicodedata.decimal(c))
    if c in "*_`#|\"'“”‘’()[]{}<>（）【】「」『』《》«»$\\":
        return " "
    return {"／": "/", "：": ":", "－": "-", "−": "-", "％": "%", "＋": "+", "．": "."}.get(c, c)


def _lists(clause: str) -> Iterator[tuple[str, set[int]]]:
    """(picked, named or left out; indices) for each list of numbers in ``clause``."""
    for m in _LISTS.finditer(clause):
        before, after = clause[: m.start()][-60:], clause[m.end() :][:40]
        indices = set(_indices(m[0]))
        alone = not re.search(r"\w", before) and not re.search(r"\w", after)
        if _COUNTS.match(after) and len(indices) == 1:
            continue
        if _NOT_BEFORE.search(before) or _NOT_AFTER.match(after):
            yield "left out", indices
        elif alone or _PICKED.search(before):
            yield "picked", indices
        elif _NAMED.search(before):
            yield "named", indices


def _indices(numbers: str) -> Iterator[int]:
    for m in re.finditer(rf"(\d{{1,3}})[.)]?(?:{_SPAN}(?:#|第)?(\d{{1,3}}))?", numbers):
        first, last = int(m[1]), int(m[2] or m[1])
        yield from range(first - 1, max(first, min(last, first + 200)))
