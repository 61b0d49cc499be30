"""The table of what the checks gave, on the terminal and in the document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .checks import Check
    from .measure import Outcome, Row

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


def tables(
    checks: Mapping[str, Check], outcomes: Sequence[Outcome]
) -> tuple[list[list[str]], list[list[str]]]:
    """(rows of the newest full run of each check on a GPU, what they were measured on), headers
    first. A check that has no line in the journal says "not run"."""
    full = [each for each in outcomes if each.form == "full" and each.device != "CPU"]
    # of several devices or versions the last
    newest = {each.check: each for each in full}
    rows = [list(COLUMNS)]
    for name, check in checks.items():
        one, title = newest.get(name), f"{check.title} (`{name}`)"
        if one is None:
            rows.append([title, "", "", "", "", "not run"])
            continue
        rows += [[title, *map(_plain, cells(row))] for row in one.rows]
        if one.said:
            rows.append([title, "", "", "", "", f"{one.state}: {_plain(one.said)}"])
    made: dict[tuple[str, str, str], list[str]] = {}
    for each in newest.values():
        told = ", ".join(
            f"{package} {number}" for package, number in each.versions.items()
        )
        made.setdefault((each.date, each.device, told), []).append(each.check)
    runs = [[*about, ", ".join(names)] for about, names in sorted(made.items())]
    nothing = ["", "no run on a GPU yet", "", ""]
    return rows, [["date", "device", "versions", "checks"], *(runs or [nothing])]


def into_documents(checks: Mapping[str, Check], outcomes: Sequence[Outcome]) -> None:
    """Keep the tables beside those of the other documents, and write all of them again."""
    import doc_tables  # check.py puts tests/ on the path

    rows, runs = tables(checks, outcomes)
    doc_tables.write_csv("gpu", rows)
    doc_tables.write_csv("gpu_runs", runs)
    doc_tables.rewrite_pages()


def _plain(text: str) -> str:
    return text.replace("|", "/").replace("\n", " ")
