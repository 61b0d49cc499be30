"""Page: a benchmark as one self-contained HTML file, with its figures and tables beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from medal_judges.eval.benchmark.published import DIFFERS, OURS, PUBLISHED
from medal_judges.eval.benchmark.results import FOLLOW_UPS, NOTE, Benchmark
from medal_judges.eval.metaeval.comparison import GRADED, ISSUES, MCNEMAR, MEANS
from medal_judges.eval.metaeval.metaeval import (
    Estimates,
    ResultRow,
    SystemAgreement,
)
from medal_judges.eval.metaeval.metrics import label
from medal_judges.records.signature import Signature, require_comparable
from medal_judges.report.console import Printout, rich_table
from medal_judges.report.figure import Figure, Intervals
from medal_judges.report.page import (
    Block,
    Fold,
    Page,
    Section,
    Sheet,
    counted,
    facts_section,
)
from medal_judges.report.table import (
    Brief,
    Cell,
    Row,
    Share,
    Table,
    interval,
    unique_slugs,
)
from medal_judges.stats.intervals import MIN_ROWS, OTHERS, THESE, Estimate

_PRINTED = (MEANS, FOLLOW_UPS, PUBLISHED, GRADED, ISSUES, MCNEMAR)
_LINES = 30  # of a long table; the page and the CSV files have all
_ROW = ("judge", "set", "level", "dimension", "kind")
_ESTIMATE = ("value", "low", "high", "p_value", "reason")  # fields of Estimate
_NOTE = f"95% intervals are for {THESE}."
Task = tuple[str, str]  # set and dimension
RowsByTask = Mapping[Task, Sequence[ResultRow]]


def benchmark_page(benchmark: Benchmark) -> Page:
    """Returns report.html with its tables and figures, and what the terminal shows.

    Raises MedalError if a table would mix rows of different data or dimensions.
    """
    rows_by_task: dict[Task, list[ResultRow]] = {}
    for row in benchmark.rows:
        rows_by_task.setdefault((row.set_name, row.dimension), []).append(row)
    for rows in rows_by_task.values():
        _require_comparable(rows)
        rows.sort(key=lambda row: _order(_ranking(row)))
    boards = {task: dimension_table(rows) for task, rows in rows_by_task.items()}
    charts = {task: _chart(rows) for task, rows in rows_by_task.items()}
    languages: list[Table] = []
    for rows in rows_by_task.values():
        if len(set().union(*(row.languages for row in rows))) > 1:
            languages.append(_language_table(rows))
    tables = [Fold(table.title, [table]) for table in benchmark.tables]
    signatures = sorted({(row.judge, row.signature) for row in benchmark.rows})
    sections = [
        _leaderboard(rows_by_task, boards, charts),
        Section("languages", "Languages", languages),
        systems(benchmark.systems),
        Section("tables", "Further tables", tables),
        facts_section(benchmark.facts),
        Section("signatures", "Signatures", [Fold("All signatures", [signatures])]),
    ]
    judges = {row.judge for row in benchmark.rows}
    sets = {name for name, _ in rows_by_task}
    return Page(
        name="report",
        title=benchmark.title,
        subtitle=counted([(len(judges), "judge"), (len(sets), "set")]),
        sections=sections,
        leads=__package__,
        tables={
            **_named([*boards.values(), *languages, *benchmark.tables]),
            **_sheets(benchmark.rows),
        },
        figures=_named(list(charts.values())),
        printout=_printout(benchmark, boards.values()),
    )


def _named(parts: Sequence[Any]) -> dict[str, Any]:
    """Returns the tables or figures by their file names."""
    return dict(zip(unique_slugs([part.title for part in parts]), parts, strict=True))


def _require_comparable(rows: Sequence[ResultRow]) -> None:
    signatures = [Signature.parse(row.signature) for row in rows]
    # A signature without data (a bare baseline) cannot contradict the others.
    require_comparable([part for part in signatures if part.data is not None])


# -- in the terminal -------------------------------------------------------------------------------


def _printout(benchmark: Benchmark, boards: Iterable[Table]) -> Printout:
    """Returns the leaderboards, further tables, then notes on what was skipped."""
    printed = []
    for table in boards:
        hidden = {"minus ceiling", label("pairwise")}
        columns = [name for name in table.columns if name not in hidden]
        printed.append(rich_table(table, columns, intervals=columns[:2]))
    for table in benchmark.tables:
        if table.title in _PRINTED:
            short = _first_lines(table)
            if short.rows:
                printed.append(rich_table(short, intervals=()))
                if DIFFERS in table.columns:
                    printed[-1].caption = table.note.partition("\n\n")[0]
    return Printout(printed, [text for name, text in benchmark.facts if name == NOTE])


def _first_lines(table: Table) -> Table:
    """Returns the first lines of a table, of the published figures only those that this run also
    measured."""
    rows = table.rows
    if table.title == PUBLISHED:
        index = table.columns.index(OURS)
        rows = [row for row in rows if row[index] is not None]
    title = table.title
    if len(rows) > _LINES:
        title += f" (the first {_LINES} of {len(rows)} lines)"
    return replace(table, title=title, rows=rows[:_LINES])


# -- what a table may show -------------------------------------------------------------------------


def estimate_of(row: ResultRow, estimates: Estimates, metric: str) -> Estimate:
    """Returns what the page prints for ``metric``: no number if coverage is below the minimum."""
    if row.under_floor:
        reason = f"coverage {row.coverage:.1%} is below the minimum of {row.min_coverage:.1%}"
        return Estimate(None, reason=f"{reason}: no headline figure")
    return estimates.get(metric, Estimate(None, reason="not computed"))


def _ranking(row: ResultRow) -> Estimate:
    """Returns the number that ranks the judge: None if fewer than 10 rows are scored."""
    if row.scored < MIN_ROWS:
        reason = f"{row.scored} rows, fewer than {MIN_ROWS}: no rank"
        return Estimate(None, reason=reason)
    return estimate_of(row, row.metrics, row.headline)


def _order(estimate: Estimate) -> tuple[bool, float]:
    return estimate.value is None, -(estimate.value or 0.0)


def human_ceiling(rows: Sequence[ResultRow], metric: str) -> Estimate:
    """Returns the human ceiling of a set: of the first row whose ceiling has a value."""
    ceilings = [row.ceiling[metric] for row in rows if metric in row.ceiling]
    missing = Estimate(None, reason="no human ceiling: one annotator a row")
    return min(ceilings, key=lambda ceiling: ceiling.value is None, default=missing)


# -- leaderboard -----------------------------------------------------------------------------------


def _leaderboard(
    rows_by_task: RowsByTask,
    boards: Mapping[Task, Table],
    charts: Mapping[Task, Figure],
) -> Section:
    """The judges on the first dimension of every set, then the tables of each set."""
    headlines: dict[str, Task] = {}
    for task, rows in rows_by_task.items():
        if rows[0].kind != "binary":
            headlines.setdefault(task[0], task)
    blocks: list[Block] = []
    if len(headlines) > 1:
        blocks.append(
            _matrix({task: rows_by_task[task] for task in headlines.values()})
        )
    for task, board in boards.items():
        parts: list[Block] = [charts[task], board]
        if task in headlines.values() or len(boards) == 1:
            blocks += parts
        else:
            blocks.append(Fold(board.title, parts))
    return Section("leaderboard", "Leaderboard", blocks)


def _matrix(rows_by_task: RowsByTask) -> Table:
    """The headline metric of every judge on one dimension of each set, the best worst set first."""
    columns: list[dict[str, Estimate]] = []
    judges: dict[str, None] = {}
    for rows in rows_by_task.values():
        judges |= {row.judge: None for row in rows}
        columns.append({row.judge: _ranking(row) for row in rows})
    not_run = Estimate(None, reason="this judge was not run here")
    lines: list[Row] = []
    for judge in judges:
        estimates = [by_judge.get(judge, not_run) for by_judge in columns]
        lines.append((judge, max(estimates, key=_order), *estimates))
    lines.sort(key=lambda line: _order(line[1]))  # type: ignore[arg-type]
    ceilings = [human_ceiling(rows, rows[0].headline) for rows in rows_by_task.values()]
    lines.append(("human ceiling (beside ○ below)", "", *ceilings))
    names = [f"{name}: {dimension}" for name, dimension in rows_by_task]
    return Table(
        "Spearman ρ with the labels on every set, best worst set first",
        ("Judge", "Worst set", *names),
        lines,
        _NOTE,
        last="ceiling",
    )


def dimension_table(rows: Sequence[ResultRow]) -> Table:
    """The judges on one dimension of one set, the best first, and the human ceiling."""
    headline = rows[0].headline
    metrics = [name for name in rows[0].metrics if name != headline]
    has_others = any(estimate_of(row, row.metrics, headline).beside for row in rows)
    lines: list[Row] = []
    for row in rows:
        estimate = estimate_of(row, row.metrics, headline)
        cells: list[Cell] = [row.judge, estimate]
        if has_others:
            cells.append(interval(estimate.beside or Estimate(None)))
        like = estimate_of(row, row.like_for_like, headline)
        minus_ceiling = row.ceiling_difference if like.value is not None else like
        cells += [like, minus_ceiling]
        for metric in metrics:
            cells.append(Brief(estimate_of(row, row.metrics, metric)))
        lines.append([*cells, row.n, Share(Estimate(row.coverage))])
    # The ceiling's headline metric is in the task of the judges like for like.
    cells = ["human ceiling", *[""] * (1 + has_others)]
    cells += [human_ceiling(rows, headline), ""]
    for metric in metrics:
        cells.append(Brief(human_ceiling(rows, metric)))
    answered = max(row.ceiling_rows for row in rows)
    lines.append([*cells, answered or "", ""])
    columns = ["Judge", label(headline), *[OTHERS] * has_others]
    columns += ["Like for like", "minus ceiling", *map(label, metrics), "n", "Coverage"]
    title = f"{rows[0].set_name}: {rows[0].dimension}"
    return Table(
        title,
        columns,
        lines,
        _NOTE,
        last="ceiling",
    )


def _sheets(rows: Sequence[ResultRow]) -> dict[str, Sheet]:
    """Returns the CSV files of all metrics, in full precision; rows below the minimum coverage keep
    their metrics there."""
    metric_lines: list[list[object]] = []
    language_lines: list[list[object]] = []
    for row in rows:
        names = [row.judge, row.set_name, row.level, row.dimension, row.kind]
        coverage = [row.n, row.scored, row.coverage, row.under_floor]
        for metric, estimate in row.metrics.items():
            metric_lines.append([*names, *coverage, metric, *_fields(estimate)])
        for language, result in row.languages.items():
            for metric, estimate in result.metrics.items():
                line = [*names, language, result.n, metric, *_fields(estimate)]
                language_lines.append(line)
    fields = (*_ESTIMATE, "beside_low", "beside_high")
    coverage_columns = ("n", "scored", "coverage", "under_floor")
    return {
        "figures": ((*_ROW, *coverage_columns, "metric", *fields), metric_lines),
        "languages": ((*_ROW, "language", "n", "metric", *fields), language_lines),
    }


def _fields(estimate: Estimate) -> list[object]:
    beside = estimate.beside or Estimate(None)
    return [*(getattr(estimate, name) for name in _ESTIMATE), beside.low, beside.high]


# -- languages, and the order of chatbots ----------------------------------------------------------


def _language_table(rows: Sequence[ResultRow]) -> Table:
    """Returns a row for each language with the headline metric of each judge and the human ceiling
    (MEDAL, Figures 4, 11 and 14)."""
    metric = rows[0].headline
    sizes: dict[str, int] = {}
    ceilings: dict[str, Estimate] = {}
    for row in reversed(rows):
        for language, result in row.languages.items():
            sizes[language] = max(result.n, sizes.get(language, 0))
            ceilings[language] = result.ceiling[metric]
    missing = Estimate(None, reason="not computed")
    lines: list[Row] = []
    for language in sorted(sizes):
        cells: list[Cell] = [language, sizes[language]]
        for row in rows:
            estimates: Estimates = {}
            if language in row.languages:
                estimates = row.languages[language].metrics
            cells.append(estimate_of(row, estimates, metric))
        lines.append([*cells, ceilings.get(language, missing)])
    totals = [estimate_of(row, row.metrics, metric) for row in rows]
    lines.append(["all", rows[0].n, *totals, human_ceiling(rows, metric)])
    columns = ("Language", "n", *(row.judge for row in rows), "human ceiling")
    title = f"{rows[0].set_name}: {rows[0].dimension}, {label(metric)} by language"
    note = "The human ceiling is to be compared with figures like for like only."
    return Table(
        title,
        columns,
        lines,
        note,
        last="total",
    )


def systems(agreements: Sequence[SystemAgreement]) -> Section:
    """How well judges order the chatbots: a table for each set and dimension, best judge first."""
    groups: dict[Task, list[SystemAgreement]] = {}
    for agreement in agreements:
        task = (agreement.set_name, agreement.dimension)
        groups.setdefault(task, []).append(agreement)
    tables = []
    for (set_name, dimension), group in groups.items():
        group.sort(key=lambda part: _order(part.pairwise_accuracy))
        rows: list[Row] = []
        for agreement in group:
            accuracy, count = agreement.pairwise_accuracy, agreement.systems
            rows.append((agreement.judge, accuracy, count, agreement.rows))
        columns = ("Judge", "Pairwise accuracy", "Chatbots", "Rows")
        title = f"{set_name}: {dimension}, order of chatbots"
        tables.append(Table(title, columns, rows))
    return Section("systems", "Chatbots in order", tables)


# -- figures ---------------------------------------------------------------------------------------


def _chart(rows: Sequence[ResultRow]) -> Figure:
    """Returns the headline metric of each judge with its interval, the judge like for like and the
    human ceiling."""
    metric = rows[0].headline
    ceiling = human_ceiling(rows, metric).value
    estimates = [estimate_of(row, row.metrics, metric) for row in rows]
    ends = [end for estimate in estimates for end in (estimate.low, estimate.value)]
    span = (min(0.0, *(end for end in ends if end is not None), 0.0), 1.0)
    like = [estimate_of(row, row.like_for_like, metric).value for row in rows]
    title = f"{rows[0].set_name}: {rows[0].dimension}, {label(metric)}"
    names = [row.judge for row in rows]
    return Figure(title, [Intervals(title, names, estimates, span, ceiling, like)])
