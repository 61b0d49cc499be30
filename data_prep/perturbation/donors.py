"""Assistant turns of other conversations, to stand in where they do not belong."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from medal_judges.data_prep.perturbation.text import has_words
from medal_judges.labelled import LabelledDialogue

_MOST = 20_000  # turns kept per language: more would only cost memory
_TRIES = 48


@dataclass(frozen=True)
class Donors:
    """Turns by language, each with the group of its conversation."""

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
        return cls(turns)

    def pick(
        self,
        rng: np.random.Generator,
        lang: str,
        group: str,
        length: int,
        accept: Callable[[str], bool],
    ) -> str | None:
        """Of some 48 random turns of other groups, the accepted one nearest to ``length``
        characters; None when none is acceptable."""
        turns = self.turns.get(lang, [])
        if not turns:
            return None
        tried = (turns[i] for i in rng.integers(len(turns), size=_TRIES))
        fits = [text for owner, text in tried if owner != group]
        for text in sorted(fits, key=lambda text: abs(len(text) - length)):
            if accept(text):
                return text
        return None


def stable_hash(*parts: object) -> int:
    """A 64-bit number of ``parts`` that is the same in every process."""
    digest = hashlib.blake2b("\x1f".join(map(str, parts)).encode("utf-8"), digest_size=8)
    return int.from_bytes(digest.digest(), "big")


def _middle_turns(row: LabelledDialogue) -> list[str]:
    lang = row.dialogue.lang
    middle = row.dialogue.assistant_turns[1:-1]
    texts = (row.dialogue.turns[i].content for i in middle)
    return [text for text in texts if has_words(text, lang, 5)]
