"""The embedded seeds: scenes, personas and states of our own writing, in configs/seeds/."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from medal_judges.config import Config, build_config, read_yaml
from medal_judges.data_prep.seeds.scenes import Triple, parse_triple
from medal_judges.errors import ConfigError

EMBEDDED = "embedded"


class _Scenes(Config):
    scenes: tuple[tuple[str, str, str], ...]


class _Personas(Config):
    personas: tuple[str, ...]


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


def embedded_triples() -> Iterator[Triple]:
    """The triples of configs/seeds/scenes.yaml."""
    found = build_config(_Scenes, read_yaml("seeds/scenes"), where="seeds/scenes.yaml")
    for head, relation, tail in found.scenes:
        yield parse_triple({"head": head, "relation": relation, "tail": tail})


def embedded_personas() -> Iterator[str]:
    """The personas of configs/seeds/personas.yaml."""
    found = build_config(_Personas, read_yaml("seeds/personas"), where="seeds/personas.yaml")
    yield from found.personas


def load_affects(where: str = EMBEDDED) -> tuple[Quadrant, ...]:
    """The four quadrants of a YAML file, or the embedded ones.

    Raises ConfigError where a quadrant is empty or a state stands twice.
    """
    path = "seeds/affects" if where == EMBEDDED else where
    found = build_config(_Affects, read_yaml(path), where=path)
    quadrants = tuple(Quadrant(name, states) for name, states in found)
    states = [state for quadrant in quadrants for state in quadrant.states]
    if not all(quadrant.states for quadrant in quadrants) or len(set(states)) < len(states):
        raise ConfigError(f"{path}: each quadrant needs states, and each state a place of its own")
    return quadrants
