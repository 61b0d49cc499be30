"""Console: where commands print their tables."""

from __future__ import annotations

from rich.console import Console

PIPED = 120  # a pipe or file has no width; rich would take 80 and break the names


def wide_console(*, stderr: bool = False, piped: int = PIPED) -> Console:
    """A console on standard output, or error, as wide as the terminal, or ``piped`` columns
    where there is none. It shows text as it is: names come out of files, and rich would take
    ``[/b]`` in one for markup and stop, and ``:x:`` for a picture."""
    console = Console(stderr=stderr, markup=False, emoji=False)
    if console.is_terminal:
        return console
    return Console(stderr=stderr, width=piped, markup=False, emoji=False)
