"""YAML and FIELD=VALUE that are wrong, hostile or far too large: one clear error each, at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from medal_judges.cli import app
from medal_judges.config import parse_yaml
from medal_judges.errors import ConfigError, MedalError

LEVELS = range(12)
BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 10)}]\n" for n in LEVELS
)
MERGED = "a0: &a0 {x: 1}\n" + "".join(
    f"a{n + 1}: &a{n + 1} {{<<: [{', '.join([f'*a{n}'] * 10)}]}}\n" for n in LEVELS
)
WRONG = {
    "bomb": (BOMB, "too many aliases"),
    "merged": (MERGED, "too many aliases"),
    "itself, by a key": ("a: &a {b: {c: *a}}", "too many aliases"),
    "code": ("a: !!python/object/apply:os.system [id]", "a tag"),
    "tag": ("a: !!timestamp x", "a tag"),
    "nested": ("[" * 20_000, "nested too deep"),
    "integer": (f"a: {'9' * 6000}", "not valid YAML"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_yaml_that_is_refused(kind: str, tmp_path: Path) -> None:
    text, problem = WRONG[kind]
    with pytest.raises(ConfigError, match=problem):
        parse_yaml(text, "x.yaml")
    path = tmp_path / "any.yaml"
    path.write_text(text)
    done = CliRunner().invoke(app, ["score", "-", "--judge", str(path)], input="")
    assert isinstance(done.exception, MedalError), done.exception
