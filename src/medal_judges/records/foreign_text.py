"""Text out of files and models stays text: no formula in a cell, no command to a terminal."""

from __future__ import annotations

# Line breaks and tabs stay; the rest of C0, DEL and C1 would command the terminal.
_CONTROLS = {
    code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code not in (9, 10)
}
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


def visible(text: str) -> str:
    """``text`` with control characters spelled out: a terminal obeys an escape sequence."""
    return text.translate(_CONTROLS)
