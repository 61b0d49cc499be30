"""``medal report``: how good a body of scored chats is, and which ones to read."""

from __future__ import annotations

from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Annotated

import typer

from medal_judges.cli import options as opt
from medal_judges.cli.reading_options import reading_report, reads_chats, show_reading
from medal_judges.errors import ConfigError
from medal_judges.eval.traffic.gate import Gate
from medal_judges.eval.traffic.reading import TrafficOptions
from medal_judges.eval.traffic.report import TrafficInput, TrafficRequest, report_traffic
from medal_judges.eval.traffic.terminal import print_traffic
from medal_judges.eval.traffic.times import TimeColumn
from medal_judges.reading.dialogues import dialogues_of, labelled_of
from medal_judges.reading.options import ReadOptions
from medal_judges.reading.report import ReadingReport
from medal_judges.report.progress import ProgressBar
from medal_judges.storage.jsonl import STDIN
from medal_judges.storage.judgements import read_judgements

Chats = Annotated[
    str | None, typer.Option("--chats", help="The chats that were scored: texts and columns.")
]
By = Annotated[
    list[str] | None, typer.Option("--by", help="Column to compare by; may be repeated.")
]
Over = Annotated[
    str | None, typer.Option("--over", help="COLUMN:UNIT of time, for example time:day.")
]
Cluster = Annotated[
    str | None, typer.Option("--cluster", help="Column whose rows belong together, such as user.")
]
FailUnder = Annotated[
    list[str] | None,
    typer.Option("--fail-under", metavar="DIM=X", help="Gate: at least this; overall=3.5."),
]
FailOver = Annotated[
    list[str] | None,
    typer.Option("--fail-over", metavar="DIM=X", help="Gate: at most this; unsafe=0.01."),
]
FailUndecided = Annotated[
    bool, typer.Option("--fail-undecided", help="A limit inside the interval fails its gate too.")
]
Human = Annotated[
    str | None, typer.Option("--human", help="People's labels of a random sample of the chats.")
]


@reads_chats(labels=True)
@opt.writes("scores", "chats", "human", folder=True)
def report(
    forms: ReadOptions,
    scores: Annotated[
        str, typer.Argument(metavar="SCORES", help="Judgements, as medal score writes them.")
    ],
    chats: Chats = None,
    by: By = None,
    over: Over = None,
    cluster: Cluster = None,
    human: Human = None,
    dimension: opt.Dimensions = None,
    rubric: Annotated[
        str | None,
        typer.Option("--rubric", help="Shipped name or YAML file: scales of the scores."),
    ] = None,
    fail_under: FailUnder = None,
    fail_over: FailOver = None,
    fail_undecided: FailUndecided = False,
    min_coverage: opt.MinCoverage = 0.98,
    conversations: Annotated[
        int, typer.Option("--conversations", min=1, help="Most conversations on the page.")
    ] = 10_000,
    title: Annotated[str | None, typer.Option("--title", help="Heading of the page.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder to write: the page, CSV and PNG.")
    ] = None,
) -> None:
    """How good a body of scored chats is, what goes wrong, where and since when.

    A gate holds the 95% interval of a dimension (mean, or share of chats with an issue) against a
    limit. It fails, and the exit code is 1, where the whole interval lies on the wrong side; where
    the limit lies inside the interval these chats show neither: that is said, and fails with
    --fail-undecided. A gate that says nothing (no such dimension, no scores, too few chats,
    coverage under --min-coverage) is an error (exit code 2 or 3), not a pass.

    With --human, people's labels on a random sample of the chats, every figure that they labelled
    is corrected for the judge's errors (prediction-powered inference), also for the gates.
    """
    reading = reading_report(forms, None if out is None else out / "skipped.jsonl")
    source = _source(scores, chats, human, forms, reading)
    gates = [Gate.parse("under", text) for text in fail_under or ()]
    gates += [Gate.parse("over", text) for text in fail_over or ()]
    options = TrafficOptions(
        by or (), None if over is None else TimeColumn.parse(over), cluster, dimension or (), rubric
    )
    request = TrafficRequest(
        options, gates, min_coverage, conversations, title or f"Scored chats: {Path(scores).name}"
    )
    with ProgressBar("reading", unit="rows", visible=True) as bar:
        outcome = report_traffic(source, request, out, bar)
    show_reading(reading)
    print_traffic(outcome)
    failing = ("failed", "undecided") if fail_undecided else ("failed",)
    if any(each.verdict in failing for each in outcome.gates):
        raise typer.Exit(1)


def _source(
    scores: str,
    chats: str | None,
    human: str | None,
    forms: ReadOptions,
    reading: ReadingReport,
) -> TrafficInput:
    """The files; bad rows of the first pass over them are counted in ``reading``. Raises
    ConfigError for standard input."""
    if STDIN in (scores, chats, human):
        raise ConfigError(
            "medal report reads its files more than once, so standard input will not do",
            hint="write it to a file first",
        )
    passes = chain([reading], repeat(ReadingReport(keep=0, strict=forms.strict)))
    return TrafficInput(
        partial(read_judgements, scores),
        None if chats is None else lambda: dialogues_of(chats, forms, next(passes)),
        [Path(name).name for name in (scores, chats, human) if name],
        None if human is None else partial(labelled_of, human, forms, reading),
        Path(human or "").name,
    )
