"""The counts of a labelling run as tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from medal_judges.data_prep.labelling.summary import LabelCounts, Summary
from medal_judges.dimension import Dimension

if TYPE_CHECKING:
    from rich.table import Table


def tables(summary: Summary) -> Iterator[Table]:
    """Labels per language and chatbot, deviations over repeats (MEDAL, Table 3), and shares of
    malformed dialogues per language and user model (Figure 7); what does not apply is left out."""
    if summary.langs:
        yield _labels("rows with the issue, by language", summary.langs, summary)
        yield _labels("rows with the issue, by chatbot", summary.chatbots, summary)
    if summary.consistency.deviations:
        yield _deviations(summary)
    if summary.users:
        yield _users(summary)


def _table(title: str, *columns: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE, pad_edge=False)
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i else "left", overflow="fold")
    return table


def _labels(title: str, groups: Mapping[str, LabelCounts], summary: Summary) -> Table:
    names = sorted(groups)
    table = _table(title, "", *names)
    table.add_row("dialogues", *(str(groups[n].rows) for n in names))
    for d in summary.asked.dimensions:
        label = d.name if d.is_issue else f"{d.name} (mean)"
        table.add_row(label, *(_told(groups[n], d) for n in names))
    return table


def _told(group: LabelCounts, dimension: Dimension) -> str:
    value = group.figure(dimension)
    if value is None:
        return "–"
    if not dimension.is_issue:
        return f"{value:.2f}"
    given = len(group.values[dimension.name])
    return f"{value:g} ({value / given:.1%})"


def _deviations(summary: Summary) -> Table:
    repeats = summary.asked.repeats
    title = (
        f"standard deviation over {repeats} repeats (n - 1) of each dialogue, mean over dialogues"
    )
    table = _table(title, "dimension", "std", "dialogues")
    for name, row in summary.consistency.to_record().items():
        table.add_row(name, f"{row['std']:.4f}", str(row["dialogues"]))
    return table


def _users(summary: Summary) -> Table:
    names = list(dict.fromkeys(r for u in summary.users.values() for r in sorted(u.reasons)))
    table = _table(
        "malformed users, of those checked", "language", "user", "checked", *names, "any"
    )
    for (lang, user), counted in sorted(summary.users.items()):
        counts = [*(counted.reasons[n] for n in names), counted.malformed]
        shares = ((count, counted.share(count)) for count in counts)
        told = ("–" if share is None else f"{count} ({share:.1%})" for count, share in shares)
        table.add_row(lang, user, str(counted.checked), *told)
    return table
