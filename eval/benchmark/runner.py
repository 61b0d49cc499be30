"""The benchmark's run: judges judge sets once; the figures are made from the files (compute.py).

The one module of eval that loads judges; everything that makes numbers reads records only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from medal_judges.errors import (
    ConfigError,
    JudgeLoadError,
    MissingExtraError,
    NotAvailableError,
)
from medal_judges.eval.benchmark.config import (
    BenchmarkConfig,
    JudgeConfig,
    PredictionConfig,
    SetConfig,
)
from medal_judges.eval.benchmark.published import check_published
from medal_judges.eval.benchmark.sets import BenchmarkSet, load_injected, load_set
from medal_judges.inference.judge_choice import choose_judge
from medal_judges.inference.predictions import judge_once
from medal_judges.inference.progress import cached_answers
from medal_judges.inference.ray_judge import opened
from medal_judges.inference.scoring import ScoreOptions
from medal_judges.models.base.judge import Judge
from medal_judges.records.judgement import Judgement
from medal_judges.records.rating import Scale
from medal_judges.stats.weights import weighting_note
from medal_judges.storage.judgements import read_judgements

# judge, set, rows done since the last call
Progress = Callable[[str, str, int], None]


@dataclass(frozen=True, slots=True)
class Answers:
    """What one judge said of one set: its name in tables, its signature, its judgements.

    ``names`` maps a dimension of the set to the judge's; ``scales`` has (lowest, highest) of the
    judge's dimensions, where they are known.
    """

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
    """A benchmark in the making. ``notes`` say what was passed over and why, ``left_out`` maps the
    name of a set or judge that is not available to the reason. ``retry_failed``: see
    score_to_file. ``no_cache``: no kept answer of a language model is used, and no judgement that
    was made of such; ``kept`` says of each judge how many were."""

    config: BenchmarkConfig
    sets: dict[str, tuple[SetConfig, BenchmarkSet]] = field(default_factory=dict)
    injected: dict[str, BenchmarkSet] = field(default_factory=dict)
    answers: dict[str, list[Answers]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    weighting: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    retry_failed: bool = False
    no_cache: bool = False
    kept: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        """Rows to judge: all judges on all sets."""
        rows = sum(
            len(s.rows) for s in (*self.injected.values(), *(s for _, s in self.sets.values()))
        )
        return rows * len(self.config.judges)


def prepare(config: BenchmarkConfig, *, offline: bool | None = None) -> BenchmarkRun:
    """Load the sets; optional ones that are not here become notes. Raises as ``load_set``."""
    run = BenchmarkRun(config)
    for one in config.sets:
        loaded = load_set(one, offline=offline)
        if isinstance(loaded, str):
            run.notes.append(f"set {one.name} left out: {loaded}")
            run.left_out[one.name] = loaded
        else:
            weights, note = weighting_note(loaded.rows, config.weights, f"set {one.name}")
            run.sets[one.name] = (one, replace(loaded, weights=weights))
            run.weighting += [note] if note else []
    for each in config.injected:
        injected = load_injected(each, offline=offline)
        if isinstance(injected, str):
            run.notes.append(f"injected set {each.name} left out: {injected}")
        else:
            run.injected[each.name] = injected
    check_published(config.published, config.judges, config.sets)
    _check_names(run)
    _check_weights(run)
    return run


def _check_weights(run: BenchmarkRun) -> None:
    """Raises ConfigError where weights are asked for and no set has any."""
    if run.config.weights == "none":
        return
    if not any(data.weights != "none" for _, data in run.sets.values()):
        raise ConfigError(
            f"--weights {run.config.weights}: no set has rows with weights",
            hint="medal curate writes them into curation.weight of its rows",
        )
    for name in run.injected:
        run.weighting.append(f"injected set {name}: made, not selected, so all rows count alike")


def _check_names(run: BenchmarkRun) -> None:
    """Raises ConfigError where a judge maps a dimension that is asked nowhere."""
    asked = {name for one in run.config.sets for name in one.dimensions}
    asked |= {issue for data in run.injected.values() for issue in data.issues}
    if len(run.injected) < len(run.config.injected):
        return  # what the sets that are not here ask is not known
    mapped = [(judge.name, judge.dimensions) for judge in run.config.judges]
    mapped += [(each.name, each.dimensions) for each in run.config.predictions]
    for judge, dimensions in mapped:
        for name in dimensions:
            if name not in asked:
                raise ConfigError(
                    f"judge {judge!r} maps the dimension {name!r}, which no set has",
                    hint=f"dimensions go from the set's name to the judge's; the sets ask: "
                    f"{', '.join(sorted(asked))}",
                )


def judge_all(run: BenchmarkRun, progress: Progress | None = None) -> None:
    """Fill ``run.answers``: predictions of every judge on every set, then those made elsewhere.

    One judge is held in memory at a time. An optional one that is not available becomes a note.
    Raises JudgeLoadError, NotAvailableError or MissingExtraError for any other, and ConfigError
    where a judge lacks a dimension that its own mapping names.
    """
    for config in run.config.judges:
        try:
            _judge_sets(run, config, progress)
        except (JudgeLoadError, MissingExtraError, NotAvailableError) as error:
            if not config.optional:
                raise
            run.notes.append(f"judge {config.name} left out: {error.message}")
            run.left_out[config.name] = error.message
    for name, (one, data) in run.sets.items():
        for labeller, judgements in data.published:
            said = Answers(
                f"{labeller} (published)", f"judge:{labeller}", judgements, one.dimensions
            )
            _add(run, name, said)
    for prediction in run.config.predictions:
        asked = _asked(run, prediction.dimensions)
        if prediction.set in asked:
            _read(run, prediction, asked[prediction.set][1])


def _judge_sets(run: BenchmarkRun, config: JudgeConfig, progress: Progress | None) -> None:
    choice = choose_judge(config.path, revision=config.revision, device=run.config.device)
    if choice.speaks and run.config.llm is not None:
        choice = choice.with_options(llm=run.config.llm.model_dump(exclude_unset=True))
    choice = choice.with_options(**config.options)
    if choice.speaks and run.no_cache:
        choice = choice.without_cache()
    workers = 1 if choice.pays else run.config.workers
    with opened(choice, workers, run.config.device) as judge:
        for name, (data, names) in _asked(run, config.dimensions).items():
            _judge(run, config, judge, name, data, names, progress)
    if line := cached_answers([judge]):
        run.kept.append(f"{config.name}: {line}")


def _read(run: BenchmarkRun, config: PredictionConfig, names: Mapping[str, str]) -> None:
    judgements = tuple(read_judgements(config.path))
    signature = judgements[0].judge if judgements else f"judge:{config.name}"
    said = Answers(config.name, signature, judgements, names, config.scales)
    _check_own(config, said.dimensions)
    _available(run, config.name, config.set, names, said.dimensions)
    _add(run, config.set, said)


def _check_own(config: JudgeConfig | PredictionConfig, has: Collection[str]) -> None:
    """Raises ConfigError where the judge's own mapping names a dimension that it lacks."""
    if unknown := [own for own in config.dimensions.values() if own not in has]:
        raise ConfigError(
            f"judge {config.name!r} has no dimension {unknown[0]!r}",
            hint=f"its dimensions in the benchmark's file name it; it has: {', '.join(has)}",
        )


