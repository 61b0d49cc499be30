"""Small files that the options are tried on, and the check that a test types the options of its
row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from medal_judges.config import config_text

from .files import Files
from .table import TYPED, is_typed


@pytest.fixture(autouse=True)
def _typed(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test that does not type the options of its row."""
    TYPED.clear()
    yield
    for mark in request.node.iter_markers("option_row"):
        command, options = mark.args
        for option in options:
            assert any(is_typed(command, option, words) for words in TYPED), (
                command,
                option,
            )


@pytest.fixture(autouse=True)
def _own_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_figure_files: None
) -> None:
    """Answers of language models are cached for one test; pages are written without figures."""
    monkeypatch.setenv("MEDAL_JUDGES_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def english_judge(tmp_path: Path) -> Path:
    """A judge by length that supports English only."""
    path = tmp_path / "english.yaml"
    path.write_text(f"{config_text('judges/length')}\nlanguages: [en]\n")
    return path


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("options"))
