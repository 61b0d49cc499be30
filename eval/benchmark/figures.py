"""The figures of a benchmark: every table and curve, from judgements and records only."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from medal_judges.errors import MedalError
from medal_judges.eval.benchmark.injected import injected_table
from medal_judges.eval.benchmark.published import published_table
from medal_judges.eval.benchmark.run import BenchmarkRun
from medal_judges.eval.metaeval.alignment import align
from medal_judges.eval.metaeval.cascade import CascadeCurve, cascade_curve
from medal_judges.eval.metaeval.ceiling import MOST_COLUMNS
from medal_judges.eval.metaeval.comparison import comparison_tables, dimension_means_table
from medal_judges.eval.metaeval.metaeval import (
    Disagreement,
    JudgedRows,
    ResultRow,
    comparable_signature,
    disagreements,
    evaluate,
)
from medal_judges.eval.metaeval.system_level import SystemAgreement, system_agreements
from medal_judges.records.judgement import Judgement
from medal_judges.report.table import Cell, Table
from medal_judges.stats.correlation import MIN_WITHIN
from medal_judges.stats.intervals import METHOD
from medal_judges.storage.files import atomic_write

FOLLOW_UPS = "Follow-ups that were chosen"
_FOLLOW_UP_COLUMNS = ("Set", "Judge", "Dimension", "Follow-up", "Chosen in", "% of the rows",
                      "% of choices")  # fmt: skip
_FOLLOW_UP_NOTE = (
    "Number and share of the rows with a selection of follow-ups for which all runs chose this "
    "one, and its share of all choices (DIET, Figure 3)."
)
_WITHIN_NOTE = (
    f"mean of the Spearman correlations of single chatbots, weighted by rows, over chatbots with "
    f"at least {MIN_WITHIN} rows"
)
_CEILING_NOTE = (
    "one annotator against the mean of the others (issues: against each other one) on rows with "
    "two answers or more, averaged over positions by rows (of more than "
    f"{MOST_COLUMNS} those with most answers); like for like, the judge takes the annotator's place"
)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """The content of results.json and the page. ``facts``: (label, value), how it was made."""

    title: str
    rows: Sequence[ResultRow]
    disagreements: Sequence[Disagreement] = ()
    facts: Sequence[tuple[str, str]] = ()
    tables: Sequence[Table] = ()
    cascades: Sequence[CascadeCurve] = ()
    systems: Sequence[SystemAgreement] = ()

    def write(self, path: Path) -> Path:
        """Writes everything as JSON; returns the path."""
        record = asdict(replace(self, tables=()))
        record["tables"] = [table.to_record() for table in self.tables]
        text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False)
        return atomic_write(path, text + "\n")

    def under_floor(self) -> list[str]:
        """Returns one line for each row with too little coverage."""
        return [
            f"{row.judge} on {row.set_name}, {row.dimension}: {row.coverage:.1%}"
            for row in self.rows
            if row.under_floor and row.coverage is not None
        ]


def compute(run: BenchmarkRun, command: str) -> Benchmark:
    """Computes all figures of the run. Raises MedalError for judgements of rows in no set."""
    config = run.config
    judged: list[JudgedRows] = []
    differing: list[Disagreement] = []
    for name, data in run.sets.items():
        for answers in run.answers.get(name, []):
            for dimension in data.dimensions:
                wanted = answers.names[dimension]
                if wanted not in answers.dimensions:
                    continue
                one = evaluate(
                    data.rows,
                    answers.judgements,
                    dimension,
                    wanted,
                    judge=answers.judge,
                    signature=comparable_signature(
                        answers.signature, data.weighted_data, dimension
                    ),
                    set_name=name,
                    level=data.level,
                    min_coverage=config.min_coverage,
                    left_out=data.left_out,
                    judge_scale=answers.scales.get(wanted),
                    weights=data.weights,
                )
                judged.append(one)
                if one.row.kind != "binary" and not one.row.under_floor:
                    differing += disagreements(one, wanted, config.disagreements)
    rows = [one.row for one in judged]
    tables = [*comparison_tables(judged), dimension_means_table(rows)]
    if config.published:
        tables.append(published_table(config, rows, run.left_out))
    for name, data in run.injected.items():
        tables.append(injected_table(name, data.rows, run.answers.get(name, ()), config))
    tables.append(
        follow_up_usage(
            (name, answers.judge, answers.judgements)
            for name in run.sets
            for answers in run.answers.get(name, [])
        )
    )
    curves = list(_cascades(run))  # before the facts, which list its notes
    return Benchmark(
        title=config.title,
        rows=rows,
        disagreements=differing,
        facts=[*_facts(run, rows, command)],
        tables=[table for table in tables if table.rows],
        cascades=curves,
        systems=system_agreements(judged),
    )


def _cascades(run: BenchmarkRun) -> Iterator[CascadeCurve]:
    """Yields a curve for each cascade, set and dimension that both judges have."""
    for cascade in run.config.cascades:
        for name, data in run.sets.items():
            by_judge = {a.judge: a for a in run.answers.get(name, [])}
            if cascade.weak not in by_judge or cascade.strong not in by_judge:
                continue
            pair = by_judge[cascade.weak], by_judge[cascade.strong]
            for dimension in data.dimensions:
                if not all(a.names[dimension] in a.dimensions for a in pair):
                    continue
                given = {"left_out": data.left_out, "weights": data.weights}
                weak, strong = (
                    align(data.rows, a.judgements, dimension, a.names[dimension], **given)  # type: ignore[arg-type]
                    for a in pair
                )
                try:
                    yield cascade_curve(
                        weak,
                        strong,
                        (cascade.weak, cascade.strong),
                        set_name=name,
                        dimension=dimension,
                        judge_dimension=pair[0].names[dimension],
                        level=data.level,
                        seed=run.config.seed,
                    )
                except MedalError as error:
                    run.notes.append(f"no cascade on {name}, {dimension}: {error.message}")


def follow_up_usage(answers: Iterable[tuple[str, str, Sequence[Judgement]]]) -> Table:
    """Returns one row for each follow-up that (set, judge, judgements) chose, the most chosen
    first; no rows without selections."""
    rows: list[tuple[Cell, ...]] = []
    for name, judge, judgements in answers:
        for dimension in dict.fromkeys(d for j in judgements for d in j.details):
            details = [j.details[dimension] for j in judgements if dimension in j.details]
            selections = [d for d in details if "unread_runs" in d]
            counts = Counter(text for d in selections for text in d.get("follow_ups", ()))
            choices: list[tuple[str, int, float | None]] = [
                (text, n, 100 * n / counts.total()) for text, n in counts.most_common()
            ]
            empty = sum(d.get("selected") == 0 for d in selections)
            unread = sum("selected" not in d for d in selections)
            choices.append(("(none in common: all were used)", empty, None))
            choices.append(("(no selection could be read)", unread, None))
            for text, n, share in choices:
                if n:
                    rows.append((name, judge, dimension, text, n, 100 * n / len(selections), share))
    return Table(FOLLOW_UPS, _FOLLOW_UP_COLUMNS, rows, _FOLLOW_UP_NOTE)


def _facts(run: BenchmarkRun, rows: Sequence[ResultRow], command: str) -> Iterator[tuple[str, str]]:
    from medal_judges import __version__

    yield "Made", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    yield "Version", f"medal_judges {__version__}"
    yield "Command", command
    units = {r.set_name: r.clusters for r in rows} | dict.fromkeys(run.injected, "conversation")
    yield "Intervals", f"{METHOD}; {', '.join(f'{name} by {unit}' for name, unit in units.items())}"
    yield "P-values", "of no correlation and of no difference, computed like the intervals"
    yield "Human answer", "mean over annotators; F1 and the like against each, averaged"
    yield "Human ceiling", _CEILING_NOTE
    yield "Within chatbots", _WITHIN_NOTE
    yield "Coverage floor", f"{100 * run.config.min_coverage:g}%"
    for note in run.weighting:
        yield "Weights", note
    for row in rows:
        if row.scored < row.n:
            where = f"{row.judge} on {row.set_name}, {row.dimension}"
            yield "Unscored rows", f"{where}: {row.n - row.scored} of {row.n}"
    for name, data in run.injected.items():
        for answers in run.answers.get(name, []):
            signature = comparable_signature(answers.signature, data.data, "injected issues")
            yield f"Signature, {name}", signature
    for note in run.notes:
        yield "Skipped", note
