"""Scenes: event triples of a commonsense graph, as sentences (MEDAL, appendix C.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from medal_judges.config import Config, build_config, read_yaml
from medal_judges.data_prep.seeds.keywords import affective_word, gendered_word
from medal_judges.errors import RecordError
from medal_judges.records.validation import text


@dataclass(frozen=True, slots=True)
class Triple:
    """Two events and how they are related: ``PersonX drops something``, ``xReact``, ``annoyed``."""

    head: str
    relation: str
    tail: str


@dataclass(frozen=True, slots=True)
class Scene:
    """A triple as sentences. ``affective``: it names a feeling, so none is to be added."""

    text: str
    relation: str
    affective: bool


class RelationTemplate(Config):
    """``phrase`` takes a tail that goes on from the subject, after the words ``drop`` are taken
    off its front; ``clause`` takes a tail that is a sentence."""

    phrase: str
    clause: str
    drop: tuple[str, ...] = ()


class Relations(Config):
    """configs/seeds/relations.yaml: ``subjects`` open a tail that is a sentence, ``small``
    ones lose their capital; ``spellings`` maps another name of a relation to ours."""

    subjects: tuple[str, ...]
    small: tuple[str, ...] = ()
    relations: Mapping[str, RelationTemplate]
    spellings: Mapping[str, str] = {}


@cache
def load_relations() -> Relations:
    """The templates as shipped."""
    where = "seeds/relations"
    return build_config(Relations, read_yaml(where), where=f"{where}.yaml")


def parse_triple(record: object) -> Triple:
    """Triple of an object with ``head``, ``relation`` and ``tail``; other fields are ignored.

    Raises RecordError that names the field: missing, empty, or a relation without a template.
    """
    if not isinstance(record, Mapping):
        raise RecordError("(line)", "a JSON object", record)
    known = load_relations()
    given = record.get("relation")
    relation = known.spellings.get(given, given) if isinstance(given, str) else ""
    if relation not in known.relations:
        raise RecordError("relation", f"one of {', '.join(known.relations)}", given)
    return Triple(_event(record, "head"), relation, _event(record, "tail"))


def _event(record: Mapping[str, object], field: str) -> str:
    said = " ".join(text(field, record.get(field)).split())
    if not said.strip(" ."):
        raise RecordError(field, "an event in words", record.get(field))
    return said


def sentences(triple: Triple) -> str:
    """The triple in words, such as ``PersonX drops something. Now PersonX feels annoyed.``"""
    known = load_relations()
    template = known.relations[triple.relation]
    head, tail = triple.head.rstrip(" ."), _small(triple.tail.rstrip(" ."), known.small)
    if tail.startswith(known.subjects):
        said = template.clause.format(head=head, tail=tail)
    else:
        said = template.phrase.format(head=head, tail=_dropped(tail, template.drop))
    return said[:1].upper() + said[1:]


def scene_of(triple: Triple) -> Scene:
    """The triple as sentences, and whether they name a feeling."""
    said = sentences(triple)
    return Scene(said, triple.relation, affective_word(said) is not None)


def is_neutral(triple: Triple) -> bool:
    """Whether neither event reveals a gender: scenes that do are left out, as in MEDAL."""
    return gendered_word(f"{triple.head} . {triple.tail}") is None


def _small(tail: str, openings: tuple[str, ...]) -> str:
    """``The sea is rough`` goes into the middle of a sentence; names keep their capital."""
    first, _, rest = tail.partition(" ")
    return f"{first.lower()} {rest}" if rest and first in openings else tail


def _dropped(tail: str, words: tuple[str, ...]) -> str:
    """``to feel sad`` without its opening ``to`` and ``feel``."""
    for word in words:
        first, _, rest = tail.partition(" ")
        if rest and first.lower() == word:
            tail = rest
    return tail
