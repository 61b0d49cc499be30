"""``medal trial``: what moves a judge that should not, and what does not move it that should."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from medal_judges.cli import options as opt
from medal_judges.cli.reading_options import reading_report, reads_chats, show_reading
from medal_judges.errors import ConfigError, JudgeLoadError
from medal_judges.reading.options import ReadOptions
from medal_judges.report.progress import ProgressBar
from medal_judges.shipped import BOXED

if TYPE_CHECKING:
    from medal_judges.eval.trial.config import TrialConfig
    from medal_judges.eval.trial.runner import TrialJudge
    from medal_judges.eval.trial.trial import Trial


@reads_chats(labels=True)
@opt.writes("judges", "data", folder=True)
def trial(
    chats: ReadOptions,
    out: Annotated[Path, typer.Option("--out", help="Folder to write.")],
    judges: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[JUDGE [FIELD=VALUE]...]...",
            help="Shipped names, YAML files, folders or hub ids; boxed unless given. FIELD=VALUE "
            "is a setting of the trial (dialogues=12, seed=1, checks=[attack]), or else of the "
            "judge before it.",
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option("--data", help="A file, or a spec such as fed:dialogue; else what ships."),
    ] = None,
    config: Annotated[
        str, typer.Option("--config", help="YAML file, or the name of one in configs/trial/.")
    ] = "default",
    device: opt.Device = None,
    dtype: opt.Dtype = None,
    max_cost: opt.MaxCost = None,
    save: Annotated[
        bool,
        typer.Option(
            "--save", help="Also write trial.json into each judge's folder, for its card."
        ),
    ] = False,
) -> None:
    """Put judges on trial: paired versions of the same dialogues, made by rules.

    Writes OUT/trial.html, OUT/trial.json and the judgements, which the same command uses again.
    """
    from medal_judges.eval.trial.report import PAGE_NAME, print_trial, write_trial
    from medal_judges.eval.trial.trial import run_trial

    named, settings = split_settings(judges or [])
    folders = _folders([name for name, _ in named], out) if save else []
    loaded = [_judge(name, own, device, dtype, max_cost) for name, own in named]
    _require_apart(loaded)
    reading = reading_report(chats, out / "skipped.jsonl", [data] if data else [])
    with ProgressBar("on trial") as bar:
        done = run_trial(
            loaded,
            out,
            _config(config, settings),
            data=data,
            reading=reading,
            options=chats,
            progress=lambda what, count: bar.advance(count, note=what),
        )
    write_trial(done, out)
    _save(done, folders)
    print_trial(done)
    if data is not None:
        show_reading(reading)
    typer.echo(str(out / PAGE_NAME))


def split_settings(words: Sequence[str]) -> tuple[list[tuple[str, list[str]]], list[str]]:
    """Judges with their own settings, and the settings of the trial; the judge in the package where
    none is named. Raises ConfigError where a setting of a judge has no judge before it."""
    from medal_judges.eval.trial.config import TrialConfig

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
                f"{word}: a trial has no setting {key!r}, and no judge stands before it",
                hint="medal trial JUDGE FIELD=VALUE",
            )
    return named or [(BOXED, [])], settings


def _folders(names: Sequence[str], out: Path) -> list[Path]:
    """The folders that --save writes into. Raises ConfigError for a judge that has none."""
    folders = [Path(name) for name in names]
    if others := [str(folder) for folder in folders if not folder.is_dir()]:
        raise ConfigError(
            f"--save writes into the folders of judges; {others[0]} is none",
            hint=f"its trial is written to {out}/judgements/ anyway",
        )
    return folders


def _config(name: str, settings: Sequence[str]) -> TrialConfig:
    from medal_judges.config import load_config
    from medal_judges.eval.trial.config import TrialConfig

    return load_config(TrialConfig, name, settings, folder="trial")


def _judge(
    name: str,
    settings: Sequence[str],
    device: str | None,
    dtype: str | None,
    max_cost: float | None,
) -> TrialJudge:
    from medal_judges.eval.trial.runner import TrialJudge
    from medal_judges.inference.judge_choice import choose_judge
    from medal_judges.report.table import slug

    choice = choose_judge(name, settings, device=device, dtype=dtype)
    if max_cost is not None and choice.pays:
        choice = choice.limited(max_cost)
    judge = choice.load()
    called = judge.signature()
    fresh = choice.without_cache().load if choice.speaks else None
    # Its settings are part of its name: medal trial geval geval fence=false shows both.
    return TrialJudge(slug(" ".join([called.judge, *settings])), judge, fresh)


def _require_apart(judges: Sequence[TrialJudge]) -> None:
    """Raise ConfigError for two judges whose settings do not tell them apart: a comparison of
    ``fence=false`` with itself would say that a fence does nothing."""
    known: dict[str, str] = {}
    for one in judges:
        signature = str(one.judge.signature())
        if known.setdefault(signature, one.name) != one.name:
            raise ConfigError(
                f"{known[signature]} and {one.name} are one and the same judge",
                hint="give both the setting that is compared, such as fence=true and fence=false",
            )


def _save(done: Trial, folders: Sequence[Path]) -> None:
    from medal_judges.eval.trial.report import write_result
    from medal_judges.eval.trial.results import TRIAL_NAME

    for result, folder in zip(done.results, folders, strict=False):  # none without --save
        try:
            path = write_result(result, folder / TRIAL_NAME)
        except OSError as error:
            raise JudgeLoadError(f"{folder}: {error}") from error
        typer.echo(str(path))
