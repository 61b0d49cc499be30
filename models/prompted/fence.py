"""The fence around foreign text in a prompt, so that no turn can close it or pose as another.

Every turn stands between marks of its own, ``<user>...</user>``, the conversation between
``<dialogue>`` and ``</dialogue>``, each turn on one line. Inside a turn whatever could be read as
such a mark has its bracket escaped (``&lt;``), look-alikes of the bracket too, and characters that
nobody sees, which can carry hidden text, are gone. A sentence before it says that what is between
the marks is material.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from medal_judges.models.prompted.prompt import load_prompt
from medal_judges.records.dialogue import Turn

NOTE = "note"
# An opening bracket or one that looks like it, before a letter, a slash, or the bar and marks that
# chat templates have behind it. Not before others: `<3` is a heart, and 〈 opens a Chinese title.
# What a reader hardly sees may stand between: blanks, joiners, accents and variation selectors.
_GAP = r"[\s\u0300-\u036f\u200c\u200d\u20d0-\u20ff\u2800\ufe00-\ufe0f]{0,6}"
_SLASH = r"[/／⁄∕⧸╱⟋]"
_LETTER = (
    r"(?:[^\W\d_\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]"
    r"|[\u249c-\u24e9\U0001f110-\U0001f189])"
)
_OPENING = re.compile(
    rf"[<＜﹤‹〈⟨❮❬❰˂ᐸ≺⧼](?={_GAP}(?:{_SLASH}|[\\|!?｜∖╲⧵])?{_GAP}{_LETTER})"
    rf"|[«≪⟪《⋖⪡≮](?={_GAP}{_SLASH}{_GAP}{_LETTER})"  # quotation marks, too: only before a slash
)
# Controls, soft hyphens, marks of direction, zero-width characters, tag characters and the further
# variation selectors. Joiners (U+200C, U+200D) stay: Hindi, Persian and emoji need them.
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e"
    "\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U000e0000-\U000e01ef]"
)


def harmless(text: str) -> str:
    """``text`` on one line, without characters that nobody sees, and with what could be a mark
    escaped."""
    return _OPENING.sub("&lt;", " ".join(_UNSEEN.sub("", text).split()))


def fenced(mark: str, text: str) -> str:
    """One foreign text between its marks: ``<response>...</response>``."""
    return f"<{mark}>{harmless(text)}</{mark}>"


def fenced_dialogue(turns: Iterable[Turn | None], *, gap: str) -> str:
    """Turns, one a line, each between the marks of its role; None is a gap."""
    lines = [gap if turn is None else fenced(turn.role, turn.content) for turn in turns]
    return "\n".join(["<dialogue>", *lines, "</dialogue>"])


@cache
def fence_note(language: str) -> str:
    """What is said of the marks, in the prompt's ``language`` (English where there are no words in
    it)."""
    prompt = load_prompt("fence", parts=(NOTE,))
    texts = prompt.languages.get(language)
    return (texts.parts if texts else prompt.parts)[NOTE].strip()
