"""Assistant turns of other conversations, to stand in where they do not belong."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from medal_judges.data_prep.perturbation.text import has_words
from medal_judges.labelled import LabelledDialogue

_MOST = 20_000  # turns kept per language: more would only cost memory
_WINDOW = 150  # turns a little longer, and as many a little shorter, that are drawn from
_TRIES = 48


@dataclass(frozen=True)
class Donors:
    """Turns by language as (group of the conversation, content), shortest first."""

    turns: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Iterable[LabelledDialogue]) -> Donors:
        """Middle assistant turns of five words or more (openings and farewells fit anywhere).

        The result does not depend on the order of ``rows``.
        """
        turns: dict[str, list[tuple[str, str]]] = {}
        for row in sorted(rows, key=lambda row: (stable_hash(row.id), row.id)):
            kept = turns.setdefault(row.dialogue.lang, [])
            if len(kept) < _MOST:
                kept.extend((row.group, text) for text in _middle_turns(row))
        for kept in turns.values():
            kept.sort(key=lambda turn: (len(turn[1]), turn))
        return cls(turns)

    def pick(
        self,
        rng: np.random.Generator,
        lang: str,
        group: str,
        length: int,
        accept: Callable[[str], bool],
    ) -> str | None:
        """An accepted turn of another group, drawn from those of about ``length`` characters.

        None when none of some 48 is acceptable.
        """
        turns = self.turns.get(lang, [])
        if not turns:
            return None
        near = bisect_left(turns, length, key=lambda turn: len(turn[1]))
        first, last = max(0, near - _WINDOW), min(len(turns), near + _WINDOW)
        tried = [turns[i] for i in rng.integers(first, last, size=_TRIES)]
        tried.sort(key=lambda turn: abs(len(turn[1]) - length))
        return next((text for owner, text in tried if owner != group and accept(text)), None)


def stable_hash(*parts: object) -> int:
    """A 64-bit number of ``parts`` that is the same in every process."""
    digest = hashlib.blake2b("\x1f".join(map(str, parts)).encode("utf-8"), digest_size=8)
    return int.from_bytes(digest.digest(), "big")


def _middle_turns(row: LabelledDialogue) -> list[str]:
    lang = row.dialogue.lang
    middle = row.dialogue.assistant_turns[1:-1]
    texts = (row.dialogue.turns[i].content for i in middle)
    return [text for text in texts if has_words(text, lang, 5)]
