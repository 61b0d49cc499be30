"""``medal score``: dialogues in, judgements out."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.table import Table

from medal_judges.cli import options as opt
from medal_judges.cli.reading_options import reading_report, reads_chats, show_reading
from medal_judges.inference.arriving import score_arriving
from medal_judges.inference.dry_run import dry_run
from medal_judges.inference.judge_choice import choose_judge
from medal_judges.inference.parallel.opening import opened
from medal_judges.inference.progress import scoring_bar, show_kept
from medal_judges.inference.scoring import ScoreOptions, ScoreReport, score_to_file
from medal_judges.models.base.judge import Judge
from medal_judges.reading.dialogues import dialogues_of
from medal_judges.reading.options import ReadOptions
from medal_judges.reading.report import ReadingReport, list_beside
from medal_judges.records.dialogue import Dialogue
from medal_judges.report.console import wide_console
from medal_judges.shipped import BOXED
from medal_judges.storage.files import only_run, require_other_file
from medal_judges.storage.jsonl import STDIN, to_line

_LONG = 10.0  # seconds after which a faster way is worth a line


ChatFile = Annotated[
    str, typer.Argument(metavar="FILE", help="Chats: a file of any form, hf:NAME:SPLIT, or -.")
]


@reads_chats()
def score(
    chats: ReadOptions,
    file: ChatFile,
    judge: opt.JudgeName = BOXED,
    settings: opt.Overrides = None,
    out: Annotated[
        str,
        typer.Option(
            "--out", help="File to write (.jsonl[.gz], .parquet, .csv[.gz]); - is standard output."
        ),
    ] = "-",
    dimension: opt.Dimensions = None,
    level: Annotated[
        Literal["dialogue", "turn", "last"],
        typer.Option("--level", help="Judge the dialogue, each answer, or the last answer."),
    ] = "dialogue",
    keep: opt.Keep = None,
    min_coverage: opt.MinCoverage = 0.98,
    token_budget: Annotated[
        int | None, typer.Option("--token-budget", min=1, help="Padded tokens of a batch.")
    ] = None,
    device: opt.Device = None,
    dtype: opt.Dtype = None,
    workers: opt.Workers = 1,
    revision: opt.Revision = None,
    overwrite: opt.Overwrite = False,
    retry_failed: opt.RetryFailed = False,
    unknown_language: opt.UnknownLanguages = "warn",
    detect_language: opt.DetectLanguage = None,
    no_cache: opt.NoCache = False,
    repeats: opt.Repeats = None,
    dry_run: opt.DryRun = False,
    max_cost: opt.MaxCost = None,
) -> None:
    """Judge dialogues. The same command resumes after a stop, and asks again for rows that failed
    because a server was down or a limit was met."""
    require_other_file(out, [file])
    choice = choose_judge(
        judge, settings or (), device=device, dtype=dtype, revision=revision, repeats=repeats
    )
    choice = choice.spending(max_cost, no_cache=no_cache, dry_run=dry_run)
    asked = (level, dimension, token_budget, unknown_language, overwrite, retry_failed)
    options = ScoreOptions(*asked, keep or (), detect_language)
    listed = None if out == "-" or dry_run else list_beside(out)
    with opened(choice, 1 if dry_run else workers, device) as loaded:
        reading = reading_report(chats, listed, [file])
        dialogues = dialogues_of(file, chats, reading)
        if dry_run:
            _estimate(dialogues, loaded, options, reading)
            return
        write = _to_stdout if out == "-" else _to_file
        report = write(file, dialogues, loaded, options, Path(out))
    _tell_reading(reading, report)
    _show(report, min_coverage, loaded.languages, loaded.advice())
    show_kept([loaded])
    reading.require_rest()
    report.require_coverage(min_coverage)


def _tell_reading(reading: ReadingReport, report: ScoreReport) -> None:
    report.left_out = reading.count
    show_reading(reading, always=True)


def _estimate(
    dialogues: Iterable[Dialogue], judge: Judge, options: ScoreOptions, reading: ReadingReport
) -> None:
    typer.echo(dry_run(dialogues, judge, options).text())
    show_reading(reading, always=True)


def _to_stdout(
    file: str, dialogues: Iterable[Dialogue], judge: Judge, options: ScoreOptions, _: Path
) -> ScoreReport:
    report, start = ScoreReport(), time.perf_counter()
    # Who pipes line by line waits for an answer to each; several processes want whole windows.
    at_once = file == STDIN and not judge.resumes_windows
    judged = score_arriving if at_once else ScoreOptions.score
    for judgement in judged(options, judge, dialogues):
        typer.echo(to_line(judgement).encode(), nl=False)  # UTF-8 on every console
        report.add(judgement)
    report.seconds = time.perf_counter() - start
    report.dialogues = report.total
    return report


def _to_file(
    file: str, dialogues: Iterable[Dialogue], judge: Judge, options: ScoreOptions, out: Path
) -> ScoreReport:
    with only_run(out), scoring_bar() as advance:
        return score_to_file(dialogues, judge, out, options, progress=advance)


def _show(
    report: ScoreReport, floor: float, languages: Sequence[str] | None, advice: str | None
) -> None:
    """Counts and speed on standard error; mean scores only when coverage holds."""
    console = wide_console(stderr=True)
    for line in report.lines(languages):
        console.print(line, highlight=False, soft_wrap=True)
    if advice is not None and report.seconds > _LONG:
        console.print(f"  {advice}", highlight=False, soft_wrap=True)
    if report.coverage is not None and report.coverage >= floor:
        table = Table("dimension", "mean", "n")
        for name, count in report.counts.items():
            table.add_row(name, f"{report.sums[name] / count:.3f}", str(count))
        console.print(table)
