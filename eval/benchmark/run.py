"""A benchmark from its config to results.json and the page."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd

from medal_judges.config import build_config, load_config
from medal_judges.errors import (
    ConfigError,
    DataError,
    JudgeLoadError,
    MissingExtraError,
    NotAvailableError,
)
from medal_judges.eval.benchmark.config import (
    BenchmarkConfig,
    BenchmarkOptions,
    JudgeConfig,
)
from medal_judges.eval.benchmark.page import benchmark_page
from medal_judges.eval.benchmark.published import check_published
from medal_judges.eval.benchmark.results import (
    Benchmark,
    BenchmarkRun,
    compute_benchmark,
)
from medal_judges.eval.benchmark.sets import (
    BenchmarkSet,
    SetJudgements,
    judgements_from_labels,
    load_set,
)
from medal_judges.eval.metaeval.alignment import join_rows
from medal_judges.inference.judge_choice import JudgeChoice, choose_judge
from medal_judges.inference.scoring import ScoreOptions, load_or_score, open_judge
from medal_judges.models.base.saving import read_training_chat_hashes
from medal_judges.records.dimension import EQUAL, merge_dimensions
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import Scale
from medal_judges.report.console import ProgressBar
from medal_judges.storage.files import output_lock
from medal_judges.storage.judgements import read_judgements

# Called with the judge, the set and the number of rows done since the last call.
Progress = Callable[[str, str, int], None]


def benchmark(
    config: str = "configs/benchmark/human.yaml",
    overrides: Sequence[str] = (),
    *,
    judges: Sequence[str] = (),
    **options: Any,
) -> Benchmark:
    """Runs judges on labelled sets and compares them with people, as ``medal benchmark`` does.

    Writes predictions, results.json and report.html to the config's ``output_dir``, and reuses the
    predictions of an earlier run.

    Args:
        config: A YAML file, or the name of one in configs/benchmark/.
        overrides: Changed settings of the config, such as ``output_dir=talks``.
        judges: Added judges, such as ``contrast`` or ``mine=runs/judge``.
        options: Further fields of ``BenchmarkOptions``, such as ``retry_failed=True``.

    Raises:
        ConfigError: There is no judge or no set.

    >>> from medal_judges import benchmark
    >>> sets = "sets=[{name: talks, source: labelled.jsonl, dimensions: [overall]}]"
    >>> overrides = [sets, "judges=[]", "output_dir=talks"]
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
    """Runs a benchmark, and writes predictions and results.json but no page.

    Args:
        options: The command's options.
        bar: Shows how many dialogues are scored. None shows nothing.

    Returns:
        The results, and the folder of the written files.

    Raises:
        ConfigError: There is no judge or no set.
    """
    config = _load_config(options)
    run = prepare_run(config)

    def progress(judge: str, set_name: str, count: int) -> None:
        if bar is not None:
            bar.advance(count, note=f"{judge} on {set_name}")

    with output_lock(config.output_dir, folder=True):
        if bar is not None:
            row_count = sum(len(data.rows) for data in run.sets.values())
            bar.advance(finished=0, total=row_count * len(config.judges))
        collect_judgements(run, options, progress)
    # The page is published, so the command has no paths.
    words = ["medal benchmark --config", Path(options.config).name]
    words += [word for word in options.overrides if "/" not in word]
    results = compute_benchmark(run, " ".join(words))
    results.write(config.output_dir / "results.json")
    return results, config.output_dir


def _load_config(options: BenchmarkOptions) -> BenchmarkConfig:
    """Returns the config of a benchmark, including the judges that ``options`` add.

    Raises:
        ConfigError: There is no judge.
    """
    overrides = list(options.overrides)
    if options.out is not None:
        # JSON is YAML in which a text stays a text: a folder can be named 2026, or "a: b".
        overrides.append(f"output_dir={json.dumps(options.out)}")
    config = load_config(BenchmarkConfig, options.config, overrides, folder="benchmark")
    data = config.model_dump()
    data["judges"] = [*data["judges"]]
    for text in options.judge:
        name, _, path = text.rpartition("=")
        data["judges"].append({"name": name or Path(path).stem, "path": path})
    config = build_config(BenchmarkConfig, data, where=options.config)
    if not config.judges:
        raise ConfigError(
            "no judge to benchmark",
            hint="Type --judge contrast or --judge NAME=PATH, or write judges: in the file",
        )
    return config


