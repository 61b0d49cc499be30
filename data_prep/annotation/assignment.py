"""Assignment: which annotator reads which dialogue, balanced, in an order of their own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from medal_judges.errors import ConfigError
from medal_judges.signature import content_hash

_NAME = re.compile(r"[\w.@+-]+")  # names become file names


@dataclass(frozen=True, slots=True)
class Annotator:
    """A person, and the languages (ISO 639-1) they annotate; none given: all."""

    name: str
    langs: tuple[str, ...] = ()

    def reads(self, lang: str) -> bool:
        return not self.langs or lang in self.langs


def parse_annotators(texts: Sequence[str]) -> list[Annotator]:
    """Annotators of ``NAME`` or ``NAME:LANG,LANG``. Raises ConfigError."""
    found = []
    for text in texts:
        name, _, langs = text.partition(":")
        if not _NAME.fullmatch(name) or set(name) == {"."}:
            raise ConfigError(
                f"annotator {text!r}: a name has letters, digits and . _ @ + - only",
                hint="--annotator ana, or with languages: --annotator ana:en,pt",
            )
        listed = tuple(part.strip().lower() for part in langs.split(",") if part.strip())
        found.append(Annotator(name, listed))
    if twice := [name for name, n in Counter(a.name.lower() for a in found).items() if n > 1]:
        raise ConfigError(f"annotator {twice[0]!r} is named twice")
    return found


def assign(
    langs: Mapping[str, str], annotators: Sequence[Annotator], per_dialogue: int, seed: int
) -> dict[str, list[str]]:
    """Keys for each annotator, in the order to work through them.

    ``langs`` maps the key of a dialogue to its language. Every dialogue goes to ``per_dialogue``
    of those who read its language: to those with the fewest dialogues so far and, among equals, to
    those who have shared the fewest with the ones already chosen, so that every two people overlap
    about equally. Orders are shuffled for each annotator apart. Raises ConfigError where too few
    read a language.
    """
    for lang in sorted(set(langs.values())):
        able = [a.name for a in annotators if a.reads(lang)]
        if len(able) < per_dialogue:
            raise ConfigError(
                f"{per_dialogue} annotators per dialogue, but {len(able)} read {lang!r}"
                + (f" ({', '.join(able)})" if able else ""),
                hint="name more with --annotator, or lower --per-dialogue",
            )
    given: dict[str, list[str]] = {a.name: [] for a in annotators}
    together: Counter[frozenset[str]] = Counter()
    rng = np.random.default_rng(seed)
    for key in rng.permutation(sorted(langs)).tolist():
        able = [a.name for a in annotators if a.reads(langs[key])]
        chosen = _choose(rng.permutation(able).tolist(), per_dialogue, given, together)
        together.update(frozenset(pair) for pair in combinations(chosen, 2))
        for name in chosen:
            given[name].append(key)
    return {name: shuffled(keys, seed, name) for name, keys in given.items()}


def _choose(
    able: Sequence[str],
    count: int,
    given: Mapping[str, Sequence[str]],
    together: Mapping[frozenset[str], int],
) -> list[str]:
    chosen: list[str] = []
    for _ in range(count):
        left = [name for name in able if name not in chosen]
        chosen.append(
            min(
                left,
                key=lambda name: (
                    len(given[name]),
                    sum(together.get(frozenset((name, other)), 0) for other in chosen),
                ),
            )
        )
    return chosen


def shuffled(keys: Sequence[str], seed: int, name: str) -> list[str]:
    """``keys`` in an order that belongs to ``name``; the same for the same seed."""
    rng = np.random.default_rng([seed, int(content_hash(name), 16)])
    return [str(key) for key in rng.permutation(sorted(keys))]
