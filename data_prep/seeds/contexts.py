"""Seed contexts: what a simulated user gets before the first word (MEDAL, section 3.1.1 and
appendix C.1), drawn or read from a file.

The same seed gives the same contexts, and more of them begin with the same ones. Each has a scene,
persona, gender and state, and exists in every language with a country. Items are drawn by the hash
of their name: the same on every machine, whatever the order of a file's lines.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, TypeVar

from pydantic import Field

from medal_judges.config import Config
from medal_judges.data_prep.seeds.scenes import (
    EMBEDDED,
    HIGH_FILTER,
    Critic,
    Triple,
    affective_word,
    gendered_word,
    is_neutral,
    load_affects,
    read_personas,
    read_triples,
    sentences,
)
from medal_judges.errors import ConfigError
from medal_judges.records.languages import language
from medal_judges.records.signature import content_hash
from medal_judges.records.validation import parse
from medal_judges.storage.jsonl import read_records

T = TypeVar("T")
Gender = Literal["female", "male"]
GENDERS: tuple[Gender, ...] = ("female", "male")


@dataclass(frozen=True, slots=True)
class SeedContext:
    """Scene, persona, gender and affective state of a user, language and country. ``affect`` is
    None if the scene names a feeling. ``lang`` is ISO 639-1, ``country`` a name in English."""

    scene: str
    persona: str
    gender: Gender
    affect: str | None
    lang: str
    country: str

    @property
    def group(self) -> str:
        """What all languages of this context share; splits and clusters use it."""
        return f"ctx-{content_hash([self.scene, self.persona, self.gender, self.affect])}"

    @property
    def id(self) -> str:
        """The same for the same content, in every run."""
        return f"{self.group}-{self.lang}"

    def to_record(self) -> dict[str, Any]:
        """One line of a file of contexts."""
        return {"id": self.id, **asdict(self)}

    def of_dialogue(self) -> dict[str, Any]:
        """For ``Dialogue.context``: all but the language and absent parts."""
        parts = self.to_record()
        return {name: v for name, v in parts.items() if v is not None and name != "lang"}


def parse_context(record: object) -> SeedContext:
    """SeedContext of one JSON object. Raises RecordError that names the field."""
    if isinstance(record, Mapping):  # the id follows from the rest
        record = {name: value for name, value in record.items() if name != "id"}
    return parse(SeedContext, record)


class SeedsConfig(Config):
    """``n`` contexts. ``scenes`` and ``personas`` are ``embedded`` or a published file (scenes.py);
    ``critic`` is the field of a scenes file that says which to keep. ``file``: contexts that
    ``medal data seeds`` wrote, instead of drawn ones."""

    n: int = Field(default=400, ge=1)
    file: str | None = None
    scenes: str = EMBEDDED
    personas: str = EMBEDDED
    critic: Critic | None = HIGH_FILTER


class Draw(NamedTuple):
    """A context without a language; ``affect`` and ``quadrant`` are None if the scene names a
    feeling. ``relation`` is the scene's."""

    scene: str
    relation: str
    persona: str
    gender: Gender
    affect: str | None
    quadrant: str | None


def contexts_for(config: SeedsConfig, languages: Sequence[str], seed: int) -> list[SeedContext]:
    """``config.n`` contexts in each language, context by context, in the order of ``languages``.

    Raises ConfigError for an unknown language and if there are fewer than n different ones;
    DataError for a bad line of a file.
    """
    if config.file is None:
        return in_languages(draws_for(config, seed), languages, seed)
    groups: dict[str, dict[str, SeedContext]] = {}
    for context in read_records(config.file, parse_context):
        groups.setdefault(context.group, {})[context.lang] = context
    if len(groups) < config.n:
        raise ConfigError(
            f"contexts: {config.file} has {len(groups)} contexts, not {config.n}",
            hint=f"contexts.n={len(groups)}",
        )
    chosen = list(groups.items())[: config.n]
    for name, contexts in chosen:
        if missing := [lang for lang in languages if lang not in contexts]:
            raise ConfigError(
                f"contexts: {name} in {config.file} has no {missing[0]!r}",
                hint=f"it has: {', '.join(contexts)}; medal data seeds --lang adds languages",
            )
    return [contexts[lang] for _, contexts in chosen for lang in languages]


def draws_for(config: SeedsConfig, seed: int) -> list[Draw]:
    """``config.n`` draws from the scenes and personas that ``config`` names. Raises ConfigError,
    and DataError for a bad line of a file."""
    triples = read_triples(config.scenes, critic=config.critic)
    return draw(config.n, triples, read_personas(config.personas), seed=seed)


