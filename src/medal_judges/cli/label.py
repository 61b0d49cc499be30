"""``medal label``: labels dialogues with a judge and separates malformed users."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from medal_judges.cli.options import DRY_RUN, from_options
from medal_judges.config import Config, option
from medal_judges.data_prep.labelling import label_file, require_labellable
from medal_judges.errors import ConfigError
from medal_judges.inference.dry_run import dry_run
from medal_judges.inference.judge_choice import cached_answers, choose_judge
from medal_judges.reading.dialogues import (
    ReadingReport,
    ReadOptionsWithoutLabels,
    dialogues_of,
    labelled_of,
    reading_report,
)
from medal_judges.report.console import rich_table, wide_console
from medal_judges.storage.files import only_run, require_other_file

USER_JUDGE = "configs/judges/malformed.yaml"
_OF_USER = "user."
_WRITTEN = (
    *("judgements.jsonl", "user_judgements.jsonl"),
    *("labelled.jsonl", "malformed.jsonl", "unlabelled.jsonl"),
)


class LabelOptions(Config):
    file: str = option(argument=True, help="Chats: a file of any form, or hf:NAME:SPLIT.")
    settings: tuple[str, ...] = option(
        (), argument=True, metavar="FIELD=VALUE", help="Of --judge; user.FIELD of --user-judge."
    )
    out: Path | None = option(None, help="Folder to write; not needed with --dry-run.")
    judge: str = option(
        "configs/judges/medal_gpt41.yaml",
        help="Shipped name (medal judges), YAML file, folder or hub id.",
    )
    repeats: int | None = option(None, ge=1, help="Answers per dialogue of a prompted judge.")
    user_check: bool | None = option(True, help="Check for malformed users first.")
    user_judge: str | None = option(None, help=f"Default: {USER_JUDGE} with the model of --judge.")
    users_only: bool = option(False, help="Check for malformed users only; rows keep their labels.")
    replace_labels: bool = option(False, help="Label rows that have labels already.")
    min_coverage: float = option(
        0.98, ge=0, le=1, help="Minimum coverage; exits with status 3 below it."
    )
    device: str | None = option(None, help="cpu, cuda, cuda:1, ...")
    overwrite: bool = option(False, help="Start again from the beginning; replaces OUT.")
    retry_failed: bool = option(False, help="Score again every row that has no score.")
    no_cache: bool = option(False, help="Neither use nor store cached answers of language models.")
    dry_run: bool = DRY_RUN
    max_cost: float | None = option(None, ge=0, help="US dollars; stops before it spends more.")
    reading: ReadOptionsWithoutLabels = ReadOptionsWithoutLabels()


@from_options
def label(options: LabelOptions) -> None:
    """Label dialogues with a judge. The same command resumes after a stop, and retries rows that
    failed because of a server or a limit."""
    file, out = options.file, options.out
    if out is None and not options.dry_run:
        raise ConfigError("no folder to write to", hint="--out runs/labelled")
    for name in _WRITTEN if out is not None else ():
        require_other_file(Path(out or "") / name, [file], option=f"--out: its {name}")
    listed = None if options.dry_run or out is None else out / "skipped.jsonl"
    reading = reading_report(options.reading, listed, [file])
    require_labellable(
        labelled_of(file, options.reading, reading),
        replace_labels=options.replace_labels or options.users_only,
        need_lang=bool(options.user_check),
    )
    reading.show()
    reading.require_rest()
    own = [text for text in options.settings if not text.startswith(_OF_USER)]
    of_user = [text.removeprefix(_OF_USER) for text in options.settings if text not in own]
    choices = [choose_judge(options.judge, own, device=options.device, repeats=options.repeats)]
    if options.user_check:
        if options.user_judge is None and choices[0].speaks:
            of_user = [f"llm={json.dumps(choices[0].llm())}", *of_user]
        choices.append(choose_judge(options.user_judge or USER_JUDGE, of_user))
    elif options.users_only:
        raise ConfigError("--users-only and --no-user-check leave nothing to do")
    if options.users_only:
        del choices[0]
    paid = any(choice.pays for choice in choices)
    judges = []
    for choice in choices:
        limit = options.max_cost if choice.pays or not paid else None  # refused if nothing is paid
        asks = choice.speaks
        choice = choice.spending(
            limit, no_cache=options.no_cache and asks, dry_run=options.dry_run and asks
        )
        judges.append(choice.load())
    if len(judges) > 1 and options.max_cost is not None:  # the limit is of the sum
        models = [model for judge in judges for model in judge.language_models()]
        limiters = [model.limiter for model in models if model.limiter is not None]
        for model in models if limiters else ():
            model.spend_from(limiters[0])
    if options.dry_run:
        names = ("labels", "check of users")[options.users_only :]
        for choice, judge, what in zip(choices, judges, names, strict=False):
            found = "by a judge that uses no language model"
            if choice.speaks:
                found = dry_run(dialogues_of(file, options.reading, ReadingReport()), judge)
            typer.echo(f"{what}: {found}")
        return
    assert out is not None
    with only_run(out, folder=True):
        summary, report = label_file(
            file,
            out,
            None if options.users_only else judges[0],
            judges[-1] if options.user_check else None,
            min_coverage=options.min_coverage,
            overwrite=options.overwrite,
            retry_failed=options.retry_failed,
            reading=options.reading,
        )
    console = wide_console(stderr=True)
    for table in summary.tables():
        console.print(rich_table(table))
    for reason, count in summary.failures.most_common():
        console.print(f"without a label: {count} x {reason}", soft_wrap=True)
    if report.next_try:
        console.print(f"  {report.next_try}")
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(summary.kinds.items()))
    typer.echo(f"{counts or 'no dialogues'}: {out}")
    if cached := cached_answers(judges):
        typer.echo(cached, err=True)
    report.require_coverage(options.min_coverage)
