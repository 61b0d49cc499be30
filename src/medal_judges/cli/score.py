"""``medal score``: dialogues in, judgements out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from medal_judges.inference.judge_options import judge_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from medal_judges.inference.scoring import ScoreReport
    from medal_judges.jsonl import Skipped
    from medal_judges.models.base.judge import Judge


def score(
    file: Annotated[str, typer.Argument(help="JSONL of dialogues (.gz too); - is standard input.")],
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="[FIELD=VALUE]...", help="For YAML judges.")
    ] = None,
    judge: Annotated[
        str,
        typer.Option("--judge", help="Shipped name (medal judges), YAML file, folder or hub id."),
    ] = "",
    out: Annotated[str, typer.Option("--out", help="JSONL; - is standard output.")] = "-",
    dimension: Annotated[
        list[str] | None, typer.Option("--dimension", help="Only this one; may be repeated.")
    ] = None,
    level: Annotated[
        str, typer.Option("--level", help="dialogue, turn (each answer) or last (the last).")
    ] = "dialogue",
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave bad lines out, count and list them.")
    ] = False,
    min_coverage: Annotated[
        float, typer.Option("--min-coverage", min=0, max=1, help="Floor; below it exit code 3.")
    ] = 0.98,
    token_budget: Annotated[
        int | None, typer.Option("--token-budget", min=1, help="Padded tokens a batch.")
    ] = None,
    device: Annotated[str | None, typer.Option("--device", help="cpu, cuda, cuda:1, ...")] = None,
    dtype: Annotated[
        str | None, typer.Option("--dtype", help="fp32 (saved judges' default), bf16 or fp16.")
    ] = None,
    revision: Annotated[str | None, typer.Option("--revision", help="Of a hub judge.")] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Start OUT again from the beginning.")
    ] = False,
    retry_failed: Annotated[
        bool,
        typer.Option("--retry-failed", help="Ask again for every row of OUT without a score."),
    ] = False,
    unknown_language: Annotated[
        str, typer.Option("--unknown-language", help="Not the judge's: warn, or refuse (unscored).")
    ] = "warn",
    no_cache: Annotated[
        bool,
        typer.Option("--no-cache", help="No answers kept on disk (rows of OUT stay: --overwrite)."),
    ] = False,
    repeats: Annotated[
        int | None, typer.Option("--repeats", min=1, help="Ask a prompted judge so many times.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Requests, tokens and dollars at most; sends nothing.")
    ] = False,
    max_cost: Annotated[
        float | None, typer.Option("--max-cost", min=0, help="US dollars; stops before more.")
    ] = None,
) -> None:
    """Judge dialogues. The same command resumes after a stop, and asks again for rows that failed
    because a server was down or a limit was met."""
    from medal_judges.files import require_other_file
    from medal_judges.inference.progress import show_kept
    from medal_judges.jsonl import read_dialogues
    from medal_judges.shipped import judge_file

    _require_judge_and_level(judge, level)
    judge = judge_file(judge) or judge
    require_other_file(out, [file])
    if repeats is not None:
        settings = [*(settings or []), f"repeats={repeats}"]
    options = judge_options(judge, device, dtype, settings)
    loaded = _load(judge, revision, options, dry_run, max_cost, no_cache)
    skipped = _skipped(file, out, dry_run) if skip_bad else None
    dialogues = read_dialogues(file, skipped=skipped)
    if dry_run:
        _estimate(dialogues, loaded, level, dimension)
        if skipped is not None:
            typer.echo(skipped.summary(), err=True)
        return
    if out == "-":
        report = _to_stdout(
            file, dialogues, loaded, level, dimension, token_budget, unknown_language
        )
    else:
        again = (overwrite, retry_failed)
        report = _to_file(
            file, dialogues, loaded, out, level, dimension, token_budget, *again, unknown_language
        )
    report.left_out = 0 if skipped is None else skipped.count
    _show(report, skipped, min_coverage, loaded.languages)
    show_kept([loaded])
    report.require_coverage(min_coverage)


def _require_judge_and_level(judge: str, level: str) -> None:
    from medal_judges.errors import ConfigError

    if not judge:
        raise ConfigError(
            "no judge given",
            hint="--judge contrast (medal judges has the names), a folder, a hub id",
        )
    if level not in ("dialogue", "turn", "last"):
        raise ConfigError(f"--level must be dialogue, turn or last, not {level!r}")


def _skipped(file: str, out: str, dry_run: bool) -> Skipped:
    """Where bad lines are listed: in a file beside OUT; without one all on standard error."""
    from medal_judges.files import require_other_file
    from medal_judges.jsonl import Skipped, list_beside

    if out == "-" or dry_run:
        return Skipped(keep=None)
    require_other_file(list_beside(out), [file], option="the list of bad lines")
    return Skipped(list_beside(out))


def _load(
    judge: str,
    revision: str | None,
    options: dict[str, Any],
    dry_run: bool,
    max_cost: float | None,
    no_cache: bool,
) -> Judge:
    from medal_judges.models.base.judge import Judge

    if no_cache:
        from medal_judges.cli.spending_options import without_cache

        options = without_cache(judge, options)
    if dry_run or max_cost is not None:
        from medal_judges.cli.spending_options import with_spending

        options = with_spending(judge, options, dry_run=dry_run, max_cost=max_cost)
    return Judge.from_pretrained(judge, revision=revision, **options)


def _estimate(dialogues: Any, judge: Judge, level: Any, dimension: list[str] | None) -> None:
    from medal_judges.inference.dry_run import dry_run, show

    typer.echo(show(dry_run(dialogues, judge, level=level, dimensions=dimension)))


def _to_stdout(
    file: str,
    dialogues: Any,
    judge: Any,
    level: Any,
    dimension: list[str] | None,
    token_budget: int | None,
    unknown_language: Any,
) -> ScoreReport:
    import time

    from medal_judges.inference.arriving import score_arriving
    from medal_judges.inference.scoring import ScoreReport
    from medal_judges.jsonl import STDIN, to_line

    report, start = ScoreReport(), time.perf_counter()
    asked = {"level": level, "dimensions": dimension, "token_budget": token_budget}
    asked["unknown_language"] = unknown_language
    piped = file == STDIN  # who pipes line by line waits for an answer to each
    judged = score_arriving(dialogues, judge, **asked) if piped else judge.score(dialogues, **asked)
    for judgement in judged:
        typer.echo(to_line(judgement), nl=False)
        report.add(judgement)
    report.seconds = time.perf_counter() - start
    report.dialogues = report.total
    return report


def _to_file(
    file: str,
    dialogues: Any,
    judge: Any,
    out: str,
    level: Any,
    dimension: list[str] | None,
    token_budget: int | None,
    overwrite: bool,
    retry_failed: bool,
    unknown_language: Any,
) -> ScoreReport:
    from pathlib import Path

    from medal_judges.files import only_run
    from medal_judges.inference.progress import scoring_bar
    from medal_judges.inference.scoring import ScoreOptions, score_to_file

    with only_run(out), scoring_bar(file) as advance:
        return score_to_file(
            dialogues,
            judge,
            Path(out),
            ScoreOptions(level, dimension, token_budget, unknown_language, overwrite, retry_failed),
            progress=advance,
        )


def _show(report: ScoreReport, skipped: Any, floor: float, languages: Sequence[str] | None) -> None:
    """Counts and speed on standard error; mean scores only when coverage holds."""
    from rich.console import Console
    from rich.table import Table

    # Reasons and names come from servers and files: rich must not read [/INST] as markup.
    console = Console(stderr=True, markup=False, emoji=False)
    coverage = "–" if report.coverage is None else f"{report.coverage:.1%}"
    again = f", {report.asked_again} asked again" if report.asked_again else ""
    from_before = f"{report.resumed} from before{again}"
    console.print(f"{report.total} judgements ({from_before}), coverage {coverage}")
    for reason, count in report.failures.most_common():
        console.print(f"  unscored: {count} x {reason}")
    if report.next_try:
        console.print(f"  {report.next_try.removesuffix('; ')}")
    known = "any, or not known" if languages is None else ", ".join(languages)
    console.print(f"  languages that the judge was made for: {known}")
    if report.languages:
        told = ", ".join(f"{lang} ({count})" for lang, count in report.languages.most_common())
        console.print(f"  judgements in other languages: {told}")
    if report.truncated:
        console.print(
            f"  {report.truncated} lost {report.truncated_turns} whole turns to the window"
        )
    if report.dialogues and report.seconds:
        rate = report.dialogues / report.seconds
        console.print(
            f"{report.dialogues} dialogues in {report.seconds:.1f} s: {rate:.1f} dialogues/s"
        )
    if skipped is not None:
        console.print(skipped.summary(), soft_wrap=True)
    if report.coverage is not None and report.coverage >= floor:
        table = Table("dimension", "mean", "n")
        for name, count in report.counts.items():
            table.add_row(name, f"{report.sums[name] / count:.3f}", str(count))
        console.print(table)
