"""``medal compare``: which of several systems is better."""

from __future__ import annotations

import typer

from medal_judges.cli.options import from_options, writes
from medal_judges.eval.comparison.compare import compare as compared
from medal_judges.eval.comparison.compare import print_comparison, write_comparison
from medal_judges.eval.comparison.rows import CompareOptions
from medal_judges.reading.dialogues import reading_report
from medal_judges.report.console import ProgressBar


@writes("files", "human", "chats", folder=True)
@from_options
def compare(options: CompareOptions) -> None:
    """Compare systems by a judge's scores: differences, intervals, ranks, and the smallest
    differences that these dialogues could show. Contexts that systems share are compared pairwise.
    With --human, human labels of some dialogues correct a judge that favours one system. With
    --out: compare.html, compare.json, tables/, figures/."""
    out = options.out
    reading = reading_report(options.reading, None if out is None else out / "skipped.jsonl")
    with ProgressBar("judging") as bar:
        found = compared(options, reading=reading, progress=bar.advance)
    reading.show()
    print_comparison(found)
    if out is not None:
        typer.echo(write_comparison(found, out))