def _available(
    run: BenchmarkRun, judge: str, name: str, names: Mapping[str, str], has: Collection[str]
) -> list[str]:
    """What the judge has of what is asked; the rest becomes a note."""
    wanted = list(dict.fromkeys(names.values()))
    if missing := [dimension for dimension in wanted if dimension not in has]:
        run.notes.append(
            f"judge {judge} has no {', '.join(missing)}: not shown on {name} "
            f"(it has {', '.join(has)}; `dimensions: {{{missing[0]}: NAME}}` takes one)"
        )
    return [dimension for dimension in wanted if dimension in has]


def _asked(
    run: BenchmarkRun, own: Mapping[str, str]
) -> dict[str, tuple[BenchmarkSet, dict[str, str]]]:
    """Each set of the run with what is asked of a judge there: the set's dimension, and the
    judge's name for it, which ``own`` has or else the set."""
    wanted = {name: (data, one.dimensions) for name, (one, data) in run.sets.items()}
    for name, data in run.injected.items():
        wanted[name] = data, {issue: issue for issue in data.issues}
    return {
        name: (data, {d: own.get(d, judged) for d, judged in dimensions.items()})
        for name, (data, dimensions) in wanted.items()
    }


def _judge(
    run: BenchmarkRun,
    config: JudgeConfig,
    judge: Judge,
    name: str,
    data: BenchmarkSet,
    names: Mapping[str, str],
    progress: Progress | None,
) -> None:
    has = {dimension.name: dimension for dimension in judge.dimensions}
    _check_own(config, has)
    dimensions = _available(run, config.name, name, names, has)
    if not dimensions:
        if progress is not None:
            progress(config.name, name, len(data.rows))
        return
    folder = run.config.output_dir / "predictions" / file_name(config.name)
    options = ScoreOptions(
        level=data.level,
        dimensions=dimensions,
        retry_failed=run.retry_failed,
        overwrite=run.no_cache and choose_judge(config.path).speaks,
    )
    judgements = judge_once(
        judge,
        [row.dialogue for row in data.rows],
        folder / f"{file_name(name)}.jsonl",
        options,
        data=data.data,
        progress=None if progress is None else lambda n: progress(config.name, name, n),
    )
    scales = {d: (has[d].low, has[d].high) for d in dimensions}
    _add(run, name, Answers(config.name, str(judge.signature()), judgements, names, scales))


def _add(run: BenchmarkRun, name: str, answers: Answers) -> None:
    run.answers.setdefault(name, []).append(answers)


def file_name(name: str) -> str:
    """``name`` as one part of a path: slashes and the like are escaped, as in an address."""
    from urllib.parse import quote

    quoted = quote(name, safe=" ()+,=@")
    return quoted if not quoted.startswith(".") else "%2E" + quoted[1:]
