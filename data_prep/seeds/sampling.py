"""Seed contexts, drawn: the same for the same seed; more of them begin with the same ones.

Each context has scene, persona, gender and state of its own and exists in every language, with a
country for each (MEDAL, section 3.1.1 and appendix C.1). Items are drawn by the hash of their name:
the same on every machine, whatever the order of a file's lines.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pydantic import Field

from medal_judges.config import Config
from medal_judges.data_prep.seeds.context import GENDERS, Gender, SeedContext, listed_contexts
from medal_judges.data_prep.seeds.keywords import gendered_word
from medal_judges.data_prep.seeds.readers import (
    EMBEDDED,
    HIGH_FILTER,
    Critic,
    Quadrant,
    load_affects,
    read_personas,
    read_triples,
)
from medal_judges.data_prep.seeds.scenes import Scene, Triple, is_neutral, scene_of, sentences
from medal_judges.errors import ConfigError
from medal_judges.records.languages import language

T = TypeVar("T")


class SeedsConfig(Config):
    """``n`` contexts. ``scenes`` and ``personas`` are ``embedded`` or a file (readers.py), as
    published; ``critic`` is the field of a scenes file that says what is kept. ``affects`` is
    ``embedded`` or a YAML file of states by quadrant. ``countries`` replaces those of
    configs/seeds/languages.yaml for a language. ``file``: its contexts, as written by
    ``medal data seeds``, instead of drawn ones."""

    n: int = Field(default=400, ge=1)
    file: str | None = None
    scenes: str = EMBEDDED
    personas: str = EMBEDDED
    affects: str = EMBEDDED
    critic: Critic | None = HIGH_FILTER
    genders: tuple[Gender, ...] = Field(default=GENDERS, min_length=1)
    countries: Mapping[str, tuple[str, ...]] = {}


@dataclass(frozen=True, slots=True)
class Draw:
    """A context before it has a language; ``quadrant`` is None where the scene names a feeling."""

    scene: Scene
    persona: str
    gender: Gender
    affect: str | None
    quadrant: str | None

    def context(self, lang: str, country: str) -> SeedContext:
        """The context of one language."""
        return SeedContext(self.scene.text, self.persona, self.gender, self.affect, lang, country)


def contexts_for(config: SeedsConfig, languages: Sequence[str], seed: int) -> list[SeedContext]:
    """``config.n`` contexts in each language, context by context, in the order of ``languages``.

    Raises ConfigError for an unknown language and where there are fewer than n different ones;
    DataError for a bad line of a file.
    """
    if config.file is not None:
        return listed_contexts(config.file, config.n, languages)
    return in_languages(draws_for(config, seed), languages, seed, countries=config.countries)


def draws_for(config: SeedsConfig, seed: int) -> list[Draw]:
    """``config.n`` draws out of the scenes, personas and states that ``config`` names.

    Raises ConfigError as ``draw`` and ``load_affects`` do, DataError for a bad line of a file.
    """
    triples = read_triples(config.scenes, critic=config.critic)
    personas, quadrants = read_personas(config.personas), load_affects(config.affects)
    return draw(config.n, triples, personas, quadrants, seed=seed, genders=config.genders)


def draw(
    n: int,
    triples: Iterable[Triple],
    personas: Iterable[str],
    quadrants: Sequence[Quadrant],
    *,
    seed: int,
    genders: Sequence[Gender] = GENDERS,
) -> list[Draw]:
    """``n`` draws. No scene and no persona comes twice before all came once; genders, quadrants,
    and the states of a quadrant are as frequent as each other, up to one.

    Raises ConfigError where there are fewer than ``n`` pairs of a neutral scene and persona.
    """
    scenes = _scenes(triples, n, seed)
    people = drawn(personas, n, seed=seed, what="persona", name=str, fit=_is_neutral)
    if n > len(scenes) * len(people):
        raise ConfigError(
            f"{n} contexts were asked for, but {len(scenes)} gender-neutral scenes and "
            f"{len(people)} personas make only {len(scenes) * len(people)}",
            hint="ask for fewer, or give larger files of scenes and personas",
        )
    pairs = _pairs(scenes, people, n, seed)
    states = iter(_states(quadrants, n, seed))
    sexes = balanced(genders, n, seed=seed, what="gender")
    return [
        Draw(scene, persona, gender, *((None, None) if scene.affective else next(states)))
        for (scene, persona), gender in zip(pairs, sexes, strict=True)
    ]


def _scenes(triples: Iterable[Triple], n: int, seed: int) -> list[Scene]:
    neutral = drawn(triples, n, seed=seed, what="scene", name=sentences, fit=is_neutral)
    return [scene_of(triple) for triple in neutral]


def _is_neutral(persona: str) -> bool:
    return gendered_word(persona) is None


def _pairs(
    scenes: Sequence[Scene], people: Sequence[str], n: int, seed: int
) -> list[tuple[Scene, str]]:
    """Scenes and personas in rounds; a pair that was there already gets another persona."""
    in_turn = rounds(scenes, n, seed=seed, what="scene", name=lambda scene: scene.text)
    proposed = rounds(people, n, seed=seed, what="persona", name=str)
    used: set[tuple[str, str]] = set()
    pairs = []
    for scene, persona in zip(in_turn, proposed, strict=True):
        if (scene.text, persona) in used:
            free = (p for p in people if (scene.text, p) not in used)
            persona = min(free, key=lambda p: rank(seed, scene.text, p))
        used.add((scene.text, persona))
        pairs.append((scene, persona))
    return pairs


def _states(quadrants: Sequence[Quadrant], n: int, seed: int) -> list[tuple[str, str]]:
    """``n`` (state, quadrant): quadrants in balance, and the states within each."""
    within = {
        q.name: iter(balanced(q.states, n, seed=seed, what=f"state {q.name}")) for q in quadrants
    }
    names = balanced([q.name for q in quadrants], n, seed=seed, what="quadrant")
    return [(next(within[name]), name) for name in names]


def in_languages(
    draws: Sequence[Draw],
    languages: Sequence[str],
    seed: int,
    *,
    countries: Mapping[str, Sequence[str]] | None = None,
) -> list[SeedContext]:
    """Each draw in each language; the countries of a language in balance.

    Raises ConfigError for a language that is unknown, given twice, or has no country.
    """
    given = countries or {}
    if unknown := set(given) - set(languages):
        raise ConfigError(f"countries of {min(unknown)!r} are given, but not the language")
    if len(set(languages)) < len(languages) or not languages:
        raise ConfigError(f"languages: each once, at least one, not {' '.join(languages)!r}")
    homes = {}
    for lang in languages:
        choice = given.get(lang) or language(lang).countries
        homes[lang] = balanced(choice, len(draws), seed=seed, what=f"country {lang}")
    return [
        each.context(lang, homes[lang][i]) for i, each in enumerate(draws) for lang in languages
    ]


def rank(seed: int, what: str, item: str) -> bytes:
    """Place of ``item`` in the draw ``what``: 16 bytes to sort by."""
    return hashlib.blake2b(f"{seed}\0{what}\0{item}".encode(), digest_size=16).digest()


def drawn(
    stream: Iterable[T],
    count: int,
    *,
    seed: int,
    what: str,
    name: Callable[[T], str],
    fit: Callable[[T], bool],
) -> list[T]:
    """The ``count`` different ``fit`` items of lowest rank, in that order; all where there are
    fewer.

    ``name`` is what an item is known and ranked by; items of one name count once. Holds ``count``
    items at a time, however long the stream, and asks ``fit`` only of what would be drawn.
    """
    lowest: list[tuple[int, str]] = []  # a heap with the highest rank on top
    held: dict[str, T] = {}
    for item in stream:
        known_by = name(item)
        place = -int.from_bytes(rank(seed, what, known_by), "big")
        full = len(lowest) >= count
        if (full and place <= lowest[0][0]) or known_by in held or not fit(item):
            continue
        if full:
            del held[heapq.heapreplace(lowest, (place, known_by))[1]]
        else:
            heapq.heappush(lowest, (place, known_by))
        held[known_by] = item
    return [held[known_by] for _, known_by in sorted(lowest, reverse=True)]


def rounds(
    items: Sequence[T], count: int, *, seed: int, what: str, name: Callable[[T], str]
) -> list[T]:
    """``count`` items: all in their order, then all in another one, and so on."""
    taken = list(items[:count])
    turn = 1
    while len(taken) < count:
        again = sorted(items, key=lambda item: rank(seed, f"{what} {turn}", name(item)))
        taken += again[: count - len(taken)]
        turn += 1
    return taken


def balanced(values: Sequence[T], count: int, *, seed: int, what: str) -> list[T]:
    """``count`` values; at every length each came as often as any other, up to one."""
    places = list(range(len(values)))
    order: list[T] = []
    turn = 0
    while len(order) < count:
        mixed = sorted(places, key=lambda i: rank(seed, f"{what} {turn}", str(i)))
        order += [values[i] for i in mixed]
        turn += 1
    return order[:count]
