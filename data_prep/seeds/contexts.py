"""Seed contexts: what a simulated user is told before the first word (MEDAL, section 3.1.1 and
appendix C.1), drawn or read from a file.

Scenes and personas come from the embedded sets in configs/seeds/, or from two public files:

ATOMIC-10X (West et al., 2022, "Symbolic Knowledge Distillation", CC-BY-4.0): ``ATOMIC10X.jsonl``,
one triple a line with ``head``, ``relation``, ``tail`` and ``rec_0.5`` (true if the critic keeps
the triple at an expected recall of 0.5, the authors' high filter).

PersonaHub (Ge et al., 2024, CC-BY-NC-SA-4.0): ``persona.jsonl`` of proj-persona/PersonaHub on the
Hub, one ``{"persona": ...}`` a line; its other parts call it ``input persona``."""

from __future__ import annotations

import hashlib
import heapq
import itertools
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from pydantic import Field

from medal_judges.config import Config, read_yaml
from medal_judges.errors import ConfigError, DataError, RecordError
from medal_judges.records.dialogue import language
from medal_judges.records.signature import content_hash
from medal_judges.records.validation import parse, parse_text
from medal_judges.storage.jsonl import read_records

T = TypeVar("T")
EMBEDDED = "embedded"
CRITIC = "rec_0.5"  # the authors' high filter

# -- words -----------------------------------------------------------------------------------------

# A letter or digit beside a word makes it another word; an underscore or a hyphen does not.
_WHOLE = r"(?<![^\W_])(?:{})(?![^\W_])"


def find_gendered_word(text: str) -> str | None:
    """Returns the first word of ``text`` that reveals a gender, such as ``brother``. Returns None
    if there is none."""
    return _find_listed_word("gendered_words", text)


def find_feeling_word(text: str) -> str | None:
    """Returns the first word or phrase of ``text`` that names a feeling, such as ``happy``. Returns
    None if there is none. A negated feeling (``not happy``) counts too."""
    return _find_listed_word("affect_words", text)


def _find_listed_word(name: str, text: str) -> str | None:
    """Returns the first word of ``text`` in the list configs/seeds/``name``.yaml, or None."""
    text = unicodedata.normalize("NFKC", text).replace("’", "'")
    matches = (pattern.search(text) for pattern in _load_patterns(name))
    return next((match[0] for match in matches if match), None)


@cache
def _load_patterns(name: str) -> list[re.Pattern[str]]:
    """Returns regular expressions that match the words in configs/seeds/``name``.yaml.

    Case is ignored, except for the words in the file's list ``exact``.
    """
    lists = read_yaml(f"seeds/{name}")
    exact = [re.escape(word) for word in lists.pop("exact", [])]
    phrases = [phrase.replace(" ", r"\s+") for phrase in lists.pop("phrases", [])]
    words = set(" ".join(lists.values()).split())
    # Longest first, so that the reported word is the whole one.
    longest_first = sorted(words, key=lambda word: (-len(word), word))
    choices = "|".join([*map(re.escape, longest_first), *phrases])
    patterns = [re.compile(_WHOLE.format(choices), re.IGNORECASE)]
    if exact:
        patterns.append(re.compile(_WHOLE.format("|".join(exact))))
    return patterns


# -- scenes ----------------------------------------------------------------------------------------


class Triple(NamedTuple):
    """Two events (head and tail) and the relation between them, from the data set ATOMIC. An
    example is ``PersonX drops something``, ``xReact`` and ``annoyed``."""

    head: str
    relation: str
    tail: str


@cache
def load_relations() -> dict[str, Any]:
    """Returns the content of configs/seeds/relations.yaml: templates that turn pairs of events into
    sentences, and lists of words.

    Returns:
        A dict with ``relations`` (relation, such as ``xReact`` -> its templates) and ``spellings``
        (other spelling of a relation -> its name). ``subjects`` lists beginnings of whole clauses,
        such as ``PersonX``. ``small`` lists words that lose their capital inside a sentence, such
        as ``The``.
    """
    return read_yaml("seeds/relations")


