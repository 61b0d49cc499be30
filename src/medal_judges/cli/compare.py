"""``medal compare``: which of several systems is better."""

from __future__ import annotations

import typer

from medal_judges.cli.options import exit_by_gates, with_options
from medal_judges.eval.comparison.compare import compare as compare_systems
from medal_judges.eval.comparison.page import comparison_page
from medal_judges.eval.comparison.results import gate_lines, gate_verdicts
from medal_judges.eval.comparison.systems import CompareOptions
from medal_judges.reading.dialogues import start_report
from medal_judges.report.console import ProgressBar
from medal_judges.report.junit import write_junit
from medal_judges.report.page import print_and_write


@with_options(locks="folder")
def compare(options: CompareOptions) -> None:
    """Compare versions or chatbots by a judge's scores: differences, their intervals, and the
    smallest differences that these chats could show.

    A chat of one system is paired with the chat of the other that has the same id, or the same
    --context. With --human, people's labels of some chats correct a judge that favours one system.
    With --out, results are written as a page, JSON and tables.

    A mean hides a few chats that are much worse. --bad overall=1.5 adds the share of scores below
    1.5.

    A gate stops a release: --fail-if-worse is a gate on means, --fail-if-more-bad on shares of bad
    scores. The exit status is 1 if a gate fails, 4 if it is undecided, and 2 or 3 if it cannot be
    computed.

    Example: medal compare v1.jsonl v2.jsonl --out compared
    """
    reading = start_report(options.reading, options.out)
    reading.copied = options.columns
    with ProgressBar("judging") as bar:
        comparison = compare_systems(options, reading=reading, progress=bar.advance)
    reading.show()
    print_and_write(comparison_page(comparison), options.out)
    gates = gate_verdicts(comparison, options)
    for line in gate_lines(gates):
        typer.echo(line)
    if options.junit is not None:
        files = [path.name for path in options.sources.values()]
        write_junit(options.junit, ".".join(["medal compare", *files]), gates)
    exit_by_gates([verdict for _, verdict, _ in gates])
