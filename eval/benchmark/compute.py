"""The benchmark's figures: every table and curve of a run, from its files and records only."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from medal_judges.errors import MedalError
from medal_judges.eval.benchmark.config import SetConfig
from medal_judges.eval.benchmark.followup_usage import follow_up_usage
from medal_judges.eval.benchmark.injected import injected_results, injected_table
from medal_judges.eval.benchmark.published import published_table
from medal_judges.eval.benchmark.runner import Answers, BenchmarkRun
from medal_judges.eval.benchmark.sets import BenchmarkSet
from medal_judges.eval.metaeval.alignment import align
from medal_judges.eval.metaeval.cascade import cascade_curve
from medal_judges.eval.metaeval.ceiling import MOST_COLUMNS
from medal_judges.eval.metaeval.comparison import comparison_tables
from medal_judges.eval.metaeval.dimension_means import dimension_means_table
from medal_judges.eval.metaeval.metaeval import (
    ComparedDimension,
    JudgedRows,
    comparable_signature,
    disagreements,
    evaluate,
)
from medal_judges.eval.metaeval.results import CascadeCurve, Disagreement, ResultRow
from medal_judges.eval.metaeval.system_level import system_agreements
from medal_judges.eval.page.arrangement import Benchmark
from medal_judges.report.table import Table
from medal_judges.stats.correlation import MIN_WITHIN
from medal_judges.stats.intervals import METHOD
from medal_judges.storage.files import atomic_write

_WITHIN_NOTE = (
    f"mean of the Spearman correlations of single chatbots, weighted by rows, over chatbots with "
    f"at least {MIN_WITHIN} rows"
)
_CEILING_NOTE = (
    "one annotator against the mean of the others (issues: against each other one) on rows with "
    "two answers or more, averaged over positions by rows (of more than "
    f"{MOST_COLUMNS} those with most answers); like for like, the judge stands in the annotator's "
    "place"
)


def compute(run: BenchmarkRun, facts: Iterable[tuple[str, str]] = ()) -> Benchmark:
    """All figures of the run. Raises MedalError for predictions of rows that are in no set."""
    judged: list[JudgedRows] = []
    differing: list[Disagreement] = []
    for name, (config, data) in run.sets.items():
        for answers in run.answers.get(name, []):
            judged_rows, most = _evaluate(run, config, data, answers)
            judged += judged_rows
            differing += most
    rows = [one.row for one in judged]
    tables = [*comparison_tables(judged), dimension_means_table(rows)]
    if run.config.published:
        tables.append(
            published_table(
                run.config.published, run.config.sets, run.config.judges, rows, run.left_out
            )
        )
    tables += [t for name, data in run.injected.items() if (t := _injected(run, name, data))]
    tables.append(
        follow_up_usage(
            (run.sets[name][0].name, a.judge, a.judgements)
            for name in run.sets
            for a in run.answers.get(name, [])
        )
    )
    curves = _cascades(run)  # before the facts, which tell its notes
    return Benchmark(
        title=run.config.title,
        rows=rows,
        disagreements=differing,
        facts=[*facts, *_facts(run, rows)],
        tables=[table for table in tables if table.rows],
        cascades=curves,
        systems=system_agreements(judged),
    )


def _cascades(run: BenchmarkRun) -> list[CascadeCurve]:
    """A curve for each cascade, set and graded dimension that both judges have; where the weak
    judge gives no distribution a note says so."""
    curves = []
    for cascade in run.config.cascades:
        for name, (config, data) in run.sets.items():
            told = {a.judge: a for a in run.answers.get(name, [])}
            if cascade.weak not in told or cascade.strong not in told:
                continue
            pair = told[cascade.weak], told[cascade.strong]
            for dimension in config.dimensions:
                if not all(a.names[dimension] in a.dimensions for a in pair):
                    continue
                weak, strong = (
                    align(
                        data.rows,
                        a.judgements,
                        dimension,
                        a.names[dimension],
                        left_out=data.left_out,
                        weights=data.weights,
                    )
                    for a in pair
                )
                try:
                    curves.append(
                        cascade_curve(
                            weak,
                            strong,
                            (cascade.weak, cascade.strong),
                            set_name=config.name,
                            dimension=dimension,
                            judge_dimension=pair[0].names[dimension],
                            level=config.level,
                            seed=run.config.seed,
                        )
                    )
                except MedalError as error:
                    run.notes.append(f"no cascade on {name}, {dimension}: {error.message}")
    return curves


def _evaluate(
    run: BenchmarkRun, config: SetConfig, data: BenchmarkSet, answers: Answers
) -> tuple[list[JudgedRows], list[Disagreement]]:
    judged, most = [], []
    known = answers.dimensions
    for dimension in config.dimensions:
        wanted = answers.names[dimension]
        if wanted not in known:
            continue
        question = ComparedDimension(config.name, dimension, wanted, config.level)
        one = evaluate(
            data.rows,
            answers.judgements,
            question,
            judge=answers.judge,
            signature=comparable_signature(answers.signature, data.weighted_data, dimension),
            min_coverage=run.config.min_coverage,
            left_out=data.left_out,
            judge_scale=answers.scales.get(wanted),
            weights=data.weights,
        )
        judged.append(one)
        if one.row.kind != "binary" and not one.row.under_floor:
            most += disagreements(one, wanted, run.config.disagreements)
    return judged, most


def _injected(run: BenchmarkRun, name: str, data: BenchmarkSet) -> Table | None:
    results = {
        answers.judge: [
            result
            for result in injected_results(data.rows, answers.judgements, names=answers.names)
            if answers.names[result.issue] in answers.dimensions
        ]
        for answers in run.answers.get(name, [])
    }
    return injected_table(name, results, min_coverage=run.config.min_coverage)


def _facts(run: BenchmarkRun, rows: Sequence[ResultRow]) -> list[tuple[str, str]]:
    config = run.config
    units = {row.set_name: row.clusters for row in rows} | dict.fromkeys(
        run.injected, "conversation"
    )
    left_out = ", ".join(f"{name} by {unit}" for name, unit in units.items())
    facts = [
        ("Intervals", f"{METHOD}; {left_out}"),
        ("P-values", "of no correlation and of no difference, made as the intervals are"),
        ("Human answer", "mean over annotators; F1 and its kin against each, averaged"),
        ("Human ceiling", _CEILING_NOTE),
        ("Within chatbots", _WITHIN_NOTE),
        ("Coverage floor", f"{100 * config.min_coverage:g}%"),
    ]
    facts += [("Weights", note) for note in run.weighting]
    for row in rows:
        if row.scored < row.n:
            left = (
                f"{row.judge} on {row.set_name}, {row.dimension}: {row.n - row.scored} of {row.n}"
            )
            facts.append(("Rows left unscored", left))
    for name, data in run.injected.items():
        for answers in run.answers.get(name, []):
            signature = comparable_signature(answers.signature, data.data, "injected issues")
            facts.append((f"Signature, {name}", signature))
    return facts + [("Passed over", note) for note in run.notes]


def made_facts(command: str) -> list[tuple[str, str]]:
    """When, by which version and with which command the page was made."""
    from medal_judges import __version__

    made = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    return [("Made", made), ("Version", f"medal_judges {__version__}"), ("Command", command)]


def write_results(benchmark: Benchmark, path: Path) -> Path:
    """The whole benchmark as JSON (fields as in results.py)."""
    import json
    from dataclasses import asdict, replace

    record = asdict(replace(benchmark, tables=()))
    record["tables"] = [table.to_record() for table in benchmark.tables]
    text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False)
    return atomic_write(path, text + "\n")


def under_floor(benchmark: Benchmark) -> list[str]:
    """One line for each row whose coverage is under its floor."""
    return [
        f"{row.judge} on {row.set_name}, {row.dimension}: {row.coverage:.1%}"
        for row in benchmark.rows
        if row.under_floor and row.coverage is not None
    ]
