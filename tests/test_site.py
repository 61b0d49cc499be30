"""The site: its tables come from the CSV files, every page is in the navigation, and it builds
strictly, asks no other host for anything, and can be searched from its folder."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from medal_judges.config import read_yaml

from .doc_tables import pages, rendered

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def _nav(entries: object) -> Iterator[str]:
    if isinstance(entries, str):
        yield entries
    elif isinstance(entries, dict | list):
        for entry in entries.values() if isinstance(entries, dict) else entries:
            yield from _nav(entry)


def test_every_table_is_what_the_files_say() -> None:
    told = pages()
    assert ROOT / "README.md" in told and len(told) >= 6
    for page in told:
        text = page.read_text(encoding="utf-8")
        assert rendered(text) == text, f"{page}: make tables"


def test_every_page_is_in_the_navigation() -> None:
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    # this one by docs/hooks.py
    nav = {*_nav(yaml.safe_load(config)["nav"]), "reference/index.md"}
    assert nav == {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}


def test_readme_is_short_and_its_links_lead_somewhere() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 90
    links = re.findall(r"\]\((?!https:)([^)#]+)[^)]*\)", text)
    assert len(links) > 20
    assert [link for link in links if not (ROOT / link).is_file()] == []
    assert (DOCS / "assets" / "page.png").stat().st_size < 150_000
    widths = {
        line.count("|") - 1 for line in text.splitlines() if line.startswith("| ")
    }
    assert widths == {5, 6}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly as `make docs` builds it."""
    out = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "-d",
        str(out),
    ]
    quiet = {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | quiet,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.mark.slow
def test_the_site_builds_and_names_no_other_host(site: Path) -> None:
    built = list(site.rglob("*.html"))
    assert len(built) > 50
    asked = re.compile(
        r"""<(?:script|link|img|iframe)[^>]*(?:src|href)=["']?(?:https?:)?//"""
    )
    assert [
        page for page in built if asked.search(page.read_text(encoding="utf-8"))
    ] == []
    assert "medal score" in (site / "search" / "search_index.json").read_text(
        encoding="utf-8"
    )


PUBLISHED = read_yaml("published")
FIGURES: list[dict[str, Any]] = PUBLISHED["figures"]


def test_every_row_says_what_it_is() -> None:
    needed = {
        "judge",
        "model",
        "set",
        "level",
        "dimension",
        "spearman",
        "pearson",
        "source",
    }
    for row in FIGURES:
        assert needed <= set(row) <= needed | {"variant", "not_significant", "note"}, (
            row
        )
        assert row["level"] in ("dialogue", "turn")
        assert row["source"].split(",")[0] in PUBLISHED["papers"]
        assert set(row.get("not_significant", ())) <= {"spearman", "pearson"}


def test_figures_are_correlations() -> None:
    for row in FIGURES:
        values = [row[k] for k in ("spearman", "pearson") if row[k] is not None]
        assert values and all(-1 <= v <= 1 for v in values), row


def test_no_row_twice() -> None:
    keys = [
        tuple(
            row.get(k)
            for k in ("judge", "variant", "model", "set", "level", "dimension")
        )
        for row in FIGURES
    ]
    assert len(keys) == len(set(keys))
