"""The results of a benchmark: all its metrics and tables, from judgements and labelled rows."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from medal_judges.eval.benchmark.config import BenchmarkConfig
from medal_judges.eval.benchmark.injected import (
    INJECTED_COLUMNS,
    injected_cells,
    injected_results,
)
from medal_judges.eval.benchmark.published import published_table
from medal_judges.eval.metaeval.comparison import (
    comparison_tables,
    corrected_ceilings,
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
from medal_judges.records.labelled import LabelledDialogue, Scale
from medal_judges.records.signature import Signature
from medal_judges.report.table import Cell, Row, Table
from medal_judges.stats.equal import EQUAL_FACT
from medal_judges.stats.intervals import METHOD, WHOM
from medal_judges.storage.files import write_json

FOLLOW_UPS = "Follow-ups that were chosen"
LEFT_OUT, NOTE = "Rows left out", "Note"  # names of facts


@dataclass(frozen=True, slots=True)
class BenchmarkSet:
    """Rows to judge. ``data``: name and hash of the rows, for signatures. ``dimensions``: the
    dimensions to compare, with the judge's names for them. ``left_out``: rows of the source that
    are not in the set. ``published``: labels by models, as answers."""

    rows: tuple[LabelledDialogue, ...]
    data: str
    dimensions: Mapping[str, str]
    level: str = "dialogue"
    left_out: tuple[LabelledDialogue, ...] = ()
    published: tuple[Answers, ...] = ()


@dataclass(frozen=True, slots=True)
class Answers:
    """The judgements of one set by one judge. ``names``: the set's dimensions with the judge's
    names for them; ``scales``: (lowest, highest) of the judge's dimensions, if known."""

    judge: str
    signature: str
    judgements: Sequence[Judgement]
    names: Mapping[str, str]
    scales: Mapping[str, Scale] = field(default_factory=dict)

    @property
    def dimensions(self) -> list[str]:
        names: dict[str, None] = {}
        for judgement in self.judgements:
            names.update(dict.fromkeys(judgement.scores))
        return list(names)


@dataclass(slots=True)
class BenchmarkRun:
    """Loaded sets, and the answers of all judges by set. ``notes``: which sets and judges were
    skipped, and why. ``wordings``: (set, its dimension, judge) -> Judge.wording."""

    config: BenchmarkConfig
    sets: dict[str, BenchmarkSet] = field(default_factory=dict)
    injected: dict[str, BenchmarkSet] = field(default_factory=dict)
    answers: dict[str, list[Answers]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    wordings: dict[tuple[str, str, str], Mapping[str, str]] = field(
        default_factory=dict
    )


@dataclass(frozen=True, slots=True)
class Benchmark:
    """The content of results.json and the page. ``facts``: (label, value) pairs on its making."""

    title: str
    rows: Sequence[ResultRow]
    disagreements: Sequence[Disagreement] = ()
    facts: Sequence[tuple[str, str]] = ()
    tables: Sequence[Table] = ()
    systems: Sequence[SystemAgreement] = ()

    def write(self, path: Path) -> Path:
        """Writes everything as JSON; returns the path."""
        record = asdict(replace(self, tables=()))
        record["tables"] = [table.to_record() for table in self.tables]
        return write_json(path, record)


def compute(run: BenchmarkRun, command: str) -> Benchmark:
    """Computes all metrics of the run. Raises MedalError if a judgement's row is in no set."""
    config = run.config
    evaluations: list[JudgedRows] = []
    differing: list[Disagreement] = []
    for name, data in run.sets.items():
        for answers in run.answers[name]:
            for dimension in data.dimensions:
                judge_dimension = answers.names[dimension]
                if judge_dimension not in answers.dimensions:
                    continue
                evaluation = evaluate(
                    data.rows,
                    answers.judgements,
                    dimension,
                    judge_dimension,
                    judge=answers.judge,
                    signature=_signature_on(answers, data, dimension),
                    set_name=name,
                    level=data.level,
                    min_coverage=config.min_coverage,
                    left_out=data.left_out,
                    judge_scale=answers.scales.get(judge_dimension),
                    lead=config.interval_for,
                    headline=config.headline,
                )
                evaluations.append(evaluation)
                if evaluation.row.kind != "binary" and not evaluation.row.under_floor:
                    differing += disagreements(
                        evaluation, judge_dimension, config.disagreements
                    )
    evaluations = corrected_ceilings(evaluations)
    rows = [evaluation.row for evaluation in evaluations]
    tables = _tables(run, evaluations)
    return Benchmark(
        config.title,
        rows,
        differing,
        _facts(run, rows, command),
        [table for table in tables if table.rows],
        system_agreements(evaluations),
    )


def _signature_on(answers: Answers, data: BenchmarkSet, dimension: str) -> str:
    signature = Signature.parse(answers.signature)
    return str(replace(signature, data=data.data, dimension=dimension))


def _tables(run: BenchmarkRun, evaluations: Sequence[JudgedRows]) -> list[Table]:
    rows = [evaluation.row for evaluation in evaluations]
    searched = {judge.name for judge in run.config.judges if judge.grid}
    # The pairs of all combinations are thousands.
    compared = [rows for rows in evaluations if rows.row.judge not in searched]
    tables = [*comparison_tables(compared), dimension_means_table(rows)]
    if run.config.published:
        tables.append(published_table(run.config, run.wordings, rows))
    for name, data in run.injected.items():
        min_coverage = run.config.min_coverage
        tables.append(injected_table(name, data.rows, run.answers[name], min_coverage))
    judgements = []
    for name in run.sets:
        for answers in run.answers[name]:
            judgements.append((name, answers.judge, answers.judgements))
    tables.append(follow_up_usage(judgements))
    return tables


def _facts(
    run: BenchmarkRun, rows: Sequence[ResultRow], command: str
) -> list[tuple[str, str]]:
    """Returns how the benchmark was made."""
    from medal_judges import __version__

    config = run.config
    clusters = {row.set_name: row.clusters for row in rows}
    clusters |= dict.fromkeys(run.injected, "conversation")
    units = ", ".join(f"{name} by {unit}" for name, unit in clusters.items())
    facts = [
        ("Made", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())),
        ("Version", f"medal_judges {__version__}"),
        ("Command", command),
        ("Intervals", f"{METHOD}; {units}"),
        ("Intervals are for", WHOM[config.interval_for]),
        EQUAL_FACT,
        ("Coverage floor", f"{100 * config.min_coverage:g}%"),
    ]
    for chosen in config.sets:
        if chosen.langs or chosen.skip or chosen.limit:
            langs = [*chosen.langs] or "all"
            limits = f"langs {langs}, skip {chosen.skip}, limit {chosen.limit}"
            facts.append((f"Rows of {chosen.name}", limits))
    for name, data in run.sets.items():
        if data.left_out:
            facts.append((LEFT_OUT, f"{name}: {len(data.left_out):,} by its settings"))
    for name, data in run.injected.items():
        for answers in run.answers[name]:
            signature = _signature_on(answers, data, "injected issues")
            facts.append((f"Signature, {name}", signature))
    facts += [(NOTE, note) for note in run.notes]
    return facts


