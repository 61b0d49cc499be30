"""The table of planted issues: what each judge finds of each issue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from medal_judges.eval.benchmark.planted import PlantedResult
from medal_judges.report.table import Cell, Table
from medal_judges.stats.results import Estimate

_COLUMNS = {
    "f1_clean": "F1+ vs clean",
    "f1_innocent": "F1+ vs innocent edits",
    "auc_clean": "AUC vs clean",
    "auc_innocent": "AUC vs innocent edits",
    "win_rate": "Above its control",
    "recall": "Recall",
    "false_alarms": "False alarms, clean",
    "innocent_alarms": "False alarms, innocent edits",
    "localisation": "Turn found",
    "localisation_chance": "Turn found by chance",
}
_NOTE = (
    "Issues planted on purpose. Clean rows are untouched; innocent edits are harmless ones in the "
    "same turns, so that noticing an edit is not enough. The threshold is 0.5; AUC and the share "
    "of planted rows above their own control need none (0.5 is chance)."
)


def planted_table(
    name: str, results: Mapping[str, Sequence[PlantedResult]], *, min_coverage: float = 0.98
) -> Table | None:
    """One row for each issue and judge, issue by issue; None where nothing was judged."""
    issues = dict.fromkeys(result.issue for found in results.values() for result in found)
    rows = [
        (issue, judge, *_cells(result, min_coverage))
        for issue in issues
        for judge, found in results.items()
        for result in found
        if result.issue == issue
    ]
    if not rows:
        return None
    columns = ("Issue", "Judge", *_COLUMNS.values(), "Planted rows", "Coverage")
    return Table(f"Planted issues: {name}", columns, rows, _NOTE)


def _cells(result: PlantedResult, min_coverage: float) -> list[Cell]:
    total = sum(result.rows.values())
    coverage = sum(result.scored.values()) / total
    planted = result.rows["planted"]
    if coverage < min_coverage:
        reason = f"coverage {coverage:.1%} is under the floor of {100 * min_coverage:g}%"
        return [*[Estimate(None, reason=reason)] * len(_COLUMNS), planted, coverage]
    return [*(result.figures[key].estimate for key in _COLUMNS), planted, coverage]
