"""The documents' figures of the quickstart, written by a command: no figure there is typed.

    python tests/quickstart_figures.py [docs/howto/python.md] [runs/quickstart_full/results.json]

(``make figures`` trains and benchmarks first.) Writes what the page's own snippet prints between
``<!-- quickstart: prints -->`` and the next ``<!-- end -->``, and the table of injected issues into
docs/results/data/injected.csv.
"""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medal_judges.errors import ConfigError

JUDGES = ("quickstart_full", "length", "repetition")
_ALL = " / ".join(JUDGES)


def injected_rows(results: Mapping[str, Any]) -> list[list[str]]:
    """The table of injected issues in the results of `make quickstart-full`, its header first.

    Raises ConfigError if there is none, or a judge is missing.
    """
    found = [t for t in results.get("tables", ()) if t["title"].startswith("Injected issues")]
    if not found:
        raise ConfigError(
            "the results have no table of injected issues", hint="make quickstart-full"
        )
    columns = found[0]["columns"]
    rows = [dict(zip(columns, row, strict=True)) for row in found[0]["rows"]]
    by = {(row["Issue"], row["Judge"]): row for row in rows}
    issues = list(dict.fromkeys(row["Issue"] for row in rows))
    if lacking := [(i, j) for i in issues for j in JUDGES if (i, j) not in by]:
        raise ConfigError(f"the results have no row of {lacking[0][1]} on {lacking[0][0]}")

    def cells(issue: str, column: str) -> str:
        return " / ".join(_number(by[issue, judge][column]) for judge in JUDGES)

    head = ["issue", f"F1 of the issue, against untouched: {_ALL}", "AUC against untouched"]
    head += [f"AUC against matched controls: {_ALL}", f"false alarms on untouched: {_ALL}"]
    made = [[*head, "right turn found (by chance)"]]
    for issue in issues:
        own = by[issue, JUDGES[0]]
        made.append(
            [
                *(issue, cells(issue, "F1+ vs clean"), _number(own["AUC vs clean"])),
                *(cells(issue, "AUC vs matched controls"), cells(issue, "False alarms, clean")),
                f"{_number(own['Turn found'])} ({_number(own['Turn found by chance'])})",
            ]
        )
    return made


def _number(cell: Any) -> str:
    value = cell["value"] if isinstance(cell, dict) else cell
    return "–" if value is None else f"{value:.2f}"


def printed(page: str) -> str:
    """What the page's first Python block prints, run as it stands, as a block of Markdown.

    Raises ConfigError where it fails.
    """
    snippet = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    if snippet is None:
        raise ConfigError("the page has no Python block")
    done = subprocess.run([sys.executable, "-c", snippet[1]], capture_output=True, text=True)
    if done.returncode != 0:
        raise ConfigError(f"the page's snippet failed: {done.stderr.strip()[-500:]}")
    return "\n".join(f"    {line}" for line in done.stdout.splitlines())


def replaced(page: str, name: str, text: str) -> str:
    """``page`` with ``text`` between the markers of ``name``. Raises ConfigError without them."""
    start, end = f"<!-- quickstart: {name} -->", "<!-- end -->"
    head, marker, rest = page.partition(start)
    if not marker or end not in rest:
        raise ConfigError(f"the document has no {start} ... {end}")
    return f"{head}{start}\n\n{text}\n\n{end}{rest.partition(end)[2]}"


def main(
    page: str = "docs/howto/python.md", results: str = "runs/quickstart_full/results.json"
) -> None:
    """Rewrite the blocks in place."""
    import doc_tables  # beside this file, which is run as one

    record = json.loads(Path(results).read_text(encoding="utf-8"))
    text = Path(page).read_text(encoding="utf-8")
    Path(page).write_text(replaced(text, "prints", printed(text)), encoding="utf-8")
    doc_tables.write_csv("injected", injected_rows(record))
    doc_tables.rewrite_pages()


if __name__ == "__main__":
    main(*sys.argv[1:])
