"""The results of a benchmark: all its metrics and tables, from judgements and labelled rows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from medal_judges import __version__
from medal_judges.eval.benchmark.config import BenchmarkConfig
from medal_judges.eval.benchmark.injected import injected_table
from medal_judges.eval.benchmark.published import published_table
from medal_judges.eval.benchmark.sets import BenchmarkSet, SetJudgements
from medal_judges.eval.metaeval.alignment import join_rows
from medal_judges.eval.metaeval.comparison import (
    comparison_tables,
    dimension_means_table,
)
from medal_judges.eval.metaeval.metaeval import (
    JudgedRows,
    ResultRow,
    SystemAgreement,
    evaluate,
    measure_rank_agreement,
)
from medal_judges.records.signature import Signature
from medal_judges.report.table import Table
from medal_judges.stats.equal import EQUAL_FACT
from medal_judges.stats.intervals import METHOD, THESE
from medal_judges.storage.files import write_json

NOTE = "Note"  # the name of a fact


@dataclass(slots=True)
class BenchmarkRun:
    """A benchmark in progress: the loaded sets, and the judgements of its judges.

    Attributes:
        config: The settings of the benchmark.
        sets: Set name -> the loaded set.
        set_judgements: Set name -> its judgements, one entry for each judge. The lists are empty
            until judges have scored the sets.
        notes: Sentences on which sets and judges were skipped, and why.
    """

    config: BenchmarkConfig
    sets: dict[str, BenchmarkSet] = field(default_factory=dict)
    set_judgements: dict[str, list[SetJudgements]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """The results of a benchmark, as in results.json and on the page.

    Attributes:
        title: The heading of the page.
        rows: The results of each judge on each set and dimension.
        facts: (name, value) pairs on how the results were made.
        tables: Further tables, such as differences between judges.
        systems: How well each judge ranks chatbots, on each set and dimension.
    """

    title: str
    rows: Sequence[ResultRow]
    facts: Sequence[tuple[str, str]] = ()
    tables: Sequence[Table] = ()
    systems: Sequence[SystemAgreement] = ()

    def write(self, path: Path) -> Path:
        """Writes the results as JSON to ``path`` and returns the path."""
        record = asdict(replace(self, tables=()))
        record["tables"] = [table.to_record() for table in self.tables]
        return write_json(path, record)


def compute_benchmark(run: BenchmarkRun, command: str) -> Benchmark:
    """Computes the metrics and tables of ``run`` from its sets and judgements.

    Args:
        command: The command line to show on the page.

    Raises:
        MedalError: A judgement is of a dialogue that is not in its set, or two judgements are of
            the same dialogue or turn.
    """
    config = run.config
    evaluations: list[JudgedRows] = []
    tables: list[Table] = []
    for name, data in run.sets.items():
        set_judgements = run.set_judgements[name]
        if data.is_injected:
            tables.append(
                injected_table(name, data.rows, set_judgements, config.min_coverage)
            )
            continue
        for of_judge in set_judgements:
            joined = join_rows(
                data.rows, of_judge.judgements, of_judge.scales, data.left_out
            )
            signature = Signature.parse(of_judge.signature)
            for dimension, judge_dimension in of_judge.names.items():
                signature = replace(signature, data=data.data, dimension=dimension)
                evaluations += evaluate(
                    joined,
                    data.rows,
                    {dimension: judge_dimension},
                    judge=of_judge.judge,
                    signature=str(signature),
                    set_name=name,
                    min_coverage=config.min_coverage,
                )
    rows = [evaluation.row for evaluation in evaluations]
    further = [*comparison_tables(evaluations), dimension_means_table(rows)]
    if config.published:
        further.append(published_table(config, rows))
    return Benchmark(
        config.title,
        rows,
        list(_facts(run, rows, command)),
        [table for table in [*further, *tables] if table.rows],
        measure_rank_agreement(evaluations),
    )


def _facts(
    run: BenchmarkRun, rows: Sequence[ResultRow], command: str
) -> Iterator[tuple[str, str]]:
    """Yields (name, value) pairs on how the benchmark was made."""
    clusters = {row.set_name: row.clusters for row in rows}
    units = ", ".join(f"{name} by {unit}" for name, unit in clusters.items())
    yield "Made", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    yield "Version", f"medal_judges {__version__}"
    yield "Command", command
    yield "Intervals", f"{METHOD}; {units}"
    yield "Intervals are for", THESE
    yield EQUAL_FACT
    yield "Coverage floor", f"{100 * run.config.min_coverage:g}%"
    for chosen in run.config.sets:
        if chosen.langs or chosen.limit:
            langs = [*chosen.langs] or "all"
            yield f"Rows of {chosen.name}", f"langs {langs}, limit {chosen.limit}"
    for name, data in run.sets.items():
        if data.left_out:
            yield "Rows left out", f"{name}: {len(data.left_out):,} by its settings"
    for note in run.notes:
        yield NOTE, note
