"""Every number of a text that could be its score, with what speaks for and against each.

A number alone proves nothing: an answer names turns, counts questions, explains its scale and
quotes the dialogue. So each has an ``evidence`` (why it would be the score; None where nothing says
so) and an ``objection`` (why it is not the rater's own). Each decision looks at a bounded stretch
of text around the number, so that reading takes time in proportion to the length of the text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from medal_judges.models.prompted.parsing import score_words as words
from medal_judges.models.prompted.parsing.answer import Scale
from medal_judges.models.prompted.parsing.number_forms import (
    BLANK,
    LETTER,
    UNITS,
    Evidence,
    Number,
    Objection,
    numbers_in,
)

MOST_NUMBERS = 200  # in one text; one with more is no answer to be read

_BEFORE, _AFTER = 160, 40  # characters around a number that are looked at
_BY_VERB = ("number", "range", "either", "percent", "zhfraction")


# -- quotations ------------------------------------------------------------------------------------

_PAIRS = {"“": "”", "«": "»", "「": "」", "『": "』", "„": "“”", '"': '"', "`": "`", "‘": "’"}
_ONLY_NUMBER = re.compile(r"[\s\d.,/%+\-]{1,20}")
_KEY = re.compile(r"[^\W\d]{1,40}")
_BLOCKQUOTE = re.compile(rf"^[ \t]{{0,3}}>[^\n]*|{words.SPOKEN_LINE}", re.MULTILINE | re.IGNORECASE)
_SINGLE = re.compile(r"(?<!\w)'[^'\n]{3,200}'(?!\w)")  # no apostrophe, which stands in a word


def quotations(text: str) -> list[tuple[int, int]]:
    """Where others are quoted: [start, end) of what stands between quotation marks, and lines
    marked by ``>`` or by a speaker, in order and apart. A number or one word alone between marks is
    emphasis; marks around the whole text are none of its own; a mark that is not closed quotes to
    the end of its paragraph."""
    spans = [m.span() for m in _BLOCKQUOTE.finditer(text)]
    spans += [m.span() for m in _SINGLE.finditer(text) if not _KEY.fullmatch(m[0].strip("'"))]
    whole = _wrapped(text)
    position, end_of_text = whole or (0, len(text))
    while position < end_of_text:
        closing = _PAIRS.get(text[position])
        if closing is None or (text[position] == "‘" and text[position - 1 : position].isalnum()):
            position += 1
            continue
        end = min((e for c in closing if (e := text.find(c, position + 1)) >= 0), default=-1)
        end = end_of_text if end < 0 else end
        paragraph = text.find("\n\n", position, end)
        end = paragraph if paragraph >= 0 else end
        inner = text[position + 1 : end].strip()
        if not (_ONLY_NUMBER.fullmatch(inner) or _KEY.fullmatch(inner) or not inner):
            spans.append((position, end))
        position = end + 1
    return _merged(spans)


def _merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sorted, with those that overlap as one."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _wrapped(text: str) -> tuple[int, int] | None:
    """Where the text between the marks begins and ends that enclose all of ``text``."""
    bare = text.strip().strip("`")
    if len(bare) < 2 or bare[-1] not in _PAIRS.get(bare[0], ""):
        start = text.find(bare[0]) if bare else 0
        return (start, start + len(bare)) if len(bare) < len(text.strip()) else None
    if any(c in bare[1:-1] for c in (bare[0], bare[-1])):
        return None
    start = text.find(bare) + 1
    return start, start + len(bare) - 2


def inside(place: int, spans: Sequence[tuple[int, int]]) -> bool:
    """Whether ``place`` lies in one of the sorted ``spans``."""
    at = bisect_right(spans, (place, len(spans) and spans[-1][1] + 1)) - 1
    return at >= 0 and spans[at][0] <= place < spans[at][1]


# -- evidence and objections -----------------------------------------------------------------------

_SENTENCE_END = re.compile(r"[.!?](?=\s)|[\n。！？;；]")
_CLAUSE_END = re.compile(r"[,:，：]|[.!?](?=\s)|[\n。！？;；]")
_SOFT = rf"(?:{words.SOFTENERS}{BLANK}){{0,3}}"
_DOES_RATE = re.compile(
    rf"(?:{'|'.join(words.RATES)})[^.;:!?\n\d,，。！？]{{0,70}}$", re.IGNORECASE
)
_CONCLUDES = re.compile(rf"(?:{'|'.join(words.CONCLUDES)})[,，:]?{BLANK}{_SOFT}$", re.IGNORECASE)
_LEADS = re.compile(rf"\W{{0,30}}{_SOFT}", re.IGNORECASE)
_NEGATED = re.compile(rf"(?:{'|'.join(words.NEGATIONS)}){_SOFT}$", re.IGNORECASE)
_TURNS = re.compile(words.TURNS, re.IGNORECASE)
_BOUNDED = re.compile(rf"(?:{'|'.join(words.BOUNDS)}){BLANK}{_SOFT}$", re.IGNORECASE)
_BOUNDED_AFTER = re.compile(words.BOUNDS_AFTER, re.IGNORECASE)
_DEFINED = re.compile(words.DEFINES, re.IGNORECASE)
_DEFINED_BEFORE = re.compile(rf"(?:{words.DEFINES_BEFORE}){BLANK}$", re.IGNORECASE)
_THING = re.compile(rf"(?:\b{words.THINGS}[ #.-]{{0,3}}|第)$", re.IGNORECASE)
_RATED = re.compile(rf"\b{words.DETERMINERS}\s\w+\s$", re.IGNORECASE)  # "rate this response 4"
_ATTRIBUTED = re.compile("|".join(words.ATTRIBUTIONS), re.IGNORECASE)
_ATTRIBUTED_AFTER = re.compile(words.ATTRIBUTED_AFTER, re.IGNORECASE)
_UNREAL = re.compile("|".join(words.UNREAL), re.IGNORECASE)
_UNREAL_TURNS = re.compile(words.UNREAL_TURNS, re.IGNORECASE)
_UNREAL_AFTER = re.compile(words.UNREAL_AFTER, re.IGNORECASE)
_OWN_VOICE = re.compile(words.OWN_VOICE, re.IGNORECASE)
_UNIT_AFTER = re.compile(rf"{BLANK}{UNITS}(?![钟析别享之])(?![{LETTER}])", re.IGNORECASE)
_WORD_AFTER = re.compile(r"\s?-?([^\W\d_]+)")
_DETERMINED = re.compile(
    r"\b(?:this|that|each|every|any|some|which|esta?|cada|这|那|每|某)\s?$", re.I
)


@lru_cache(maxsize=256)
def _label(names: tuple[str, ...]) -> re.Pattern[str]:
    """What ends right before a labelled number."""
    spoken = sorted({n.replace("_", " ") for n in names if n} | set(words.LABELS), key=len)
    labels = "|".join(re.escape(n).replace(r"\ ", r"\s{1,3}") for n in reversed(spoken))
    between = r"(?:\s{1,2}[^\W\d]{1,15}){0,6}?|[^\W\d]{0,8}?"
    links = (
        rf"{BLANK}(?:\b(?:is|was|are|es|será|sería|ist|est|é|è|of|as|at|de|von|would be|should be"
        rf"|will be|stands at)\b{BLANK}:?|[:=→]|-+>|\s-(?=\s)|是:?|为:?|は:?)"
    )
    return re.compile(
        rf"(?:(?:(?<![{LETTER}])(?:{labels}))(?:{between}){links}\s{{0,8}}"
        rf"|(?:{labels}|{'|'.join(words.LABELS_WITH_COLON)})\s{{0,16}}[:=→]\s{{0,8}}){_SOFT}$",
        re.IGNORECASE,
    )


def candidates(
    text: str, plain: str, scale: Scale, names: Sequence[str], *, binary: bool
) -> list[Number]:
    """The numbers of ``text`` in order, at most one more than MOST_NUMBERS. ``plain`` is its
    plain_text, where what is certainly no score may have been blanked."""
    quoted = quotations(text)
    label = _label(tuple(names))
    made = []
    for number in numbers_in(plain, scale, binary):
        made.append(_weighed(number, plain, quoted, label))
        if len(made) > MOST_NUMBERS:
            break
    return made


def _weighed(
    c: Number, plain: str, quoted: Sequence[tuple[int, int]], label: re.Pattern[str]
) -> Number:
    window = plain[max(0, c.start - _BEFORE) : c.start]
    sentence = _last(window, _SENTENCE_END)
    after = plain[c.end : c.end + _AFTER]
    evidence = _evidence(c, plain, window, sentence, after, label)
    objection: Objection | None
    if inside(c.start, quoted):
        objection = "quoted"
    elif reported(sentence) or _ATTRIBUTED_AFTER.match(after):
        objection = "reported"
    elif evidence != "label" and (_unreal(sentence) or _UNREAL_AFTER.match(after)):
        objection = "unreal"
    else:
        objection = _own_objection(c, window, after, evidence)
    return replace(c, evidence=evidence, objection=objection)


def reported(sentence: str) -> bool:
    """Whether ``sentence`` (up to a number) tells what somebody else said or wants."""
    said = [m.end() for m in _ATTRIBUTED.finditer(sentence)]
    return bool(said) and _OWN_VOICE.search(sentence, said[-1]) is None


def _unreal(sentence: str) -> bool:
    """Whether ``sentence`` (up to a number) speaks of a case that is not so, and has not turned."""
    said = [m.end() for m in _UNREAL.finditer(sentence)]
    return bool(said) and _UNREAL_TURNS.search(sentence, said[-1]) is None


def _last(window: str, ends: re.Pattern[str]) -> str:
    """What stands behind the last of ``ends``."""
    last = 0
    for m in ends.finditer(window):
        last = m.end()
    return window[last:]


def _own_objection(
    c: Number, window: str, after: str, evidence: Evidence | None
) -> Objection | None:
    clause = _last(window, _CLAUSE_END)
    if (negated := _NEGATED.search(clause)) and not _TURNS.search(clause, negated.start()):
        return "negated"
    if _BOUNDED.search(clause) or _BOUNDED_AFTER.match(after):
        return "bounded"
    if _DEFINED.match(after) or _DEFINED_BEFORE.search(clause):
        return "defined"
    if evidence in ("label", "alone", "share"):
        return None
    named = _THING.search(clause) and not (evidence == "verb" and _RATED.search(clause))
    if named or _counts(c, after):
        return "counted"
    return None


def _counts(c: Number, after: str) -> bool:
    """Whether the number is one of things: ``2 questions``, ``3 个问题``."""
    if c.kind in ("percent", "zhdecimal") or (c.kind == "zh" and not c.spelled):
        return False
    following = _WORD_AFTER.match(after)
    if following is None or following[1][0] in words.FOLLOWING_CHARACTERS:
        return False
    return following[1].lower() not in words.FOLLOWERS


def _evidence(
    c: Number, plain: str, window: str, sentence: str, after: str, label: re.Pattern[str]
) -> Evidence | None:
    if label.search(window):
        return "label"
    if c.kind == "share":
        return "share"
    if _is_alone(c, plain):
        return "alone"
    if c.kind in _BY_VERB and (_DOES_RATE.search(sentence) or _CONCLUDES.search(sentence)):
        return "verb"
    if c.kind == "word" and c.value != 1 and not _DETERMINED.search(sentence):
        return "verb" if _DOES_RATE.search(sentence) or _CONCLUDES.search(sentence) else None
    if c.spelled:
        return None
    if _UNIT_AFTER.match(after) or (c.kind in ("zh", "zhdecimal") and not c.spelled):
        return "points"
    return "lead" if c.start < 30 and _LEADS.fullmatch(plain, 0, c.start) else None


def _is_alone(c: Number, plain: str) -> bool:
    begin = plain.rfind("\n", max(0, c.start - 9), c.start) + 1
    if not begin and c.start > 8:
        return False
    end = plain.find("\n", c.end, c.end + 20)
    rest = plain[c.end : end if end >= 0 else c.end + 20]
    if end < 0 and c.end + 20 < len(plain):
        return False
    share = r"(?:/\s?\d+)?" if c.kind == "share" else ""
    return not re.search(r"\w", plain[begin : c.start]) and bool(
        re.fullmatch(rf"{share}%?{BLANK}{UNITS}?[\s.。!,]{{0,20}}", rest, re.IGNORECASE)
    )
