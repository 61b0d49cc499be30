"""``medal score``: scores dialogues."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import typer

from medal_judges.cli.options import with_options
from medal_judges.config import (
    BOXED,
    DEVICE,
    MAX_COST,
    OVERRIDES,
    option,
)
from medal_judges.errors import printable
from medal_judges.inference.judge_choice import cache_sentence, choose_judge
from medal_judges.inference.scoring import (
    MIN_COVERAGE,
    ScoreOptions,
    ScoreReport,
    open_judge,
    score_and_write_each,
    score_to_file,
)
from medal_judges.models.base.judge import Judge
from medal_judges.reading.dialogues import (
    ReadOptionsWithoutLabels,
    start_report,
    stream_dialogues,
)
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement
from medal_judges.report.console import ProgressBar
from medal_judges.storage.files import output_lock
from medal_judges.storage.jsonl import json_line


@with_options()
def score(
    *,
    file: str = option(
        argument=True,
        help="File of chats in any form, hf:NAME:SPLIT, or - (standard input).",
    ),
    settings: tuple[str, ...] = OVERRIDES,
    judge: str = option(
        BOXED,
        help="Shipped name (medal judges), YAML file, folder, or Hub id (ORG/NAME@REVISION).",
    ),
    device: str | None = DEVICE,
    max_cost: float | None = MAX_COST,
    out: str = option(
        "-", help="File to write: .jsonl, .parquet or .csv. Or - (standard output)."
    ),
    scoring: ScoreOptions,
    min_coverage: float = option(
        MIN_COVERAGE,
        ge=0,
        le=1,
        help="Share of chats that need a score. Exit status 3 below it.",
    ),
    workers: int = option(
        1,
        ge=1,
        help="Number of processes, on GPUs one per GPU. Needs the extra ray. RAY_ADDRESS names "
        "a Ray cluster.",
    ),
    dry_run: bool = option(
        False,
        help="Estimate requests, tokens and highest cost. Send nothing.",
    ),
    reading: ReadOptionsWithoutLabels,
) -> None:
    """Score each chat of a file with a judge, and write one line for each chat.

    The same command resumes after a stop. It scores again what failed because of a server error or
    the cost limit.

    Example: medal score chats.jsonl --out scores.jsonl
    """
    choice = choose_judge(judge, settings, device=device)
    choice = choice.with_spending(max_cost, dry_run=dry_run)
    out_file = None
    if out != "-" and not dry_run:
        out_file = Path(out)
    if dry_run:
        workers = 1
    # Before anything is loaded or removed, in this process alone.
    lock: AbstractContextManager[None] = nullcontext()
    if out_file is not None:
        lock = output_lock(out_file)
    with lock, open_judge(choice, workers, device) as loaded:
        report_of_reading = start_report(reading, beside=out_file)
        report_of_reading.copied = scoring.keep
        dialogues = stream_dialogues(file, reading, report_of_reading)
        if dry_run:
            from medal_judges.inference.dry_run import estimate_cost_as_text

            typer.echo(estimate_cost_as_text(dialogues, loaded, scoring))
            report_of_reading.show(always=True)
            return
        if out_file is None:
            report = _score_to_screen(dialogues, loaded, scoring)
        else:
            with ProgressBar("scoring") as bar:
                report = score_to_file(
                    dialogues,
                    loaded,
                    out_file,
                    scoring,
                    progress=bar.advance,
                    read_as=reading.format_and_columns(),
                )
    report.left_out = report_of_reading.count
    report_of_reading.show(always=True)
    lines = list(report.lines(loaded.languages))
    if report.coverage is not None and report.coverage >= min_coverage:
        lines += report.mean_lines()
    typer.echo(printable("\n".join(lines)), err=True)
    cached = cache_sentence([loaded])
    if cached is not None:
        typer.echo(cached, err=True)
    report_of_reading.require_dialogues()
    report.require_coverage(min_coverage)


def _score_to_screen(
    dialogues: Iterable[Dialogue], judge: Judge, options: ScoreOptions
) -> ScoreReport:
    """Scores ``dialogues`` with ``judge``, prints each judgement as a JSON line, and returns the
    counts of the run.

    Args:
        options: What is scored (dialogues or turns, which dimensions), and how.
    """
    start = time.perf_counter()
    first: dict[str, Any] = {"dimensions": [d.to_record() for d in judge.dimensions]}

    def show(judgement: Judgement, record: dict[str, Any]) -> None:
        nonlocal first
        # UTF-8 on every console
        typer.echo(printable(json_line(record | first)).encode(), nl=False)
        first = {}

    report = score_and_write_each(dialogues, judge, options, show)
    report.seconds = time.perf_counter() - start
    return report
