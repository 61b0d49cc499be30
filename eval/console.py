"""Console: where commands print their tables."""

from __future__ import annotations

from rich.console import Console

PIPED = 120  # a pipe or file has no width; rich would take 80 and break the names


def wide_console() -> Console:
    """A console on standard output, as wide as the terminal, or ``PIPED`` columns where there is
    none. It shows text as it is: names come out of files, and rich would take ``[/b]`` in one for
    markup and stop, and ``:x:`` for a picture."""
    console = Console(markup=False, emoji=False)
    return console if console.is_terminal else Console(width=PIPED, markup=False, emoji=False)
