"""The table of docs/results/trial.md, written from trial.json files: no figure there is typed.

    python tests/trial_table.py runs/trial/trial.json models/boxed/trial.json

Writes these judges' lines in docs/results/data/trial.csv (verdicts by group, worst findings), and
the document's table again.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from medal_judges.eval.trial.config import GROUPS, Group
from medal_judges.eval.trial.findings import TrialFinding, TrialResult
from medal_judges.records.validation import parse
from medal_judges.report.table import number

_SHARES = ("moved", "raised", "harmed", "unscored")
_SHOWN = 3  # findings of a group that are named


def trials_of(paths: Sequence[Path]) -> list[TrialResult]:
    """The trials in ``paths``, of ``--out`` or in a judge's folder, in their order."""
    records = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    several = [one for record in records for one in record.get("trials", [record])]
    return [parse(TrialResult, one) for one in several]


def trial_rows(results: Sequence[TrialResult]) -> list[list[str]]:
    """One line a judge, after a header."""
    groups: list[Group] = list(GROUPS)
    rows = [["judge", "versions", *(GROUPS[group].lower() for group in groups)]]
    for result in results:
        cells = [f"`{result.judge}`", f"{result.versions:,}"]
        cells += [_group(result, group) for group in groups]
        rows.append(cells)
    return rows


def _group(result: TrialResult, group: Group) -> str:
    """``3 red, 1 amber, 6 green: length (gain 0.75)``; of the red ones (else amber) the first."""
    counts = result.counts(group)
    told = [f"{counts[c]} {c}" for c in ("red", "amber", "green") if counts[c]]
    if not told:
        return "–"
    worst = "red" if counts["red"] else "amber"
    named = [f for f in result.findings if f.group == group and f.verdict == worst]
    named.sort(key=_size, reverse=True)
    shown = ", ".join(map(_finding, named[:_SHOWN]))
    return ", ".join(told) + (f": {shown}" if shown else "")


def _size(finding: TrialFinding) -> float:
    """How bad a finding is beside others of its group."""
    value = finding.figure.value or 0.0
    return -value if finding.group == "must_fall" else abs(value)


def _finding(finding: TrialFinding) -> str:
    value = finding.figure.value
    if value is None:
        return finding.check.replace("_", " ")
    share = finding.headline in _SHARES
    figure = f"{number(100 * value, 0)}%" if share else number(value)
    headline = (
        "AUC" if finding.headline == "auc" else finding.headline.replace("_", " ")
    )
    return f"{finding.check.replace('_', ' ')} ({headline} {figure})"


if __name__ == "__main__":
    import doc_tables  # beside this file, which is run as one

    head, *new = trial_rows(trials_of([Path(name) for name in sys.argv[1:]]))
    lines = {row[0]: row for row in [*doc_tables.read_csv("trial")[1:], *new]}
    doc_tables.write_csv("trial", [head, *lines.values()])
    doc_tables.rewrite_pages()
