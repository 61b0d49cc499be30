"""Assignment: which annotator reads which dialogue, balanced, in an order of their own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from medal_judges.errors import ConfigError, RecordError
from medal_judges.records.languages import language_code
from medal_judges.records.signature import content_hash

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
    annotators = []
    for text in texts:
        name, _, langs = text.partition(":")
        if not _NAME.fullmatch(name) or set(name) == {"."}:
            raise ConfigError(
                f"annotator {text!r}: a name has letters, digits and . _ @ + - only",
                hint="--annotator ana, or with languages: --annotator ana:en,pt",
            )
        where = f"annotator {text!r}"
        listed = tuple(_code(part, where) for part in langs.split(",") if part.strip())
        annotators.append(Annotator(name, listed))
    if twice := [name for name, n in Counter(a.name.lower() for a in annotators).items() if n > 1]:
        raise ConfigError(f"annotator {twice[0]!r} is named twice")
    return annotators


@dataclass(frozen=True, slots=True)
class PerDialogue:
    """How many annotators read each dialogue: ``default``, and other numbers by language (MEDAL
    has two for four languages and one for two, section 3.5)."""

    default: int = 2
    by_lang: Mapping[str, int] = field(default_factory=dict)

    def of(self, lang: str) -> int:
        return self.by_lang.get(lang, self.default)


def parse_numbers(texts: Sequence[str]) -> dict[str, int]:
    """Numbers of annotators of ``LANG=N``. Raises ConfigError."""
    numbers: dict[str, int] = {}
    for text in texts:
        lang, _, number = (part.strip() for part in text.partition("="))
        if not number.isascii() or not number.isdigit() or int(number) < 1 or not lang:
            raise ConfigError(
                f"--annotators {text!r} is not of the form LANG=N with N from 1",
                hint="--annotators en=2 --annotators de=1",
            )
        code = _code(lang, f"--annotators {text!r}")
        if numbers.setdefault(code, int(number)) != int(number):
            raise ConfigError(f"--annotators: {code} has two numbers, {numbers[code]} and {number}")
    return numbers


def _code(lang: str, where: str) -> str:
    try:
        return language_code(lang)
    except RecordError as error:
        raise ConfigError(f"{where}: {lang!r} is not a language code such as 'en'") from error


def assign(
    langs: Mapping[str, str], annotators: Sequence[Annotator], wanted: PerDialogue, seed: int
) -> dict[str, list[str]]:
    """Keys for each annotator, in the order to work through them.

    ``langs`` maps the key of a dialogue to its language. Every dialogue goes to as many as
    ``wanted`` says of those who read its language: to those with the fewest dialogues so far and,
    among equals, to those who have shared the fewest with the ones already chosen, so that every
    two people overlap about equally. Orders are shuffled for each annotator apart. Raises
    ConfigError, with all of them, where too few read a language.
    """
    _require_readers(set(langs.values()), annotators, wanted)
    given: dict[str, list[str]] = {a.name: [] for a in annotators}
    together: Counter[frozenset[str]] = Counter()
    rng = np.random.default_rng(seed)
    for key in rng.permutation(sorted(langs)).tolist():
        able = [a.name for a in annotators if a.reads(langs[key])]
        left, chosen = rng.permutation(able).tolist(), list[str]()
        for _ in range(wanted.of(langs[key])):
            shared = {n: sum(together[frozenset((n, other))] for other in chosen) for n in left}
            chosen.append(min(left, key=lambda n: (len(given[n]), shared[n])))
            left.remove(chosen[-1])
        together.update(frozenset(pair) for pair in combinations(chosen, 2))
        for name in chosen:
            given[name].append(key)
    return {name: shuffled(keys, seed, name) for name, keys in given.items()}


def _require_readers(
    langs: Collection[str], annotators: Sequence[Annotator], wanted: PerDialogue
) -> None:
    if idle := sorted(set(wanted.by_lang) - set(langs)):
        raise ConfigError(
            f"--annotators {idle[0]}={wanted.of(idle[0])}: there is no dialogue in {idle[0]!r}",
            hint=f"languages there: {' '.join(sorted(langs))}",
        )
    problems, hints = [], ["name more with --annotator"]
    for lang in sorted(langs):
        able = [a.name for a in annotators if a.reads(lang)]
        if len(able) < wanted.of(lang):
            names = f" ({', '.join(able)})" if able else ""
            problems.append(
                f"{wanted.of(lang)} annotators per dialogue, but {len(able)} read {lang!r}{names}"
            )
            hints += [f"--annotators {lang}={len(able)}"] if able else []
    if problems:
        raise ConfigError("\n  ".join(problems), hint=" or ".join(hints))


def shuffled(keys: Sequence[str], seed: int, name: str) -> list[str]:
    """``keys`` in an order that belongs to ``name``; the same for the same seed."""
    rng = np.random.default_rng([seed, int(content_hash(name), 16)])
    return [str(key) for key in rng.permutation(sorted(keys))]
