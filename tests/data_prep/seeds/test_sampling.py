"""Draws: the same for a seed, more begin with the same ones, and the shares are even."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from medal_judges.cli import app
from medal_judges.config import read_yaml
from medal_judges.data_prep.seeds.contexts import (
    SeedsConfig,
    Triple,
    draw_contexts,
    make_contexts,
    parse_context,
)
from medal_judges.storage.jsonl import read_records

LANGUAGES = ("zh", "en", "de", "fr", "pt", "es")


def triples(count: int) -> list[Triple]:
    """Every fourth names a feeling."""
    tails = (
        ("xReact", "sad"),
        ("xWant", "to sit"),
        ("xNeed", "to read"),
        ("xAttr", "kind"),
    )
    return [Triple(f"PersonX sees hill {i}", *tails[i % 4]) for i in range(count)]


def people(count: int) -> list[str]:
    return [f"A climber of hill {i}" for i in range(count)]


def sample(n: int, scenes: int, personas: int, seed: int = 0) -> Any:
    return draw_contexts(n, triples(scenes), people(personas), seed=seed)


def test_golden_ids() -> None:
    """Ids in published sets may never move."""
    found = make_contexts(SeedsConfig(n=2), ["zh", "pt"], 0)
    assert [c.id for c in found] == GOLDEN


GOLDEN = [
    "ctx-a91660f11efd-zh",
    "ctx-a91660f11efd-pt",
    "ctx-3f74a4d5615e-zh",
    "ctx-3f74a4d5615e-pt",
]


def test_all_languages_of_a_context_stand_together_and_share_all_but_the_country() -> (
    None
):
    found = make_contexts(SeedsConfig(n=50), LANGUAGES, 7)
    assert [c.lang for c in found] == list(LANGUAGES) * 50
    for start in range(0, len(found), 6):
        parts = found[start : start + 6]
        shared = {(c.group, c.scene, c.persona, c.gender, c.affect) for c in parts}
        assert len(shared) == 1
    assert len({c.id for c in found}) == 300
    more = make_contexts(SeedsConfig(n=50), ["en"], 7)
    # whatever other languages there are
    assert more == [c for c in found if c.lang == "en"]


def test_a_seed_decides_and_the_order_of_the_lines_does_not() -> None:
    a = sample(60, 100, 100)
    assert sample(60, 100, 100) == a
    assert sample(60, 100, 100, seed=1) != a
    rng = np.random.default_rng(3)
    mixed = [triples(100)[i] for i in rng.permutation(100)]
    twice = [people(100)[i] for i in rng.permutation(100)] * 2
    assert draw_contexts(60, mixed, twice, seed=0) == a


def balanced(values: list[Any], kinds: int) -> bool:
    """Whether at every length the counts differ by one at most."""
    counts: Counter[Any] = Counter()
    for value in values:
        counts[value] += 1
        full = list(counts.values()) + [0] * (kinds - len(counts))
        if max(full) - min(full) > 1:
            return False
    return True


def test_quadrants_states_genders_and_countries_are_in_balance() -> None:
    found = sample(400, 200, 200, seed=5)
    felt = [d for d in found if d.affect is not None]
    assert len(felt) == len([d for d in found if d.relation != "xReact"]) == 300
    assert balanced([d.quadrant for d in felt], 4)
    for name, known in read_yaml("seeds/affects").items():
        states = [d.affect for d in felt if d.quadrant == name]
        assert set(states) <= set(known) and balanced(states, 6)
    assert balanced([d.gender for d in found], 2)
    countries = [c.country for c in make_contexts(SeedsConfig(n=300), ["es"], 5)]
    assert balanced(countries, 4)


@pytest.fixture
def published(tmp_path: Path) -> Callable[[int], SeedsConfig]:
    """Files as ATOMIC-10X and PersonaHub are published, of ``count`` lines."""

    def make(count: int) -> SeedsConfig:
        kept = {"split": "train", "rec_0.5": True, "p_valid_model": 0.9}
        with (tmp_path / "atomic.jsonl").open("w") as stream:
            for t in triples(count):
                line = {"head": t.head, "relation": t.relation, "tail": t.tail, **kept}
                stream.write(json.dumps(line) + "\n")
        with (tmp_path / "persona.jsonl").open("w") as stream:
            stream.writelines(json.dumps({"persona": p}) + "\n" for p in people(count))
        scenes, personas = (
            str(tmp_path / "atomic.jsonl"),
            str(tmp_path / "persona.jsonl"),
        )
        return SeedsConfig(n=20, scenes=scenes, personas=personas)

    return make


def test_command(tmp_path: Path) -> None:
    out = tmp_path / "contexts.jsonl"
    command = f"data seeds --out {out} --n 8 --lang de --lang ja --seed 3"
    result = CliRunner().invoke(app, command.split())
    assert result.exit_code == 0, result.output
    assert "16 contexts in" in result.output
    assert list(read_records(out, parse_context)) == make_contexts(
        SeedsConfig(n=8), ["de", "ja"], 3
    )
