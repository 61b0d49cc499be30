"""The run of a benchmark: loads the sets, and lets each judge score each set once.

Predictions are files under OUT/predictions/; figures.py computes everything from them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from urllib.parse import quote

from medal_judges.errors import (
    ConfigError,
    DataError,
    JudgeLoadError,
    MissingExtraError,
    NotAvailableError,
    SourceError,
)
from medal_judges.eval.benchmark.config import (
    BenchmarkConfig,
    BenchmarkOptions,
    InjectedConfig,
    JudgeConfig,
    PredictionConfig,
    SetConfig,
)
from medal_judges.eval.benchmark.published import check_published
from medal_judges.inference.judge_choice import choose_judge
from medal_judges.inference.scoring import ScoreOptions, judge_once, opened
from medal_judges.reading.dialogues import DEFAULT_READING
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue, Scale
from medal_judges.records.signature import content_hash
from medal_judges.stats.weights import Weights, weighting_note
from medal_judges.storage.judgements import read_judgements


@dataclass(frozen=True, slots=True)
class BenchmarkSet:
    """Rows to judge. ``data``: name and hash of the rows, for signatures. ``dimensions``: what is
    compared, set's name -> judge's name. ``left_out``: rows of the source outside the set.
    ``published``: judgements by labeller."""

    rows: tuple[LabelledDialogue, ...]
    data: str
    dimensions: Mapping[str, str]
    level: str = "dialogue"
    left_out: tuple[LabelledDialogue, ...] = ()
    published: Mapping[str, Sequence[Judgement]] = field(default_factory=dict)
    weights: Weights = "none"


@dataclass(frozen=True, slots=True)
class Answers:
    """The judgements of one set by one judge. ``names``: set's dimension -> judge's; ``scales``:
    (lowest, highest) of the judge's dimensions, if known."""

    judge: str
    signature: str
    judgements: Sequence[Judgement]
    names: Mapping[str, str]
    scales: Mapping[str, Scale] = field(default_factory=dict)

    @property
    def dimensions(self) -> list[str]:
        return list(dict.fromkeys(name for one in self.judgements for name in one.scores))