# -- sets ------------------------------------------------------------------------------------------


def prepare_run(config: BenchmarkConfig) -> BenchmarkRun:
    """Loads the sets of ``config``. If an optional set is missing, the returned ``notes`` say so.

    Raises:
        ConfigError: No set is left, the setting ``dimensions`` of a judge names a dimension that no
            set has, or configs/published.yaml lacks a name.
        SourceError: The data of a set is missing.
        DataError: A file cannot be read.
    """
    check_published(config)
    run = BenchmarkRun(config)
    dimensions: set[str] = set()
    for part in config.sets:
        loaded = load_set(part)
        if isinstance(loaded, str):
            run.notes.append(f"set {part.name} left out: {loaded}")
            continue
        curated_count = sum("curation" in row.extra for row in loaded.rows)
        if curated_count:
            run.notes.append(
                f"set {part.name}: {curated_count} of {len(loaded.rows)} rows were selected by "
                "medal curate. The results hold for the selection, not for its pool"
            )
        run.sets[part.name] = loaded
        run.set_judgements[part.name] = []
        dimensions.update(loaded.dimensions)
    if not run.sets:
        raise ConfigError(
            "\n    ".join(["no set is available", *run.notes]),
            hint="Put the files into the folder that $MEDAL_JUDGES_DATA names. To see them, type: "
            "medal data list",
        )
    for set_config in config.sets:
        dimensions.update(set_config.dimensions)
    is_complete = len(run.sets) == len(config.sets)
    for judge in config.judges:
        for name in judge.dimensions:
            if name not in dimensions and is_complete:
                raise ConfigError(
                    f"judge {judge.name!r} maps the dimension {name!r}, which no set has",
                    hint=f"Write `dimensions` as SET'S NAME: JUDGE'S NAME. The sets have: "
                    f"{', '.join(sorted(dimensions))}",
                )
    return run


# -- judging ---------------------------------------------------------------------------------------


def collect_judgements(
    run: BenchmarkRun, options: BenchmarkOptions, progress: Progress
) -> None:
    """Adds all judgements to ``run.set_judgements``.

    Judgements come from judges that score the sets, from files of finished scores, and from labels
    by models in the sets. If an optional judge is missing, ``run.notes`` says so.

    Args:
        run: The sets, already loaded.
        options: Whether to score failed dialogues again (``retry_failed``), and whether to ignore
            cached answers of language models (``no_cache``).
        progress: Called with the judge, the set and the number of newly scored dialogues.

    Raises:
        JudgeLoadError: A judge cannot be loaded.
        NotAvailableError: A judge's data is missing.
        MissingExtraError: A judge needs a package that is not installed.
        DataError: A file of finished scores cannot be used.
        ConfigError: A judge has no dimension of a configured name, or a set has no labels by a
            configured model.
    """
    for config in run.config.judges:
        for name, path in config.predictions.items():
            if name in run.sets:
                run.set_judgements[name].append(
                    _read_predictions(run, config, name, path)
                )
        if config.predictions:
            continue
        try:
            _score_sets(run, config, options, partial(progress, config.name))
        except (JudgeLoadError, MissingExtraError, NotAvailableError) as error:
            if not config.optional:
                raise
            run.notes.append(f"judge {config.name} left out: {error.one_line}")
    for set_config in run.config.sets:
        for labeller in set_config.published:
            if set_config.name not in run.sets:
                continue
            try:
                rows = run.sets[set_config.name].rows
                set_judgements = judgements_from_labels(set_config, rows, labeller)
                run.set_judgements[set_config.name].append(set_judgements)
            except ConfigError as error:
                if not set_config.optional:
                    raise
                run.notes.append(f"labels by {labeller} left out: {error.one_line}")


