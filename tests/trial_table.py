"""The table of docs/results/trial.md, written from trial.json files: no number there is typed.

    python tests/trial_table.py runs/trial/trial.json models/boxed/trial.json

Writes these judges' lines in docs/results/data/trial.csv (verdicts by group, and the red checks),
and the document's table again.
"""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from medal_judges.eval.trial.config import GROUPS
from medal_judges.eval.trial.trial import TrialResult
from medal_judges.records.validation import parse
from medal_judges.report.table import number_text


def trials_of(paths: Sequence[Path]) -> list[TrialResult]:
    """The trials in ``paths``, of ``--out`` or in a judge's folder, in their order."""
    records = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    several = [one for record in records for one in record.get("trials", [record])]
    return [parse(TrialResult, one) for one in several]


def trial_rows(results: Sequence[TrialResult]) -> list[list[str]]:
    """One line a judge, after a header."""
    rows = [["judge", "versions", *(heading.lower() for heading in GROUPS.values())]]
    for result in results:
        cells = [f"`{result.judge}`", f"{result.versions:,}"]
        for group in GROUPS:
            found = [finding for finding in result.findings if finding.group == group]
            counts = Counter(finding.verdict for finding in found)
            told = [f"{counts[c]} {c}" for c in ("red", "green", "none") if counts[c]]
            red = []
            for finding in found:
                if finding.verdict == "red" and finding.change.value is not None:
                    name = finding.check.replace("_", " ")
                    red.append(f"{name} {number_text(finding.change.value)}")
            cells.append(", ".join(told) + (f": {', '.join(red)}" if red else ""))
        rows.append(cells)
    return rows


if __name__ == "__main__":
    import doc_tables  # beside this file, which is run as one

    head, *new = trial_rows(trials_of([Path(name) for name in sys.argv[1:]]))
    lines = {row[0]: row for row in doc_tables.read_csv("trial")[1:]}
    lines |= {row[0]: row for row in new}
    doc_tables.write_csv("trial", [head, *lines.values()])
    doc_tables.rewrite_pages()
