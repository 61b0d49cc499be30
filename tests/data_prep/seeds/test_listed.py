"""Contexts out of a file."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from medal_judges.cli import app
from medal_judges.data_prep.seeds.contexts import SeedsConfig, contexts_for
from medal_judges.errors import ConfigError, DataError


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "contexts.jsonl"
    command = f"data seeds --n 5 --lang pt --lang zh --seed 3 --out {path}".split()
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    return path


def test_what_was_written_is_what_is_generated_from(written: Path) -> None:
    drawn = contexts_for(SeedsConfig(n=5), ["pt", "zh"], 3)
    assert contexts_for(SeedsConfig(n=5, file=str(written)), ["pt", "zh"], seed=99) == drawn
    first = contexts_for(SeedsConfig(n=2, file=str(written)), ["zh"], seed=0)
    assert first == [c for c in drawn if c.lang == "zh"][:2]


def test_what_is_not_there_is_named(written: Path) -> None:
    with pytest.raises(ConfigError, match=r"has 5 contexts, not 6") as fewer:
        contexts_for(SeedsConfig(n=6, file=str(written)), ["pt"], 0)
    assert fewer.value.hint == "contexts.n=5"
    with pytest.raises(ConfigError, match=r"has no 'fr'"):
        contexts_for(SeedsConfig(n=5, file=str(written)), ["pt", "fr"], 0)
    lines = written.read_text(encoding="utf-8").splitlines()
    broken = json.loads(lines[1]) | {"gender": "x"}
    written.write_text("\n".join([lines[0], json.dumps(broken)]), encoding="utf-8")
    with pytest.raises(DataError, match=r"contexts.jsonl:2: field 'gender'"):
        contexts_for(SeedsConfig(n=1, file=str(written)), ["pt"], 0)
