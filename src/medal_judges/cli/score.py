"""``medal score``: dialogues in, judgements out."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from medal_judges.cli.options import (
    Device,
    Dimensions,
    DryRun,
    Dtype,
    JudgeName,
    MaxCost,
    MinCoverage,
    NoCache,
    Overrides,
    Overwrite,
    Repeats,
    RetryFailed,
    Revision,
    SkipBad,
    skipped_lines,
)

if TYPE_CHECKING:
    from medal_judges.dialogue import Dialogue
    from medal_judges.inference.scoring import ScoreOptions, ScoreReport
    from medal_judges.jsonl import Skipped
    from medal_judges.models.base.judge import Judge


def score(
    file: Annotated[str, typer.Argument(help="JSONL of dialogues (.gz too); - is standard input.")],
    judge: JudgeName,
    settings: Overrides = None,
    out: Annotated[str, typer.Option("--out", help="JSONL; - is standard output.")] = "-",
    dimension: Dimensions = None,
    level: Annotated[
        Literal["dialogue", "turn", "last"],
        typer.Option("--level", help="Judge the dialogue, each answer, or the last answer."),
    ] = "dialogue",
    skip_bad: SkipBad = False,
    min_coverage: MinCoverage = 0.98,
    token_budget: Annotated[
        int | None, typer.Option("--token-budget", min=1, help="Padded tokens of a batch.")
    ] = None,
    device: Device = None,
    dtype: Dtype = None,
    revision: Revision = None,
    overwrite: Overwrite = False,
    retry_failed: RetryFailed = False,
    unknown_language: Annotated[
        Literal["warn", "refuse"],
        typer.Option("--unknown-language", help="Languages that the judge was not made for."),
    ] = "warn",
    no_cache: NoCache = False,
    repeats: Repeats = None,
    dry_run: DryRun = False,
    max_cost: MaxCost = None,
) -> None:
    """Judge dialogues. The same command resumes after a stop, and asks again for rows that failed
    because a server was down or a limit was met."""
    from medal_judges.files import require_other_file
    from medal_judges.inference.judge_choice import choose_judge
    from medal_judges.inference.progress import show_kept
    from medal_judges.inference.scoring import ScoreOptions
    from medal_judges.jsonl import list_beside, read_dialogues

    require_other_file(out, [file])
    choice = choose_judge(
        judge, settings or (), device=device, dtype=dtype, revision=revision, repeats=repeats
    )
    loaded = choice.spending(max_cost, no_cache=no_cache, dry_run=dry_run).load()
    options = ScoreOptions(
        level, dimension, token_budget, unknown_language, overwrite, retry_failed
    )
    listed = None if out == "-" or dry_run else list_beside(out)
    skipped = skipped_lines(skip_bad, listed, [file])
    dialogues = read_dialogues(file, skipped=skipped)
    if dry_run:
        _estimate(dialogues, loaded, options, skipped)
        return
    write = _to_stdout if out == "-" else _to_file
    report = write(file, dialogues, loaded, options, Path(out))
    report.left_out = 0 if skipped is None else skipped.count
    _show(report, skipped, min_coverage, loaded)
    show_kept([loaded])
    report.require_coverage(min_coverage)


def _estimate(
    dialogues: Iterable[Dialogue], judge: Judge, options: ScoreOptions, skipped: Skipped | None
) -> None:
    from medal_judges.inference.dry_run import dry_run

    typer.echo(dry_run(dialogues, judge, options).text())
    if skipped is not None:
        typer.echo(skipped.summary(), err=True)


def _to_stdout(
    file: str, dialogues: Iterable[Dialogue], judge: Judge, options: ScoreOptions, _: Path
) -> ScoreReport:
    import time

    from medal_judges.inference.arriving import score_arriving
    from medal_judges.inference.scoring import ScoreOptions, ScoreReport
    from medal_judges.jsonl import STDIN, to_line

    report, start = ScoreReport(), time.perf_counter()
    # Who pipes line by line waits for an answer to each.
    judged = score_arriving if file == STDIN else ScoreOptions.score
    for judgement in judged(options, judge, dialogues):
        typer.echo(to_line(judgement), nl=False)
        report.add(judgement)
    report.seconds = time.perf_counter() - start
    report.dialogues = report.total
    return report


def _to_file(
    file: str, dialogues: Iterable[Dialogue], judge: Judge, options: ScoreOptions, out: Path
) -> ScoreReport:
    from medal_judges.files import only_run
    from medal_judges.inference.progress import scoring_bar
    from medal_judges.inference.scoring import score_to_file

    with only_run(out), scoring_bar(file) as advance:
        return score_to_file(dialogues, judge, out, options, progress=advance)


def _show(report: ScoreReport, skipped: Skipped | None, floor: float, judge: Judge) -> None:
    """Counts and speed on standard error; mean scores only when coverage holds."""
    from rich.table import Table

    from medal_judges.report.console import wide_console

    console = wide_console(stderr=True)
    for line in report.lines(judge.languages):
        console.print(line, highlight=False, soft_wrap=True)
    if skipped is not None:
        console.print(skipped.summary(), highlight=False, soft_wrap=True)
    if report.coverage is not None and report.coverage >= floor:
        table = Table("dimension", "mean", "n")
        for name, count in report.counts.items():
            table.add_row(name, f"{report.sums[name] / count:.3f}", str(count))
        console.print(table)
