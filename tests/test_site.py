"""The site: its tables come from the CSV files, every page is in the navigation, and it builds
strictly, asks no other host for anything, and can be searched from its folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .doc_tables import pages, rendered

ROOT = Path(__file__).parents[1]


def test_every_table_is_what_the_files_say() -> None:
    told = pages()
    assert ROOT / "README.md" in told and len(told) >= 6
    for page in told:
        text = page.read_text(encoding="utf-8")
        assert rendered(text) == text, f"{page}: make tables"


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
