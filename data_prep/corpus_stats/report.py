"""Report: the page, the CSV files and the PNG figures of the statistics in one folder."""

from __future__ import annotations

from pathlib import Path

from medal_judges.data_prep.corpus_stats.csv_files import write_csv
from medal_judges.data_prep.corpus_stats.findings import Findings
from medal_judges.data_prep.corpus_stats.page import render


def write_report(findings: Findings, folder: Path) -> Path:
    """Write stats.html, tables/*.csv and figures/*.png under ``folder``; path of the page.

    Raises MissingExtraError, after page and tables are written, where matplotlib is not there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "stats.html"
    path.write_text(render(findings), encoding="utf-8", newline="\n")
    write_csv(findings, folder / "tables")
    from medal_judges.data_prep.corpus_stats.figures import write_figures  # asks for matplotlib

    write_figures(findings, folder / "figures")
    return path
