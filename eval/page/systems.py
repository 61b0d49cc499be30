"""Judges about chatbots as wholes: a table for each set and dimension."""

from __future__ import annotations

from collections.abc import Sequence

from medal_judges.eval.metaeval.system_level import SystemAgreement
from medal_judges.report.page import Section, folded
from medal_judges.report.table import Row, Table

METRICS = {
    "pairwise_accuracy": "Pairwise accuracy",
    "soft_pairwise_accuracy": "Soft pairwise accuracy",
}
_IN_SIGHT = 3


def systems(agreements: Sequence[SystemAgreement]) -> Section:
    """Tables of judges, best first, people's split half at the end; the first ones in sight."""
    tables = system_tables(agreements)
    return Section("systems", "Chatbots in order", folded(tables, _IN_SIGHT), link="Chatbots")


def system_tables(agreements: Sequence[SystemAgreement]) -> list[Table]:
    """One table a set and dimension."""
    found: dict[tuple[str, str, str], list[SystemAgreement]] = {}
    for one in agreements:
        found.setdefault((one.set_name, one.level, one.dimension), []).append(one)
    return [_table(place, listed) for place, listed in found.items()]


def _table(place: tuple[str, str, str], listed: Sequence[SystemAgreement]) -> Table:
    name, level, dimension = place
    shown = name if level == "dialogue" else f"{name} ({level} level)"
    ordered = sorted(listed, key=lambda one: -(one.figures["soft_pairwise_accuracy"].value or 0))
    rows: list[Row] = [
        (one.judge, *(one.figures[metric] for metric in METRICS), one.systems, one.rows)
        for one in ordered
    ]
    people = listed[0].split_half
    rows.append(("people, split half", *(people.get(metric) for metric in METRICS), None, None))
    columns = ("Judge", *METRICS.values(), "Chatbots", "Rows")
    title = f"{shown}: {dimension}, order of chatbots"
    return Table(title, columns, rows, pinned={-1: "ceiling"})