def to_sentences(triple: Triple) -> str:
    """Returns ``triple`` in words, such as ``PersonX drops something. Now PersonX
    feels annoyed.``"""
    relations = load_relations()
    template = relations["relations"][triple.relation]
    head = triple.head.rstrip(" .")
    tail = triple.tail.rstrip(" .")
    first, _, following = tail.partition(" ")
    # "The sea is rough"; names keep their capital
    if following and first in relations["small"]:
        tail = f"{first.lower()} {following}"
    if tail.startswith(tuple(relations["subjects"])):
        text = template["clause"].format(head=head, tail=tail)
    else:
        for word in template.get("drop", ()):  # "to feel sad" without "to" and "feel"
            first, _, following = tail.partition(" ")
            if following and first.lower() == word:
                tail = following
        text = template["phrase"].format(head=head, tail=tail)
    return str(text[:1].upper() + text[1:])


def is_gender_neutral(triple: Triple) -> bool:
    """Returns whether neither event of ``triple`` reveals a gender."""
    return find_gendered_word(f"{triple.head} . {triple.tail}") is None


def parse_triple(record: object) -> Triple:
    """Returns the triple in ``record``, a JSON object with ``head``, ``relation`` and ``tail``.

    Raises:
        RecordError: A field is missing or empty, or the relation is unknown.
    """
    if not isinstance(record, Mapping):
        raise RecordError("(line)", "a JSON object", record)
    relations = load_relations()
    spelling = record.get("relation")
    relation = ""
    if isinstance(spelling, str):
        relation = relations["spellings"].get(spelling, spelling)
    if relation not in relations["relations"]:
        raise RecordError(
            "relation", f"one of {', '.join(relations['relations'])}", spelling
        )
    events = []
    for field in ("head", "tail"):
        events.append(" ".join(parse_text(field, record.get(field)).split()))
        if not events[-1].strip(" ."):
            raise RecordError(field, "an event in words", record.get(field))
    return Triple(events[0], relation, events[1])


# -- readers ---------------------------------------------------------------------------------------


def read_good_triples(path: str | Path) -> Iterator[Triple]:
    """Yields event triples from a JSONL file of ATOMIC-10X, without the triples that its quality
    classifier (the "critic") rejected.

    Args:
        path: The file (.gz too), or ``embedded`` for the triples shipped with the package.

    Raises:
        DataError: The file is missing or a line is malformed. The error names file, line and field.
    """
    if path == EMBEDDED:
        return itertools.starmap(Triple, read_yaml("seeds/scenes")["scenes"])

    def parse(record: object) -> Triple | None:
        triple = parse_triple(record)
        assert isinstance(record, Mapping)  # parse_triple raises for anything else
        keeps = record.get(CRITIC, True)
        if not isinstance(keeps, bool):
            raise RecordError(CRITIC, "true or false, the critic's word", keeps)
        if keeps:
            return triple
        return None

    return filter(None, _read_seed_file(path, parse))


def read_personas(path: str | Path) -> Iterator[str]:
    """Yields personas, such as ``A beekeeper who paints``, from a JSONL file of PersonaHub.

    Args:
        path: The file (.gz too), or ``embedded`` for the personas shipped with the package.

    Raises:
        DataError: The file is missing or a line is malformed. The error names file, line and field.
    """
    if path == EMBEDDED:
        return iter(read_yaml("seeds/personas")["personas"])

    def parse(record: object) -> str:
        if not isinstance(record, dict):
            raise RecordError("(line)", "a JSON object", record)
        field = "input persona" if "input persona" in record else "persona"
        persona = " ".join(parse_text(field, record.get(field)).split())
        if not persona:
            raise RecordError(field, "a persona in words", record.get(field))
        return persona

    return _read_seed_file(path, parse)


