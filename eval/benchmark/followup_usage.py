"""Which follow-ups a judge with DIET's selection chooses, and how often (DIET, Figure 3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from medal_judges.records.judgement import Judgement
from medal_judges.report.table import Cell, Table

TITLE = "Follow-ups that were chosen"
_COLUMNS = ("Set", "Judge", "Dimension", "Follow-up", "Chosen in", "% of the rows", "% of choices")
_EMPTY, _UNREAD = "(none in common: all were used)", "(no selection could be read)"
_NOTE = (
    "Of the rows for which follow-ups were selected, those for which all runs chose this one; and "
    "its share of all that was chosen (the paper's figure)."
)


def follow_up_usage(answers: Iterable[tuple[str, str, Sequence[Judgement]]]) -> Table:
    """One row for each follow-up that (set, judge, judgements) chose, the most chosen first; a
    table without rows where nothing was selected."""
    rows: list[tuple[Cell, ...]] = []
    for name, judge, judgements in answers:
        dimensions = dict.fromkeys(d for j in judgements for d in j.details)
        for dimension in dimensions:
            told = [j.details[dimension] for j in judgements if dimension in j.details]
            rows += [(name, judge, dimension, *cells) for cells in _counted(told)]
    return Table(TITLE, _COLUMNS, rows, _NOTE)


def _counted(details: Sequence[Mapping[str, Any]]) -> list[tuple[Cell, ...]]:
    selections = [d for d in details if "unread_runs" in d]
    counts = Counter(text for d in selections for text in d.get("follow_ups", ()))
    choices = sum(counts.values())
    total = len(selections)
    rows: list[tuple[Cell, ...]] = [
        (text, n, 100 * n / total, 100 * n / choices) for text, n in counts.most_common()
    ]
    others = ((_EMPTY, sum(d.get("selected") == 0 for d in selections)),
              (_UNREAD, sum("selected" not in d for d in selections)))  # fmt: skip
    return rows + [(text, n, 100 * n / total, None) for text, n in others if n]
