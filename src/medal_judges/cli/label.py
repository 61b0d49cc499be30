"""``medal label``: labels dialogues with a judge and separates malformed users."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import typer

from medal_judges.cli.options import with_options
from medal_judges.config import (
    DEVICE,
    MAX_COST,
    OVERRIDES,
    OVERWRITE,
    RETRY_FAILED,
    option,
)
from medal_judges.data_prep.labelling import label_file, require_labellable
from medal_judges.inference.judge_choice import (
    JudgeChoice,
    cache_sentence,
    choose_judge,
)
from medal_judges.models.base.judge import Judge
from medal_judges.models.llm.protocol import LanguageModel
from medal_judges.reading.dialogues import (
    ReadOptionsWithoutLabels,
    start_report,
    stream_labelled,
)
from medal_judges.report.console import rich_table, wide_console

USER_JUDGE = "configs/judges/malformed.yaml"
# tasks of judges
_LABELS = "labels"
_USERS = "check of users"
UserCheck = Literal["check", "only", "skip"]


@with_options(locks="folder")
def label(
    *,
    file: str = option(
        argument=True, help="Chats: a file of any form, or hf:NAME:SPLIT."
    ),
    settings: tuple[str, ...] = OVERRIDES,
    out: Path = option(help="Folder to write: labelled.jsonl and more."),
    judge: str = option(
        "configs/judges/medal_gpt41.yaml",
        help="Shipped name (medal judges), YAML file, folder or Hub id.",
    ),
    users: UserCheck = option(
        "check",
        help="Leave out chats of users that write nonsense (check), do not check, or only check "
        "and keep the labels.",
    ),
    user_judge: str | None = option(
        None,
        help="Judge of the users.  [default: malformed, with the model of --judge]",
    ),
    replace_labels: bool = option(False, help="Label also rows that have labels."),
    min_coverage: float = option(
        0.98, ge=0, le=1, help="Share of chats to be labelled. Exit status 3 below it."
    ),
    device: str | None = DEVICE,
    overwrite: bool = OVERWRITE,
    retry_failed: bool = RETRY_FAILED,
    max_cost: float | None = MAX_COST,
    reading: ReadOptionsWithoutLabels,
) -> None:
    """Label chats with a judge, for training or annotation. A second judge checks the users. Chats
    whose user writes nonsense go to malformed.jsonl and get no label.

    The same command resumes after a stop. It labels again what failed because of a server error or
    the cost limit.

    Example: medal label dialogues.jsonl --out labelled
    """
    report_of_reading = start_report(reading, out)
    require_labellable(
        stream_labelled(file, reading, report_of_reading),
        replace_labels=replace_labels or users == "only",
        need_lang=users != "skip",
    )
    report_of_reading.show()
    report_of_reading.require_dialogues()
    judges = _load_judges(
        choose_judge(judge, settings, device=device), user_judge, users, max_cost
    )
    summary, report = label_file(
        file,
        out,
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
    if report.retry_hint:
        console.print(f"  {report.retry_hint}")
    counts = ", ".join(
        f"{count} {kind}" for kind, count in sorted(summary.kinds.items())
    )
    typer.echo(f"{counts or 'no dialogues'}, written to {out}")
    if cached := cache_sentence(list(judges.values())):
        typer.echo(cached, err=True)
    report.require_coverage(min_coverage)


def _load_judges(
    labeller: JudgeChoice,
    user_judge: str | None,
    users: UserCheck,
    max_cost: float | None,
) -> dict[str, Judge]:
    """Loads the judge that labels chats and the judge that checks whether their users write
    nonsense.

    Args:
        labeller: Judge that labels.
        user_judge: Judge of the users. None for ``malformed``, with the language model of
            ``labeller`` if it has one.
        users: ``check`` loads both judges, ``skip`` only the judge that labels, ``only`` only the
            judge of the users.
        max_cost: Most US dollars that both may spend together.

    Returns:
        Task -> judge. The tasks are ``labels`` and ``check of users``.
    """
    choices = {_LABELS: labeller}
    if users != "skip":
        settings = []
        if user_judge is None and labeller.uses_llm:
            settings = [f"llm={json.dumps(labeller.llm_settings())}"]
        choices[_USERS] = choose_judge(user_judge or USER_JUDGE, settings)
    if users == "only":
        del choices[_LABELS]
    pays = any(choice.asks_server for choice in choices.values())
    judges = {}
    models: list[LanguageModel] = []
    for task, choice in choices.items():
        if choice.asks_server or not pays:  # a limit is refused if nothing is paid
            choice = choice.with_spending(max_cost)
        judges[task] = choice.load()
        models += judges[task].language_models()
    limiters = [model.limiter for model in models if model.limiter is not None]
    for model in models:
        if limiters:
            model.limiter = limiters[0]
    return judges
