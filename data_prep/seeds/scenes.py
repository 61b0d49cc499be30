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
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from medal_judges.config import read_yaml
from medal_judges.errors import DataError, RecordError
from medal_judges.records.validation import text
from medal_judges.storage.jsonl import read_records

T = TypeVar("T")
EMBEDDED = "embedded"
Critic = Literal["rec_0.5", "rec_0.6", "rec_0.7", "rec_0.8", "rec_0.9"]
HIGH_FILTER: Critic = "rec_0.5"

# -- words -----------------------------------------------------------------------------------------

# A letter or digit beside a word makes it another word; an underscore or a hyphen does not.
_WHOLE = r"(?<![^\W_])(?:{})(?![^\W_])"


def gendered_word(text: str) -> str | None:
    """The first whole word of ``text`` that reveals a gender (configs/seeds/gendered_words.yaml);
    None if it is neutral. Strict: a scene in which PersonX calls a brother is not neutral."""
    return _first("gendered_words", text)


def affective_word(text: str) -> str | None:
    """The first word or phrase of ``text`` that names a feeling (configs/seeds/affect_words.yaml),
    also a denied one (``not happy``); None if there is none."""
    return _first("affect_words", text)


def _first(name: str, text: str) -> str | None:
    text = unicodedata.normalize("NFKC", text).replace("’", "'")
    matches = (pattern.search(text) for pattern in _patterns(name))
    return next((match[0] for match in matches if match), None)


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


class Triple(NamedTuple):
    """Two events and their relation: ``PersonX drops something``, ``xReact``, ``annoyed``."""

    head: str
    relation: str
    tail: str


@cache
def load_relations() -> dict[str, Any]:
    """configs/seeds/relations.yaml, which explains its fields."""
    return read_yaml("seeds/relations")


def sentences(triple: Triple) -> str:
    """The triple in words, such as ``PersonX drops something. Now PersonX feels annoyed.``"""
    known = load_relations()
    template = known["relations"][triple.relation]
    head, tail = triple.head.rstrip(" ."), triple.tail.rstrip(" .")
    first, _, rest = tail.partition(" ")
    if rest and first in known["small"]:  # "The sea is rough"; names keep their capital
        tail = f"{first.lower()} {rest}"
    if tail.startswith(tuple(known["subjects"])):
        text = template["clause"].format(head=head, tail=tail)
    else:
        for word in template.get("drop", ()):  # "to feel sad" without "to" and "feel"
            first, _, rest = tail.partition(" ")
            tail = rest if rest and first.lower() == word else tail
        text = template["phrase"].format(head=head, tail=tail)
    return str(text[:1].upper() + text[1:])


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
    relation = known["spellings"].get(given, given) if isinstance(given, str) else ""
    if relation not in known["relations"]:
        raise RecordError("relation", f"one of {', '.join(known['relations'])}", given)
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
        return (Triple(*each) for each in read_yaml("seeds/scenes")["scenes"])

    def parse(record: object) -> Triple | None:
        triple = parse_triple(record)
        keeps = record.get(critic) if critic and isinstance(record, dict) else True
        if not isinstance(keeps, bool):
            expected = "true or false, the critic's word (critic: null reads triples without it)"
            raise RecordError(str(critic), expected, keeps)
        return triple if keeps else None

    return (triple for triple in _records(path, parse) if triple is not None)


def read_personas(path: str | Path) -> Iterator[str]:
    """The embedded personas, or those of a JSONL file (.gz too). Raises DataError."""
    if path == EMBEDDED:
        return iter(read_yaml("seeds/personas")["personas"])

    def parse(record: object) -> str:
        if not isinstance(record, dict):
            raise RecordError("(line)", "a JSON object", record)
        field = "input persona" if "input persona" in record else "persona"
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


def load_affects() -> dict[str, list[str]]:
    """The affective states of each quadrant of the circumplex (Russell, 1980)."""
    return read_yaml("seeds/affects")
