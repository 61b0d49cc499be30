"""The text of a page without its figure files, which take seconds to draw."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch


def page_text(write: Callable[[Path], object]) -> str:
    """The one page that ``write`` writes into a folder."""
    with TemporaryDirectory() as folder, patch("medal_judges.report.page.write_figures"):
        write(Path(folder))
        (page,) = Path(folder).glob("*.html")
        return page.read_text(encoding="utf-8")
