"""The results of a benchmark: all its metrics and tables, from judgements and labelled rows."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from medal_judges import __version__
from medal_judges.eval.benchmark.config import BenchmarkConfig
from medal_judges.eval.benchmark.injected import injected_table
from medal_judges.eval.benchmark.published import published_table
from medal_judges.eval.benchmark.sets import Answers, BenchmarkSet
from medal_judges.eval.metaeval.alignment import join
from medal_judges.eval.metaeval.comparison import (
    comparison_tables,
    corrected_ceilings,
    dimension_means_table,
)
from medal_judges.eval.metaeval.metaeval import (
    JudgedRows,
    ResultRow,
    SystemAgreement,
    evaluate,
    system_agreements,
)
from medal_judges.records.judgement import Judgement
from medal_judges.records.signature import Signature
from medal_judges.report.table import Row, Table
from medal_judges.stats.equal import EQUAL_FACT
from medal_judges.stats.intervals import METHOD, THESE
from medal_judges.storage.files import write_json

FOLLOW_UPS = "Follow-ups that were chosen"
NOTE = "Note"  # the name of a fact


@dataclass(slots=True)
class BenchmarkRun:
    """Loaded sets, and the answers of all judges by set. ``notes``: which sets and judges were
    skipped, and why."""

    config: BenchmarkConfig
    sets: dict[str, BenchmarkSet] = field(default_factory=dict)
    answers: dict[str, list[Answers]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """The content of results.json and the page. ``facts``: (label, value) pairs on its making."""

    title: str
    rows: Sequence[ResultRow]
    facts: Sequence[tuple[str, str]] = ()
    tables: Sequence[Table] = ()
    systems: Sequence[SystemAgreement] = ()

    def write(self, path: Path) -> Path:
        """Writes everything as JSON; returns the path."""
        record = {
            "title": self.title,
            "rows": [asdict(row) for row in self.rows],
            "facts": self.facts,
            "tables": [table.to_record() for table in self.tables],
            "systems": [asdict(agreement) for agreement in self.systems],
        }
        return write_json(path, record)


def compute(run: BenchmarkRun, command: str) -> Benchmark:
    """Computes all metrics of the run. Raises MedalError if a judgement's row is in no set."""
    config = run.config
    evaluations: list[JudgedRows] = []
    tables: list[Table] = []
    selected = []
    for name, data in run.sets.items():
        answers = run.answers[name]
        if data.is_injected:
            table = injected_table(name, data.rows, answers, config.min_coverage)
            tables.append(table)
            continue
        for judge_answers in answers:
            evaluations += _evaluated(run, name, judge_answers)
            selected.append((name, judge_answers.judge, judge_answers.judgements))
    evaluations = list(corrected_ceilings(evaluations))
    rows = [evaluation.row for evaluation in evaluations]
    further = [*comparison_tables(evaluations), dimension_means_table(rows)]
    if config.published:
        further.append(published_table(config, rows))
    tables = [*further, *tables, follow_up_usage(selected)]
    return Benchmark(
        config.title,
        rows,
        list(_facts(run, rows, command)),
        [table for table in tables if table.rows],
        system_agreements(evaluations),
    )


def _evaluated(
    run: BenchmarkRun, set_name: str, answers: Answers
) -> Iterator[JudgedRows]:
    """Yields the figures of one judge on each dimension of a set."""
    data = run.sets[set_name]
    joined = join(data.rows, answers.judgements, answers.scales, data.left_out)
    evaluations = evaluate(
        joined,
        data.rows,
        answers.names,
        judge=answers.judge,
        set_name=set_name,
        min_coverage=run.config.min_coverage,
    )
    for evaluation in evaluations:
        signature = Signature.parse(answers.signature)
        signature = replace(
            signature, data=data.data, dimension=evaluation.row.dimension
        )
        row = replace(evaluation.row, signature=str(signature))
        yield replace(evaluation, row=row)


def _facts(
    run: BenchmarkRun, rows: Sequence[ResultRow], command: str
) -> Iterator[tuple[str, str]]:
    """Yields how the benchmark was made."""
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


def follow_up_usage(answers: Iterable[tuple[str, str, Sequence[Judgement]]]) -> Table:
    """Returns one row for each follow-up that was chosen, the most frequent first. ``answers`` are
    (set, judge, judgements); judges that choose no follow-ups have no rows."""
    rows: list[Row] = []
    for name, judge, judgements in answers:
        selections_by_dimension: dict[str, list[Mapping[str, Any]]] = {}
        for judgement in judgements:
            for dimension, details in judgement.details.items():
                if "selected" in details:
                    selections = selections_by_dimension.setdefault(dimension, [])
                    selections.append(details)
        for dimension, selections in selections_by_dimension.items():
            for text, count, share in _choices(selections):
                row_share = 100 * count / len(selections)
                rows.append((name, judge, dimension, text, count, row_share, share))
    columns = (
        "Set",
        "Judge",
        "Dimension",
        "Follow-up",
        "Chosen in",
        "% of the rows",
        "% of choices",
    )
    note = (
        "Number and share of the rows with a selection of follow-ups for which all runs chose this "
        "one, and its share of all choices (DIET, Figure 3)."
    )
    return Table(FOLLOW_UPS, columns, rows, note)


def _choices(
    selections: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[str, int, float | None]]:
    """Yields each chosen follow-up with the number of selections that have it, and its share (%) of
    all choices; then how many selections are empty."""
    counts: Counter[str] = Counter()
    for selection in selections:
        counts.update(selection.get("follow_ups", ()))
    for text, count in counts.most_common():
        yield text, count, 100 * count / counts.total()
    empty = sum(selection.get("selected") == 0 for selection in selections)
    if empty:
        yield "(none in common: all were used)", empty, None
