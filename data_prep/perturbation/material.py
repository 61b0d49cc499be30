"""What edits draw from: sentence tables, and assistant turns of other conversations.

The tables are YAML files in configs/perturbation/. A judge must not win by knowing a table by
heart, so every table is dealt out over train, val and test: no entry, in no language, stands in two
splits.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np
import yaml

from medal_judges.config import config_text, read_yaml
from medal_judges.data_prep.perturbation.text import has_words
from medal_judges.errors import ConfigError
from medal_judges.records.labelled import LabelledDialogue

Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)
LANGUAGES = ("en", "zh", "de", "fr", "pt", "es")
# Dealt by position, five at a time. All languages of an entry share its position, so that a
# multilingual judge does not meet a test sentence in translation. New entries go at the end.
_DEAL: tuple[Split, ...] = ("train", "val", "train", "test", "train")
_SLOT = re.compile(r"\[([^|\]]*)\|([^\]]*)\]")


def entries(table: str, lang: str, split: Split) -> tuple[Any, ...]:
    """Entries of ``table`` in ``lang`` that belong to ``split``; empty for an unknown language.

    An entry is a text, a list of texts or a mapping of texts, as the table has it.
    Raises ConfigError for an unknown split.
    """
    if split not in SPLITS:
        raise ConfigError(f"split must be one of {', '.join(SPLITS)}, not {split!r}")
    return _dealt(table).get((lang, split), ())


@lru_cache(maxsize=8)
def shared(table: str) -> Mapping[str, Any]:
    """A table without labels that all splits share (syllables, small changes)."""
    return read_yaml(f"perturbation/{table}")


def variants(text: str) -> tuple[str, str]:
    """Both readings of a text with ``[sound|faulty]`` slots: (all sound, all faulty)."""
    return _SLOT.sub(r"\1", text), _SLOT.sub(r"\2", text)


@lru_cache(maxsize=32)
def _dealt(table: str) -> dict[tuple[str, str], tuple[Any, ...]]:
    dealt: dict[tuple[str, str], list[Any]] = {}
    for position, entry in enumerate(yaml.safe_load(config_text(f"perturbation/{table}"))):
        for lang, value in entry.items():
            dealt.setdefault((lang, _DEAL[position % len(_DEAL)]), []).append(value)
    return {key: tuple(values) for key, values in dealt.items()}


# Donors: turns of other conversations, to stand in where they do not belong.
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
                middle = (row.dialogue.turns[i].content for i in row.dialogue.assistant_turns[1:-1])
                long = (text for text in middle if has_words(text, row.dialogue.lang, 5))
                kept.extend((row.group, text) for text in long)
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
