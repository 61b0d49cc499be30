"""``medal report``: reports how good scored chats are, and which ones to read."""

from __future__ import annotations

from medal_judges.cli.options import exit_by_gates, with_options
from medal_judges.eval.report.options import ReportOptions
from medal_judges.eval.report.report import make_report, print_report
from medal_judges.reading.dialogues import start_report


@with_options(locks="folder")
def report(options: ReportOptions) -> None:
    """Show how good scored chats are, which chats to read, and where they are worse: in which
    groups, in which periods, and why.

    A gate stops a release: it compares the 95% interval of a dimension (mean, or share of chats
    with an issue) with a limit.

    A gate fails, with exit status 1, if the whole interval is on the wrong side. If the limit is
    inside the interval, the gate is undecided (exit status 4, unless another gate fails).

    A gate that cannot be computed (unknown dimension, no scores, too few chats, fewer scores than
    --min-coverage) is an error (exit status 2 or 3), not a pass.

    A mean hides a few chats that are much worse. So each graded dimension also has the share of its
    bad scores. --bad overall=1.5 counts scores below 1.5 as bad, and --fail-over bad=0.1 is a gate
    on the share.

    With --human, people's labels of a random sample of the chats correct the judge's errors in
    means, shares and gates (prediction-powered inference).

    Example: medal report scores.jsonl --chats chats.jsonl --out report
    """
    reading = start_report(options.reading, options.out)
    reading.copied = options.by
    report_values = make_report(options, reading)
    reading.show()
    print_report(report_values)
    exit_by_gates([gate.verdict for gate in report_values.gates])
