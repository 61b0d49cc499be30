"""The page of a benchmark: one self-contained HTML file, with figures and tables beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from medal_judges.eval.benchmark.results import NOTE, Benchmark
from medal_judges.eval.metaeval.metaeval import Estimates, ResultRow, SystemAgreement
from medal_judges.eval.metaeval.metrics import metric_label
from medal_judges.report.console import Printout, rich_table
from medal_judges.report.figure import Figure, Intervals, axis_range
from medal_judges.report.page import (
    Block,
    Fold,
    Page,
    Section,
    Sheet,
    count_text,
    facts_section,
)
from medal_judges.report.table import (
    Brief,
    Cell,
    Row,
    Share,
    Table,
    estimate_text,
    interval_text,
    unique_slugs,
)
from medal_judges.stats.intervals import MIN_ROWS, OTHERS, THESE, Estimate

_LINES = 4  # judges in the terminal
_TASKS = 3  # sets or dimensions in the terminal
_NOTES = 2  # in the terminal; the page has all
_ROW = ("judge", "set", "level", "dimension", "kind")
_ESTIMATE = ("value", "low", "high", "p_value", "reason")  # fields of Estimate
_NOTE = f"95% intervals are for {THESE}."
Rows = list[ResultRow]  # the judges on one set and dimension


def benchmark_page(benchmark: Benchmark) -> Page:
    """Returns the page report.html of ``benchmark``, with its tables and figures."""
    by_task: dict[tuple[str, str], Rows] = {}
    for row in benchmark.rows:
        by_task.setdefault((row.set_name, row.dimension), []).append(row)
    tasks = list(by_task.values())
    headlines: dict[str, Rows] = {}  # the first graded dimension of each set
    tables: list[Table] = []
    figures: list[Figure] = []
    languages: list[Table] = []
    blocks: list[Block] = []
    for rows in tasks:
        rows.sort(key=_rank_key)
        board, chart = dimension_table(rows), _metric_chart(rows)
        tables.append(board)
        figures.append(chart)
        if len(rows[0].languages) > 1:
            languages.append(_language_table(rows))
        parts: list[Block] = [chart, board]
        if rows[0].kind != "binary":
            headlines.setdefault(rows[0].set_name, rows)
        if headlines.get(rows[0].set_name) is rows or len(tasks) == 1:
            blocks += parts
        else:
            blocks.append(Fold(board.title, parts))
    if len(tasks) > 1:
        blocks.insert(1, _matrix_table(tasks))
    further = [Fold(table.title, [table]) for table in benchmark.tables]
    signatures = sorted({(row.judge, row.signature) for row in benchmark.rows})
    tables += [*languages, *benchmark.tables]
    table_names = unique_slugs([table.title for table in tables])
    figure_names = unique_slugs([figure.title for figure in figures])
    counts = [(len({row.judge for row in benchmark.rows}), "judge")]
    counts.append((len({row.set_name for row in benchmark.rows}), "set"))
    return Page(
        name="report",
        title=benchmark.title,
        subtitle=count_text(counts),
        sections=[
            Section("leaderboard", "Leaderboard", blocks),
            Section("languages", "Languages", languages),
            Section("systems", "Chatbots in order", _system_tables(benchmark.systems)),
            Section("tables", "Further tables", further),
            facts_section(benchmark.facts),
            Section("signatures", "Signatures", [Fold("All signatures", [signatures])]),
        ],
        leads=__package__,
        tables={
            **dict(zip(table_names, tables, strict=True)),
            **_metric_sheets(benchmark.rows),
        },
        figures=dict(zip(figure_names, figures, strict=True)),
        printout=_printout(benchmark, list(headlines.values()) or tasks, tasks),
    )


def _printout(
    benchmark: Benchmark, headlines: Sequence[Rows], tasks: Sequence[Rows]
) -> Printout:
    """Returns the terminal output: the best judge, one table, and which judges
    and sets were skipped.

    Args:
        headlines: The results of all judges on the first graded dimension of each set.
        tasks: The results of all judges on each set and dimension.
    """
    notes = [text for name, text in benchmark.facts if name == NOTE]
    if not tasks:
        return Printout(benchmark.tables, notes[:_NOTES])
    best = headlines[0][0]
    name, estimate = metric_label(best.headline), _ranking_estimate(best)
    answer = f"On {best.set_name}, {best.dimension}:"
    if estimate.value is None:
        answer += f" no judge has a {name} ({estimate.reason})."
    else:
        answer += f" {best.judge} has the highest {name} with people, "
        answer += estimate_text(estimate)
        answer += f" ({best.scored} of {best.n} scored)."
    with_interval: Sequence[str] = ()
    if len(tasks) == 1:
        table = dimension_table(tasks[0])
        columns = [*table.columns[:2], "Like for like", "n", "Coverage"]
        with_interval = table.columns[1:2]
    else:
        table = _matrix_table(tasks if len(headlines) == 1 else headlines)
        columns = list(table.columns[: _TASKS + 1])
    rows = [*table.rows[:-1][:_LINES], table.rows[-1]]
    printed = rich_table(replace(table, rows=rows), columns, with_interval)
    return Printout([printed], notes[:_NOTES], [answer])


# -- what a table may show -------------------------------------------------------------------------


def estimate_if_covered(row: ResultRow, estimates: Estimates, metric: str) -> Estimate:
    """Returns the judge's estimate of ``metric``. It has no value, but a reason, if the judge
    scored too few dialogues or the metric was not computed.

    Args:
        row: The result of the judge, which states how many dialogues it scored.
        estimates: Metric -> the judge's estimate.
        metric: The name of a metric, such as ``spearman``.
    """
    if row.has_low_coverage:
        reason = f"coverage {row.coverage:.1%} is below the minimum of {row.min_coverage:.1%}"
        return Estimate(None, reason=f"{reason}: no estimate")
    return estimates.get(metric, Estimate(None, reason="not computed"))


def _ranking_estimate(row: ResultRow) -> Estimate:
    """Returns the metric by which judges are ranked. Its value is None if the judge of ``row``
    scored fewer than 10 dialogues, or too few for ``min_coverage``."""
    if row.scored < MIN_ROWS:
        reason = f"{row.scored} scored, and {MIN_ROWS} are needed"
        return Estimate(None, reason=reason)
    return estimate_if_covered(row, row.metrics, row.headline)


def _rank_key(row: ResultRow) -> float:
    """Returns a number to sort judges by: lower for better judges, infinite without an estimate."""
    value = _ranking_estimate(row).value
    return math.inf if value is None else -value


def ceiling_of_set(rows: Sequence[ResultRow], metric: str) -> Estimate:
    """Returns the human ceiling of ``metric``: the agreement of one annotator with the others.
    Without a ceiling, the Estimate has a reason and no value.

    Args:
        rows: The results of all judges on one set and dimension.
        metric: The name of a metric, such as ``spearman``.
    """
    ceiling = Estimate(None, reason="no human ceiling: one annotator a row")
    for row in rows:
        ceiling = row.ceiling.get(metric, ceiling)
        if ceiling.value is not None:
            break
    return ceiling


# -- leaderboard -----------------------------------------------------------------------------------


def _matrix_table(tasks: Sequence[Rows]) -> Table:
    """Returns a table with a row for each judge and a column for each task (a set and a dimension).
    Cells hold the metric by which judges are ranked.

    Args:
        tasks: The results of all judges on each task. Judges are sorted by the first task.
    """
    sets = dict.fromkeys(rows[0].set_name for rows in tasks)
    columns = ["Judge"]
    lines: dict[str, list[Cell]] = {}
    ceilings: list[Cell] = []
    not_run = Estimate(None, reason="this judge was not run here")
    for i, rows in enumerate(tasks):
        name = rows[0].dimension.replace("_", " ")
        if len(sets) > 1:
            name = f"{rows[0].set_name}: {name}"
        columns.append(name)
        for row in rows:
            lines.setdefault(row.judge, [row.judge, *[not_run] * len(tasks)])
            lines[row.judge][i + 1] = _ranking_estimate(row)
        ceilings.append(ceiling_of_set(rows, rows[0].headline))
    names = " and ".join(
        dict.fromkeys(metric_label(rows[0].headline) for rows in tasks)
    )
    return Table(
        f"{names} with people",
        columns,
        [*lines.values(), ["human ceiling", *ceilings]],
        f"{_NOTE} Compare a judge with the human ceiling in the tables below only.",
        last="ceiling",
    )


def dimension_table(rows: Sequence[ResultRow]) -> Table:
    """Returns a table of all judges on one dimension of a set. The last row has the human ceiling
    (agreement of one annotator with the others).

    Args:
        rows: The result of each judge, the best first.
    """
    headline = rows[0].headline
    metrics = [name for name in rows[0].metrics if name != headline]
    has_others = any(row.metrics[headline].beside for row in rows)
    lines: list[Row] = []
    for row in rows:
        estimate = estimate_if_covered(row, row.metrics, headline)
        cells: list[Cell] = [row.judge, estimate]
        if has_others:
            cells.append(interval_text(estimate.beside or Estimate(None)))
        cells.append(estimate_if_covered(row, row.like_for_like, headline))
        for metric in metrics:
            cells.append(Brief(estimate_if_covered(row, row.metrics, metric)))
        lines.append([*cells, row.n, Share(Estimate(row.coverage))])
    # The ceiling's headline metric is in the column of the judges like for like.
    cells = ["human ceiling", *[""] * (1 + has_others), ceiling_of_set(rows, headline)]
    for metric in metrics:
        cells.append(Brief(ceiling_of_set(rows, metric)))
    answered = max(row.ceiling_rows for row in rows)
    lines.append([*cells, answered or "", ""])
    columns = ["Judge", metric_label(headline), *[OTHERS] * has_others, "Like for like"]
    columns += [*map(metric_label, metrics), "n", "Coverage"]
    title = f"{rows[0].set_name}: {rows[0].dimension}"
    return Table(title, columns, lines, _NOTE, last="ceiling")


def _metric_sheets(rows: Sequence[ResultRow]) -> dict[str, Sheet]:
    """Returns name -> CSV file of all metrics in full precision: ``figures`` (over all languages)
    and ``languages`` (by language)."""
    metric_lines: list[list[object]] = []
    language_lines: list[list[object]] = []
    for row in rows:
        about: list[object] = [
            row.judge,
            row.set_name,
            row.level,
            row.dimension,
            row.kind,
        ]
        coverage: list[object] = [row.n, row.scored, row.coverage, row.has_low_coverage]
        parts = [(row.metrics, coverage, metric_lines)]
        for language, result in row.languages.items():
            parts.append((result.metrics, [language, result.n], language_lines))
        for metrics, counts, lines in parts:
            for metric, estimate in metrics.items():
                line = [*about, *counts, metric]
                for name in _ESTIMATE:
                    line.append(getattr(estimate, name))
                beside = estimate.beside or Estimate(None)
                lines.append([*line, beside.low, beside.high])
    fields = ("metric", *_ESTIMATE, "beside_low", "beside_high")
    coverage_columns = ("n", "scored", "coverage", "under_floor")
    return {
        "figures": ((*_ROW, *coverage_columns, *fields), metric_lines),
        "languages": ((*_ROW, "language", "n", *fields), language_lines),
    }


# -- languages, and the order of chatbots ----------------------------------------------------------


def _language_table(rows: Sequence[ResultRow]) -> Table:
    """Returns a table with a row for each language and a column for each judge and for people.

    Cells hold the metric by which judges are ranked (MEDAL, Figures 4, 11 and 14).
    """
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
            cells.append(estimate_if_covered(row, estimates, metric))
        lines.append([*cells, ceilings.get(language, missing)])
    totals = [estimate_if_covered(row, row.metrics, metric) for row in rows]
    lines.append(["all", rows[0].n, *totals, ceiling_of_set(rows, metric)])
    columns = ("Language", "n", *(row.judge for row in rows), "human ceiling")
    title = (
        f"{rows[0].set_name}: {rows[0].dimension}, {metric_label(metric)} by language"
    )
    note = "Compare the human ceiling with results like for like only."
    return Table(title, columns, lines, note, last="total")


def _system_tables(agreements: Sequence[SystemAgreement]) -> list[Table]:
    """Returns a table for each set and dimension: how well each judge ranks chatbots,
    the best judge first."""
    tables: dict[str, Table] = {}
    columns = ("Judge", "Pairwise accuracy", "Chatbots", "Rows")
    best_first = sorted(
        agreements, key=lambda part: -(part.pairwise_accuracy.value or 0.0)
    )
    for part in best_first:
        title = f"{part.set_name}: {part.dimension}, order of chatbots"
        table = tables.setdefault(title, Table(title, columns, []))
        row = (part.judge, part.pairwise_accuracy, part.systems, part.rows)
        tables[title] = replace(table, rows=[*table.rows, row])
    return list(tables.values())


# -- figures ---------------------------------------------------------------------------------------


def _metric_chart(rows: Sequence[ResultRow]) -> Figure:
    """Returns a figure of the metric by which judges are ranked, with a row for each judge.

    A line shows the human ceiling (agreement of one annotator with the others). A ring shows the
    judge's agreement with the same annotators.
    """
    metric = rows[0].headline
    ceiling = ceiling_of_set(rows, metric).value
    estimates = [estimate_if_covered(row, row.metrics, metric) for row in rows]
    span = (min(0.0, axis_range(estimates)[0]), 1.0)
    rings = [estimate_if_covered(row, row.like_for_like, metric).value for row in rows]
    title = f"{rows[0].set_name}: {rows[0].dimension}, {metric_label(metric)}"
    names = [row.judge for row in rows]
    return Figure(title, [Intervals(title, names, estimates, span, ceiling, rings)])