def _score_sets(
    run: BenchmarkRun,
    config: JudgeConfig,
    options: BenchmarkOptions,
    progress: Callable[[str, int], None],
) -> None:
    """Scores every set of ``run`` with the judge of ``config``, and adds the judgements to ``run``.

    Args:
        options: Whether to score failed dialogues again (``retry_failed``), and whether to ignore
            cached answers of language models (``no_cache``).
        progress: Called with the set and the number of newly scored dialogues.

    Raises:
        JudgeLoadError: The judge cannot be loaded.
        NotAvailableError: The judge's data is missing.
        MissingExtraError: The judge needs a package that is not installed.
    """
    choice = _choose_judge(run.config, config)
    trained_on = read_training_chat_hashes(choice.source, choice.revision)
    choice = choice.with_options(**config.options)
    if choice.uses_llm and options.no_cache:
        choice = choice.with_spending(no_cache=True)
    folder = run.config.output_dir / "predictions" / to_file_name(config.name)
    with open_judge(choice, 1, run.config.device) as judge:
        scales = {part.name: (part.low, part.high) for part in judge.dimensions}
        for name, data in run.sets.items():
            names = _match_dimensions(run, config, name, data, scales)
            dialogues = [row.dialogue for row in data.rows]
            if not names:
                progress(name, len(dialogues))
                continue
            trained_count = sum(chat.text_hash in trained_on for chat in dialogues)
            if trained_count:
                run.notes.append(
                    f"judge {config.name} was trained on {trained_count} of {len(dialogues)} chats "
                    f"of {name}: its results there are too high"
                )
            score_options = ScoreOptions(
                level="dialogue" if data.level == "dialogue" else "last",
                dimensions=tuple(dict.fromkeys(names.values())),
                retry_failed=options.retry_failed,
                overwrite=options.no_cache and choice.uses_llm,
            )
            judgements = load_or_score(
                judge,
                dialogues,
                folder / f"{to_file_name(name)}.jsonl",
                score_options,
                progress=partial(progress, name),
            )
            signature = str(judge.signature())
            set_judgements = SetJudgements(
                config.name, signature, judgements, names, scales
            )
            run.set_judgements[name].append(set_judgements)


def _choose_judge(config: BenchmarkConfig, judge: JudgeConfig) -> JudgeChoice:
    """Returns how to load ``judge``, with the default device and language model of ``config``."""
    overrides = []
    if config.llm is not None and choose_judge(judge.path).uses_llm:
        llm = json.dumps(config.llm.model_dump(mode="json", exclude_unset=True))
        overrides.append(f"llm={llm}")
    # Baselines beside the others have no weights, and no use for a device.
    return choose_judge(judge.path, overrides, device=config.device, strict=False)


# -- predictions -----------------------------------------------------------------------------------


def _read_predictions(
    run: BenchmarkRun, config: JudgeConfig, set_name: str, path: Path
) -> SetJudgements:
    """Returns a judge's finished scores of the set ``set_name``, read from the file ``path``.

    Args:
        run: The loaded sets. Gets notes on scores whose dialogue has another text than in the set.
        config: The judge, and its names for the set's dimensions.

    Raises:
        DataError: A score is outside its scale.
    """
    data = run.sets[set_name]
    if path.suffix == ".csv":
        judgements = judgements_from_csv(config, data, path)
    else:
        judgements = list(read_judgements(path))
    signature = f"judge:{config.name}"
    if judgements:
        signature = judgements[0].judge
    joined = join_rows(data.rows, judgements, left_out=data.left_out)
    for note in joined.notes:
        run.notes.append(f"predictions {config.name}: {note}")
    scored: dict[str, None] = {}
    for judgement in judgements:
        scored |= dict.fromkeys(judgement.scores)
    names = _match_dimensions(run, config, set_name, data, scored)
    dimension_of = merge_dimensions(
        [(str(path), part.dimensions) for part in judgements]
    )
    scales: dict[str, Scale] = {}
    data_scales: dict[str, Scale] = {}
    for dimension, name in names.items():
        if name in dimension_of:
            scales[name] = dimension_of[name].low, dimension_of[name].high
        elif scale := data.rows[0].scales.get(dimension):
            data_scales[name] = scale
    for problem in _find_off_scale_problems(judgements, scales):
        raise DataError(path, None, problem)
    # A metric of somebody's own may have its own scale.
    for problem in _find_off_scale_problems(judgements, data_scales):
        run.notes.append(
            f"predictions {config.name}: {problem}. Only ranks are compared"
        )
        break
    return SetJudgements(config.name, signature, judgements, names, scales)


