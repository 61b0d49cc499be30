"""The figures of a benchmark: every table and curve, from judgements and records only."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from medal_judges.errors import MedalError
from medal_judges.eval.benchmark.injected import injected_table
from medal_judges.eval.benchmark.published import published_table
from medal_judges.eval.benchmark.run import BenchmarkRun
from medal_judges.eval.metaeval.comparison import (
    CascadeCurve,
    cascade_curve,
    comparison_tables,
    dimension_means_table,
)
from medal_judges.eval.metaeval.metaeval import (
    Disagreement,
    JudgedRows,
    ResultRow,
    SystemAgreement,
    disagreements,
    evaluate,
    system_agreements,
)
from medal_judges.records.judgement import Judgement
from medal_judges.records.signature import Signature
from medal_judges.report.table import Cell, Table
from medal_judges.stats.intervals import METHOD
from medal_judges.storage.files import atomic_write

FOLLOW_UPS = "Follow-ups that were chosen"


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


def compute(run: BenchmarkRun, command: str) -> Benchmark:
    """Computes all figures of the run. Raises MedalError for judgements of rows in no set."""
    from medal_judges import __version__

    def signed(signature: str, data: str, dimension: str) -> str:
        return str(replace(Signature.parse(signature), data=data, dimension=dimension))

    config = run.config
    judged: list[JudgedRows] = []
    by_name: dict[tuple[str, str, str], tuple[JudgedRows, str]] = {}
    differing: list[Disagreement] = []
    for name, data in run.sets.items():
        # Figures with and without weights are not comparable.
        rows = data.data if data.weights == "none" else f"{data.data}, {data.weights} weights"
        for answers in run.answers[name]:
            has = answers.dimensions
            for dimension in data.dimensions:
                wanted = answers.names[dimension]
                if wanted not in has:
                    continue
                one = evaluate(
                    data.rows,
                    answers.judgements,
                    dimension,
                    wanted,
                    judge=answers.judge,
                    signature=signed(answers.signature, rows, dimension),
                    set_name=name,
                    level=data.level,
                    min_coverage=config.min_coverage,
                    left_out=data.left_out,
                    judge_scale=answers.scales.get(wanted),
                    weights=data.weights,
                )
                judged.append(one)
                by_name[answers.judge, name, dimension] = one, wanted
                if one.row.kind != "binary" and not one.row.under_floor:
                    differing += disagreements(one, wanted, config.disagreements)
    results = [one.row for one in judged]
    tables = [*comparison_tables(judged), dimension_means_table(results)]
    if config.published:
        tables.append(published_table(config, results))
    for name, data in run.injected.items():
        tables.append(injected_table(name, data.rows, run.answers[name], config.min_coverage))
    tables.append(
        follow_up_usage(
            (name, answers.judge, answers.judgements)
            for name in run.sets
            for answers in run.answers[name]
        )
    )
    curves = []
    for cascade in config.cascades:
        for name, dimension in ((n, d) for n, data in run.sets.items() for d in data.dimensions):
            weak, strong = ((j, name, dimension) for j in (cascade.weak, cascade.strong))
            if weak in by_name and strong in by_name:
                first, wanted = by_name[weak]
                try:
                    curves.append(cascade_curve(first, by_name[strong][0], wanted, config.seed))
                except MedalError as error:
                    run.notes.append(f"no cascade on {name}, {dimension}: {error.message}")
    units = {r.set_name: r.clusters for r in results} | dict.fromkeys(run.injected, "conversation")
    facts = [
        ("Made", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())),
        ("Version", f"medal_judges {__version__}"),
        ("Command", command),
        ("Intervals", f"{METHOD}; {', '.join(f'{name} by {u}' for name, u in units.items())}"),
        ("Coverage floor", f"{100 * config.min_coverage:g}%"),
        *(("Weights", note) for note in run.weighting),
        *(
            (f"Signature, {name}", signed(answers.signature, data.data, "injected issues"))
            for name, data in run.injected.items()
            for answers in run.answers[name]
        ),
        *(("Skipped", note) for note in run.notes),
    ]
    tables = [table for table in tables if table.rows]
    systems = system_agreements(judged)
    return Benchmark(config.title, results, differing, facts, tables, curves, systems)


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
    columns = ("Set", "Judge", "Dimension", "Follow-up", "Chosen in", "% of the rows",
               "% of choices")  # fmt: skip
    note = (
        "Number and share of the rows with a selection of follow-ups for which all runs chose this "
        "one, and its share of all choices (DIET, Figure 3)."
    )
    return Table(FOLLOW_UPS, columns, rows, note)
