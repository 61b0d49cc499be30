"""A benchmark from its config to results.json, the page and the terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

from medal_judges.config import (
    boxed_folder,
    build_config,
    judge_file,
    judge_names,
    load_config,
)
from medal_judges.errors import (
    ConfigError,
    JudgeLoadError,
    MissingExtraError,
    NotAvailableError,
    did_you_mean,
)
from medal_judges.eval.benchmark.config import (
    BenchmarkConfig,
    BenchmarkOptions,
    JudgeConfig,
    PredictionConfig,
)
from medal_judges.eval.benchmark.files import with_files
from medal_judges.eval.benchmark.page import benchmark_page
from medal_judges.eval.benchmark.results import (
    Answers,
    Benchmark,
    BenchmarkRun,
    BenchmarkSet,
    compute,
)
from medal_judges.eval.benchmark.sets import prepare
from medal_judges.eval.metaeval.alignment import own_judgements
from medal_judges.inference.judge_choice import JudgeChoice, choose_judge
from medal_judges.inference.scoring import ScoreOptions, judge_once, opened
from medal_judges.models.base.judge import ScoreLevel
from medal_judges.records.dimension import known_dimensions
from medal_judges.report.console import ProgressBar
from medal_judges.storage.files import only_run
from medal_judges.storage.judgements import read_judgements
from medal_judges.training.rows import training_chats


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
    >>> results = benchmark("quickstart", overrides, judges=["length"])
    >>> [(row.judge, row.dimension, row.n) for row in results.rows]
    [('length', 'overall', 12)]
    """
    options |= {"config": config, "overrides": tuple(overrides), "judge": tuple(judges)}
    results, folder = run_benchmark(BenchmarkOptions(**options))
    benchmark_page(results).write(folder)
    return results


def run_benchmark(
    options: BenchmarkOptions, bar: ProgressBar | None = None
) -> tuple[Benchmark, Path]:
    """Runs a benchmark and writes predictions and results.json; returns the results and the
    folder."""
    overrides = _overrides(options)
    config = _config(options, overrides)
    run = prepare(config, offline=options.offline or None)
    all_sets = run.sets | run.injected
    if not all_sets:
        raise ConfigError(
            "\n    ".join(["no set is available", *run.notes]),
            hint="put line-format files in the folder that $MEDAL_JUDGES_DATA names; see also: "
            "medal data list",
        )

    def progress(judge: str, set_name: str, count: int) -> None:
        if bar is not None:
            bar.advance(count, label=f"{judge} on {set_name}")

    with only_run(config.output_dir, folder=True):
        if bar is not None:
            row_count = sum(len(data.rows) for data in all_sets.values())
            bar.advance(finished=0, total=row_count * len(config.judges))
        judge_all(run, options, progress)
    results = compute(run, _command(options, overrides))
    results.write(config.output_dir / "results.json")
    return results, config.output_dir


def _overrides(options: BenchmarkOptions) -> list[str]:
    """Returns all options that change a setting of the file, as FIELD=VALUE."""
    settings = {
        "output_dir": options.out,
        "device": options.device,
        "workers": options.workers,
        "interval_for": options.interval_for,
        "headline": options.headline,
    }
    overrides = list(options.overrides)
    for name, value in settings.items():
        if value is not None:
            # JSON is YAML in which a text stays a text: a folder can be named 2026, or "a: b".
            overrides.append(f"{name}={json.dumps(value)}")
    return overrides


def _config(options: BenchmarkOptions, overrides: Sequence[str]) -> BenchmarkConfig:
    """Returns the config with the further judges of the options."""
    data = load_config(
        BenchmarkConfig, options.config, overrides, folder="benchmark"
    ).model_dump()
    data["judges"] = [*data["judges"]]
    for text in options.judge:
        name, sign, path = text.partition("=")
        if (
            not sign
            and (judge_file(text) or boxed_folder(text))
            and text in judge_names()
        ):
            path = text  # a packaged judge brings its name
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
    judges = map(JudgeConfig.combinations, config.judges)
    return config.model_copy(update={"judges": tuple(chain.from_iterable(judges))})


def _command(options: BenchmarkOptions, overrides: Sequence[str]) -> str:
    """Returns the command to type again, without paths, since a page is published."""
    file = options.config
    if not file.startswith("configs/"):
        file = file.split("/")[-1]
    words = ["medal benchmark --config", file]
    for judge in options.judge:
        name, sign, _ = judge.partition("=")
        if sign:
            name += "=..."
        words.append(f"--judge {name}")
    words += [override for override in overrides if "/" not in override]
    return " ".join(words)


# -- judging ---------------------------------------------------------------------------------------


def judge_all(
    run: BenchmarkRun,
    options: BenchmarkOptions,
    progress: Callable[[str, str, int], None],
) -> None:
    """Fills ``run.answers``: first scores every set with every judge, then reads the files of
    predictions. ``progress`` is called with the judge, the set and the number of rows done since
    its last call.

    Loads one judge at a time. A missing optional judge becomes a note. Raises JudgeLoadError,
    NotAvailableError or MissingExtraError for any other missing judge.
    """
    for config in with_files(run.config).judges:
        try:
            _score_sets(run, config, options, partial(progress, config.name))
        except (JudgeLoadError, MissingExtraError, NotAvailableError) as error:
            if not config.optional:
                raise
            run.notes.append(f"judge {config.name} left out: {error.one_line}")
    for name, data in run.sets.items():
        run.answers[name] += data.published
    for prediction in run.config.predictions:
        if prediction.set in run.answers:
            run.answers[prediction.set].append(_predicted_answers(run, prediction))