def _read_seed_file(path: str | Path, parse: Callable[[object], T]) -> Iterator[T]:
    """Yields what ``parse`` returns for each line of the JSONL file ``path``.

    Args:
        parse: Takes the JSON value of a line.

    Raises:
        DataError: The file is missing.
    """
    if not Path(path).is_file():
        raise DataError(
            path,
            None,
            "no such file of scenes or personas",
            hint="Give the path of the file as published (ATOMIC10X.jsonl, persona.jsonl), or "
            "'embedded' for the shipped set (contexts.scenes=embedded, contexts.personas=embedded)",
        )
    return read_records(path, parse)


Gender = Literal["female", "male"]
GENDERS: tuple[Gender, ...] = ("female", "male")


@dataclass(frozen=True, slots=True)
class SeedContext:
    """What a simulated user is told about itself.

    Attributes:
        scene: What happened, such as ``PersonX drops something.``
        persona: Who the user is, such as ``A beekeeper who paints``.
        gender: ``female`` or ``male``.
        affect: The user's feeling, such as ``curious``. None if the scene names a feeling.
        lang: ISO 639-1 code of the language, such as ``pt``.
        country: English name of the user's country, such as ``Brazil``.
    """

    scene: str
    persona: str
    gender: Gender
    affect: str | None
    lang: str
    country: str

    @property
    def group(self) -> str:
        """An id of the context that is the same in every language. Dialogues with the same group
        stay together when data is split into training, validation and test."""
        return (
            f"ctx-{content_hash([self.scene, self.persona, self.gender, self.affect])}"
        )

    @property
    def id(self) -> str:
        """The id of the context: its group and its language."""
        return f"{self.group}-{self.lang}"

    def to_record(self) -> dict[str, Any]:
        """Returns the fields of the context and its id as a dict, a line of the file that
        ``medal data seeds`` writes."""
        return {"id": self.id, **asdict(self)}


def parse_context(record: object) -> SeedContext:
    """Returns the seed context in ``record``, a line of the file that ``medal data seeds`` writes.

    Raises:
        RecordError: A field is missing, malformed or unknown. The error names the field.
    """
    if isinstance(record, Mapping):  # the id follows from the rest
        record = {name: value for name, value in record.items() if name != "id"}
    return parse(SeedContext, record)


class SeedsConfig(Config):
    """Settings of the seed contexts, which tell simulated users about themselves.

    Attributes:
        n: The number of contexts in each language.
        file: A file of contexts that ``medal data seeds`` wrote. Its first ``n`` contexts are used,
            and ``scenes`` and ``personas`` are ignored.
        scenes: ``embedded`` (shipped), or the path of the published ATOMIC10X.jsonl.
        personas: ``embedded`` (shipped), or the path of the published persona.jsonl.
    """

    n: int = Field(default=400, ge=1)
    file: str | None = None
    scenes: str = EMBEDDED
    personas: str = EMBEDDED


class DrawnContext(NamedTuple):
    """A seed context (what a simulated user is told about itself) before it gets a language and
    a country.

    Attributes:
        scene: What happened.
        relation: The ATOMIC relation of the scene, such as ``xReact``.
        persona: Who the user is, such as ``A beekeeper who paints``.
        gender: ``female`` or ``male``.
        affect: The user's feeling, such as ``curious``. None if the scene names a feeling.
        quadrant: The class of ``affect`` (Russell, 1980), such as ``pleasant_activated``. None if
            ``affect`` is None.
    """

    scene: str
    relation: str
    persona: str
    gender: Gender
    affect: str | None
    quadrant: str | None


