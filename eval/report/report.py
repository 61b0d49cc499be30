"""Report: from files of scores (and chats) to estimates, gates and the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import wrap

from medal_judges import __version__
from medal_judges.errors import ConfigError, CoverageError
from medal_judges.eval.report.estimates import (
    GateResult,
    ReportEstimates,
    compute_estimates,
    decide_gates,
)
from medal_judges.eval.report.options import ReportOptions
from medal_judges.eval.report.page import report_page
from medal_judges.eval.report.reasons import WITHOUT_FEATURES
from medal_judges.eval.report.tables import (
    finding_sentences,
    group_table,
    headline_sentence,
    note_sentences,
    summary_table,
)
from medal_judges.eval.report.worst import (
    WorstChat,
    collect_worst_candidates,
    group_by_mechanism,
    worst_count,
)
from medal_judges.eval.scores.files import (
    count_skipped_lines,
    read_all_judgements,
    read_score_frame,
)
from medal_judges.eval.scores.labels import add_labels
from medal_judges.eval.scores.scores import Scores, scores_from_frame
from medal_judges.reading.dialogues import (
    ReadingReport,
    ReadOptions,
    stream_dialogues,
    stream_labelled,
)
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement
from medal_judges.report.console import WIDTH, Printout, shorten
from medal_judges.report.junit import write_junit
from medal_judges.report.table import Table
from medal_judges.stats.equal import EQUAL_FACT
from medal_judges.storage.jsonl import STDIN

_LINES = 12  # in the terminal, in all
_FRAME = 4  # lines of a table beside its rows
_LONGEST_NAME = 20  # characters of a group in the terminal
_NAMED = 3  # mechanisms of the worst chats in the terminal


@dataclass(frozen=True, slots=True)
class Report:
    """The scores, estimates, verdicts and worst chats of ``medal report``, as returned by
    ``make_report``.

    Attributes:
        scores: The judgements of the chats.
        estimates: Means and shares, by group and period.
        gates: The verdicts on limits.
        worst: Candidates for the worst chats, the worst first. The page shows at most a third of
            them, chosen so that they are bad for different reasons.
        page: The path of the page, None if no page was written.
    """

    scores: Scores
    estimates: ReportEstimates
    gates: Sequence[GateResult]
    worst: Sequence[WorstChat]
    page: Path | None


def make_report(options: ReportOptions, reading: ReadingReport) -> Report:
    """Reads scores, estimates means and shares, checks limits and finds the worst chats. Writes the
    page and the JUnit file that ``options`` name.

    Args:
        options: The files to read, the groups and limits, and the files to write (``out``,
            ``junit``).
        reading: Counts unreadable rows.

    Raises:
        ConfigError: A file is standard input or has no scores, or a limit is wrong.
        CoverageError: There is no judgement, or too few chats are scored for a limit.
        MedalError: An estimate with a limit has no interval.
    """
    if STDIN in (*options.scores, options.chats, options.human):
        raise ConfigError(
            "medal report reads its files more than once and cannot read standard input",
            hint="Write it to a file and type the file's name",
        )
    files = [Path(name) for name in dict.fromkeys(options.scores)]
    scores = scores_from_frame(
        read_score_frame(files),
        _read_chats(options, files, reading),
        by=options.by,
        over=options.period,
        cluster=options.cluster,
        dimensions=options.dimensions,
    )
    scores.skipped = sum(map(count_skipped_lines, files))
    if options.human is not None and scores.rows:
        labels = stream_labelled(options.human, options.reading, reading)
        add_labels(scores, labels, Path(options.human).name)
    scores.add_bad_score_dimensions(options.bad)
    estimates = compute_estimates(scores, options.by)
    total = {name: estimates.total.best_estimate(name) for name in scores.dimensions}
    # Bad rows were counted in the first pass over the chats.
    uncounted = ReadingReport(strict=options.reading.strict)
    dialogues = _read_chats(options, files, uncounted)
    worst = collect_worst_candidates(scores, read_all_judgements(files), dialogues)
    gates: Sequence[GateResult] = ()
    page = None
    try:
        gates = decide_gates(options.gates, scores, total, options.min_coverage)
    finally:
        if options.out is not None:
            name = files[0].name if len(files) == 1 else f"{len(files)} files"
            facts = _facts(scores, [*files, options.chats, options.human])
            content = report_page(
                f"Scored chats: {name}", scores, estimates, gates, worst, facts
            )
            page = content.write(options.out)
    if not scores.rows:
        raise CoverageError(
            "no judgement was read",
            hint="Score the chats first. Type: medal score CHATS --out scores.jsonl",
        )
    if options.junit is not None:
        cases = [(result.gate.name, result.verdict, result.text) for result in gates]
        suite = ".".join(["medal report", *(path.name for path in files)])
        write_junit(options.junit, suite, cases)
    return Report(scores, estimates, gates, worst, page)


def _read_chats(
    options: ReportOptions, files: Sequence[Path], reading: ReadingReport
) -> Iterable[Dialogue] | None:
    if options.chats is None:
        return None
    how = options.reading
    if not how.format_and_columns():
        # As the scores state that the chats were read.
        first = next(read_all_judgements(files), Judgement())
        how = ReadOptions(strict=how.strict, **first.reading)
    return stream_dialogues(options.chats, how, reading)


def _facts(scores: Scores, files: Iterable[str | Path | None]) -> list[tuple[str, str]]:
    facts = [("Files", ", ".join(Path(name).name for name in files if name))]
    for signature, count in scores.rows_by_signature.items():
        facts.append((f"Judge of {count:,} {scores.unit}s", signature))
    intervals = (
        f"95%, by {scores.cluster_name}. Means: jackknife, Student's t. Shares: Wilson at the "
        "effective size. Groups: corrected by Holm."
    )
    return [*facts, ("Intervals", intervals), EQUAL_FACT, ("medal-judges", __version__)]


def print_report(report: Report) -> None:
    """Prints a summary of ``report``: the main result, one table, frequent reasons of the worst
    chats, verdicts on limits, and the page's path."""
    scores, estimates = report.scores, report.estimates
    head = [
        headline_sentence(scores, estimates),
        *finding_sentences(scores, estimates)[:1],
    ]
    foot = wrap(" ".join(note_sentences(scores)), WIDTH)[:2]
    worst = report.worst[: worst_count(scores)]
    groups = group_by_mechanism(worst)
    if not groups.keys() <= WITHOUT_FEATURES:
        by_size = sorted(groups, key=lambda mechanism: -len(groups[mechanism]))
        texts = [f"{mechanism} ({len(groups[mechanism])})" for mechanism in by_size]
        foot += wrap(f"The {len(worst)} worst: {', '.join(texts[:_NAMED])}.", WIDTH)
    foot += [f"gate {result.text}" for result in report.gates]
    if report.page is not None:
        foot.append(str(report.page))
    most_rows = max(1, _LINES - _FRAME - len(head) - len(foot))
    table = _short_table(scores, estimates, most_rows)
    Printout(
        tables=[table] if table.rows else [],
        head=list(map(shorten, head)),
        foot=list(map(shorten, foot)),
    ).show()


def _short_table(scores: Scores, estimates: ReportEstimates, most_rows: int) -> Table:
    """Returns the table for the terminal: of groups if there are any, otherwise of periods,
    otherwise of dimensions.

    Args:
        most_rows: The maximum number of rows.
    """
    table = summary_table(scores, estimates)
    first_row = 0
    if estimates.groups:
        column, groups = next(iter(estimates.groups.items()))
        table = group_table(scores, estimates, column, groups, has_p=False)
    elif estimates.periods:
        table = group_table(scores, estimates, "period", estimates.periods)
        first_row = max(0, len(table.rows) - most_rows)
    rows = []
    for name, *cells in table.rows[first_row : first_row + most_rows]:
        rows.append([shorten(str(name), _LONGEST_NAME), *cells])
    return replace(table, title="", rows=rows)
