"""``medal trial``: tests which edits change the scores of a judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import typer

from medal_judges.cli.options import with_options
from medal_judges.config import BOXED, DEVICE, MAX_COST, option
from medal_judges.errors import ConfigError
from medal_judges.eval.trial.config import TrialConfig
from medal_judges.reading.dialogues import ReadOptionsWithoutLabels, start_report
from medal_judges.report.console import ProgressBar
from medal_judges.storage.files import write_json


@with_options(locks="folder")
def trial(
    *,
    judges: tuple[str, ...] = option(
        (),
        argument=True,
        metavar="[JUDGE [FIELD=VALUE]...]...",
        help="Shipped names, YAML files, folders or Hub ids. FIELD=VALUE changes a setting of "
        "the trial (dialogues=12, seed=1, checks=[attack]) or of the judge "
        "before it.",
    ),
    out: Path = option(help="Folder to write: trial.html, trial.json, judgements."),
    data: str | None = option(
        None,
        help="File of chats, or a source such as fed:dialogue.  [default: shipped dialogues]",
    ),
    config: str = option(
        "default", help="YAML file, or the name of one in configs/trial/."
    ),
    device: str | None = DEVICE,
    max_cost: float | None = MAX_COST,
    save: bool = option(
        False,
        help="Write trial.json also into each judge's folder, for its model card.",
    ),
    reading: ReadOptionsWithoutLabels,
) -> None:
    """Test whether judges notice small edits. Each judge scores pairs of chats that differ by one
    edit, made by rules.

    Writes a page, JSON and the scores. The same command again uses these scores.

    Example: medal trial runs/mine length --out trial
    """
    from medal_judges.config import load_config
    from medal_judges.eval.trial.trial import (
        TRIAL_NAME,
        TrialJudge,
        run_trial,
        trial_page,
    )
    from medal_judges.inference.judge_choice import choose_judge
    from medal_judges.report.page import print_and_write
    from medal_judges.report.table import slug

    named, settings = split_judges_and_settings(judges)
    folders = [Path(name) for name, _ in named if save]
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError(
                f"{folder} is not the folder of a judge. Leave --save out"
            )
    on_trial: list[TrialJudge] = []
    for path, judge_settings in named:
        # A baseline beside other judges has no use for a device.
        choice = choose_judge(
            path, judge_settings, device=device, strict=len(named) == 1
        )
        if choice.asks_server:
            choice = choice.with_spending(max_cost)
        judge = choice.load()
        # The settings are part of the name: medal trial geval geval fence=false shows both.
        name = slug(" ".join([judge.signature().judge, *judge_settings]))
        if name in [earlier.name for earlier in on_trial]:
            raise ConfigError(
                f"the judge {name} is there twice. Give it two settings: fence=true, fence=false"
            )
        on_trial.append(TrialJudge(name, judge))
    report = start_report(reading, out)
    size = load_config(TrialConfig, config, settings, folder="trial")
    with ProgressBar("on trial") as bar:
        results = run_trial(
            on_trial,
            out,
            size,
            data=data,
            reading=report,
            options=reading,
            progress=lambda note, count: bar.advance(count, note=note),
        )
    # none without --save
    for result, folder in zip(results, folders, strict=False):
        typer.echo(str(write_json(folder / TRIAL_NAME, asdict(result))))
    if data is not None:
        report.show()
    print_and_write(trial_page(results), out)


def split_judges_and_settings(
    words: Sequence[str],
) -> tuple[list[tuple[str, list[str]]], list[str]]:
    """Splits the arguments of ``medal trial`` into judges and settings.

    A word with ``=`` sets a field of the trial, such as ``seed``. If the trial has no such field,
    it changes a setting of the judge before it.

    Args:
        words: Arguments, such as ``["boxed", "seed=1"]``.

    Returns:
        A list of judges and a list of the trial's settings, such as ``["seed=1"]``. Each judge is
            its name with a list of its own settings. Without a judge, it is ``boxed``.

    Raises:
        ConfigError: A judge's setting stands before the first judge.
    """
    named: list[tuple[str, list[str]]] = []
    settings: list[str] = []
    for word in words:
        key = word.partition("=")[0].strip()
        if "=" not in word:
            named.append((word, []))
        elif key.partition(".")[0] in TrialConfig.model_fields:
            settings.append(word)
        elif named:
            named[-1][1].append(word)
        else:
            raise ConfigError(
                f"{word}: {key!r} is not a setting of a trial. Type: medal trial JUDGE {word}"
            )
    return named or [(BOXED, [])], settings
