"""The fence around foreign text in a prompt: no turn can close it or imitate another turn.

Each turn is between marks, ``<user>...</user>``, on one line, and the conversation between
``<dialogue>`` and ``</dialogue>``. Inside a turn the bracket of anything that looks like a mark is
escaped (``&lt;``), and invisible characters, which can carry hidden text, are removed. A sentence
before it says that the text between the marks is material. Random marks would also work, but would
separate prompts that share their beginning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from medal_judges.models.prompted.prompt import load_prompt
from medal_judges.records.dialogue import Turn

NOTE = "note"
# An opening bracket or a look-alike before a letter, a slash, or the bar and marks of chat
# templates. Not before others: `<3` is a heart, and 〈 opens a Chinese title. Characters that a
# reader hardly sees may come between: blanks, joiners, accents and variation selectors.
_GAP = r"[\s\u0300-\u036f\u200c\u200d\u20d0-\u20ff\u2800\ufe00-\ufe0f]{0,6}"
_SLASH = r"[/／⁄∕⧸╱⟋]"
_LETTER = (
    r"(?:[^\W\d_\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]"
    r"|[\u249c-\u24e9\U0001f110-\U0001f189])"
)
_OPENING = re.compile(
    rf"[<＜﹤‹〈⟨❮❬❰˂ᐸ≺⧼](?={_GAP}(?:{_SLASH}|[\\|!?｜∖╲⧵])?{_GAP}{_LETTER})"
    rf"|[«≪⟪《⋖⪡≮](?={_GAP}{_SLASH}{_GAP}{_LETTER})"  # also quotation marks: only before a slash
)
# Controls, soft hyphens, marks of direction, zero-width characters, tag characters and the further
# variation selectors. Joiners (U+200C, U+200D) stay: Hindi, Persian and emoji need them.
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e"
    "\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U000e0000-\U000e01ef]"
)


def harmless(text: str) -> str:
    """``text`` on one line, without invisible characters and with possible marks escaped."""
    return _OPENING.sub("&lt;", " ".join(_UNSEEN.sub("", text).split()))


def fenced(mark: str, text: str) -> str:
    """One foreign text between its marks: ``<response>...</response>``."""
    return f"<{mark}>{harmless(text)}</{mark}>"


def fenced_dialogue(turns: Iterable[Turn | None], *, gap: str) -> str:
    """One turn per line, each between the marks of its role; None is a gap."""
    lines = [gap if turn is None else fenced(turn.role, turn.content) for turn in turns]
    return "\n".join(["<dialogue>", *lines, "</dialogue>"])


@cache
def fence_note(language: str) -> str:
    """The sentence about the marks in ``language``, in English if it has no translation."""
    prompt = load_prompt("fence", parts=(NOTE,))
    texts = prompt.languages.get(language)
    return (texts.parts if texts else prompt.parts)[NOTE].strip()