def _score_sets(
    run: BenchmarkRun,
    config: JudgeConfig,
    options: BenchmarkOptions,
    progress: Callable[[str, int], None],
) -> None:
    """Scores every set with one judge. Raises the errors of a judge that cannot be loaded."""
    choice = _chosen(run.config, config)
    trained_on = training_chats(choice.source, choice.revision)
    choice = choice.with_options(**config.options)
    if choice.speaks and options.no_cache:
        choice = choice.spending(no_cache=True)
    workers = run.config.workers
    if choice.asks_server:
        workers = 1
    with opened(choice, workers, run.config.device) as judge:
        for name, data in (run.sets | run.injected).items():
            judge_dimensions = {
                dimension.name: dimension for dimension in judge.dimensions
            }
            names, dimensions = _dimensions(run, config, name, data, judge_dimensions)
            if not dimensions:
                progress(name, len(data.rows))
                continue
            trained_count = sum(
                row.dialogue.text_hash in trained_on for row in data.rows
            )
            if trained_count:
                run.notes.append(
                    f"judge {config.name} was trained on {trained_count} of {len(data.rows)} chats "
                    f"of {name}: its figures there are too high"
                )
            level: ScoreLevel = "last"
            if data.level == "dialogue":
                level = "dialogue"
            score_options = ScoreOptions(
                level=level,
                dimensions=tuple(dimensions),
                retry_failed=options.retry_failed,
                overwrite=options.no_cache and choice.speaks,
            )
            folder = run.config.output_dir / "predictions" / file_name(config.name)
            judgements = judge_once(
                judge,
                [row.dialogue for row in data.rows],
                folder / f"{file_name(name)}.jsonl",
                score_options,
                progress=partial(progress, name),
            )
            scales = {}
            for dimension in dimensions:
                scales[dimension] = (
                    judge_dimensions[dimension].low,
                    judge_dimensions[dimension].high,
                )
            signature = str(judge.signature())
            for set_dimension, dimension in names.items():
                if dimension in dimensions:
                    wording = judge.wording(dimension, level == "last")
                    run.wordings[name, set_dimension, config.name] = wording
            run.answers[name].append(
                Answers(config.name, signature, judgements, names, scales)
            )


def _chosen(config: BenchmarkConfig, judge: JudgeConfig) -> JudgeChoice:
    """Returns the choice of ``judge``, with the benchmark's language model and device if it uses
    one."""
    overrides = []
    if config.llm is not None and choose_judge(judge.path).speaks:
        llm = json.dumps(config.llm.model_dump(mode="json", exclude_unset=True))
        overrides.append(f"llm={llm}")
    # Baselines beside the others have no weights, and no use for a device.
    return choose_judge(
        judge.path,
        overrides,
        revision=judge.revision,
        device=config.device,
        strict=False,
    )


def _predicted_answers(run: BenchmarkRun, config: PredictionConfig) -> Answers:
    """Returns the answers in a file of predictions. Labels of other chats than the judged ones
    become notes."""
    data = (run.sets | run.injected)[config.set]
    judgements = tuple(read_judgements(config.path))
    signature = f"judge:{config.name}"
    if judgements:
        signature = judgements[0].judge
    _, joined = own_judgements(data.rows, judgements)
    for note in joined.notes(f"set {config.set}"):
        run.notes.append(f"predictions {config.name}: {note}")
    answers = Answers(config.name, signature, judgements, {})
    names, dimensions = _dimensions(run, config, config.set, data, answers.dimensions)
    stated_dimensions = [
        (str(config.path), judgement.dimensions) for judgement in judgements
    ]
    scales = {}
    for name, dimension in known_dimensions(
        dimensions, stated_dimensions, config.rubric, "rubric:"
    ).items():
        scales[name] = dimension.low, dimension.high
    return replace(answers, names=names, scales=scales)


def _dimensions(
    run: BenchmarkRun,
    config: JudgeConfig | PredictionConfig,
    set_name: str,
    data: BenchmarkSet,
    judge_dimensions: Collection[str],
) -> tuple[dict[str, str], list[str]]:
    """Returns the set's dimensions with the judge's names for them, and those of the names that the
    judge has; the others become a note. Raises ConfigError if ``config`` maps to a dimension that
    the judge does not have."""
    for judge_dimension in config.dimensions.values():
        if judge_dimension not in judge_dimensions:
            raise ConfigError(
                f"judge {config.name!r} has no dimension {judge_dimension!r}",
                hint=f"correct `dimensions` in the benchmark's file; the judge has: "
                f"{', '.join(judge_dimensions)}",
            )
    names = {
        d: config.dimensions.get(d, default) for d, default in data.dimensions.items()
    }
    wanted_names = list(dict.fromkeys(names.values()))
    missing = [name for name in wanted_names if name not in judge_dimensions]
    if missing:
        run.notes.append(
            f"judge {config.name} has no {', '.join(missing)}: not shown on {set_name} "
            f"(it has {', '.join(judge_dimensions)}; set `dimensions: {{{missing[0]}: NAME}}`)"
        )
    return names, [name for name in wanted_names if name in judge_dimensions]


def file_name(name: str) -> str:
    """Returns ``name`` as a file name, escaped as in a URL."""
    quoted = quote(name, safe=" ()+,=@")
    if quoted.startswith("."):
        return "%2E" + quoted[1:]
    return quoted
