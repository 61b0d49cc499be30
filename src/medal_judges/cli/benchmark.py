"""``medal benchmark``: judges over sets, figures, and the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from medal_judges.eval.benchmark.config import BenchmarkConfig
    from medal_judges.eval.benchmark.runner import Run


def benchmark(
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[FIELD=VALUE]...", help="Settings to change.")
    ] = None,
    config: Annotated[
        str, typer.Option("--config", help="YAML file, or the name of one in configs/benchmark/.")
    ] = "configs/benchmark/human.yaml",
    judge: Annotated[
        list[str] | None,
        typer.Option(
            "--judge",
            metavar="[NAME=]PATH",
            help="One more judge: shipped name, YAML file, folder or hub id.",
        ),
    ] = None,
    weights: Annotated[
        Literal["none", "curation"] | None,
        typer.Option("--weights", help="curation: figures of the pool, by curation.weight."),
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Never use the network.")] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Judge again every row without a score.")
    ] = False,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Ask language models for every answer again.")
    ] = False,
) -> None:
    """Run judges over sets, compare them with people, write the page.

    Judgements made before are used again where judge and data are the same; rows that failed
    because a server was down or a limit was met are judged again. Exit code 3, after everything is
    written, when a judge left too many rows unscored.
    """
    from medal_judges.errors import ConfigError
    from medal_judges.eval.benchmark.compute import compute, made_facts, under_floor
    from medal_judges.eval.benchmark.runner import prepare
    from medal_judges.files import only_run

    chosen = [*(overrides or []), *([f"weights={weights}"] if weights else [])]
    settings = _config(config, chosen, judge or [])
    if not settings.judges and not settings.predictions:
        raise ConfigError(
            "no judge to benchmark",
            hint="--judge contrast, --judge NAME=PATH, or judges: in the file",
        )
    run = prepare(settings, offline=offline or None)
    run.retry_failed, run.no_cache = retry_failed, no_cache
    if not run.sets and not run.planted:
        raise ConfigError(
            "\n    ".join(["no set is here", *run.notes]),
            hint="put line-format files in the folder that $MEDAL_JUDGES_DATA names; see also: "
            "medal data list",
        )
    with only_run(settings.output_dir):
        _judge_with_bar(run)
    found = compute(run, made_facts(_command(config, chosen, judge or [])))
    _write(found, settings, [*run.weighting, *run.notes, *run.kept])
    _require_coverage(under_floor(found))


def _config(config: str, overrides: list[str], judges: list[str]) -> BenchmarkConfig:
    from medal_judges.config import build_config, load_config
    from medal_judges.errors import ConfigError
    from medal_judges.eval.benchmark.config import BenchmarkConfig
    from medal_judges.nearest import did_you_mean
    from medal_judges.shipped import JUDGES, judge_file, shipped_names

    loaded = load_config(BenchmarkConfig, config, overrides, folder="benchmark")
    added = []
    for text in judges:
        name, sign, path = text.partition("=")
        if not sign and judge_file(text) and text in shipped_names(JUDGES):
            path = text  # a shipped judge brings its name
        elif not (name and sign and path):
            raise ConfigError(
                f"--judge {text!r} is not of the form NAME=PATH, nor the name of a shipped judge",
                hint=f"{did_you_mean(text, shipped_names(JUDGES))}--judge mine=runs/judge",
            )
        added.append({"name": name, "path": path})
    data = loaded.model_dump()
    data["judges"] = [*data["judges"], *added]
    return build_config(BenchmarkConfig, data, where=config)


def _command(config: str, overrides: list[str], judges: list[str]) -> str:
    """The command as it can be typed again; judges by name only, since a page is published."""
    given = (text.partition("=")[:2] for text in judges)
    names = [f"--judge {name}=..." if sign else f"--judge {name}" for name, sign in given]
    kept = [o for o in overrides if "/" not in o]
    shown = config if "/" not in config or config.startswith("configs/") else config.split("/")[-1]
    return " ".join(["medal benchmark --config", shown, *names, *kept])


def _judge_with_bar(run: Run) -> None:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    from medal_judges.eval.benchmark.runner import judge_all

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("judging", total=run.total)
        judge_all(
            run,
            lambda judge, name, n: bar.update(task, advance=n, description=f"{judge} on {name}"),
        )


def _write(found: Any, settings: BenchmarkConfig, notes: list[str]) -> None:
    """results.json, the page and the table in the terminal; the page's path is printed last."""
    from medal_judges.errors import MissingExtraError
    from medal_judges.eval.benchmark.compute import write_results
    from medal_judges.eval.benchmark.terminal import print_tables
    from medal_judges.eval.page.page import write_report

    write_results(found, settings.output_dir / "results.json")
    page = settings.output_dir / "report.html"
    try:
        page = write_report(found, settings.output_dir)
    except MissingExtraError as error:  # the page itself is written by then
        typer.echo(f"warning: no PNG figures: {error}", err=True)
    print_tables(found, notes)
    typer.echo(str(page))


def _require_coverage(under: list[str]) -> None:
    from medal_judges.errors import CoverageError

    if under:
        raise CoverageError(
            "coverage is under the floor, so these rows have no headline number:\n    "
            + "\n    ".join(under),
            hint="the reasons stand in the judgements under predictions/; the same command asks "
            "again for what failed because a server was down, --retry-failed for all of it; "
            "min_coverage=... sets the floor",
        )