def draw(n: int, triples: Iterable[Triple], personas: Iterable[str], *, seed: int) -> list[Draw]:
    """``n`` draws. All scenes and all personas occur once before one occurs twice; genders,
    quadrants, and the states of a quadrant are equally frequent, up to one.

    Raises ConfigError if there are fewer than ``n`` pairs of a neutral scene and persona.
    """
    neutral = _lowest(triples, n, seed, "scene", name=sentences, fits=is_neutral)
    scenes = {sentences(triple): triple for triple in neutral}
    people = _lowest(
        personas, n, seed, "persona", name=str, fits=lambda p: gendered_word(p) is None
    )
    if n > len(scenes) * len(people):
        raise ConfigError(
            f"{n} contexts were requested, but {len(scenes)} gender-neutral scenes and "
            f"{len(people)} personas make only {len(scenes) * len(people)}",
            hint="request fewer, or give larger files of scenes and personas",
        )
    quadrants = load_affects()
    within = {
        name: iter(_balanced(states, n, seed, f"state {name}"))
        for name, states in quadrants.items()
    }
    in_turn = iter(_balanced(list(quadrants), n, seed, "quadrant"))
    used: set[tuple[str, str]] = set()
    draws = []
    for scene, persona, gender in zip(
        _rounds(list(scenes), n, seed, "scene"),
        _rounds(people, n, seed, "persona"),
        _balanced(GENDERS, n, seed, "gender"),
        strict=True,
    ):
        if (scene, persona) in used:  # this scene gets another persona
            free = (p for p in people if (scene, p) not in used)
            persona = min(free, key=lambda p: _rank(seed, scene, p))
        used.add((scene, persona))
        quadrant = None if affective_word(scene) else next(in_turn)
        affect = next(within[quadrant]) if quadrant else None
        draws.append(Draw(scene, scenes[scene].relation, persona, gender, affect, quadrant))
    return draws


def in_languages(draws: Sequence[Draw], languages: Sequence[str], seed: int) -> list[SeedContext]:
    """Each draw in each language; the countries of a language are equally frequent.

    Raises ConfigError for a language that is unknown or given twice.
    """
    if len(set(languages)) < len(languages) or not languages:
        raise ConfigError(f"languages: each once, at least one, not {' '.join(languages)!r}")
    homes = {
        lang: _balanced(language(lang).countries, len(draws), seed, f"country {lang}")
        for lang in languages
    }
    return [
        SeedContext(each.scene, each.persona, each.gender, each.affect, lang, homes[lang][i])
        for i, each in enumerate(draws)
        for lang in languages
    ]


def _rank(seed: int, what: str, item: str) -> bytes:
    """Place of ``item`` in the draw ``what``: 16 bytes to sort by."""
    return hashlib.blake2b(f"{seed}\0{what}\0{item}".encode(), digest_size=16).digest()


def _lowest(
    stream: Iterable[T],
    count: int,
    seed: int,
    what: str,
    *,
    name: Callable[[T], str],
    fits: Callable[[T], bool],
) -> list[T]:
    """The ``count`` items of lowest rank that fit, in that order; items of one name count once.
    Memory holds ``count`` items, and ``fits`` is called only for items of low rank."""
    lowest: list[tuple[int, str]] = []  # a heap with the highest rank on top
    held: dict[str, T] = {}
    for item in stream:
        key = name(item)
        place = -int.from_bytes(_rank(seed, what, key), "big")
        full = len(lowest) >= count
        if (full and place <= lowest[0][0]) or key in held or not fits(item):
            continue
        if full:
            del held[heapq.heapreplace(lowest, (place, key))[1]]
        else:
            heapq.heappush(lowest, (place, key))
        held[key] = item
    return [held[key] for _, key in sorted(lowest, reverse=True)]


def _rounds(items: Sequence[str], count: int, seed: int, what: str) -> list[str]:
    """``count`` items: all in their order, then all in another order, and so on."""
    chosen = list(items[:count])
    turn = 1
    while len(chosen) < count:
        again = sorted(items, key=lambda item: _rank(seed, f"{what} {turn}", item))
        chosen += again[: count - len(chosen)]
        turn += 1
    return chosen


def _balanced(values: Sequence[T], count: int, seed: int, what: str) -> list[T]:
    """``count`` values; at every length all are equally frequent, up to one."""
    order: list[T] = []
    for turn in range(-(-count // len(values))):
        places = range(len(values))
        mixed = sorted(places, key=lambda i: _rank(seed, f"{what} {turn}", str(i)))
        order += [values[i] for i in mixed]
    return order[:count]