@dataclass(slots=True)
class BenchmarkRun:
    """Loaded sets and the answers by set. ``notes``: what was skipped and why."""

    config: BenchmarkConfig
    sets: dict[str, BenchmarkSet] = field(default_factory=dict)
    injected: dict[str, BenchmarkSet] = field(default_factory=dict)
    answers: dict[str, list[Answers]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    weighting: list[str] = field(default_factory=list)


def load_set(
    config: SetConfig | InjectedConfig, *, offline: bool | None = None
) -> BenchmarkSet | str:
    """Loads a set; returns the reason as text if an optional one is missing.

    Raises SourceError or DataError if another one is missing, and ConfigError if no row is left or
    none has a dimension that ``config`` names.
    """
    from medal_judges.data_prep.sources import abceval
    from medal_judges.data_prep.sources.registry import load_spec

    options = config.read_options if isinstance(config, SetConfig) else DEFAULT_READING
    try:
        rows = load_spec(config.source, offline=offline, options=options)
    except (SourceError, DataError) as error:
        if config.optional:
            return error.message
        raise
    if isinstance(config, InjectedConfig):
        if not any("planted" in row.extra for row in rows):
            raise ConfigError(
                f"set {config.name!r}: no row of {config.source} has injected issues",
                hint="make such a file with: medal data plant IN.jsonl --out OUT.jsonl",
            )
        issues = dict.fromkeys(row.extra.get("planted", {}).get("issue") for row in rows)
        dimensions = {issue: issue for issue in issues if issue}
        return BenchmarkSet(tuple(rows), f"{config.name}@{data_hash(rows)}", dimensions)
    published = {who: tuple(abceval.published_judgements(rows, who)) for who in config.published}
    if config.view == "abceval_issues_by_dialogue":
        rows = list(abceval.lift_to_dialogues(map(abceval.to_issues, rows)))
    chosen = [
        row
        for row in rows
        if row.level == config.level
        and row.dialogue.chatbot not in config.exclude_chatbots
        and not (config.exclude_overlaps and row.extra.get("overlaps"))
    ]
    if not chosen:
        raise ConfigError(
            f"set {config.name!r}: no row of {config.source} at level {config.level} is left",
            hint="level is dialogue or turn; exclude_chatbots and exclude_overlaps remove rows",
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
        published,
    )


def data_hash(rows: Sequence[LabelledDialogue]) -> str:
    """Returns 12 hex digits over the content of the rows, in any order."""
    return content_hash(sorted(content_hash(row.to_record()) for row in rows))


def prepare(config: BenchmarkConfig, *, offline: bool | None = None) -> BenchmarkRun:
    """Loads the sets; missing optional ones become notes. Raises ConfigError if no set has rows
    with weights but ``config`` wants them, and for a mapped dimension that no set has."""
    check_published(config)
    run = BenchmarkRun(config)
    for one in config.sets:
        loaded = load_set(one, offline=offline)
        if isinstance(loaded, str):
            run.notes.append(f"set {one.name} left out: {loaded}")
            continue
        weights, note = weighting_note(loaded.rows, config.weights, f"set {one.name}")
        run.sets[one.name] = replace(loaded, weights=weights)
        run.weighting += [note] if note else []
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
    used = {data.weights for data in run.sets.values()}
    if config.weights != "none" and config.weights not in used:
        raise ConfigError(
            f"--weights {config.weights}: no set has rows with weights",
            hint="medal curate writes them into curation.weight of its rows",
        )
    return run


def judge_all(
    run: BenchmarkRun, options: BenchmarkOptions, progress: Callable[[str, str, int], None]
) -> None:
    """Fills ``run.answers``: predictions of every judge on every set, then files of predictions.
    ``progress`` gets the judge, the set and the rows done since its last call.

    Loads one judge at a time. A missing optional one becomes a note. Raises JudgeLoadError,
    NotAvailableError or MissingExtraError for any other.
    """
    everything = run.sets | run.injected
    for config in run.config.judges:
        folder = run.config.output_dir / "predictions" / file_name(config.name)
        choice = choose_judge(config.path, revision=config.revision, device=run.config.device)
        try:
            if choice.speaks and run.config.llm is not None:
                choice = choice.with_options(llm=run.config.llm.model_dump(exclude_unset=True))
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
        for labeller, published in data.published.items():
            who = f"{labeller} (published)", f"judge:{labeller}"
            run.answers[name].append(Answers(*who, published, data.dimensions))
    for file in run.config.predictions:
        if file.set in everything:
            read = tuple(read_judgements(file.path))
            signature = read[0].judge if read else f"judge:{file.name}"
            answers = Answers(file.name, signature, read, {})
            names, _ = _dimensions(run, file, file.set, everything[file.set], answers.dimensions)
            run.answers[file.set].append(replace(answers, names=names))


def _dimensions(
    run: BenchmarkRun,
    config: JudgeConfig | PredictionConfig,
    name: str,
    data: BenchmarkSet,
    has: Collection[str],
) -> tuple[dict[str, str], list[str]]:
    """Returns the set's dimensions -> the judge's, and those of the judge's that it has; the others
    become a note. Raises ConfigError if the judge's own mapping names a dimension that it lacks."""
    if unknown := [own for own in config.dimensions.values() if own not in has]:
        raise ConfigError(
            f"judge {config.name!r} has no dimension {unknown[0]!r}",
            hint=f"its `dimensions` in the benchmark's file name it; it has: {', '.join(has)}",
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
    """Returns ``name`` as one part of a path, escaped as in an address."""
    quoted = quote(name, safe=" ()+,=@")
    return quoted if not quoted.startswith(".") else "%2E" + quoted[1:]
