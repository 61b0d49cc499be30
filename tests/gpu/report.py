"""The table of what the checks gave, on the terminal and in the document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .checks import Check
    from .driver import Outcome
    from .measure import Row

COLUMNS = ("check", "what", "tokens/s", "of the matrix peak", "memory, GiB", "result")


def show(outcomes: Sequence[Outcome]) -> None:
    """Print the rows."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*COLUMNS)
    for one in outcomes:
        for row in one.rows:
            table.add_row(one.check, *cells(row))
        if one.said:
            table.add_row(one.check, "", "", "", "", f"{one.state}: {one.said}")
    Console(width=140).print(table)


def cells(row: Row) -> list[str]:
    """What, tokens/s, share, memory and the result in words."""
    speed = "" if row.tokens_per_s is None else f"{row.tokens_per_s:,.0f}"
    share = "" if row.share is None else f"{row.share:.0%}"
    memory = "" if row.memory_gib is None else f"{row.memory_gib:.1f}"
    result = row.said if row.state == "done" else f"{row.state}: {row.said}"
    return [row.what, speed, share, memory, result]


def into_document(document: Path, checks: Mapping[str, Check], outcomes: Sequence[Outcome]) -> None:
    """Write the table of the newest full run on a GPU between the document's marks; a check that
    has no line in the journal says "not run"."""
    from into_docs import rewrite  # check.py puts tests/speed on the path

    full = [each for each in outcomes if each.form == "full" and each.device != "CPU"]
    newest = {each.check: each for each in full}  # of several devices or versions the last
    lines = [f"| {' | '.join(COLUMNS)} |", "|---|---|---:|---:|---:|---|"]
    for name, check in checks.items():
        one = newest.get(name)
        if one is None:
            lines.append(f"| {check.title} (`{name}`) | | | | | not run |")
            continue
        title = f"{check.title} (`{name}`)"
        for row in one.rows:
            lines.append(f"| {' | '.join([title, *map(_plain, cells(row))])} |")
            title = ""
        if one.said:
            lines.append(f"| {title} | | | | | {one.state}: {_plain(one.said)} |")
    rewrite(document, "gpu", "\n".join([*lines, "", *_made(list(newest.values()))]))


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _made(outcomes: Sequence[Outcome]) -> list[str]:
    """Dates, devices and versions of the rows."""
    if not outcomes:
        return ["No run on a GPU yet."]
    made = {}
    for each in outcomes:
        told = ", ".join(f"{package} {number}" for package, number in each.versions.items())
        made.setdefault((each.date, each.device, told), []).append(each.check)
    return [
        f"{day}, {device}: {', '.join(names)}. {told}."
        for (day, device, told), names in sorted(made.items())
    ]
