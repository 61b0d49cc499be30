"""Scenes, personas and affective states of seed contexts (MEDAL, appendix C.1): readers of the
embedded sets in configs/seeds/ and of the two public sets as published, triples as sentences, and
words that reveal a gender or a feeling. Readers stream.

ATOMIC-10X (West et al., 2022, "Symbolic Knowledge Distillation", CC-BY-4.0): ``ATOMIC10X.jsonl``,
one triple a line with ``head``, ``relation``, ``tail``, ``split``, ``rec_0.5`` ... ``rec_0.9``
(true if the critic keeps the triple at that expected recall; 0.5 is the authors' high filter) and
``p_valid_model``, after the read-me of github.com/peterwestai2/symbolic-knowledge-distillation.

PersonaHub (Ge et al., 2024, CC-BY-NC-SA-4.0): ``persona.jsonl`` of proj-persona/PersonaHub on the
Hub, one ``{"persona": ...}`` a line; its other parts call it ``input persona``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, TypeVar

from medal_judges.config import Config, build_config, read_yaml
from medal_judges.errors import ConfigError, DataError, RecordError
from medal_judges.records.validation import text
from medal_judges.storage.jsonl import read_records

T = TypeVar("T")
EMBEDDED = "embedded"
Critic = Literal["rec_0.5", "rec_0.6", "rec_0.7", "rec_0.8", "rec_0.9"]
HIGH_FILTER: Critic = "rec_0.5"

# -- words -----------------------------------------------------------------------------------------

# A letter or digit beside a word makes it another word; an underscore or a hyphen does not.
_WHOLE = r"(?<![^\W_])(?:{})(?![^\W_])"
_HIDING = {"Cf", "Mn"}  # zero-width marks and separate accents, which could hide a word
_APOSTROPHES = str.maketrans({"’": "'", "‘": "'", "ʼ": "'"})


def gendered_word(text: str) -> str | None:
    """The first whole word of ``text`` that reveals a gender (configs/seeds/gendered_words.yaml);
    None if it is neutral. Strict: a scene in which PersonX calls a brother is not neutral."""
    return _first("gendered_words", text)


def affective_word(text: str) -> str | None:
    """The first word or phrase of ``text`` that names a feeling (configs/seeds/affect_words.yaml),
    also a denied one (``not happy``); None if there is none."""
    return _first("affect_words", text)


def _first(name: str, text: str) -> str | None:
    if not text.isascii():
        folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFC", text))
        text = "".join(c for c in folded if unicodedata.category(c) not in _HIDING)
        text = text.translate(_APOSTROPHES)
    found = (pattern.search(text) for pattern in _patterns(name))
    return next((match[0] for match in found if match), None)


@cache
def _patterns(name: str) -> list[re.Pattern[str]]:
    """All words and phrases in any case, then those under ``exact`` as written."""
    lists = read_yaml(f"seeds/{name}")
    exact = [re.escape(word) for word in lists.pop("exact", [])]
    phrases = [phrase.replace(" ", r"\s+") for phrase in lists.pop("phrases", [])]
    words = {word for listed in lists.values() for word in listed.split()}
    # Longest first, so that the reported word is the whole one.
    plain = [re.escape(word) for word in sorted(words, key=lambda w: (-len(w), w))]
    either = re.compile(_WHOLE.format("|".join([*plain, *phrases])), re.IGNORECASE)
    return [either, *([re.compile(_WHOLE.format("|".join(exact)))] if exact else [])]


# -- scenes ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Triple:
    """Two events and their relation: ``PersonX drops something``, ``xReact``, ``annoyed``."""

    head: str
    relation: str
    tail: str


@dataclass(frozen=True, slots=True)
class Scene:
    """A triple as sentences. ``affective``: it names a feeling, so no state is added."""

    text: str
    relation: str
    affective: bool


class RelationTemplate(Config):
    """``phrase`` is for a tail that continues the subject, after the words ``drop`` are removed
    from its front; ``clause`` for a tail that is a sentence."""

    phrase: str
    clause: str
    drop: tuple[str, ...] = ()


class Relations(Config):
    """configs/seeds/relations.yaml: ``subjects`` open a tail that is a sentence, ``small`` ones
    lose their capital; ``spellings`` maps another name of a relation to ours."""

    subjects: tuple[str, ...]
    small: tuple[str, ...] = ()
    relations: Mapping[str, RelationTemplate]
    spellings: Mapping[str, str] = {}


@cache
def load_relations() -> Relations:
    """The shipped templates."""
    return build_config(Relations, read_yaml("seeds/relations"), where="seeds/relations.yaml")


def sentences(triple: Triple) -> str:
    """The triple in words, such as ``PersonX drops something. Now PersonX feels annoyed.``"""
    known = load_relations()
    template = known.relations[triple.relation]
    head, tail = triple.head.rstrip(" ."), triple.tail.rstrip(" .")
    first, _, rest = tail.partition(" ")
    if rest and first in known.small:  # "The sea is rough"; names keep their capital
        tail = f"{first.lower()} {rest}"
    if tail.startswith(known.subjects):
        said = template.clause.format(head=head, tail=tail)
    else:
        for word in template.drop:  # "to feel sad" without "to" and "feel"
            first, _, rest = tail.partition(" ")
            tail = rest if rest and first.lower() == word else tail
        said = template.phrase.format(head=head, tail=tail)
    return said[:1].upper() + said[1:]


def scene_of(triple: Triple) -> Scene:
    """The triple as sentences, and whether they name a feeling."""
    said = sentences(triple)
    return Scene(said, triple.relation, affective_word(said) is not None)


def is_neutral(triple: Triple) -> bool:
    """Whether neither event reveals a gender: MEDAL leaves out scenes that do."""
    return gendered_word(f"{triple.head} . {triple.tail}") is None


def parse_triple(record: object) -> Triple:
    """Triple of an object with ``head``, ``relation`` and ``tail``.

    Raises RecordError for a missing or empty field, or a relation without a template.
    """
    if not isinstance(record, Mapping):
        raise RecordError("(line)", "a JSON object", record)
    known, given = load_relations(), record.get("relation")
    relation = known.spellings.get(given, given) if isinstance(given, str) else ""
    if relation not in known.relations:
        raise RecordError("relation", f"one of {', '.join(known.relations)}", given)
    events = []
    for field in ("head", "tail"):
        events.append(" ".join(text(field, record.get(field)).split()))
        if not events[-1].strip(" ."):
            raise RecordError(field, "an event in words", record.get(field))
    return Triple(events[0], relation, events[1])


# -- readers ---------------------------------------------------------------------------------------


def read_triples(path: str | Path, *, critic: str | None = HIGH_FILTER) -> Iterator[Triple]:
    """The embedded triples, or those of a JSONL file (.gz too) that the critic keeps by the
    field ``critic``; None keeps all, also of a file without that field.

    Raises DataError with file, line and field for a bad line.
    """
    if path == EMBEDDED:
        names = ("head", "relation", "tail")
        scenes = read_yaml("seeds/scenes")["scenes"]
        return (parse_triple(dict(zip(names, each, strict=True))) for each in scenes)

    def parse(record: object) -> Triple | None:
        triple = parse_triple(record)
        if critic is None:
            return triple
        kept = record.get(critic) if isinstance(record, dict) else None
        if not isinstance(kept, bool):
            expected = "true or false, the critic's word (critic: null reads triples without it)"
            raise RecordError(critic, expected, kept)
        return triple if kept else None

    return (triple for triple in _records(path, parse) if triple is not None)


def read_personas(path: str | Path) -> Iterator[str]:
    """The embedded personas, or those of a JSONL file (.gz too). Raises DataError."""
    if path == EMBEDDED:
        return iter(read_yaml("seeds/personas")["personas"])

    def parse(record: object) -> str:
        if not isinstance(record, dict):
            raise RecordError("(line)", "a JSON object", record)
        field = next((f for f in ("persona", "input persona") if f in record), "persona")
        persona = " ".join(text(field, record.get(field)).split())
        if not persona:
            raise RecordError(field, "a persona in words", record.get(field))
        return persona

    return _records(path, parse)


def _records(path: str | Path, parse: Callable[[object], T]) -> Iterator[T]:
    if not Path(path).is_file():
        raise DataError(
            path,
            None,
            "no such file of scenes or personas",
            hint="give the path of the file as published (ATOMIC10X.jsonl, persona.jsonl), or "
            "'embedded' for the shipped set (contexts.scenes=embedded, contexts.personas=embedded)",
        )
    return read_records(path, parse)


def load_affects(where: str = EMBEDDED) -> dict[str, tuple[str, ...]]:
    """The affective states of each quadrant of the circumplex (Russell, 1980), embedded or of a
    YAML file. Raises ConfigError if a quadrant is empty or a state occurs twice."""

    class Affects(Config):
        pleasant_activated: tuple[str, ...]
        pleasant_calm: tuple[str, ...]
        unpleasant_calm: tuple[str, ...]
        unpleasant_activated: tuple[str, ...]

    path = "seeds/affects" if where == EMBEDDED else where
    quadrants = dict(build_config(Affects, read_yaml(path), where=path))
    states = [state for each in quadrants.values() for state in each]
    if not all(quadrants.values()) or len(set(states)) < len(states):
        raise ConfigError(f"{path}: each quadrant needs states, and a state may occur only once")
    return quadrants
