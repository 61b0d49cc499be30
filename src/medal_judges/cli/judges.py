"""``medal judges``: lists the shipped judges."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table

from medal_judges.config import JUDGES, PACKAGED, read_yaml, shipped_names, top_sentence
from medal_judges.models.base.saving import find_or_download_judge, read_config
from medal_judges.report.console import wide_console


def judges() -> None:
    """List the shipped judges, with what each needs and costs. --judge accepts a name of this list,
    a folder, a YAML file, or OWNER/NAME on the Hub.

    Example: medal judges
    """
    rows = []
    for name in PACKAGED:
        family = read_config(find_or_download_judge(name))["family"]
        rows.append((name, family, top_sentence("train", name)))
    for name in shipped_names(JUDGES):
        family = read_yaml(f"{JUDGES}/{name}").get("family", "")
        rows.append((name, family, top_sentence(JUDGES, name)))
    print_table(("judge", "family", "what it is"), rows)


def print_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Prints a table. A text in the last column that is too long for its line is wrapped.

    Args:
        head: The headings.
        rows: The cells of each row.
    """
    table = Table(box=box.SIMPLE, pad_edge=False)
    for name in head[:-1]:
        table.add_column(name, no_wrap=True)
    table.add_column(head[-1], ratio=1)
    for row in rows:
        table.add_row(*row)
    wide_console().print(table)
