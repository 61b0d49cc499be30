"""``medal label``: labels dialogues with a judge and separates malformed users."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import typer

from medal_judges.cli.options import from_options
from medal_judges.config import (
    DEVICE,
    DRY_RUN,
    MAX_COST,
    OVERWRITE,
    RETRY_FAILED,
    Config,
    option,
)
from medal_judges.data_prep.labelling import label_file, require_labellable
from medal_judges.errors import ConfigError
from medal_judges.inference.dry_run import dry_run
from medal_judges.inference.judge_choice import (
    JudgeChoice,
    cached_answers,
    choose_judge,
)
from medal_judges.models.base.judge import Judge
from medal_judges.models.llm.protocol import LanguageModel
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
# tasks of judges
_LABELS = "labels"
_USERS = "check of users"
_WRITTEN = (
    *("judgements.jsonl", "user_judgements.jsonl"),
    *("labelled.jsonl", "malformed.jsonl", "unlabelled.jsonl"),
)


class LabelOptions(Config):
    file: str = option(
        argument=True, help="Chats: a file of any form, or hf:NAME:SPLIT."
    )
    settings: tuple[str, ...] = option(
        (),
        argument=True,
        metavar="FIELD=VALUE",
        help="Of --judge; user.FIELD of --user-judge.",
    )
    out: Path | None = option(None, help="Folder to write; not needed with --dry-run.")
    judge: str = option(
        "configs/judges/medal_gpt41.yaml",
        help="Shipped name (medal judges), YAML file, folder or hub id.",
    )
    user_check: bool | None = option(True, help="Check for malformed users first.")
    user_judge: str | None = option(
        None, help=f"Default: {USER_JUDGE} with the model of --judge."
    )
    users_only: bool = option(
        False, help="Check for malformed users only; rows keep their labels."
    )
    replace_labels: bool = option(False, help="Label rows that have labels already.")
    min_coverage: float = option(
        0.98, ge=0, le=1, help="Minimum coverage; exits with status 3 below it."
    )
    device: str | None = DEVICE
    overwrite: bool = OVERWRITE
    retry_failed: bool = RETRY_FAILED
    dry_run: bool = DRY_RUN
    max_cost: float | None = MAX_COST
    reading: ReadOptionsWithoutLabels = ReadOptionsWithoutLabels()


@from_options
def label(options: LabelOptions) -> None:
    """Label dialogues with a judge. The same command resumes after a stop, and retries rows that
    failed because of a server or a limit.

    Example: medal label dialogues.jsonl --out labelled
    """
    _check_input(options)
    choices = _choices(options)
    judges = _loaded(options, choices)
    if options.dry_run:
        for task, choice in choices.items():
            estimate = "by a judge that uses no language model"
            if choice.speaks:
                dialogues = dialogues_of(options.file, options.reading, ReadingReport())
                estimate = dry_run(dialogues, judges[task])
            typer.echo(f"{task}: {estimate}")
        return
    assert options.out is not None
    with only_run(options.out, folder=True):
        summary, report = label_file(
            options.file,
            options.out,
            judges.get(_LABELS),
            judges.get(_USERS),
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
    counts = ", ".join(
        f"{count} {kind}" for kind, count in sorted(summary.kinds.items())
    )
    typer.echo(f"{counts or 'no dialogues'}: {options.out}")
    if cached := cached_answers(list(judges.values())):
        typer.echo(cached, err=True)
    report.require_coverage(options.min_coverage)


def _check_input(options: LabelOptions) -> None:
    """Raises ConfigError for an output that would replace the input, and the errors of rows that
    cannot be labelled."""
    folder = None
    if options.out is not None:
        for name in _WRITTEN:
            require_other_file(options.out / name, option=f"--out: its {name}")
    if not options.dry_run:
        folder = options.out
        if folder is None:
            raise ConfigError("no folder to write to", hint="--out runs/labelled")
    reading = reading_report(options.reading, folder)
    require_labellable(
        labelled_of(options.file, options.reading, reading),
        replace_labels=options.replace_labels or options.users_only,
        need_lang=bool(options.user_check),
    )
    reading.show()
    reading.require_rest()


def _choices(options: LabelOptions) -> dict[str, JudgeChoice]:
    """The judge that labels and the judge that checks the users, by their task."""
    settings = []
    of_user = []
    for setting in options.settings:
        if setting.startswith(_OF_USER):
            of_user.append(setting.removeprefix(_OF_USER))
        else:
            settings.append(setting)
    choices = {}
    judge = choose_judge(options.judge, settings, device=options.device)
    if not options.users_only:
        choices[_LABELS] = judge
    if options.user_check:
        if options.user_judge is None and judge.speaks:
            of_user.insert(0, f"llm={json.dumps(judge.llm())}")
        choices[_USERS] = choose_judge(options.user_judge or USER_JUDGE, of_user)
    if not choices:
        raise ConfigError("--users-only and --no-user-check leave nothing to do")
    return choices


def _loaded(
    options: LabelOptions, choices: Mapping[str, JudgeChoice]
) -> dict[str, Judge]:
    """The judges by their task. Together they spend at most ``max_cost``."""
    pays = any(choice.asks_server for choice in choices.values())
    judges = {}
    for task, choice in choices.items():
        limit = options.max_cost
        if pays and not choice.asks_server:  # a limit is refused if nothing is paid
            limit = None
        choice = choice.spending(limit, dry_run=options.dry_run and choice.speaks)
        judges[task] = choice.load()
    if len(judges) > 1 and options.max_cost is not None:
        models: list[LanguageModel] = []
        for judge in judges.values():
            models += judge.language_models()
        limiters = [model.limiter for model in models if model.limiter is not None]
        for model in models:
            if limiters:
                model.limiter = limiters[0]
    return judges
