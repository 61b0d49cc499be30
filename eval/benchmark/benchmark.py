"""A benchmark from its config to results.json and the page."""

from __future__ import annotations

from collections.abc import Sequence

from medal_judges.config import build_config, load_config
from medal_judges.errors import ConfigError, did_you_mean
from medal_judges.eval.benchmark.compute import compute, made_facts, write_results
from medal_judges.eval.benchmark.config import BenchmarkConfig
from medal_judges.eval.benchmark.runner import BenchmarkRun, judge_all, prepare
from medal_judges.eval.page.arrangement import Benchmark
from medal_judges.eval.page.page import write_report
from medal_judges.report.progress import ProgressBar
from medal_judges.shipped import boxed_folder, judge_file, judge_names
from medal_judges.storage.files import only_run_in

DEFAULT = "configs/benchmark/human.yaml"


def benchmark(
    config: str = DEFAULT,
    overrides: Sequence[str] = (),
    *,
    judges: Sequence[str] = (),
    offline: bool | None = None,
    retry_failed: bool = False,
    no_cache: bool = False,
) -> Benchmark:
    """Run judges over sets and compare them with people: what ``medal benchmark`` does.

    ``config`` is a YAML file or the name of one in configs/benchmark/, ``overrides`` are
    ``field=value``, ``judges`` are further ones (``contrast``, ``mine=runs/judge``). Writes the
    predictions, results.json and report.html to the config's output_dir; predictions of an earlier
    run are used again. Raises ConfigError where there is nothing to judge, or nothing to judge on.

    >>> from medal_judges import benchmark
    >>> sets = "sets=[{name: talks, source: labelled.jsonl, dimensions: [overall]}]"
    >>> overrides = [sets, "injected=[]", "judges=[]", "output_dir=talks"]
    >>> figures = benchmark("quickstart", overrides, judges=["length"])
    >>> [(row.judge, row.dimension, row.n) for row in figures.rows]
    [('length', 'overall', 12)]
    """
    _, figures = run_benchmark(
        config, overrides, judges, offline=offline, retry_failed=retry_failed, no_cache=no_cache
    )
    return figures


def run_benchmark(
    config: str,
    overrides: Sequence[str],
    judges: Sequence[str],
    *,
    offline: bool | None = None,
    retry_failed: bool = False,
    no_cache: bool = False,
    bar: ProgressBar | None = None,
) -> tuple[BenchmarkRun, Benchmark]:
    """See ``benchmark``; also returns the run with its notes."""
    settings = _settings(config, overrides, judges)
    run = prepare(settings, offline=offline)
    run.retry_failed, run.no_cache = retry_failed, no_cache
    if not run.sets and not run.injected:
        raise ConfigError(
            "\n    ".join(["no set is here", *run.notes]),
            hint="put line-format files in the folder that $MEDAL_JUDGES_DATA names; see also: "
            "medal data list",
        )
    with only_run_in(settings.output_dir):
        if bar is None:
            judge_all(run)
        else:
            bar.update(0, total=run.total)
            judge_all(run, lambda judge, name, n: bar.advance(n, what=f"{judge} on {name}"))
    figures = compute(run, made_facts(_command(config, overrides, judges)))
    write_results(figures, settings.output_dir / "results.json")
    write_report(figures, settings.output_dir)
    return run, figures


def _settings(config: str, overrides: Sequence[str], judges: Sequence[str]) -> BenchmarkConfig:
    loaded = load_config(BenchmarkConfig, config, overrides, folder="benchmark")
    added = []
    for text in judges:
        name, sign, path = text.partition("=")
        if not sign and (judge_file(text) or boxed_folder(text)) and text in judge_names():
            path = text  # a shipped judge brings its name
        elif not (name and sign and path):
            raise ConfigError(
                f"--judge {text!r} is not of the form NAME=PATH, nor the name of a shipped judge",
                hint=f"{did_you_mean(text, judge_names())}--judge mine=runs/judge",
            )
        added.append({"name": name, "path": path})
    data = loaded.model_dump()
    data["judges"] = [*data["judges"], *added]
    settings = build_config(BenchmarkConfig, data, where=config)
    if not settings.judges and not settings.predictions:
        raise ConfigError(
            "no judge to benchmark",
            hint="--judge contrast, --judge NAME=PATH, or judges: in the file",
        )
    return settings


def _command(config: str, overrides: Sequence[str], judges: Sequence[str]) -> str:
    """The command as it can be typed again; judges by name only, since a page is published."""
    given = (text.partition("=")[:2] for text in judges)
    names = [f"--judge {name}=..." if sign else f"--judge {name}" for name, sign in given]
    kept = [text for text in overrides if "/" not in text]
    shown = config if "/" not in config or config.startswith("configs/") else config.split("/")[-1]
    return " ".join(["medal benchmark --config", shown, *names, *kept])
