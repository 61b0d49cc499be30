"""The statistics in the terminal: texts, then issues and means, by language and by chatbot."""

from __future__ import annotations

from typing import Literal

from rich import box
from rich.table import Table as RichTable

from medal_judges.data_prep.corpus_stats.findings import OVERALL, Findings
from medal_judges.data_prep.corpus_stats.part import Part
from medal_judges.data_prep.corpus_stats.tables import (
    mean_table,
    share_table,
    side_table,
    text_table,
    tokens_note,
)
from medal_judges.report.console import wide_console
from medal_judges.stats.results import Cell, Estimate, Table

_NONE = "–"
_BRIEF = 6  # columns beyond which intervals are left to the page and the CSV files
_PIPED = 160  # these tables have more columns than others


def print_tables(findings: Findings) -> None:
    """Print what a person wants to see first; the page and the CSV files have the rest."""
    console = wide_console(piped=_PIPED)
    for head, parts in (("Language", findings.langs), ("Chatbot", findings.chatbots)):
        for table in _tables(findings, head, parts) if parts else ():
            console.print(_rich(table))
    notes = [tokens_note(findings)]
    notes.append(findings.survey.weighting or "")
    if not findings.survey.labels.answered:
        notes.append("No row has a label.")
    for note in filter(None, notes):
        console.print(note, style="dim", highlight=False)


def _tables(findings: Findings, head: str, parts: list[Part]) -> list[Table]:
    overall = [d for d in findings.graded if d.name == OVERALL] or findings.graded[:3]
    tables = [text_table(findings, head, parts)]
    if head == "Language":
        tables.append(side_table(findings, head, parts))
    if findings.issues:
        tables.append(share_table(findings, "Issues", head, parts, findings.issues))
    if overall:
        tables.append(mean_table(findings, head, parts, overall))
    return tables


def _rich(table: Table) -> RichTable:
    out = RichTable(title=table.title, title_justify="left", box=box.SIMPLE, pad_edge=False)
    for i, name in enumerate(table.columns):
        justify: Literal["left", "right"] = "right" if i else "left"
        out.add_column(name, justify=justify, overflow="fold", no_wrap=i == 0)
    brief = len(table.columns) > _BRIEF
    for row in table.rows:
        out.add_row(*(_cell(cell, brief) for cell in row))
    return out


def _cell(cell: Cell, brief: bool) -> str:
    """``brief`` leaves out intervals."""
    if isinstance(cell, Estimate):
        if cell.value is None:
            return _NONE
        if brief or cell.low is None or cell.high is None:
            return f"{cell.value:.2f}"
        return f"{cell.value:.2f} [{cell.low:.2f}, {cell.high:.2f}]"
    if cell is None:
        return _NONE
    return f"{cell:.2f}" if isinstance(cell, float) else str(cell)