def make_contexts(
    config: SeedsConfig, languages: Sequence[str], seed: int
) -> list[SeedContext]:
    """Returns ``config.n`` seed contexts (what simulated users are told about themselves) in each
    of ``languages``.

    The list has the first context in all languages, then the second, and so on. Contexts are read
    from ``config.file`` if that is set, otherwise drawn at random with ``seed``.

    Args:
        config: The number of contexts, and the files to read or to draw from.
        languages: Language codes, such as ``pt``.
        seed: The random seed.

    Raises:
        ConfigError: A language is unknown, or there are too few contexts.
        DataError: A file is missing, or a line of it is malformed.
    """
    if config.file is None:
        return add_languages_and_countries(
            draw_contexts_from_config(config, seed), languages, seed
        )
    groups: dict[str, dict[str, SeedContext]] = {}
    for context in read_records(config.file, parse_context):
        groups.setdefault(context.group, {})[context.lang] = context
    if len(groups) < config.n:
        raise ConfigError(
            f"contexts: {config.file} has {len(groups)} contexts, not {config.n}",
            hint=f"Type contexts.n={len(groups)}",
        )
    groups = dict(itertools.islice(groups.items(), config.n))
    for name, contexts in groups.items():
        if missing := [lang for lang in languages if lang not in contexts]:
            raise ConfigError(
                f"contexts: {name} in {config.file} has no {missing[0]!r}",
                hint=f"Use one of: {', '.join(contexts)}. More: medal data seeds --lang",
            )
    chosen: list[SeedContext] = []
    for contexts in groups.values():
        chosen += [contexts[lang] for lang in languages]
    return chosen


def draw_contexts_from_config(config: SeedsConfig, seed: int) -> list[DrawnContext]:
    """Draws ``config.n`` seed contexts (what simulated users are told about themselves), still
    without a language.

    Args:
        config: The number of contexts, and the files of scenes and personas.
        seed: The random seed.

    Raises:
        ConfigError: There are too few scenes and personas.
        DataError: A file is missing, or a line of it is malformed.
    """
    triples = read_good_triples(config.scenes)
    return draw_contexts(config.n, triples, read_personas(config.personas), seed=seed)


def draw_contexts(
    n: int,
    triples: Iterable[Triple],
    personas: Iterable[str],
    *,
    seed: int,
) -> list[DrawnContext]:
    """Draws seed contexts (what simulated users are told about themselves), still without
    a language.

    Scenes and personas that reveal a gender are left out. Scenes, personas, genders and classes of
    feelings are used about equally often.

    Args:
        n: The number of contexts.
        triples: Triples (two events and their relation), from which scenes are made.
        personas: Descriptions of users, such as ``A beekeeper who paints``.
        seed: The random seed. With the same seed, a larger ``n`` only adds contexts at the end.

    Raises:
        ConfigError: Fewer than ``n`` pairs of a scene and a persona are left.
    """
    neutral = _sample_distinct(
        triples,
        n,
        seed,
        "scene",
        name=to_sentences,
        fits=is_gender_neutral,
    )
    scenes = {to_sentences(triple): triple for triple in neutral}
    people = _sample_distinct(
        personas,
        n,
        seed,
        "persona",
        name=str,
        fits=lambda p: find_gendered_word(p) is None,
    )
    if n > len(scenes) * len(people):
        raise ConfigError(
            f"{n} contexts were requested, but {len(scenes)} gender-neutral scenes and "
            f"{len(people)} personas make only {len(scenes) * len(people)}",
            hint="Type a lower number, or give larger files of scenes and personas",
        )
    # The quadrants of the circumplex (Russell, 1980) with their states.
    quadrants = read_yaml("seeds/affects")
    states = {}
    for name, names in quadrants.items():
        states[name] = iter(_repeat_evenly(names, n, seed, f"state {name}"))
    in_turn = iter(_repeat_evenly(list(quadrants), n, seed, "quadrant"))
    used: set[tuple[str, str]] = set()
    draws = []
    for scene, persona, gender in zip(
        _repeat_in_rounds(list(scenes), n, seed, "scene"),
        _repeat_in_rounds(people, n, seed, "persona"),
        _repeat_evenly(GENDERS, n, seed, "gender"),
        strict=True,
    ):
        if (scene, persona) in used:  # this scene gets another persona
            free = (person for person in people if (scene, person) not in used)
            persona = min(
                free, key=lambda person: _random_sort_key(seed, scene, person)
            )
        used.add((scene, persona))
        quadrant = affect = None
        if find_feeling_word(scene) is None:
            quadrant = next(in_turn)
            affect = next(states[quadrant])
        relation = scenes[scene].relation
        draws.append(DrawnContext(scene, relation, persona, gender, affect, quadrant))
    return draws


