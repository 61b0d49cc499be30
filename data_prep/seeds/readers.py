"""Readers of scenes, personas and affective states: the embedded ones, of our own writing, in
configs/seeds/, and the two public sets that MEDAL's contexts come from, as published; they stream.

ATOMIC-10X (West et al., 2022, "Symbolic Knowledge Distillation", CC-BY-4.0): ``ATOMIC10X.jsonl``,
one triple a line with ``head``, ``relation``, ``tail``, ``split``, ``rec_0.5`` ... ``rec_0.9``
(true where the critic keeps the triple at that expected recall; 0.5 is the authors' high filter)
and ``p_valid_model``, after the read-me of github.com/peterwestai2/symbolic-knowledge-distillation.

PersonaHub (Ge et al., 2024, CC-BY-NC-SA-4.0): ``persona.jsonl`` of proj-persona/PersonaHub on the
Hub, one ``{"persona": ...}`` a line; its other parts call it ``input persona``.
"""

from __future__ import annotations

import csv
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from medal_judges.config import Config, build_config, read_yaml
from medal_judges.data_prep.seeds.scenes import Triple, parse_triple
from medal_judges.errors import ConfigError, DataError, RecordError
from medal_judges.records.validation import text
from medal_judges.storage.jsonl import damaged, open_text, read_records

T = TypeVar("T")
EMBEDDED = "embedded"
Critic = Literal["rec_0.5", "rec_0.6", "rec_0.7", "rec_0.8", "rec_0.9"]
HIGH_FILTER: Critic = "rec_0.5"
_PERSONA_FIELDS = ("persona", "input persona")
_TRUTH = {"true": True, "1": True, "false": False, "0": False}


def read_triples(path: str | Path, *, critic: str | None = HIGH_FILTER) -> Iterator[Triple]:
    """The embedded triples, or those of a JSONL or CSV file (.gz too) that the critic keeps by the
    field ``critic``; None takes all, also from a file without such a field.

    Raises DataError with file, line and field for a line that is no triple.
    """
    if path == EMBEDDED:
        scenes = read_yaml("seeds/scenes")["scenes"]
        names = ("head", "relation", "tail")
        return (parse_triple(dict(zip(names, each, strict=True))) for each in scenes)

    def parse(record: object) -> Triple | None:
        triple = parse_triple(record)
        assert isinstance(record, dict)  # parse_triple refused anything else
        return triple if critic is None or _kept(record.get(critic), critic) else None

    return (triple for triple in _records(path, parse) if triple is not None)


def _kept(value: object, field: str) -> bool:
    kept = _TRUTH.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(kept, bool):
        expected = "true or false, the critic's word (critic: null takes triples without it)"
        raise RecordError(field, expected, value)
    return kept


def read_personas(path: str | Path) -> Iterator[str]:
    """The embedded personas, or those of a JSONL or CSV file (.gz too). Raises DataError as
    ``read_triples`` does."""
    if path == EMBEDDED:
        return iter(read_yaml("seeds/personas")["personas"])
    return _records(path, parse_persona)


def parse_persona(record: object) -> str:
    """The line's persona on one line. Raises RecordError for one that is missing or empty."""
    if not isinstance(record, dict):
        raise RecordError("(line)", "a JSON object", record)
    field = next((f for f in _PERSONA_FIELDS if f in record), "persona")
    said = " ".join(text(field, record.get(field)).split())
    if not said:
        raise RecordError(field, "a persona in words", record.get(field))
    return said


def _records(path: str | Path, parse: Callable[[object], T]) -> Iterator[T]:
    if not Path(path).is_file():
        raise DataError(
            path,
            None,
            "no such file of scenes or personas",
            hint="give the path of the file as published (ATOMIC10X.jsonl, persona.jsonl), or "
            "'embedded' for the set that is shipped (contexts.scenes=embedded, "
            "contexts.personas=embedded)",
        )
    name = str(path).removesuffix(".gz").lower()
    return _csv_records(path, parse) if name.endswith(".csv") else read_records(path, parse)


def _csv_records(path: str | Path, parse: Callable[[object], T]) -> Iterator[T]:
    """``parse`` of each row of a CSV file with a header, as an object of its columns."""
    with open_text(path) as stream:
        rows = csv.DictReader(stream, strict=True)
        try:
            for row in rows:
                yield _parse_row(path, rows.line_num, row, parse)
        except csv.Error as error:
            raise DataError(path, rows.line_num, f"not valid CSV: {error}") from error
        except (EOFError, zlib.error, OSError) as error:
            raise damaged(path, rows.line_num, error) from error


def _parse_row(
    path: str | Path, line: int, row: dict[str, str | None], parse: Callable[[object], T]
) -> T:
    # DictReader puts what is beyond the header under None, and None into what is missing.
    if None in row or None in row.values():
        raise DataError(path, line, "a row with more or fewer cells than the header has")
    try:
        return parse(row)
    except RecordError as error:
        raise DataError(path, line, error.message) from error


class _Affects(Config):
    """Quadrant -> its states, one or more (``load_affects`` checks them)."""

    pleasant_activated: tuple[str, ...]
    pleasant_calm: tuple[str, ...]
    unpleasant_calm: tuple[str, ...]
    unpleasant_activated: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Quadrant:
    """A quadrant of the circumplex (Russell, 1980) and its states."""

    name: str
    states: tuple[str, ...]


def load_affects(where: str = EMBEDDED) -> tuple[Quadrant, ...]:
    """The four quadrants of a YAML file, or the embedded ones.

    Raises ConfigError where a quadrant is empty or a state stands twice.
    """
    path = "seeds/affects" if where == EMBEDDED else where
    given = build_config(_Affects, read_yaml(path), where=path)
    quadrants = tuple(Quadrant(name, states) for name, states in given)
    states = [state for quadrant in quadrants for state in quadrant.states]
    if not all(quadrant.states for quadrant in quadrants) or len(set(states)) < len(states):
        raise ConfigError(f"{path}: each quadrant needs states, and each state a place of its own")
    return quadrants