def follow_up_usage(answers: Iterable[tuple[str, str, Sequence[Judgement]]]) -> Table:
    """Returns one row for each follow-up that was chosen, the most frequent first. ``answers`` are
    (set, judge, judgements); judges that choose no follow-ups have no rows."""
    rows: list[Row] = []
    for name, judge, judgements in answers:
        selections_by_dimension: dict[str, list[Mapping[str, Any]]] = {}
        for judgement in judgements:
            for dimension, details in judgement.details.items():
                selections = selections_by_dimension.setdefault(dimension, [])
                if "selected" in details:
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
) -> list[tuple[str, int, float | None]]:
    """Returns each chosen follow-up with the number of selections that have it, and its share (%)
    of all choices; then how many selections are empty, or could not be read."""
    counts: Counter[str] = Counter()
    for selection in selections:
        counts.update(selection.get("follow_ups", ()))
    choices: list[tuple[str, int, float | None]] = []
    for text, count in counts.most_common():
        choices.append((text, count, 100 * count / counts.total()))
    empty = sum(selection["selected"] == 0 for selection in selections)
    if empty:
        choices.append(("(none in common: all were used)", empty, None))
    return choices


INJECTED_NOTE = (
    "Clean rows are untouched; matched controls have harmless edits in the same turns, so noticing "
    "an edit is not enough. The threshold is 0.5; AUC and the share of injected rows above their "
    "own control need none (0.5 is chance)."
)


def injected_table(
    name: str,
    rows: Sequence[LabelledDialogue],
    answers: Sequence[Answers],
    min_coverage: float,
) -> Table:
    """Returns one row for each issue and judge, by issue; no rows if nothing was judged."""
    rows_by_issue: dict[str, list[list[Cell]]] = {}
    for judge_answers in answers:
        results = injected_results(
            rows, judge_answers.judgements, names=judge_answers.names
        )
        for issue, result in results.items():
            if judge_answers.names[issue] in judge_answers.dimensions:
                cells = injected_cells(result, min_coverage)
                rows_of_issue = rows_by_issue.setdefault(issue, [])
                rows_of_issue.append([issue, judge_answers.judge, *cells])
    columns = (
        "Issue",
        "Judge",
        *INJECTED_COLUMNS.values(),
        "Injected rows",
        "Coverage",
    )
    lines = list(chain.from_iterable(rows_by_issue.values()))
    return Table(f"Injected issues: {name}", columns, lines, INJECTED_NOTE)
