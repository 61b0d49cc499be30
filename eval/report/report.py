"""Report: from files of scores (and chats) to figures, gates and the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from pathlib import Path

from medal_judges import __version__
from medal_judges.errors import ConfigError
from medal_judges.eval.report.conversations import collect, select
from medal_judges.eval.report.figures import GateResult, ReportFigures, check_gates, compute_figures
from medal_judges.eval.report.options import ReportOptions
from medal_judges.eval.report.page import write_report
from medal_judges.eval.report.scores import Scores, add_labels, load_scores
from medal_judges.eval.report.tables import findings, group_table, summary_table
from medal_judges.reading.dialogues import ReadingReport, dialogues_of, labelled_of
from medal_judges.records.dialogue import Dialogue
from medal_judges.report.console import ProgressBar, print_tables, wide_console
from medal_judges.storage.jsonl import STDIN
from medal_judges.storage.judgements import read_frame, read_judgements

_MOST, _NAME = 12, 32  # groups in the terminal, characters of their names


@dataclass(frozen=True, slots=True)
class Report:
    """What a report found; ``page`` is its file if a folder was given."""

    scores: Scores
    figures: ReportFigures
    gates: Sequence[GateResult]
    page: Path | None


def make_report(options: ReportOptions, reading: ReadingReport, bar: ProgressBar) -> Report:
    """Figures of all scores, the gates, and with ``out`` the page, tables and figures there. Counts
    bad rows in ``reading``.

    Writes the page before it raises for a gate that cannot be decided; see ``check_gates`` and
    ``load_scores``. Raises ConfigError for standard input.
    """
    if STDIN in (options.scores, options.chats, options.human):
        raise ConfigError(
            "medal report reads its files more than once, so standard input does not work",
            hint="write it to a file first",
        )
    passes = chain([reading], repeat(ReadingReport(keep=0, strict=options.reading.strict)))

    def dialogues() -> Iterable[Dialogue] | None:
        chats = options.chats
        return None if chats is None else dialogues_of(chats, options.reading, next(passes))

    frame = read_frame(options.scores, brief=True)
    scores = load_scores(frame, options, dialogues(), bar.advance)
    if options.human is not None and scores.rows:
        people = labelled_of(options.human, options.reading, reading)
        add_labels(scores, options.human, people)
    figures = compute_figures(scores, options, lambda what: bar.advance(0, note=what))
    undecided: Exception | None = None
    gates: Sequence[GateResult] = ()
    try:
        leads = {name: figures.lead(name) for name in figures.overall}
        gates = check_gates(options.gates, scores, leads, options.min_coverage)
    except Exception as error:
        undecided = error
    page = None
    if options.out is not None:
        bar.advance(0, note="conversations")
        rows = select(scores, options.conversations)
        found = collect(rows, read_judgements(options.scores), dialogues(), bar.advance)
        bar.advance(0, note="page")
        coverage = "–" if scores.coverage is None else f"{scores.coverage:.1%}"
        unit = scores.cluster_name
        drawn = "the conversation" if unit == "conversation" else f"all rows of one {unit}"
        files = (options.scores, options.chats, options.human)
        facts = [
            ("Files", ", ".join(Path(name).name for name in files if name)),
            (f"{scores.unit}s".capitalize(), f"{scores.rows:,}, {coverage} scored in full"),
            (
                "Intervals",
                f"95%; the sampling unit is {drawn}. Means: jackknife over these, Student's t. "
                "Shares: Wilson at the effective size.",
            ),
            ("medal-judges", __version__),
        ]
        title = options.title or f"Scored chats: {Path(options.scores).name}"
        page = write_report(options.out, title, scores, figures, found, gates=gates, facts=facts)
    if undecided is not None:
        raise undecided
    return Report(scores, figures, gates, page)


def print_report(report: Report) -> None:
    """Prints the figures, what stands out, the gates, and the path of the page."""
    scores, figures = report.scores, report.figures
    console = wide_console()

    def show(text: object, style: str | None = None) -> None:
        console.print(str(text), style=style, highlight=False, soft_wrap=True)

    if not scores.rows:
        show("no judgements: nothing to report on")
    else:
        show(f"{scores.rows:,} {scores.unit}s, {scores.coverage:.1%} scored in full")
        for signature in scores.signatures:
            show(signature, "dim")
        tables = [summary_table(scores, figures)]
        for column, groups in figures.groups.items():
            table = group_table(scores, figures, column, groups[:_MOST])
            names = [str(row[0]) for row in table.rows]
            names = [name if len(name) <= _NAME else f"{name[: _NAME - 1]}…" for name in names]
            rows = [(name, *row[1:]) for name, row in zip(names, table.rows, strict=True)]
            more = f" ({_MOST} of {len(groups)})" if len(groups) > _MOST else ""
            tables.append(replace(table, title=table.title + more, rows=rows, note=""))
        print_tables(tables)
        for tone, text in findings(scores, figures):
            show({"worse": "▼ ", "better": "▲ ", "note": "· "}[tone] + text)
    for gate in report.gates:
        show(f"gate {gate.text}")
    if report.page is not None:
        show(report.page)
