"""A benchmark from its config to results.json, the page and the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from medal_judges.config import boxed_folder, build_config, judge_file, judge_names, load_config
from medal_judges.errors import ConfigError, did_you_mean
from medal_judges.eval.benchmark.config import BenchmarkConfig, BenchmarkOptions
from medal_judges.eval.benchmark.figures import FOLLOW_UPS, Benchmark, compute
from medal_judges.eval.benchmark.page import dimension_table, write_report
from medal_judges.eval.benchmark.plots import View
from medal_judges.eval.benchmark.published import OURS
from medal_judges.eval.benchmark.published import TITLE as PUBLISHED
from medal_judges.eval.benchmark.run import BenchmarkRun, judge_all, prepare
from medal_judges.eval.metaeval.comparison import CEILING, GRADED, ISSUES, MEANS
from medal_judges.report.console import ProgressBar, rich_table, wide_console
from medal_judges.storage.files import only_run

_INJECTED = ("Issue", "Judge", "F1+ vs clean", "F1+ vs matched controls", "AUC vs clean",
            "AUC vs matched controls", "False alarms, clean")  # fmt: skip
_WHO = ("Set", "Dimension", "Better", "Other")
# Columns of further tables in the terminal; tables by language are on the page only.
_PRINTED: dict[str, Sequence[str]] = {
    MEANS: (),
    FOLLOW_UPS: (),
    PUBLISHED: (),
    GRADED: (*_WHO, "Difference in ρ", "p, Holm", "n"),
    ISSUES: (*_WHO, "Difference in F1+", "p, Holm", "McNemar p, Holm", "n"),
    CEILING: ("Set", "Dimension", "Judge", "Like for like", "One annotator", "p, Holm", "n"),
}
_LINES = 30  # of a long table; the page and the CSV files have all


def benchmark(
    config: str = "configs/benchmark/human.yaml",
    overrides: Sequence[str] = (),
    *,
    judges: Sequence[str] = (),
    **options: Any,
) -> Benchmark:
    """Runs judges over sets and compares them with people, as ``medal benchmark`` does.

    ``config`` is a YAML file or the name of one in configs/benchmark/, ``overrides`` are
    ``field=value``, ``judges`` further judges (``contrast``, ``mine=runs/judge``), ``options``
    further BenchmarkOptions. Writes predictions, results.json and report.html to the config's
    output_dir; predictions of an earlier run are used again. Raises ConfigError if there is no
    judge or no set.

    >>> from medal_judges import benchmark
    >>> sets = "sets=[{name: talks, source: labelled.jsonl, dimensions: [overall]}]"
    >>> overrides = [sets, "injected=[]", "judges=[]", "output_dir=talks"]
    >>> figures = benchmark("quickstart", overrides, judges=["length"])
    >>> [(row.judge, row.dimension, row.n) for row in figures.rows]
    [('length', 'overall', 12)]
    """
    options |= {"config": config, "overrides": tuple(overrides), "judge": tuple(judges)}
    return run_benchmark(BenchmarkOptions(**options))[1]


def run_benchmark(
    options: BenchmarkOptions, bar: ProgressBar | None = None
) -> tuple[BenchmarkRun, Benchmark]:
    """Runs a benchmark; returns the run with its notes, and the figures."""
    changed = {"weights": options.weights, "output_dir": options.out, "device": options.device}
    changed["workers"] = str(options.workers) if options.workers > 1 else None
    overrides = [*options.overrides, *(f"{k}={v}" for k, v in changed.items() if v)]
    data = load_config(BenchmarkConfig, options.config, overrides, folder="benchmark").model_dump()
    data["judges"] = [*data["judges"]]
    for text in options.judge:
        name, sign, path = text.partition("=")
        if not sign and (judge_file(text) or boxed_folder(text)) and text in judge_names():
            path = text  # a shipped judge brings its name
        elif not (name and sign and path):
            raise ConfigError(
                f"--judge {text!r} is not of the form NAME=PATH, nor the name of a shipped judge",
                hint=f"{did_you_mean(text, judge_names())}--judge mine=runs/judge",
            )
        data["judges"].append({"name": name, "path": path})
    config = build_config(BenchmarkConfig, data, where=options.config)
    if not config.judges and not config.predictions:
        raise ConfigError(
            "no judge to benchmark",
            hint="--judge contrast, --judge NAME=PATH, or judges: in the file",
        )
    run = prepare(config, offline=options.offline or None)
    everything = run.sets | run.injected
    if not everything:
        raise ConfigError(
            "\n    ".join(["no set is available", *run.notes]),
            hint="put line-format files in the folder that $MEDAL_JUDGES_DATA names; see also: "
            "medal data list",
        )

    def progress(judge: str, name: str, done: int) -> None:
        if bar is not None:
            bar.advance(done, what=f"{judge} on {name}")

    with only_run(config.output_dir, folder=True):
        if bar is not None:
            rows = sum(len(one.rows) for one in everything.values())
            bar.advance(done=0, total=rows * len(config.judges))
        judge_all(run, options, progress)
    # The command to type again, without paths, since a page is published.
    file = options.config
    file = file if file.startswith("configs/") else file.split("/")[-1]
    judges = (text.partition("=")[:2] for text in options.judge)
    names = [f"--judge {name}=..." if sign else f"--judge {name}" for name, sign in judges]
    words = ["medal benchmark --config", file, *names, *(o for o in overrides if "/" not in o)]
    figures = compute(run, " ".join(words))
    figures.write(config.output_dir / "results.json")
    write_report(figures, config.output_dir)
    return run, figures


def print_benchmark(benchmark: Benchmark, notes: Sequence[str]) -> None:
    """Prints the leaderboard of each set and kind, further tables, then what was skipped."""
    console, view = wide_console(), View(benchmark.rows)
    for name in view.sets:
        for binary in (False, True):
            if dimensions := view.dimensions(name, binary=binary):
                table = dimension_table(view, name, dimensions)
                columns = [c for c in table.columns if c != "minus ceiling"]
                console.print(rich_table(table, columns, intervals=columns[:2]))
    for table in benchmark.tables:
        if table.title == PUBLISHED:  # the page also has those that this run did not measure
            column = table.columns.index(OURS)
            table = replace(table, rows=[row for row in table.rows if row[column] is not None])
        printed = _INJECTED if table.columns[0] == "Issue" else _PRINTED.get(table.title)
        if printed is None or not table.rows:
            continue
        if len(table.rows) > _LINES:
            title = f"{table.title} (the first {_LINES} of {len(table.rows)} lines)"
            table = replace(table, title=title, rows=table.rows[:_LINES])
        console.print(rich_table(table, printed, intervals=()))
    for note in notes:
        console.print(note, style="dim", highlight=False)
