"""The run of a benchmark: loads the sets, and lets each judge score each set once.

Predictions are files under OUT/predictions/; figures.py computes everything from them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from medal_judges.inference.judge_choice import cached_answers, choose_judge
from medal_judges.inference.predictions import judge_once
from medal_judges.inference.ray_judge import opened
from medal_judges.inference.scoring import ScoreOptions
from medal_judges.models.base.judge import Judge
from medal_judges.reading.options import DEFAULT_READING
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.rating import Scale
from medal_judges.records.signature import content_hash
from medal_judges.stats.weights import Weights, weighting_note
from medal_judges.storage.judgements import read_judgements

Progress = Callable[[str, str, int], None]  # judge, set, rows done since the last call


@dataclass(frozen=True, slots=True)
class BenchmarkSet:
    """Rows to judge. ``data``: name and hash of the rows, for signatures. ``dimensions``: what is
    compared, set's name -> judge's name. ``left_out``: rows of the source outside the set.
    ``published``: judgements by labeller."""

    config: SetConfig | InjectedConfig
    rows: tuple[LabelledDialogue, ...]
    data: str
    dimensions: Mapping[str, str]
    left_out: tuple[LabelledDialogue, ...] = ()
    published: Mapping[str, Sequence[Judgement]] = field(default_factory=dict)
    weights: Weights = "none"

    @property
    def level(self) -> str:
        return self.config.level if isinstance(self.config, SetConfig) else "dialogue"

    @property
    def weighted_data(self) -> str:
        """``data`` with the weights: figures with and without weights are not comparable."""
        return self.data if self.weights == "none" else f"{self.data}, {self.weights} weights"


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
    """Loaded sets and the answers by set. ``notes``: what was skipped and why; ``left_out``: the
    same by name of set or judge; ``cached``: answers from the cache, by judge."""

    config: BenchmarkConfig
    sets: dict[str, BenchmarkSet] = field(default_factory=dict)
    injected: dict[str, BenchmarkSet] = field(default_factory=dict)
    answers: dict[str, list[Answers]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    weighting: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    cached: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        """Rows to judge: all judges on all sets."""
        rows = sum(len(one.rows) for one in (*self.sets.values(), *self.injected.values()))
        return rows * len(self.config.judges)

    def asked(self, own: Mapping[str, str]) -> dict[str, tuple[BenchmarkSet, dict[str, str]]]:
        """Returns each set with its dimensions -> the judge's, which ``own`` overrides."""
        return {
            name: (one, {d: own.get(d, judged) for d, judged in one.dimensions.items()})
            for name, one in (self.sets | self.injected).items()
        }

    def add(self, name: str, answers: Answers) -> None:
        self.answers.setdefault(name, []).append(answers)

    def available(
        self,
        config: JudgeConfig | PredictionConfig,
        name: str,
        names: Mapping[str, str],
        has: Collection[str],
    ) -> list[str]:
        """Returns the dimensions of the set that the judge has; the others become a note. Raises
        ConfigError if the judge's own mapping names a dimension that it lacks."""
        if unknown := [own for own in config.dimensions.values() if own not in has]:
            raise ConfigError(
                f"judge {config.name!r} has no dimension {unknown[0]!r}",
                hint=f"its `dimensions` in the benchmark's file name it; it has: {', '.join(has)}",
            )
        wanted = list(dict.fromkeys(names.values()))
        if missing := [dimension for dimension in wanted if dimension not in has]:
            self.notes.append(
                f"judge {config.name} has no {', '.join(missing)}: not shown on {name} "
                f"(it has {', '.join(has)}; set `dimensions: {{{missing[0]}: NAME}}`)"
            )
        return [dimension for dimension in wanted if dimension in has]


def load_set(
    config: SetConfig | InjectedConfig, *, offline: bool | None = None
) -> BenchmarkSet | str:
    """Loads a set; returns the reason as text if an optional one is missing.

    Raises SourceError or DataError if another one is missing, and ConfigError if no row is left or
    none has a dimension that ``config`` names.
    """
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
        return BenchmarkSet(config, tuple(rows), f"{config.name}@{data_hash(rows)}", dimensions)
    from medal_judges.data_prep.sources.abceval import (
        lift_to_dialogues,
        published_judgements,
        to_issues,
    )

    viewed = rows if config.view == "rows" else [to_issues(row) for row in rows]
    if config.view == "abceval_issues_by_dialogue":
        viewed = list(lift_to_dialogues(viewed))
    kept = [
        row
        for row in viewed
        if row.level == config.level
        and row.dialogue.chatbot not in config.exclude_chatbots
        and not (config.exclude_overlaps and row.extra.get("overlaps"))
    ]
    if not kept:
        raise ConfigError(
            f"set {config.name!r}: no row of {config.source} at level {config.level} is left",
            hint="level is dialogue or turn; exclude_chatbots and exclude_overlaps remove rows",
        )
    known = dict.fromkeys(name for row in kept for name in row.labels)
    for name in config.dimensions:
        if name not in known:
            raise ConfigError(
                f"set {config.name!r} has no dimension {name!r}", hint=f"it has: {', '.join(known)}"
            )
    names = {row.id for row in kept}
    return BenchmarkSet(
        config,
        tuple(kept),
        f"{config.name}@{data_hash(kept)}",
        config.dimensions,
        tuple(row for row in viewed if row.id not in names),
        {labeller: tuple(published_judgements(viewed, labeller)) for labeller in config.published},
    )


