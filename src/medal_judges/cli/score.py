"""``medal score``: scores dialogues."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from shlex import quote
from typing import Any

import typer

from medal_judges.cli.options import from_options
from medal_judges.config import DRY_RUN, Config, option
from medal_judges.errors import visible
from medal_judges.inference.dry_run import dry_run
from medal_judges.inference.judge_choice import JudgeOptions, cached_answers
from medal_judges.inference.scoring import (
    MIN_COVERAGE,
    ScoreOptions,
    ScoreReport,
    opened,
    score_each,
    score_to_file,
)
from medal_judges.models.base.judge import Judge
from medal_judges.reading.dialogues import (
    ReadOptionsWithoutLabels,
    dialogues_of,
    reading_report,
)
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement
from medal_judges.report.console import ProgressBar
from medal_judges.storage.files import only_run
from medal_judges.storage.jsonl import to_line


class ScoreCommand(Config):
    file: str = option(
        argument=True, help="Chats: a file of any form, hf:NAME:SPLIT, or -."
    )
    judge: JudgeOptions = JudgeOptions()
    out: str = option(
        "-",
        help="File to write (.jsonl[.gz], .parquet, .csv[.gz]); - is standard output.",
    )
    scoring: ScoreOptions = ScoreOptions()
    min_coverage: float = option(
        MIN_COVERAGE, ge=0, le=1, help="Minimum coverage; exits with status 3 below it."
    )
    workers: int = option(
        1,
        ge=1,
        help="Number of processes (extra ray); on GPUs one per GPU. With RAY_ADDRESS set, of that "
        "Ray cluster.",
    )
    dry_run: bool = DRY_RUN
    reading: ReadOptionsWithoutLabels = ReadOptionsWithoutLabels()


@from_options
def score(options: ScoreCommand) -> None:
    """Score dialogues. The same command resumes after a stop, and retries rows that failed because
    of a server or a limit.

    Example: medal score chats.jsonl --out scores.jsonl
    """
    file, out = options.file, options.out
    choice = options.judge.choose(dry_run=options.dry_run)
    out_file = None
    if out != "-" and not options.dry_run:
        out_file = Path(out)
    workers = options.workers
    if options.dry_run:
        workers = 1
    # Before anything is loaded or removed, in this process alone.
    lock: AbstractContextManager[None] = nullcontext()
    if out_file is not None:
        lock = only_run(out_file)
    with lock, opened(choice, workers, options.judge.device) as judge:
        reading = reading_report(options.reading, beside=out_file)
        reading.copied = options.scoring.keep
        dialogues = dialogues_of(file, options.reading, reading)
        if options.dry_run:
            typer.echo(dry_run(dialogues, judge, options.scoring))
            reading.show(always=True)
            return
        if out_file is None:
            report = _score_to_screen(dialogues, judge, options.scoring)
        else:
            with ProgressBar("scoring") as bar:
                report = score_to_file(
                    dialogues,
                    judge,
                    out_file,
                    options.scoring,
                    progress=bar.advance,
                    read_as=options.reading.to_record(),
                )
    report.left_out = reading.count
    reading.show(always=True)
    _print_report(report, judge, options)
    cached = cached_answers([judge])
    if cached is not None:
        typer.echo(cached, err=True)
    reading.require_rest()
    report.require_coverage(options.min_coverage)


def _score_to_screen(
    dialogues: Iterable[Dialogue], judge: Judge, options: ScoreOptions
) -> ScoreReport:
    """Prints the judgements: as JSON lines, in a terminal as text."""
    start = time.perf_counter()
    first: dict[str, Any] = {"dimensions": [d.to_record() for d in judge.dimensions]}

    def show(judgement: Judgement, record: dict[str, Any]) -> None:
        nonlocal first
        if not sys.stdout.isatty():
            line = to_line(record | first)
            first = {}
            typer.echo(line.encode(), nl=False)  # UTF-8 on every console
            return
        words = [judgement.id]
        if judgement.turn is not None:
            words.append(f"turn {judgement.turn}")
        for name, value in judgement.scores.items():
            if value is not None:
                words.append(f"{name} {value:.2f}")
        typer.echo(visible("  ".join([*words, judgement.failure or ""])))

    report = score_each(dialogues, judge, options, show)
    report.seconds = time.perf_counter() - start
    return report


def _print_report(report: ScoreReport, judge: Judge, options: ScoreCommand) -> None:
    """Prints the counts of a run, and if its coverage is high enough, the mean scores and the next
    command."""
    lines = list(report.lines(judge.languages))
    if report.coverage is not None and report.coverage >= options.min_coverage:
        names_by_mean: dict[str, list[str]] = {}  # a baseline says the same of many
        for name, count in report.counts.items():
            mean = f"{report.sums[name] / count:.3f}"
            names_by_mean.setdefault(mean, []).append(name)
        for mean, names in names_by_mean.items():
            lines.append(f"mean {mean}: {', '.join(names)}")
        if options.out != "-" and sys.stderr.isatty():
            out, file = quote(options.out), quote(options.file)
            lines.append(f"next: medal report {out} --chats {file} --out report")
    typer.echo(visible("\n".join(lines)), err=True)
