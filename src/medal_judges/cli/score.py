"""``medal score``: scores dialogues."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from pathlib import Path
from shlex import quote

import typer
from rich.table import Table

from medal_judges.cli.options import DRY_RUN, from_options
from medal_judges.config import Config, option
from medal_judges.errors import ConfigError
from medal_judges.inference.dry_run import dry_run
from medal_judges.inference.judge_choice import JudgeOptions, cached_answers
from medal_judges.inference.scoring import (
    MIN_COVERAGE,
    ScoreOptions,
    ScoreReport,
    opened,
    score_to_file,
)
from medal_judges.reading.dialogues import ReadOptionsWithoutLabels, dialogues_of, reading_report
from medal_judges.report.console import ProgressBar, wide_console
from medal_judges.storage.files import only_run
from medal_judges.storage.jsonl import to_line

_SHOWN = 40  # rows in a terminal


class ScoreCommand(Config):
    file: str = option(argument=True, help="Chats: a file of any form, hf:NAME:SPLIT, or -.")
    judge: JudgeOptions = JudgeOptions()
    out: str = option(
        "-", help="File to write (.jsonl[.gz], .parquet, .csv[.gz]); - is standard output."
    )
    scoring: ScoreOptions = ScoreOptions()
    min_coverage: float = option(
        MIN_COVERAGE, ge=0, le=1, help="Minimum coverage; exits with status 3 below it."
    )
    workers: int = option(1, ge=1, help="Number of processes (extra ray); on GPUs one per GPU.")
    ray: str | None = option(
        None,
        metavar="ADDRESS",
        help="Score on a Ray cluster (auto, HOST:6379); --workers limits the processes.",
    )
    dry_run: bool = DRY_RUN
    quiet: bool = option(False, help="Print nothing but scores, bad rows and errors.")
    reading: ReadOptionsWithoutLabels = ReadOptionsWithoutLabels()


@from_options
def score(options: ScoreCommand) -> None:
    """Score dialogues. The same command resumes after a stop, and retries rows that failed because
    of a server or a limit."""
    file, out = options.file, options.out
    choice = options.judge.choose(dry_run=options.dry_run)
    if options.ray is not None and choice.pays:
        raise ConfigError(
            "a judge that pays for its answers is not scored on a cluster: only one process can "
            "keep its cost limit",
            hint="leave --ray out: one process sends many requests at a time",
        )
    device = options.judge.device
    beside = None if out == "-" or options.dry_run else out
    workers, address = (1, None) if options.dry_run else (options.workers, options.ray)
    # Before anything is loaded or removed, in this process alone.
    lock = nullcontext() if beside is None else only_run(beside)
    with lock, opened(choice, workers, device, address) as judge:
        reading = reading_report(options.reading, None, [file], beside=beside)
        reading.copied = options.scoring.keep
        dialogues = dialogues_of(file, options.reading, reading)
        if options.dry_run:
            typer.echo(dry_run(dialogues, judge, options.scoring))
            reading.show(always=True)
            return
        if out == "-":
            report, start = ScoreReport(), time.perf_counter()
            shown = Table("id", "turn", "scores") if sys.stdout.isatty() else None
            for judgement in options.scoring.score(judge, dialogues):
                report.add(judgement)
                if shown is None:
                    typer.echo(to_line(judgement).encode(), nl=False)  # UTF-8 on every console
                elif report.total <= _SHOWN:
                    scores = (
                        f"{n} {'–' if v is None else f'{v:.2f}'}"
                        for n, v in judgement.scores.items()
                    )
                    turn = "" if judgement.turn is None else str(judgement.turn)
                    shown.add_row(judgement.id, turn, ", ".join(scores))
            if shown is not None:
                wide_console().print(shown)
                if report.total > _SHOWN:
                    typer.echo(f"and {report.total - _SHOWN:,} more; --out FILE writes all of them")
            report.seconds = time.perf_counter() - start
            report.dialogues = report.total
        else:
            with ProgressBar("scoring", visible=not options.quiet) as bar:
                report = score_to_file(
                    dialogues, judge, Path(out), options.scoring, progress=bar.advance
                )
    report.left_out = reading.count
    reading.show(always=not options.quiet)
    console = wide_console(stderr=True)
    for line in () if options.quiet else report.lines(judge.languages):
        console.print(line, highlight=False, soft_wrap=True)
    enough = report.coverage is not None and report.coverage >= options.min_coverage
    if enough and not options.quiet:
        table = Table("dimension", "mean", "n")
        equal: dict[tuple[float, int], list[str]] = {}  # a baseline says the same of many
        for name, count in report.counts.items():
            equal.setdefault((report.sums[name] / count, count), []).append(name)
        for (mean, count), names in equal.items():
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            table.add_row(names[0] + more, f"{mean:.3f}", str(count))
        console.print(table)
        if out != "-" and console.is_terminal:
            after = f"next: medal report {quote(out)} --chats {quote(file)} --out report"
            if file == "-":
                after = f"next: medal report {quote(out)} --out report"
            console.print(after, soft_wrap=True, highlight=False)
    if judge.language_models() and (cached := cached_answers([judge])):
        typer.echo(cached, err=True)
    reading.require_rest()
    report.require_coverage(options.min_coverage)
