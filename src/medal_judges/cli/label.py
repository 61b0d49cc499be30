"""``medal label``: labels of a judge for every dialogue, malformed users apart."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from medal_judges.cli import options as opt
from medal_judges.cli.reading_options import reading_report, reads_chats, show_reading
from medal_judges.data_prep.labelling.labels import languages_to_label
from medal_judges.data_prep.labelling.run import LabellingRun, share_limiter
from medal_judges.data_prep.labelling.summary import Summary, tables
from medal_judges.errors import ConfigError
from medal_judges.inference.dry_run import counting_model, dry_run
from medal_judges.inference.judge_choice import JudgeChoice, choose_judge
from medal_judges.inference.progress import show_cached
from medal_judges.models.base.judge import Judge
from medal_judges.reading.dialogues import dialogues_of, labelled_of
from medal_judges.reading.options import ReadOptions
from medal_judges.reading.report import ReadingReport
from medal_judges.report.console import rich_table, wide_console
from medal_judges.storage.files import only_run_in, require_other_file

JUDGE = "configs/judges/medal_gpt41.yaml"
USER_JUDGE = "configs/judges/malformed.yaml"
OF_USER = "user."
_WRITTEN = (
    *("judgements.jsonl", "user_judgements.jsonl", "labelled.jsonl", "malformed.jsonl"),
    *("unlabelled.jsonl", "language_check.jsonl"),
)


Settings = Annotated[
    list[str] | None,
    typer.Argument(metavar="FIELD=VALUE", help="Of --judge; user.FIELD of --user-judge."),
]
UserJudge = Annotated[
    str | None,
    typer.Option("--user-judge", help=f"{USER_JUDGE} with the model of --judge, unless given."),
]


@reads_chats()
def label(
    chats: ReadOptions,
    file: Annotated[str, typer.Argument(help="Chats: a file of any form, or hf:NAME:SPLIT.")],
    settings: Settings = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder to write; not needed with --dry-run.")
    ] = None,
    judge: opt.JudgeName = JUDGE,
    repeats: opt.Repeats = None,
    user_check: Annotated[
        bool, typer.Option("--user-check/--no-user-check", help="Look for malformed users first.")
    ] = True,
    user_judge: UserJudge = None,
    language_check: Annotated[
        bool, typer.Option("--language-check/--no-language-check", help="By a library, too.")
    ] = True,
    replace_labels: Annotated[
        bool, typer.Option("--replace-labels", help="Label rows that have labels already.")
    ] = False,
    min_coverage: opt.MinCoverage = 0.98,
    device: opt.Device = None,
    overwrite: opt.Overwrite = False,
    retry_failed: opt.RetryFailed = False,
    no_cache: opt.NoCache = False,
    dry_run: opt.DryRun = False,
    max_cost: opt.MaxCost = None,
) -> None:
    """Label dialogues by a judge. The same command resumes after a stop, and asks again for rows
    that failed because a server was down or a limit was met."""
    folder = _required(out, file, dry_run)
    reading = reading_report(chats, None if dry_run else folder / "skipped.jsonl", [file])
    langs = languages_to_label(
        labelled_of(file, chats, reading), replace_labels=replace_labels, need_lang=user_check
    )
    show_reading(reading)
    reading.require_rest()
    own = [text for text in settings or () if not text.startswith(OF_USER)]
    of_user = [text.removeprefix(OF_USER) for text in settings or () if text not in own]
    choices = [choose_judge(judge, own, device=device, repeats=repeats)]
    if user_check:
        choices.append(_user_judge(user_judge, choices[0], of_user))
    judges = _loaded(choices, no_cache, dry_run, max_cost)
    if dry_run:
        _estimate(file, chats, judges)
        return
    users = judges[1] if user_check else None
    checked_langs = langs if language_check else None
    run = LabellingRun(
        file, folder, judges[0], users, checked_langs, min_coverage, overwrite, retry_failed, chats
    )
    with only_run_in(folder):
        summary, report = run.run()
    _show(summary, folder, report.next_try)
    show_cached(judges)
    report.require_coverage(min_coverage)


def _required(out: Path | None, file: str, dry_run: bool) -> Path:
    """The folder to write to, none of whose files is the one that is read."""
    if out is None and not dry_run:
        raise ConfigError("no folder given to write to", hint="--out runs/labelled")
    for name in _WRITTEN if out else ():
        require_other_file(Path(out or "") / name, [file], option=f"--out: its {name}")
    return out or Path()


def _user_judge(given: str | None, judge: JudgeChoice, settings: Sequence[str]) -> JudgeChoice:
    """The user check, with the language model of ``judge`` unless a file is given or ``judge`` has
    none."""
    if given is None and judge.speaks:
        settings = [f"llm={json.dumps(judge.llm())}", *settings]
    return choose_judge(given or USER_JUDGE, settings)


def _loaded(
    choices: Sequence[JudgeChoice], no_cache: bool, dry_run: bool, max_cost: float | None
) -> list[Judge]:
    loaded = []
    paid = any(choice.pays for choice in choices)
    for choice in choices:
        limit = max_cost if choice.pays or not paid else None  # refused where nothing is paid
        asks = choice.speaks
        choice = choice.spending(limit, no_cache=no_cache and asks, dry_run=dry_run and asks)
        loaded.append(choice.load())
    if len(loaded) > 1 and max_cost is not None:
        share_limiter(loaded)
    return loaded


def _estimate(file: str, chats: ReadOptions, judges: Sequence[Judge]) -> None:
    costs: list[float | None] = []
    for judge, what in zip(judges, ("labels", "check of users"), strict=False):
        if counting_model(judge) is None:
            typer.echo(f"{what}: by a judge that asks no language model")
            continue
        counted = dry_run(dialogues_of(file, chats, ReadingReport(keep=0)), judge)
        costs.append(counted.estimate.money)
        typer.echo(f"{what}: {counted.text()}")
    known = [cost for cost in costs if cost is not None]
    if len(known) == len(costs) > 1:  # a sum that leaves one out would be no bound
        typer.echo(f"together at most ${sum(known):.4f}, if no user is malformed")


def _show(summary: Summary, folder: Path, next_try: str) -> None:
    console = wide_console(stderr=True)
    for table in tables(summary):
        console.print(rich_table(table))
    if summary.comparison is not None:
        for line in summary.comparison.lines():
            console.print(line, highlight=False, soft_wrap=True)
    for reason, count in summary.failures.most_common():
        console.print(f"without a label: {count} x {reason}", soft_wrap=True)
    if next_try:
        console.print(f"  {next_try}")
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(summary.kinds.items()))
    typer.echo(f"{counts or 'no dialogues'}: {folder}")
