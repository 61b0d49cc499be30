"""``medal benchmark``: judges over sets, figures, and the page."""

from __future__ import annotations

from typing import Annotated

import typer

from medal_judges.cli import options as opt
from medal_judges.errors import CoverageError
from medal_judges.report.progress import ProgressBar


def benchmark(
    overrides: opt.Overrides = None,
    config: Annotated[
        str, typer.Option("--config", help="YAML file, or the name of one in configs/benchmark/.")
    ] = "configs/benchmark/human.yaml",
    out: Annotated[
        str | None, typer.Option("--out", help="Folder to write; else the config's output_dir.")
    ] = None,
    judge: Annotated[
        list[str] | None,
        typer.Option(
            "--judge",
            metavar="[NAME=]PATH",
            help="One more judge: shipped name, YAML file, folder or hub id; may be repeated.",
        ),
    ] = None,
    device: opt.Device = None,
    workers: opt.Workers = 1,
    weights: opt.Weights = None,
    offline: opt.Offline = False,
    retry_failed: opt.RetryFailed = False,
    no_cache: opt.NoCache = False,
) -> None:
    """Run judges over sets, compare them with people, write the page.

    Judgements made before are used again where judge and data are the same; rows that failed
    because a server was down or a limit was met are judged again. Exit code 3, after everything is
    written, when a judge left too many rows unscored.
    """
    from medal_judges.eval.benchmark.benchmark import run_benchmark
    from medal_judges.eval.benchmark.compute import under_floor
    from medal_judges.eval.benchmark.terminal import print_benchmark

    several = workers if workers > 1 else None
    named = {"weights": weights, "output_dir": out, "device": device, "workers": several}
    changed = [f"{name}={value}" for name, value in named.items() if value]
    with ProgressBar("judging") as bar:
        run, figures = run_benchmark(
            config,
            [*(overrides or []), *changed],
            judge or [],
            offline=offline or None,
            retry_failed=retry_failed,
            no_cache=no_cache,
            bar=bar,
        )
    print_benchmark(figures, [*run.weighting, *run.notes, *run.kept])
    typer.echo(str(run.config.output_dir / "report.html"))
    if under := under_floor(figures):
        raise CoverageError(
            "coverage is under the floor, so these rows have no headline number:\n    "
            + "\n    ".join(under),
            hint="the reasons stand in the judgements under predictions/; the same command asks "
            "again for what failed because a server was down, --retry-failed for all of it; "
            "min_coverage=... sets the floor",
        )
