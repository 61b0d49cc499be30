"""The table of docs/results/trial.md, written from trial.json files: no figure there is typed.

    python tests/trial_table.py docs/results/trial.md runs/trial/trial.json [more trial.json ...]

Rewrites what stands between ``<!-- trial: judges -->`` and the next ``<!-- end -->``: one line a
judge with its verdicts by group and its worst findings, and what was asked of it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from medal_judges.errors import ConfigError
from medal_judges.files import atomic_write
from medal_judges.report.numbers import number
from medal_judges.stats.trial_results import GROUPS, Group, TrialFinding, TrialResult, parse_trial

_MARK = re.compile(r"(<!-- trial: judges -->\n).*?(<!-- end -->)", re.DOTALL)
_SHARES = ("moved", "raised", "harmed", "unscored")
_SHOWN = 3  # findings of a group that are named


def trials_of(paths: Sequence[Path]) -> list[TrialResult]:
    """The trials in ``paths``, in their order."""
    records = [json.loads(path.read_text(encoding="utf-8"))["trials"] for path in paths]
    return [parse_trial(record) for several in records for record in several]


def trial_markdown(results: Sequence[TrialResult]) -> str:
    """One line a judge."""
    groups: list[Group] = list(GROUPS)
    head = ("judge", "versions", *(GROUPS[group].lower() for group in groups))
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for result in results:
        cells = [f"`{result.judge}`", f"{result.versions:,}"]
        cells += [_group(result, group) for group in groups]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


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
    headline = "AUC" if finding.headline == "auc" else finding.headline.replace("_", " ")
    return f"{finding.check.replace('_', ' ')} ({headline} {figure})"


def rewrite(text: str, table: str) -> str:
    """``text`` with ``table`` between its marks. Raises ConfigError where it has none."""
    if not _MARK.search(text):
        raise ConfigError("no <!-- trial: judges --> ... <!-- end --> to write between")
    return _MARK.sub(lambda found: f"{found[1]}\n{table}\n\n{found[2]}", text)


if __name__ == "__main__":
    page = Path(sys.argv[1])
    table = trial_markdown(trials_of([Path(name) for name in sys.argv[2:]]))
    atomic_write(page, rewrite(page.read_text(encoding="utf-8"), table))
