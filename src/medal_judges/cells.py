"""Cells of spreadsheets and CSV files: text out of files and models stays text."""

from __future__ import annotations

FORMULA = ("=", "+", "-", "@", "\t", "\r")


def no_formula(text: str) -> str:
    """``text`` such that no spreadsheet runs it: an apostrophe goes before what is a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text


def plain_cell(cell: object) -> object:
    """``no_formula`` of a text that is no number; anything else as it is."""
    if not isinstance(cell, str):
        return cell
    try:
        float(cell)
    except ValueError:
        return no_formula(cell)
    return cell