def data_hash(rows: Sequence[LabelledDialogue]) -> str:
    """Returns 12 hex digits over the content of the rows, in any order."""
    return content_hash(sorted(content_hash(row.to_record()) for row in rows))


def prepare(config: BenchmarkConfig, *, offline: bool | None = None) -> BenchmarkRun:
    """Loads the sets; missing optional ones become notes. Raises ConfigError if no set has rows
    with weights but ``config`` wants them, and for a mapped dimension that no set has."""
    run = BenchmarkRun(config)
    named: list[SetConfig | InjectedConfig] = [*config.sets, *config.injected]
    for one in named:
        loaded = load_set(one, offline=offline)
        if isinstance(loaded, str):
            kind = "set" if isinstance(one, SetConfig) else "injected set"
            run.notes.append(f"{kind} {one.name} left out: {loaded}")
            if isinstance(one, SetConfig):
                run.left_out[one.name] = loaded
        elif isinstance(one, SetConfig):
            weights, note = weighting_note(loaded.rows, config.weights, f"set {one.name}")
            run.sets[one.name] = replace(loaded, weights=weights)
            run.weighting += [note] if note else []
        else:
            run.injected[one.name] = loaded
    check_published(config)
    asked = {name for one in config.sets for name in one.dimensions}
    asked |= {issue for data in run.injected.values() for issue in data.dimensions}
    mapped = [(one.name, name) for one in config.judges for name in one.dimensions]
    mapped += [(one.name, name) for one in config.predictions for name in one.dimensions]
    for judge, name in mapped:
        if name not in asked and len(run.injected) == len(config.injected):
            raise ConfigError(
                f"judge {judge!r} maps the dimension {name!r}, which no set has",
                hint=f"dimensions map the set's name to the judge's; the sets have: "
                f"{', '.join(sorted(asked))}",
            )
    if config.weights != "none":
        if not any(data.weights != "none" for data in run.sets.values()):
            raise ConfigError(
                f"--weights {config.weights}: no set has rows with weights",
                hint="medal curate writes them into curation.weight of its rows",
            )
        for name in run.injected:
            run.weighting.append(f"injected set {name}: not a selection, so all rows count alike")
    return run


def judge_all(run: BenchmarkRun, options: BenchmarkOptions, progress: Progress) -> None:
    """Fills ``run.answers``: predictions of every judge on every set, then files of predictions.

    Loads one judge at a time. A missing optional one becomes a note. Raises JudgeLoadError,
    NotAvailableError or MissingExtraError for any other.
    """
    for config in run.config.judges:
        choice = choose_judge(config.path, revision=config.revision, device=run.config.device)
        try:
            if choice.speaks and run.config.llm is not None:
                choice = choice.with_options(llm=run.config.llm.model_dump(exclude_unset=True))
            choice = choice.with_options(**config.options)
            if choice.speaks and options.no_cache:
                choice = choice.spending(no_cache=True)
            workers = 1 if choice.pays else run.config.workers
            with opened(choice, workers, run.config.device) as judge:
                _judge_sets(run, config, judge, options, choice.speaks, progress)
                if line := cached_answers([judge]):
                    run.cached.append(f"{config.name}: {line}")
        except (JudgeLoadError, MissingExtraError, NotAvailableError) as error:
            if not config.optional:
                raise
            run.notes.append(f"judge {config.name} left out: {error.message}")
            run.left_out[config.name] = error.message
    for name, data in run.sets.items():
        for labeller, judgements in data.published.items():
            who = f"{labeller} (published)", f"judge:{labeller}"
            run.add(name, Answers(*who, judgements, data.dimensions))
    for file in run.config.predictions:
        asked = run.asked(file.dimensions)
        if file.set in asked:
            judgements = tuple(read_judgements(file.path))
            signature = judgements[0].judge if judgements else f"judge:{file.name}"
            names = asked[file.set][1]
            answers = Answers(file.name, signature, judgements, names, file.scales)
            run.available(file, file.set, names, answers.dimensions)
            run.add(file.set, answers)


def _judge_sets(
    run: BenchmarkRun,
    config: JudgeConfig,
    judge: Judge,
    options: BenchmarkOptions,
    speaks: bool,
    progress: Progress,
) -> None:
    has = {dimension.name: dimension for dimension in judge.dimensions}
    folder = run.config.output_dir / "predictions" / file_name(config.name)
    for name, (data, names) in run.asked(config.dimensions).items():
        dimensions = run.available(config, name, names, has)
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
                overwrite=options.no_cache and speaks,
            ),
            data=data.data,
            progress=lambda n, name=name: progress(config.name, name, n),  # type: ignore[misc]
        )
        scales = {d: (has[d].low, has[d].high) for d in dimensions}
        run.add(name, Answers(config.name, str(judge.signature()), judgements, names, scales))


def file_name(name: str) -> str:
    """Returns ``name`` as one part of a path, escaped as in an address."""
    quoted = quote(name, safe=" ()+,=@")
    return quoted if not quoted.startswith(".") else "%2E" + quoted[1:]
