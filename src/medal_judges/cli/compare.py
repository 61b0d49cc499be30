"""``medal compare``: which of several systems is better."""

from __future__ import annotations

import typer

from medal_judges.cli.options import from_options, writes
from medal_judges.eval.comparison.compare import compare as compared
from medal_judges.eval.comparison.page import comparison_page
from medal_judges.eval.comparison.results import check_worse
from medal_judges.eval.comparison.rows import CompareOptions
from medal_judges.reading.dialogues import reading_report
from medal_judges.report.console import ProgressBar
from medal_judges.report.junit import write_junit
from medal_judges.report.page import publish


@from_options
@writes(folder=True)
def compare(options: CompareOptions) -> None:
    """Compare systems by a judge's scores: differences, intervals, ranks, and the smallest
    differences that these dialogues could show. Contexts that systems share are compared pairwise.
    With --human, human labels of some dialogues correct a judge that favours one system.
    --fail-if-worse is a gate with the exit codes of medal report. With
    --out: compare.html, compare.json, tables/, figures/."""
    reading = reading_report(options.reading, options.out)
    reading.copied = [options.by or ""]
    with ProgressBar("judging") as bar:
        comparison = compared(options, reading=reading, progress=bar.advance)
    reading.show()
    publish(comparison_page(comparison), options.out)
    if options.fail_if_worse is None:
        return
    gates = check_worse(comparison, options.fail_if_worse, options.min_coverage)
    for name, _, text in gates:
        typer.echo(f"gate {name}: {text}")
    if options.junit is not None:
        write_junit(options.junit, "medal compare", gates)
    if options.fail_undecided:
        failing = {"failed", "undecided"}
    else:
        failing = {"failed"}
    if any(verdict in failing for _, verdict, _ in gates):
        raise typer.Exit(1)
