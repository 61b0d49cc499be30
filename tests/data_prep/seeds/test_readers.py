"""The public sets in their published form, and lines that are not."""

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from medal_judges.cli import app
from medal_judges.data_prep.seeds.contexts import (
    SeedsConfig,
    make_contexts,
    read_good_triples,
)

KEPT = {"split": "train", "rec_0.5": True, "rec_0.9": True, "p_valid_model": 0.99}


def atomic(head: str = "PersonX sings", **changed: object) -> dict[str, object]:
    """A line with the fields of ATOMIC10X.jsonl; the text is ours."""
    return {"head": head, "relation": "xWant", "tail": "to rest", **KEPT, **changed}


def write(path: Path, records: list[object]) -> Path:
    text = "\n".join(r if isinstance(r, str) else json.dumps(r) for r in records) + "\n"
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def test_the_critic_decides(tmp_path: Path) -> None:
    lines = [
        atomic("a", **{"rec_0.5": False}),
        atomic("b"),
        atomic("c", **{"rec_0.9": False}),
    ]
    path = write(tmp_path / "ATOMIC10X.jsonl.gz", list(lines))
    assert [t.head for t in read_good_triples(path)] == ["b", "c"]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "contexts.jsonl"
    command = f"data seeds --n 5 --lang pt --lang zh --seed 3 --out {path}".split()
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    return path


def test_what_was_written_is_what_is_generated_from(written: Path) -> None:
    drawn = make_contexts(SeedsConfig(n=5), ["pt", "zh"], 3)
    assert (
        make_contexts(SeedsConfig(n=5, file=str(written)), ["pt", "zh"], seed=99)
        == drawn
    )
    first = make_contexts(SeedsConfig(n=2, file=str(written)), ["zh"], seed=0)
    assert first == [c for c in drawn if c.lang == "zh"][:2]
