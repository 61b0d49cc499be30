"""The documents' figures of the quickstart, written by a command: no figure there is typed.

    python tests/readme_tables.py [README.md] [docs/results/index.md] [runs/quickstart/results.json]

(``make readme`` trains and benchmarks first.) Rewrites what stands between a marker such as
``<!-- quickstart: prints -->`` and the next ``<!-- end -->``: what README's own snippet prints, and
the table of injected issues in docs/results/index.md.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medal_judges.errors import ConfigError

JUDGES = ("quickstart", "length", "repetition")
_ALL = " / ".join(JUDGES)


def injected_markdown(results: Mapping[str, Any]) -> str:
    """The table of injected issues of a quickstart's results.json. Raises ConfigError where it has
    none, or lacks one of the three judges."""
    found = [t for t in results.get("tables", ()) if t["title"].startswith("Injected issues")]
    if not found:
        raise ConfigError("the results have no table of injected issues", hint="make quickstart")
    columns = found[0]["columns"]
    rows = [dict(zip(columns, row, strict=True)) for row in found[0]["rows"]]
    by = {(row["Issue"], row["Judge"]): row for row in rows}
    issues = list(dict.fromkeys(row["Issue"] for row in rows))
    if lacking := [(i, j) for i in issues for j in JUDGES if (i, j) not in by]:
        raise ConfigError(f"the results have no row of {lacking[0][1]} on {lacking[0][0]}")

    def cells(issue: str, column: str) -> str:
        return " / ".join(_number(by[issue, judge][column]) for judge in JUDGES)

    lines = [
        f"| issue | F1 of the issue, against untouched: {_ALL} | AUC against untouched "
        f"| AUC against matched controls: {_ALL} | false alarms on untouched: {_ALL} "
        "| right turn found (by chance) |",
        "|---|---|---|---|---|---|",
    ]
    for issue in issues:
        own = by[issue, JUDGES[0]]
        turn = f"{_number(own['Turn found'])} ({_number(own['Turn found by chance'])})"
        lines.append(
            f"| {issue} | {cells(issue, 'F1+ vs clean')} | {_number(own['AUC vs clean'])} "
            f"| {cells(issue, 'AUC vs matched controls')} | {cells(issue, 'False alarms, clean')} "
            f"| {turn} |"
        )
    return "\n".join(lines)


def _number(cell: Any) -> str:
    value = cell["value"] if isinstance(cell, dict) else cell
    return "–" if value is None else f"{value:.2f}"


def printed(readme: str) -> str:
    """What README's first Python block prints, run as it stands, as a block of Markdown.

    Raises ConfigError where it fails.
    """
    snippet = re.search(r"```python\n(.*?)```", readme, re.DOTALL)
    if snippet is None:
        raise ConfigError("README.md has no Python block")
    done = subprocess.run([sys.executable, "-c", snippet[1]], capture_output=True, text=True)
    if done.returncode != 0:
        raise ConfigError(f"README's snippet failed: {done.stderr.strip()[-500:]}")
    return "\n".join(f"    {line}" for line in done.stdout.splitlines())


def replaced(readme: str, name: str, text: str) -> str:
    """``readme`` with ``text`` between the markers of ``name``. Raises ConfigError without them."""
    start, end = f"<!-- quickstart: {name} -->", "<!-- end -->"
    head, marker, rest = readme.partition(start)
    if not marker or end not in rest:
        raise ConfigError(f"the document has no {start} ... {end}")
    return f"{head}{start}\n\n{text}\n\n{end}{rest.partition(end)[2]}"


def main(
    readme: str = "README.md",
    results_page: str = "docs/results/index.md",
    results: str = "runs/quickstart/results.json",
) -> None:
    """Rewrite the blocks in place."""
    record = json.loads(Path(results).read_text(encoding="utf-8"))
    text = Path(readme).read_text(encoding="utf-8")
    Path(readme).write_text(replaced(text, "prints", printed(text)), encoding="utf-8")
    page = Path(results_page)
    table = injected_markdown(record)
    page.write_text(replaced(page.read_text(encoding="utf-8"), "injected", table), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
