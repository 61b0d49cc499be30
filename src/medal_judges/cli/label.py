"""``medal label``: labels dialogues with a judge and separates malformed users."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import typer

from medal_judges.cli.options import with_options
from medal_judges.config import (
    DEVICE,
    DRY_RUN,
    MAX_COST,
    OVERWRITE,
    RETRY_FAILED,
    option,
)
from medal_judges.data_prep.labelling import label_file, require_labellable
from medal_judges.errors import ConfigError
from medal_judges.inference.dry_run import dry_run as estimate_cost
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
UserCheck = Literal["check", "only", "skip"]


@with_options()
def label(
    *,
    file: str = option(
        argument=True, help="Chats: a file of any form, or hf:NAME:SPLIT."
    ),
    settings: tuple[str, ...] = option(
        (),
        argument=True,
        metavar="FIELD=VALUE",
        help="Of --judge; user.FIELD of --user-judge.",
    ),
    out: Path | None = option(None, help="Folder to write; not needed with --dry-run."),
    judge: str = option(
        "configs/judges/medal_gpt41.yaml",
        help="Shipped name (medal judges), YAML file, folder or hub id.",
    ),
    users: UserCheck = option(
        "check",
        help="Check for malformed users first, do not (skip), or do nothing else (only): rows "
        "then keep their labels.",
    ),
    user_judge: str | None = option(
        None, help=f"Default: {USER_JUDGE} with the model of --judge."
    ),
    replace_labels: bool = option(False, help="Label rows that have labels already."),
    min_coverage: float = option(
        0.98, ge=0, le=1, help="Minimum coverage; exits with status 3 below it."
    ),
    device: str | None = DEVICE,
    overwrite: bool = OVERWRITE,
    retry_failed: bool = RETRY_FAILED,
    dry_run: bool = DRY_RUN,
    max_cost: float | None = MAX_COST,
    reading: ReadOptionsWithoutLabels,
) -> None:
    """Label dialogues with a judge. The same command resumes after a stop, and retries rows that
    failed because of a server or a limit.

    Example: medal label dialogues.jsonl --out labelled
    """
    folder = None
    if not dry_run:
        folder = out
        if folder is None:
            raise ConfigError("no folder to write to", hint="--out runs/labelled")
        for name in _WRITTEN:
            require_other_file(folder / name, option=f"--out: its {name}")
    report_of_reading = reading_report(reading, folder)
    require_labellable(
        labelled_of(file, reading, report_of_reading),
        replace_labels=replace_labels or users == "only",
        need_lang=users != "skip",
    )
    report_of_reading.show()
    report_of_reading.require_rest()
    choices = _choose_judges(judge, user_judge, settings, users, device)
    judges = _load(choices, max_cost, dry_run=dry_run)
    if folder is None:
        for task, choice in choices.items():
            estimate = "by a judge that uses no language model"
            if choice.speaks:
                dialogues = dialogues_of(file, reading, ReadingReport())
                estimate = estimate_cost(dialogues, judges[task])
            typer.echo(f"{task}: {estimate}")
        return
    with only_run(folder, folder=True):
        summary, report = label_file(
            file,
            folder,
            judges.get(_LABELS),
            judges.get(_USERS),
            min_coverage=min_coverage,
            overwrite=overwrite,
            retry_failed=retry_failed,
            reading=reading,
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
    typer.echo(f"{counts or 'no dialogues'}: {folder}")
    if cached := cached_answers(list(judges.values())):
        typer.echo(cached, err=True)
    report.require_coverage(min_coverage)


def _choose_judges(
    judge: str,
    user_judge: str | None,
    settings: Sequence[str],
    users: UserCheck,
    device: str | None,
) -> dict[str, JudgeChoice]:
    """Returns the judge that labels and the judge that checks the users, by their task."""
    of_judge, of_user = [], []
    for setting in settings:
        if setting.startswith(_OF_USER):
            of_user.append(setting.removeprefix(_OF_USER))
        else:
            of_judge.append(setting)
    labeller = choose_judge(judge, of_judge, device=device)
    choices = {}
    if users != "only":
        choices[_LABELS] = labeller
    if users != "skip":
        if user_judge is None and labeller.speaks:
            of_user.insert(0, f"llm={json.dumps(labeller.llm())}")
        choices[_USERS] = choose_judge(user_judge or USER_JUDGE, of_user)
    return choices


def _load(
    choices: Mapping[str, JudgeChoice], max_cost: float | None, *, dry_run: bool
) -> dict[str, Judge]:
    """Returns the judges by their task. Together they spend at most ``max_cost``."""
    pays = any(choice.asks_server for choice in choices.values())
    judges = {}
    for task, choice in choices.items():
        limit = max_cost
        if pays and not choice.asks_server:  # a limit is refused if nothing is paid
            limit = None
        judges[task] = choice.spending(limit, dry_run=dry_run and choice.speaks).load()
    if len(judges) > 1 and max_cost is not None:
        models: list[LanguageModel] = []
        for judge in judges.values():
            models += judge.language_models()
        limiters = [model.limiter for model in models if model.limiter is not None]
        for model in models:
            if limiters:
                model.limiter = limiters[0]
    return judges
