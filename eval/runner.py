"""The benchmark: judges judge sets once, figures are made from the files, then the page.

The one module of eval that loads judges; everything it calls for numbers reads records only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medal_judges.errors import MedalError
from medal_judges.eval.alignment import align
from medal_judges.eval.cascade import cascade_curve
from medal_judges.eval.comparison import comparison_table
from medal_judges.eval.correlation import MIN_WITHIN
from medal_judges.eval.dimension_means import dimension_means_table
from medal_judges.eval.metaeval import (
    Question,
    Resampling,
    comparable_signature,
    disagreements,
    evaluate,
)
from medal_judges.eval.planted import planted_results
from medal_judges.eval.planted_table import planted_table
from medal_judges.eval.predictions import predict
from medal_judges.eval.results import Benchmark, CascadeCurve, Disagreement, ResultRow, Table
from medal_judges.eval.runner_config import BenchmarkConfig, JudgeConfig, SetConfig
from medal_judges.eval.sets import BenchmarkSet, load_planted, load_set
from medal_judges.jsonl import read_judgements
from medal_judges.judgement import Judgement
from medal_judges.models.judge import Judge

# judge, set, rows done since the last call
Progress = Callable[[str, str, int], None]
_WITHIN_NOTE = (
    f"mean of the Spearman correlations of single chatbots, weighted by rows, over chatbots with "
    f"at least {MIN_WITHIN} rows"
)
_CEILING_NOTE = "one annotator against the others on the same rows, averaged over positions"


@dataclass(frozen=True, slots=True)
class Answers:
    """What one judge said of one set: its name in tables, its signature, its judgements."""

    judge: str
    signature: str
    judgements: Sequence[Judgement]

    @property
    def dimensions(self) -> set[str]:
        return {name for judgement in self.judgements for name in judgement.scores}


@dataclass(slots=True)
class Run:
    """A benchmark in the making. ``notes`` say what was passed over and why."""

    config: BenchmarkConfig
    sets: dict[str, tuple[SetConfig, BenchmarkSet]] = field(default_factory=dict)
    planted: dict[str, BenchmarkSet] = field(default_factory=dict)
    answers: dict[str, list[Answers]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        """Rows to judge: all judges on all sets."""
        rows = sum(
            len(s.rows) for s in (*self.planted.values(), *(s for _, s in self.sets.values()))
        )
        return rows * len(self.config.judges)


def prepare(config: BenchmarkConfig, *, offline: bool | None = None) -> Run:
    """Load the sets; optional ones that are not here become notes. Raises as ``load_set``."""
    run = Run(config)
    for one in config.sets:
        found = load_set(one, offline=offline)
        if isinstance(found, str):
            run.notes.append(f"set {one.name} left out: {found}")
        else:
            run.sets[one.name] = (one, found)
    for each in config.planted:
        planted = load_planted(each, offline=offline)
        if isinstance(planted, str):
            run.notes.append(f"planted set {each.name} left out: {planted}")
        else:
            run.planted[each.name] = planted
    return run


def judge_all(run: Run, progress: Progress | None = None) -> None:
    """Fill ``run.answers``: predictions of every judge on every set, then those made elsewhere.

    One judge is held in memory at a time. Raises JudgeLoadError.
    """
    for config in run.config.judges:
        judge = Judge.from_pretrained(config.path, revision=config.revision, **config.options)
        for name, (one, data) in run.sets.items():
            wanted = list(dict.fromkeys(one.dimensions.values()))
            _judge(run, config, judge, name, data, wanted, progress)
        for name, data in run.planted.items():
            issues = dict.fromkeys(r.extra.get("planted", {}).get("issue") for r in data.rows)
            _judge(run, config, judge, name, data, [i for i in issues if i], progress)
    for name, (_, data) in run.sets.items():
        for labeller, judgements in data.published:
            _add(run, name, Answers(f"{labeller} (published)", f"judge:{labeller}", judgements))
    for prediction in run.config.predictions:
        if prediction.set in run.sets or prediction.set in run.planted:
            judgements = tuple(read_judgements(prediction.path))
            signature = judgements[0].judge if judgements else f"judge:{prediction.name}"
            _add(run, prediction.set, Answers(prediction.name, signature, judgements))


def _judge(
    run: Run,
    config: JudgeConfig,
    judge: Judge,
    name: str,
    data: BenchmarkSet,
    wanted: Sequence[str],
    progress: Progress | None,
) -> None:
    has = {dimension.name for dimension in judge.dimensions}
    dimensions = [dimension for dimension in wanted if dimension in has]
    if missing := [dimension for dimension in wanted if dimension not in has]:
        run.notes.append(f"judge {config.name} has no {', '.join(missing)}: not shown on {name}")
    if not dimensions:
        if progress is not None:
            progress(config.name, name, len(data.rows))
        return
    folder = run.config.output_dir / "predictions" / file_name(config.name)
    judgements = predict(
        judge,
        data,
        folder / f"{file_name(name)}.jsonl",
        dimensions=dimensions,
        progress=None if progress is None else lambda n: progress(config.name, name, n),
    )
    _add(run, name, Answers(config.name, str(judge.signature()), judgements))


def _add(run: Run, name: str, answers: Answers) -> None:
    run.answers.setdefault(name, []).append(answers)


def file_name(name: str) -> str:
    """``name`` as one part of a path: slashes and the like are escaped, as in an address."""
    from urllib.parse import quote

    quoted = quote(name, safe=" ()+,=@")
    return quoted if not quoted.startswith(".") else "%2E" + quoted[1:]


def compute(run: Run, facts: Iterable[tuple[str, str]] = ()) -> Benchmark:
    """All figures of the run. Raises MedalError for predictions of rows that are in no set."""
    rows: list[ResultRow] = []
    differing: list[Disagreement] = []
    for name, (config, data) in run.sets.items():
        for answers in run.answers.get(name, []):
            found, most = _evaluate(run, config, data, answers)
            rows += found
            differing += most
    tables = [comparison_table(rows, _resampling(run.config)), dimension_means_table(rows)]
    tables += [t for name, data in run.planted.items() if (t := _planted(run, name, data))]
    curves = _cascades(run)  # before the facts, which tell its notes
    return Benchmark(
        title=run.config.title,
        rows=rows,
        disagreements=differing,
        facts=[*facts, *_facts(run, rows)],
        tables=[table for table in tables if table.rows],
        cascades=curves,
    )


def _cascades(run: Run) -> list[CascadeCurve]:
    """A curve for each cascade, set and graded dimension that both judges have; where the cheap
    judge gives no distribution a note says so."""
    curves = []
    for cascade in run.config.cascades:
        for name, (config, data) in run.sets.items():
            told = {a.judge: a for a in run.answers.get(name, [])}
            if cascade.cheap not in told or cascade.dear not in told:
                continue
            pair = told[cascade.cheap], told[cascade.dear]
            for dimension, wanted in config.dimensions.items():
                if not all(wanted in a.dimensions for a in pair):
                    continue
                cheap, dear = (
                    align(data.rows, a.judgements, dimension, wanted, left_out=data.left_out)
                    for a in pair
                )
                try:
                    curves.append(
                        cascade_curve(
                            cheap,
                            dear,
                            (cascade.cheap, cascade.dear),
                            set_name=config.name,
                            dimension=dimension,
                            judge_dimension=wanted,
                            level=config.level,
                            resampling=_resampling(run.config),
                        )
                    )
                except MedalError as error:
                    run.notes.append(f"no cascade on {name}, {dimension}: {error.message}")
    return curves


def _evaluate(
    run: Run, config: SetConfig, data: BenchmarkSet, answers: Answers
) -> tuple[list[ResultRow], list[Disagreement]]:
    rows, most = [], []
    known = answers.dimensions
    for dimension, wanted in config.dimensions.items():
        if wanted not in known:
            continue
        question = Question(config.name, dimension, wanted, config.level)
        row = evaluate(
            data.rows,
            answers.judgements,
            question,
            judge=answers.judge,
            signature=comparable_signature(answers.signature, data.data, dimension),
            resampling=_resampling(run.config),
            min_coverage=run.config.min_coverage,
            left_out=data.left_out,
        )
        rows.append(row)
        if row.kind != "binary" and not row.under_floor:
            aligned = align(
                data.rows, answers.judgements, dimension, wanted, left_out=data.left_out
            )
            top = run.config.disagreements
            most += disagreements(aligned, question, judge=answers.judge, top=top)
    return rows, most


def _planted(run: Run, name: str, data: BenchmarkSet) -> Table | None:
    results = {
        answers.judge: [
            result
            for result in planted_results(
                data.rows,
                answers.judgements,
                resamples=run.config.resamples,
                seed=run.config.seed,
            )
            if result.issue in answers.dimensions
        ]
        for answers in run.answers.get(name, [])
    }
    return planted_table(name, results, min_coverage=run.config.min_coverage)


def _resampling(config: BenchmarkConfig) -> Resampling:
    return Resampling(config.resamples, config.seed)


def _facts(run: Run, rows: Sequence[ResultRow]) -> list[tuple[str, str]]:
    config = run.config
    units = {row.set_name: row.clusters for row in rows} | dict.fromkeys(
        run.planted, "conversation"
    )
    drawn = ", ".join(f"{name} by {unit}" for name, unit in units.items())
    intervals = f"95% percentile bootstrap, {config.resamples} resamples, seed {config.seed}"
    found = [
        ("Intervals", f"{intervals}; whole clusters are drawn: {drawn}"),
        (
            "P-values",
            "scipy's, which take rows as independent; where they are not, trust intervals",
        ),
        ("Human answer", "mean over annotators; F1 and its kin against each, averaged"),
        ("Human ceiling", _CEILING_NOTE),
        ("Within chatbots", _WITHIN_NOTE),
        ("Coverage floor", f"{100 * config.min_coverage:g}%"),
    ]
    for row in rows:
        if row.scored < row.n:
            left = (
                f"{row.judge} on {row.set_name}, {row.dimension}: {row.n - row.scored} of {row.n}"
            )
            found.append(("Rows left unscored", left))
    for name, data in run.planted.items():
        for answers in run.answers.get(name, []):
            signature = comparable_signature(answers.signature, data.data, "planted issues")
            found.append((f"Signature, {name}", signature))
    return found + [("Passed over", note) for note in run.notes]


def made_facts(command: str) -> list[tuple[str, str]]:
    """When, by which version and with which command the page was made."""
    from medal_judges import __version__

    made = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    return [("Made", made), ("Version", f"medal_judges {__version__}"), ("Command", command)]


def write_results(benchmark: Benchmark, path: Path) -> Path:
    """The whole benchmark as JSON (fields as in results.py)."""
    import json
    from dataclasses import asdict

    path.parent.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = asdict(benchmark)
    text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")
    return path


def under_floor(benchmark: Benchmark) -> list[str]:
    """One line for each row whose coverage is under its floor."""
    return [
        f"{row.judge} on {row.set_name}, {row.dimension}: {row.coverage:.1%}"
        for row in benchmark.rows
        if row.under_floor and row.coverage is not None
    ]
