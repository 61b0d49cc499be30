"""Makes text of files and models safe in a spreadsheet: no formula in a cell."""

from __future__ import annotations

FORMULA = ("=", "+", "-", "@", "\t", "\r")


def no_formula(text: str) -> str:
    """Returns ``text`` with an apostrophe before what a spreadsheet would run as a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text


def plain_cell(cell: object) -> object:
    """Returns ``no_formula`` of a text that is no number; anything else unchanged."""
    try:
        float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return no_formula(cell) if isinstance(cell, str) else cell
    return cell
