"""Report: from files of scores (and chats) to figures, gates and the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from medal_judges import __version__
from medal_judges.errors import ConfigError, CoverageError
from medal_judges.eval.report.conversations import badness, collect, highest, select
from medal_judges.eval.report.figures import (
    GateResult,
    ReportFigures,
    check_gates,
    compute_figures,
)
from medal_judges.eval.report.options import ReportOptions
from medal_judges.eval.report.page import report_page
from medal_judges.eval.report.tables import (
    findings,
    group_table,
    summary_table,
)
from medal_judges.eval.report.worst import worst_chats
from medal_judges.eval.scores.files import (
    frame_of,
    judgements_of,
    score_files,
)
from medal_judges.eval.scores.labels import add_labels
from medal_judges.eval.scores.relative import add_reference
from medal_judges.eval.scores.scores import Scores, load_scores
from medal_judges.eval.scores.trust import skipped_lines, trust_section
from medal_judges.reading.dialogues import (
    ReadingReport,
    ReadOptions,
    dialogues_of,
    labelled_of,
)
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement
from medal_judges.report.console import Printout, ProgressBar
from medal_judges.report.junit import write_junit
from medal_judges.report.page import Page
from medal_judges.report.table import Table
from medal_judges.stats.equal import EQUAL_FACT
from medal_judges.storage.jsonl import STDIN

_MOST_ROWS, _LONGEST_NAME = 12, 32  # groups in the terminal, characters of their names
_MARKS = {"worse": "▼", "better": "▲", "note": "·"}


@dataclass(frozen=True, slots=True)
class Report:
    """The result of ``make_report``; ``page`` is the path of the page if ``out`` was given."""

    scores: Scores
    figures: ReportFigures
    gates: Sequence[GateResult]
    page: Path | None


def make_report(
    options: ReportOptions, reading: ReadingReport, bar: ProgressBar
) -> Report:
    """Computes figures and gates; writes the page with its tables and figures if ``out`` is given.
    Counts bad rows in ``reading``.

    Writes the page before it raises for a gate that cannot be decided; see ``check_gates`` and
    ``load_scores``. Raises ConfigError for standard input.
    """
    if STDIN in (*options.scores, options.chats, options.human, options.relative_to):
        raise ConfigError(
            "medal report reads its files more than once, so standard input does not work",
            hint="write it to a file first",
        )
    files = score_files(options.scores)
    dialogues = _dialogues(options, reading)
    scores = load_scores(frame_of(files), options, dialogues, bar.advance)
    scores.skipped = sum(map(skipped_lines, files))
    if options.human is not None and scores.rows:
        labels = labelled_of(options.human, options.reading, reading)
        add_labels(scores, options.human, labels)
    scores.add_bad(options.bad, options)
    add_reference(scores, options.relative_to, options.rubric)
    figures = compute_figures(scores, options, lambda step: bar.advance(0, note=step))
    leads = {name: figures.lead(name) for name in figures.overall}
    gates: Sequence[GateResult] = ()
    page = None
    try:
        gates = check_gates(options.gates, scores, leads, options.min_coverage)
    finally:
        if options.out is not None:
            content = _page(options, files, scores, figures, gates, bar)
            page = content.write(options.out)
    if not scores.rows:
        raise CoverageError(
            "no judgement was read", hint="score the chats first: medal score"
        )
    if options.junit is not None:
        cases = [(result.gate.name, result.verdict, result.text) for result in gates]
        write_junit(options.junit, "medal report", cases)
    return Report(scores, figures, gates, page)


def _dialogues(
    options: ReportOptions, reading: ReadingReport
) -> Iterable[Dialogue] | None:
    if options.chats is None:
        return None
    how = options.reading
    if not how.to_record():
        # As the scores state that the chats were read.
        first = next(judgements_of(score_files(options.scores)), Judgement())
        how = ReadOptions(strict=how.strict, **first.reading)
    return dialogues_of(options.chats, how, reading)


def _page(
    options: ReportOptions,
    files: Sequence[Path],
    scores: Scores,
    figures: ReportFigures,
    gates: Sequence[GateResult],
    bar: ProgressBar,
) -> Page:
    bar.advance(0, note="conversations")
    # Bad rows were counted in the first pass over the chats.
    uncounted = ReadingReport(keep=0, strict=options.reading.strict)
    dialogues = _dialogues(options, uncounted)
    rows = select(scores, options.conversations)
    worst = highest(badness(scores), options.worst)
    of_rows = collect(
        np.union1d(rows, worst), judgements_of(files), dialogues, bar.advance
    )
    conversations = {row: of_rows[row] for row in rows.tolist()}
    unit = None
    if figures.timeline is not None:
        unit = figures.timeline.unit
    chats = worst_chats(scores, {row: of_rows[row] for row in worst.tolist()}, unit)
    bar.advance(0, note="page")
    source = files[0].name if len(files) == 1 else f"{len(files)} files"
    title = options.title or f"Scored chats: {source}"
    trust = trust_section(scores.signatures, scores.dimensions.values(), scores.skipped)
    named = (*files, options.chats, options.human, options.relative_to)
    facts = _facts(scores, named)
    return report_page(
        title, scores, figures, conversations, gates, facts, trust, chats
    )


def _facts(scores: Scores, files: Iterable[str | Path | None]) -> list[tuple[str, str]]:
    coverage = "–" if scores.coverage is None else f"{scores.coverage:.1%}"
    drawn = f"all rows of one {scores.cluster_name}"
    if scores.cluster_name == "conversation":
        drawn = "the conversation"
    facts = [
        ("Files", ", ".join(Path(name).name for name in files if name)),
        (f"{scores.unit}s".capitalize(), f"{scores.rows:,}, {coverage} scored in full"),
    ]
    if scores.skipped:
        facts.append(("Unreadable lines", f"{scores.skipped:,}"))
    intervals = (
        f"95%; the sampling unit is {drawn}. Means: jackknife over these, Student's t. Shares: "
        "Wilson at the effective size."
    )
    return [*facts, ("Intervals", intervals), EQUAL_FACT, ("medal-judges", __version__)]


def print_report(report: Report) -> None:
    """Prints the figures, the findings, the gates, and the path of the page."""
    scores, figures = report.scores, report.figures
    head = f"{scores.rows:,} {scores.unit}s, {scores.coverage:.1%} scored in full"
    if scores.skipped:
        head += f"; unreadable lines: {scores.skipped:,}"
    heads = [head, *scores.ordinary()]
    signatures = [(signature, "dim") for signature in scores.signatures]
    tables = [summary_table(scores, figures)]
    for column, groups in figures.groups.items():
        table = group_table(scores, figures, column, groups[:_MOST_ROWS])
        cut = f" ({_MOST_ROWS} of {len(groups)})" if len(groups) > _MOST_ROWS else ""
        tables.append(_printed_groups(table, table.title + cut))
    foot = [f"{_MARKS[tone]} {text}" for tone, text in findings(scores, figures)]
    foot += [f"gate {result.text}" for result in report.gates]
    if report.page is not None:
        foot.append(str(report.page))
    Printout(
        tables=tables,
        head=[*((line, "") for line in heads), *signatures],
        foot=[(line, "") for line in foot],
    ).show()


def _printed_groups(table: Table, title: str) -> Table:
    """Returns the table without its note, and with the beginnings of long names."""
    rows = []
    for name, *cells in table.rows:
        text = str(name)
        if len(text) > _LONGEST_NAME:
            text = f"{text[: _LONGEST_NAME - 1]}…"
        rows.append([text, *cells])
    return replace(table, title=title, rows=rows, note="")
