"""An edit of one dialogue: what it works with, and the pair of versions that it makes.

Also the changes that are no fault: neutral sentences of a wanted length, small changes of wording,
slips of typing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import numpy as np

from medal_judges.data_prep.perturbation.material import Donors, Split, entries, shared
from medal_judges.data_prep.perturbation.text import has_words, insert, join
from medal_judges.records.dialogue import Dialogue

T = TypeVar("T")
_COMBINATIONS = 24


class CannotInject(Exception):
    """This dialogue cannot carry this issue; the message is the reason that gets counted."""


@dataclass(frozen=True)
class EditContext:
    """One issue to inject into one dialogue, and where the material comes from."""

    dialogue: Dialogue
    strength: int
    rng: np.random.Generator
    donors: Donors
    split: Split
    group: str

    @property
    def lang(self) -> str:
        return self.dialogue.lang

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """Contents of all turns."""
        return tuple(turn.content for turn in self.dialogue.turns)

    def table(self, name: str) -> tuple[Any, ...]:
        """The table's entries for this language and split. Raises CannotInject when it has none."""
        if not (table := entries(name, self.lang, self.split)):
            raise CannotInject(f"no sentences in language {self.lang!r}")
        return table

    def answers(self, words: int = 1) -> list[int]:
        """Indices of the assistant turns of at least ``words`` words."""
        turns = self.dialogue.assistant_turns
        return [i for i in turns if has_words(self.texts[i], self.lang, words)]

    def some(self, options: Sequence[T], count: int) -> list[T]:
        """``count`` of ``options`` (or all when fewer), without repeats, in their order."""
        count = min(count, len(options))
        return [options[i] for i in sorted(self.rng.permutation(len(options))[:count])]

    def one(self, options: Sequence[T]) -> T:
        """One of ``options``, all equally likely."""
        return options[int(self.rng.integers(len(options)))]

    def chance(self) -> bool:
        """True half of the times."""
        return bool(self.rng.random() < 0.5)


class EditedPair:
    """Two versions of a dialogue that differ in the issue and, as far as can be, in nothing else.

    ``injected`` and ``control`` hold the new contents by turn. ``touched``: assistant turns that
    carry the issue in ``injected``; the control's edit stands in the same turns. ``how`` names the
    method.
    """

    def __init__(self, edit: EditContext, how: str) -> None:
        self.edit, self.how = edit, how
        self.injected: dict[int, str] = {}
        self.control: dict[int, str] = {}
        self.touched: tuple[int, ...] = ()

    def put(self, turn: int, injected: str, control: str) -> None:
        """Give ``turn`` new contents."""
        self.injected[turn], self.control[turn] = injected, control

    def insert(self, turn: int, injected: str, control: str, position: float) -> None:
        """Add a sentence to ``turn`` at about ``position`` in [0, 1]."""
        lang, before = self.edit.lang, self.edit.texts[turn]
        for contents, sentence in ((self.injected, injected), (self.control, control)):
            contents[turn] = insert(contents.get(turn, before), sentence, position, lang)

    def finished(self, touched: Iterable[int] | None = None) -> EditedPair:
        """The pair; ``touched`` is every edited turn by default. Raises CannotInject where both
        versions of such a turn are the same."""
        self.touched = tuple(sorted(self.injected if touched is None else touched))
        if any(self.injected[turn] == self.control[turn] for turn in self.touched):
            raise CannotInject("the edit would change nothing")
        return self


def filler(edit: EditContext, length: int, used: Collection[str] = (), most: int = 4) -> list[str]:
    """One to ``most`` neutral sentences, none in ``used``, of about ``length`` characters together.

    Raises CannotInject when the table has none left.
    """
    free = [s for s in edit.table("neutral") if s not in used and s not in edit.texts]
    if not free:
        raise CannotInject("no neutral sentence left for the control")
    best: list[str] = []
    for _ in range(_COMBINATIONS):
        drawn = [free[i] for i in edit.rng.permutation(len(free))[: edit.rng.integers(1, most + 1)]]
        if not best or _miss(drawn, length) < _miss(best, length):
            best = drawn
    return best


def _miss(sentences: list[str], length: int) -> int:
    return abs(sum(map(len, sentences)) + len(sentences) - 1 - length)


def small_change(edit: EditContext, text: str) -> str:
    """``text`` with one to three changes that leave its meaning alone.

    Another word of its meaning (``small_changes.yaml``), a slip of typing, a hesitation, a final
    mark.
    """
    changes = [_other_word, _slip, _hesitation, _final_mark]
    changed = text
    for i in edit.rng.permutation(len(changes))[: int(edit.rng.integers(1, 4))]:
        changed = changes[i](edit, changed)
    return changed if changed != text else _final_mark(edit, text)


def _other_word(edit: EditContext, text: str) -> str:
    options = [pair for pair in word_pairs(edit.lang) if pair[0].search(text)]
    if not options:
        return text
    pattern, other = edit.one(options)
    return str(pattern.sub(other, text, count=1))


@lru_cache(maxsize=16)
def word_pairs(lang: str) -> list[tuple[re.Pattern[str], str]]:
    words = shared("small_changes").get(lang, {}).get("words", {})
    edge = "" if lang == "zh" else r"\b"
    return [(re.compile(f"{edge}{re.escape(a)}{edge}", re.IGNORECASE), b) for a, b in words.items()]


def _slip(edit: EditContext, text: str) -> str:
    """Two neighbouring inner letters of one long word change places."""
    words = text.split(" ")
    long = [i for i, word in enumerate(words) if len(word) >= 5 and word.isalpha()]
    if edit.lang == "zh" or not long:
        return text
    at = edit.one(long)
    cut = int(edit.rng.integers(1, len(words[at]) - 2))
    word = words[at]
    words[at] = word[:cut] + word[cut + 1] + word[cut] + word[cut + 2 :]
    return " ".join(words)


def _hesitation(edit: EditContext, text: str) -> str:
    fillers = shared("small_changes").get(edit.lang, {}).get("fillers", [])
    return join([edit.one(fillers), text], edit.lang) if fillers else text


def _final_mark(edit: EditContext, text: str) -> str:
    marks = ("。", "！", "~") if edit.lang == "zh" else (".", "!", "...")
    bare = text.rstrip(".!~。！ ")
    if bare.endswith(("?", "？")):
        return bare + bare[-1]
    return bare + edit.one([mark for mark in marks if bare + mark != text])
