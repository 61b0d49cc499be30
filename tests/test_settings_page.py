"""The page of settings: every setting of every model and training run, with type, default and
meaning, and every key of the shipped files."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from medal_judges.config import Config, read_yaml, shipped_names
from medal_judges.models.base.heads import HeadConfig
from medal_judges.models.llm.settings import BACKENDS
from medal_judges.training.config import FAMILIES, DataEntry, TrainConfig

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    """docs/settings_page.py."""
    sys.path.insert(0, str(DOCS))
    try:
        import settings_page
    finally:
        sys.path.remove(str(DOCS))
    return settings_page


@pytest.fixture(scope="module")
def sections(pages: ModuleType) -> dict[str, dict[str, list[str]]]:
    """Heading -> setting -> its cells: type, default, meaning."""
    tables: dict[str, dict[str, list[str]]] = {}
    heading = ""
    for line in pages.settings_page().splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ").strip("`")
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| `"):
            tables.setdefault(heading, {})[cells[0].strip(" `")] = cells[1:]
    return tables


@pytest.mark.parametrize(
    "kind", [TrainConfig, DataEntry, HeadConfig, *FAMILIES.values(), *BACKENDS.values()]
)
def test_every_setting_has_a_type_a_default_and_a_meaning(
    pages: ModuleType, sections: dict[str, dict[str, list[str]]], kind: type[Config]
) -> None:
    rows = sections[pages.heading(kind).strip("`")]
    assert set(rows) == set(kind.model_fields) - {"family", "backend"}
    for name, cells in rows.items():
        assert len(cells) == 3 and all(cells), name
        assert f"`{name}" in cells[2], name


# any key goes
OPEN = (
    "args",
    "config",
    "dimensions",
    "offsets",
    "options",
    "prior_weights",
    "rescale",
)
NAMED = ("heads", "members")  # the user's names, with settings below


def _keys(value: Any) -> Iterator[str]:
    """Yields the keys of a config that are settings, at all depths."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key)
            if key in NAMED:
                inner = list(inner.values())
            if key not in OPEN:
                yield from _keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _keys(inner)


@pytest.mark.parametrize("name", shipped_names("train"))
def test_every_key_of_a_shipped_training_is_on_the_page(
    sections: dict[str, dict[str, list[str]]], name: str
) -> None:
    settings = {setting for rows in sections.values() for setting in rows}
    assert set(_keys(read_yaml(f"train/{name}"))) - settings - {"family"} == set()