def judgements_from_csv(
    config: JudgeConfig, data: BenchmarkSet, path: Path
) -> list[Judgement]:
    """Returns the scores in a CSV table, such as the output of a metric of your own, as judgements.

    Args:
        config: The judge, whose name the judgements get.
        data: The set that was scored.
        path: A table with the columns id, turn (if turns were scored), and one for each dimension.

    Raises:
        DataError: The file or a column is missing, or a score is not a number.
    """
    if not path.is_file():
        raise DataError(path, None, "no such file. Check the path")
    table = pd.read_csv(path, dtype={"id": str})
    columns = [name for name in table.columns if name not in ("id", "turn")]
    if "id" not in table or not columns:
        names = ", ".join(map(str, table.columns))
        problem = f"a table of predictions needs a column id and columns of scores, not: {names}"
        raise DataError(path, None, problem)
    scores = table[columns].apply(pd.to_numeric, errors="coerce")
    is_wrong = scores.isna() & table[columns].notna()
    for line in np.flatnonzero(is_wrong.any(axis=1)):
        name = is_wrong.columns[is_wrong.iloc[line].argmax()]
        problem = (
            f"column {name}: type a number or nothing, not {table[name].iloc[line]}"
        )
        raise DataError(path, int(line) + 2, problem)
    if len(columns) == 1 and len(data.dimensions) == 1 and not config.dimensions:
        scores.columns = list(data.dimensions.values())
    table = table.drop(columns=columns).join(scores).astype(object)
    judgements = []
    for record in table.where(table.notna(), None).to_dict("records"):
        id, turn = record.pop("id"), record.pop("turn", None)
        judgement = Judgement(id, f"judge:{config.name}", record)
        if turn is not None:
            judgement = replace(judgement, turn=int(turn))
        if None in record.values():
            judgement = replace(judgement, failure="no score in the table")
        judgements.append(judgement)
    return judgements


def _find_off_scale_problems(
    judgements: Sequence[Judgement], scales: Mapping[str, Scale]
) -> Iterator[str]:
    """Yields a message for each score of ``judgements`` outside the scale of its dimension.

    Args:
        scales: Dimension -> (lowest, highest) score.
    """
    for judgement in judgements:
        for name, (low, high) in scales.items():
            score = judgement.scores.get(name)
            leeway = EQUAL * (high - low)
            if score is not None and not low - leeway <= score <= high + leeway:
                yield (
                    f"{judgement.id}: {name} is {score:g}, outside its scale from {low:g} to "
                    f"{high:g}"
                )


def _match_dimensions(
    run: BenchmarkRun,
    config: JudgeConfig,
    set_name: str,
    data: BenchmarkSet,
    judge_dimensions: Collection[str],
) -> dict[str, str]:
    """Returns dimension of a set -> the judge's name for it, for the dimensions
    that the judge scores.

    Args:
        run: Gets a note on dimensions that the judge does not score.
        config: The judge, whose setting ``dimensions`` overrides names.
        set_name: The name of the set, for the note.
        data: The set.
        judge_dimensions: Names of the dimensions that the judge scores.

    Raises:
        ConfigError: ``config`` maps to a dimension that the judge does not score.
    """
    for judge_dimension in config.dimensions.values():
        if judge_dimension not in judge_dimensions:
            raise ConfigError(
                f"judge {config.name!r} has no dimension {judge_dimension!r}",
                hint=f"Correct `dimensions` in the benchmark's file. Use one of: "
                f"{', '.join(judge_dimensions)}",
            )
    names = {**data.dimensions, **config.dimensions}
    names = {name: names[name] for name in data.dimensions}
    missing = [name for name in names.values() if name not in judge_dimensions]
    if missing:
        run.notes.append(
            f"{config.name} has no {', '.join(missing)} on {set_name}. If they have other names, "
            f"write `dimensions: {{{missing[0]}: NAME}}` ({', '.join(judge_dimensions)})"
        )
    return {
        name: own_name
        for name, own_name in names.items()
        if own_name in judge_dimensions
    }


def to_file_name(name: str) -> str:
    """Returns ``name`` as a file name. Unsuitable characters are escaped as in a URL, such as
    ``%2F`` for a slash."""
    quoted = quote(name, safe=" ()+,=@")
    if quoted.startswith("."):
        return "%2E" + quoted[1:]
    return quoted
