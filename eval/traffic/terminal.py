"""What ``medal report`` prints."""

from __future__ import annotations

from medal_judges.eval.traffic.findings import findings
from medal_judges.eval.traffic.report import TrafficOutcome
from medal_judges.eval.traffic.tables import group_table, summary_table
from medal_judges.report.console import print_tables, wide_console
from medal_judges.report.table import Table

_MOST = 12  # groups
_NAME = 32  # characters of a group's name


def print_traffic(outcome: TrafficOutcome) -> None:
    """The figures, what stands out, the gates, and where the page is."""
    traffic, figures = outcome.traffic, outcome.figures
    console = wide_console()
    if not traffic.rows:
        console.print("no judgements: nothing to report on", highlight=False)
    else:
        coverage = "" if traffic.coverage is None else f", {traffic.coverage:.1%} scored in full"
        head = f"{traffic.rows:,} {traffic.unit}s{coverage}"
        console.print(head, highlight=False)
        for signature in traffic.signatures:
            console.print(signature, style="dim", highlight=False, soft_wrap=True)
        tables = [summary_table(traffic, figures)]
        tables += [
            _top(group_table(traffic, figures, column, groups))
            for column, groups in figures.groups.items()
        ]
        print_tables(tables)
        for finding in findings(traffic, figures):
            mark = {"worse": "▼ ", "better": "▲ ", "note": "· "}[finding.tone]
            console.print(mark + finding.text, highlight=False, soft_wrap=True)
    for gate in outcome.gates:
        console.print(f"gate {gate.text}", highlight=False, soft_wrap=True)
    if outcome.note:
        console.print(outcome.note, highlight=False, soft_wrap=True)
    if outcome.page is not None:
        console.print(str(outcome.page), highlight=False, soft_wrap=True)


def _top(table: Table) -> Table:
    """The largest groups, long names shortened."""
    rows = [(_short(str(row[0])), *row[1:]) for row in table.rows[:_MOST]]
    more = len(table.rows) - _MOST
    title = table.title if more <= 0 else f"{table.title} ({_MOST} of {len(table.rows)})"
    return Table(title, table.columns, rows)


def _short(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"
