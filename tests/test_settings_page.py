"""The page of settings: every setting of every model and training run, with type, default and
meaning, and every key of the shipped files."""

from __future__ import annotations

import re
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


def test_types_and_defaults_are_those_of_the_classes(
    sections: dict[str, dict[str, list[str]]],
) -> None:
    run, adapters, server = (
        sections["Train"],
        sections["family: lora"],
        sections["backend: openai"],
    )
    assert run["name"][:2] == ["text", "required"]
    assert run["train"][0] == "list of [Data entry](#data-entry)"
    assert adapters["max_tokens"][:2] == ["integer, at least 32", "`2048`"]
    assert adapters["quantize"][:2] == ["`nf4` or `int8`", "none"]
    assert adapters["targets"][:2] == ["`all-linear` or list of text", "`all-linear`"]
    assert server["cache"][:2] == ["text or true or false", "`true`"]
    assert sections["Arguments of the Trainer"]["save_total_limit"] == ["`2`"]


def test_a_setting_without_a_meaning_is_an_error(pages: ModuleType) -> None:
    class Wheel(Config):
        """A wheel with ``spokes``; a ``rimless: true`` one rolls badly."""

        spokes: int
        rimless: bool = False
        rim: str = "wood"

    with pytest.raises(ValueError, match="Wheel does not say what ``rim`` is"):
        pages.meanings_of(Wheel)


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


def test_links_lead_to_headings(pages: ModuleType) -> None:
    text = pages.settings_page()
    anchors = {
        pages._anchor(line.lstrip("# "))
        for line in text.splitlines()
        if line[:1] == "#"
    }
    links = set(re.findall(r"\]\(#([^)]+)\)", text))
    assert links and links <= anchors
