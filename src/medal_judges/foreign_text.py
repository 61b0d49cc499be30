"""Makes text of files and models safe: no formula in a cell, no command to a terminal."""

from __future__ import annotations

# Line breaks and tabs stay; the rest of C0, DEL and C1 would control the terminal.
_CONTROLS = {
    code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code not in (9, 10)
}
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


def visible(text: str) -> str:
    """Returns ``text`` with control characters spelled out; a terminal obeys escape sequences."""
    return text.translate(_CONTROLS)
