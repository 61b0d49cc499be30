"""Console: where commands print their tables."""

from __future__ import annotations

from rich.console import Console

PIPED = 120  # a pipe or file has no width; rich would take 80 and break the names


def wide_console() -> Console:
    """A console on standard output, as wide as the terminal, or ``PIPED`` columns where there is
    none."""
    console = Console()
    return console if console.is_terminal else Console(width=PIPED)