def add_languages_and_countries(
    draws: Sequence[DrawnContext], languages: Sequence[str], seed: int
) -> list[SeedContext]:
    """Returns each of ``draws`` in each of ``languages``, with a country where the language
    is spoken.

    All countries of a language are used about equally often.

    Args:
        draws: Seed contexts (what simulated users are told about themselves) without a language.
        languages: Language codes, such as ``pt``.
        seed: Determines the order of countries.

    Raises:
        ConfigError: A language is unknown or repeated, or there is none.
    """
    if len(set(languages)) < len(languages) or not languages:
        raise ConfigError(
            f"languages: give one or more, each once, not {' '.join(languages)!r}"
        )
    countries = {}
    for lang in languages:
        names = language(lang).countries
        countries[lang] = iter(
            _repeat_evenly(names, len(draws), seed, f"country {lang}")
        )
    contexts = []
    for drawn in draws:
        user = (drawn.scene, drawn.persona, drawn.gender, drawn.affect)
        contexts += [
            SeedContext(*user, lang, next(countries[lang])) for lang in languages
        ]
    return contexts


def _random_sort_key(seed: int, purpose: str, item: str) -> bytes:
    """Returns a pseudo-random sort key for ``item``. It depends only on ``seed``, ``purpose``
    and ``item``."""
    text = f"{seed}\0{purpose}\0{item}"
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _sample_distinct(
    stream: Iterable[T],
    count: int,
    seed: int,
    purpose: str,
    *,
    name: Callable[[T], str],
    fits: Callable[[T], bool],
) -> list[T]:
    """Returns a random sample of ``count`` distinct items of ``stream``, in random order, or all
    distinct items if there are fewer.

    At most ``count`` items are in memory.

    Args:
        seed: Determines the sample, together with ``purpose``.
        purpose: A name for this sample, so that samples with one seed are independent.
        name: Names an item. Items with the same name count as one.
        fits: Returns whether an item may be in the sample.
    """
    lowest: list[tuple[int, str]] = []  # a heap with the highest rank on top
    items: dict[str, T] = {}
    for item in stream:
        key = name(item)
        rank = -int.from_bytes(_random_sort_key(seed, purpose, key), "big")
        is_full = len(lowest) >= count
        # ``fits`` is last, because it may be slow.
        if (is_full and rank <= lowest[0][0]) or key in items or not fits(item):
            continue
        if is_full:
            _, highest = heapq.heapreplace(lowest, (rank, key))
            del items[highest]
        else:
            heapq.heappush(lowest, (rank, key))
        items[key] = item
    return [items[key] for _, key in sorted(lowest, reverse=True)]


def _repeat_in_rounds(
    items: Sequence[str],
    count: int,
    seed: int,
    purpose: str,
) -> list[str]:
    """Returns ``count`` strings from ``items``: first all in their order, then all again in a
    random order, and so on.

    Args:
        purpose: A name for this use, so that orders with one seed are independent.
    """
    chosen = list(items[:count])
    turn = 1
    while len(chosen) < count:
        again = sorted(
            items, key=lambda item: _random_sort_key(seed, f"{purpose} {turn}", item)
        )
        chosen += again[: count - len(chosen)]
        turn += 1
    return chosen


def _repeat_evenly(
    values: Sequence[T],
    count: int,
    seed: int,
    purpose: str,
) -> list[T]:
    """Returns ``count`` items from ``values`` in random order. How often two values occur differs
    by at most one.

    Args:
        purpose: A name for this use, so that orders with one seed are independent.
    """
    order: list[T] = []
    for turn in range(-(-count // len(values))):
        mixed = sorted(
            range(len(values)),
            key=lambda i: _random_sort_key(seed, f"{purpose} {turn}", str(i)),
        )
        order += [values[i] for i in mixed]
    return order[:count]
