"""A benchmark from its config to results.json, the page and the terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

from medal_judges.config import boxed_folder, build_config, judge_file, judge_names, load_config
from medal_judges.data_prep.labelling import EARLIER, MACHINE, machine_labels
from medal_judges.errors import (
    ConfigError,
    DataError,
    JudgeLoadError,
    MissingExtraError,
    NotAvailableError,
    RecordError,
    SourceError,
    did_you_mean,
)
from medal_judges.eval.benchmark.config import (
    BenchmarkConfig,
    BenchmarkOptions,
    InjectedConfig,
    JudgeConfig,
    PredictionConfig,
    SetConfig,
)
from medal_judges.eval.benchmark.figures import (
    FOLLOW_UPS,
    OURS,
    PUBLISHED,
    Answers,
    Benchmark,
    BenchmarkRun,
    BenchmarkSet,
    check_published,
    compute,
    same_model,
)
from medal_judges.eval.benchmark.page import View, dimension_table, write_report
from medal_judges.eval.metaeval.alignment import label, own_judgements
from medal_judges.eval.metaeval.comparison import (
    ANNOTATORS,
    CEILING,
    GRADED,
    ISSUES,
    MCNEMAR,
    MEANS,
)
from medal_judges.inference.judge_choice import JudgeChoice, choose_judge
from medal_judges.inference.scoring import ScoreOptions, judge_once, opened
from medal_judges.reading.dialogues import DEFAULT_READING, ReadingReport
from medal_judges.records.dimension import known_dimensions
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue, Scale, mean
from medal_judges.records.signature import content_hash
from medal_judges.report.console import ProgressBar, rich_table, wide_console
from medal_judges.storage.files import only_run
from medal_judges.storage.judgements import read_judgements

_INJECTED = ("Issue", "Judge", "F1+ vs clean", "F1+ vs matched controls", "AUC vs clean",
            "AUC vs matched controls", "False alarms, clean")  # fmt: skip
_WHO = ("Set", "Dimension", "Better", "Other")
# Columns of further tables in the terminal; tables by language are on the page only.
_PRINTED: dict[str, Sequence[str]] = {
    MEANS: (),
    FOLLOW_UPS: (),
    PUBLISHED: (),
    GRADED: (*_WHO, "Difference in ρ", "Difference in pairs right", "p", "n"),
    ISSUES: (*_WHO, "Difference in F1+", "p", "n"),
    MCNEMAR: (*_WHO, "Right alone: better", "Right alone: other", "p, Holm", "n"),
    CEILING: ("Set", "Dimension", "Judge", "Like for like", "One annotator", "p", "n"),
    ANNOTATORS: (*_WHO[:2], "Judge", "Annotator", "F1+ judge", "F1+ annotator", "McNemar p, Holm"),
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
    changed = {"output_dir": options.out, "device": options.device, "workers": options.workers}
    changed |= {"interval_for": options.interval_for, "headline": options.headline}
    typed = {name: value for name, value in changed.items() if value is not None}
    # JSON is YAML in which a text stays a text: a folder can be named 2026, or "a: b".
    overrides = [*options.overrides, *(f"{k}={json.dumps(v)}" for k, v in typed.items())]
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
    """Prints the leaderboards of each set, further tables, then notes on what was skipped."""
    console, view = wide_console(), View(benchmark.rows)
    for name in view.sets:
        for binary in (False, True):
            if dimensions := view.dimensions(name, binary=binary):
                table = dimension_table(view, name, dimensions)
                less = {"minus ceiling", label("pairwise")} - {table.columns[1]}
                columns = [c for c in table.columns if c not in less]
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


def load_set(
    config: SetConfig | InjectedConfig, *, offline: bool | None = None
) -> BenchmarkSet | str:
    """Loads a set. If its data is missing, returns the reason as text for an optional set.

    Raises SourceError or DataError for another set without data, and ConfigError if no row is left
    or no row has a dimension of ``config``.
    """
    from medal_judges.data_prep.sources import abceval
    from medal_judges.data_prep.sources.registry import load_spec

    options = config.read_options if isinstance(config, SetConfig) else DEFAULT_READING
    reading = ReadingReport(strict=True)
    try:
        rows = load_spec(config.source, offline=offline, reading=reading, options=options)
    except (SourceError, DataError) as error:
        if config.optional:
            return error.message
        raise
    reading.show()
    if isinstance(config, InjectedConfig):
        if not any("planted" in row.extra for row in rows):
            raise ConfigError(
                f"set {config.name!r}: no row of {config.source} has injected issues",
                hint="make such a file with: medal data plant IN.jsonl --out OUT.jsonl",
            )
        issues = dict.fromkeys(row.extra.get("planted", {}).get("issue") for row in rows)
        dimensions = {issue: issue for issue in issues if issue}
        return BenchmarkSet(tuple(rows), f"{config.name}@{data_hash(rows)}", dimensions)
    if config.view == "abceval_issues_by_dialogue":
        rows = list(abceval.lift_to_dialogues(map(abceval.to_issues, rows)))
    chosen = [
        row
        for row in rows
        if row.level == config.level
        and row.dialogue.chatbot not in config.exclude_chatbots
        and not (config.exclude_overlaps and row.extra.get("overlaps"))
        and (config.split is None or config.split.part_of(row.group) == "test")
    ]
    chosen = config.in_langs(chosen)[config.skip :][: config.limit]
    if not chosen:
        raise ConfigError(
            f"set {config.name!r}: no row of {config.source} at level {config.level} is left",
            hint="level is dialogue or turn; exclude_chatbots, exclude_overlaps, skip and split "
            "remove rows",
        )
    known = dict.fromkeys(name for row in chosen for name in row.labels)
    for name in config.dimensions:
        if name not in known:
            raise ConfigError(
                f"set {config.name!r} has no dimension {name!r}", hint=f"it has: {', '.join(known)}"
            )
    ids = {row.id for row in chosen}
    return BenchmarkSet(
        tuple(chosen),
        f"{config.name}@{data_hash(chosen)}",
        config.dimensions,
        config.level,
        tuple(row for row in rows if row.id not in ids),
    )


def published_labels(config: SetConfig, rows: Sequence[LabelledDialogue], labeller: str) -> Answers:
    """Returns the labels that the model ``labeller`` gave the rows, as a judge's answers. Raises
    ConfigError if no row has any."""
    given: list[dict[str, float | None]] = []
    scales, others = dict[str, Scale](), dict[str, None]()
    for row in rows:
        try:
            held = machine_labels(row)
        except RecordError as error:
            raise DataError(config.source, None, f"row {row.id!r}: {error.message}") from error
        others |= dict.fromkeys(held)
        given.append({})
        mine = [labels for who, labels in held.items() if same_model(who, labeller)]
        for own, (name, judged) in product(mine, config.dimensions.items()):
            if (rating := own.rating(name) or own.rating(judged)) is not None:
                given[-1][name] = mean(rating)
                scales |= {name: rating.scale} if rating.scale else {}
    labelled = [name for name in config.dimensions if any(name in labels for labels in given)]
    if not labelled:
        raise ConfigError(
            f"set {config.name!r}: no row of {config.source} has labels by {labeller!r} of "
            f"{', '.join(config.dimensions)}",
            hint=f"its rows have labels by: {', '.join(others) or 'no model'} (fields "
            f"{MACHINE} and {EARLIER})",
        )
    judgements = []
    for row, labels in zip(rows, given, strict=True):
        scores = {name: labels.get(name) for name in labelled}
        unknown = ", ".join(name for name, score in scores.items() if score is None)
        failure = f"no label by {labeller}: {unknown}" if unknown else None
        judgements.append(
            Judgement(
                row.id,
                f"judge:{labeller}",
                scores,
                row.turn,
                failure=failure,
                chat=row.dialogue.chat_hash,
            )
        )
    names = {name: name for name in config.dimensions}
    return Answers(f"{labeller} (published)", f"judge:{labeller}", judgements, names, scales)


def data_hash(rows: Sequence[LabelledDialogue]) -> str:
    """Returns 12 hex digits that identify the content of the rows, whatever their order."""
    return content_hash(sorted(content_hash(row.to_record()) for row in rows))


def prepare(config: BenchmarkConfig, *, offline: bool | None = None) -> BenchmarkRun:
    """Loads the sets; missing optional sets become notes. Raises ConfigError if a judge maps a
    dimension that no set has."""
    check_published(config)
    run = BenchmarkRun(config)
    for one in config.sets:
        loaded = load_set(one, offline=offline)
        if isinstance(loaded, str):
            run.notes.append(f"set {one.name} left out: {loaded}")
            continue
        if curated := sum("curation" in row.extra for row in loaded.rows):
            run.notes.append(
                f"set {one.name}: {curated} of {len(loaded.rows)} rows were selected by medal "
                "curate; the figures are of the selection, not of its pool"
            )
        published = []
        for who in one.published:
            try:
                published.append(published_labels(one, loaded.rows, who))
            except ConfigError as error:
                if not one.optional:
                    raise
                run.notes.append(f"labels by {who} left out: {error.message}")
        run.sets[one.name] = replace(loaded, published=tuple(published))
    for planted in config.injected:
        loaded = load_set(planted, offline=offline)
        if isinstance(loaded, str):
            run.notes.append(f"injected set {planted.name} left out: {loaded}")
        else:
            run.injected[planted.name] = loaded
    run.answers = {name: [] for name in run.sets | run.injected}
    known = {name for one in config.sets for name in one.dimensions}
    known |= {issue for data in run.injected.values() for issue in data.dimensions}
    mapping: list[JudgeConfig | PredictionConfig] = [*config.judges, *config.predictions]
    for judge, name in ((one.name, name) for one in mapping for name in one.dimensions):
        if name not in known and len(run.injected) == len(config.injected):
            raise ConfigError(
                f"judge {judge!r} maps the dimension {name!r}, which no set has",
                hint=f"dimensions map the set's name to the judge's; the sets have: "
                f"{', '.join(sorted(known))}",
            )
    return run


def _chosen(config: BenchmarkConfig, judge: JudgeConfig) -> JudgeChoice:
    """Returns the choice of ``judge``, with the benchmark's language model and device if it uses
    one."""
    overrides = []
    if config.llm is not None and choose_judge(judge.path).speaks:
        overrides.append(
            f"llm={json.dumps(config.llm.model_dump(mode='json', exclude_unset=True))}"
        )
    # Baselines beside the others have no weights, and no use for a device.
    return choose_judge(
        judge.path, overrides, revision=judge.revision, device=config.device, strict=False
    )


def judge_all(
    run: BenchmarkRun, options: BenchmarkOptions, progress: Callable[[str, str, int], None]
) -> None:
    """Fills ``run.answers``: first scores every set with every judge, then reads the files of
    predictions. ``progress`` is called with the judge, the set and the number of rows done since
    its last call.

    Loads one judge at a time. A missing optional judge becomes a note. Raises JudgeLoadError,
    NotAvailableError or MissingExtraError for any other missing judge.
    """
    everything = run.sets | run.injected
    for config in run.config.judges:
        folder = run.config.output_dir / "predictions" / file_name(config.name)
        choice = _chosen(run.config, config)
        record, learnt = Path(choice.source) / "data.json", set[str]()
        if record.is_file():  # of a saved judge: what it was trained on
            entries = json.loads(record.read_text(encoding="utf-8"))
            learnt = {chat for entry in entries for chat in entry.get("chats", "").split()}
        try:
            choice = choice.with_options(**config.options)
            if choice.speaks and options.no_cache:
                choice = choice.spending(no_cache=True)
            workers = 1 if choice.pays else run.config.workers
            with opened(choice, workers, run.config.device) as judge:
                has = {dimension.name: dimension for dimension in judge.dimensions}
                for name, data in everything.items():
                    names, dimensions = _dimensions(run, config, name, data, has)
                    if not dimensions:
                        progress(config.name, name, len(data.rows))
                        continue
                    if seen := sum(row.dialogue.text_hash in learnt for row in data.rows):
                        run.notes.append(
                            f"judge {config.name} was trained on {seen} of {len(data.rows)} chats "
                            f"of {name}: its figures there are too high"
                        )
                    judgements = judge_once(
                        judge,
                        [row.dialogue for row in data.rows],
                        folder / f"{file_name(name)}.jsonl",
                        ScoreOptions(
                            level="dialogue" if data.level == "dialogue" else "last",
                            dimensions=tuple(dimensions),
                            retry_failed=options.retry_failed,
                            overwrite=options.no_cache and choice.speaks,
                        ),
                        data=data.data,
                        progress=partial(progress, config.name, name),
                    )
                    who = config.name, str(judge.signature())
                    scales = {d: (has[d].low, has[d].high) for d in dimensions}
                    run.answers[name].append(Answers(*who, judgements, names, scales))
        except (JudgeLoadError, MissingExtraError, NotAvailableError) as error:
            if not config.optional:
                raise
            run.notes.append(f"judge {config.name} left out: {error.message}")
    for name, data in run.sets.items():
        run.answers[name] += data.published
    for file in run.config.predictions:
        if file.set in everything:
            read = tuple(read_judgements(file.path))
            signature = read[0].judge if read else f"judge:{file.name}"
            _, joined = own_judgements(everything[file.set].rows, read)
            for note in joined.notes(f"set {file.set}"):
                run.notes.append(f"predictions {file.name}: {note}")
            answers = Answers(file.name, signature, read, {})
            scored = answers.dimensions
            names, used = _dimensions(run, file, file.set, everything[file.set], scored)
            stated = [(str(file.path), judgement.dimensions) for judgement in read]
            known = known_dimensions(used, stated, file.rubric, "rubric:")
            scales = {name: (dimension.low, dimension.high) for name, dimension in known.items()}
            run.answers[file.set].append(replace(answers, names=names, scales=scales))


def _dimensions(
    run: BenchmarkRun,
    config: JudgeConfig | PredictionConfig,
    name: str,
    data: BenchmarkSet,
    has: Collection[str],
) -> tuple[dict[str, str], list[str]]:
    """Returns the set's dimensions with the judge's names for them, and the names that the judge
    knows; the others become a note. Raises ConfigError if ``config`` maps to a dimension that the
    judge does not have."""
    if unknown := [own for own in config.dimensions.values() if own not in has]:
        raise ConfigError(
            f"judge {config.name!r} has no dimension {unknown[0]!r}",
            hint=f"correct `dimensions` in the benchmark's file; the judge has: {', '.join(has)}",
        )
    names = {d: config.dimensions.get(d, judged) for d, judged in data.dimensions.items()}
    wanted = list(dict.fromkeys(names.values()))
    if missing := [dimension for dimension in wanted if dimension not in has]:
        run.notes.append(
            f"judge {config.name} has no {', '.join(missing)}: not shown on {name} "
            f"(it has {', '.join(has)}; set `dimensions: {{{missing[0]}: NAME}}`)"
        )
    return names, [dimension for dimension in wanted if dimension in has]


def file_name(name: str) -> str:
    """Returns ``name`` as a file name, escaped as in a URL."""
    quoted = quote(name, safe=" ()+,=@")
    return quoted if not quoted.startswith(".") else "%2E" + quoted[1:]
