"""The page of ``medal report``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from markupsafe import Markup

from medal_judges.eval.report.estimates import GateResult, GroupResult, ReportEstimates
from medal_judges.eval.report.reasons import OWN_WORDS
from medal_judges.eval.report.tables import (
    estimates_sheet,
    finding_sentences,
    group_table,
    headline_sentence,
    note_sentences,
    order_dimensions,
    summary_table,
)
from medal_judges.eval.report.worst import (
    WorstChat,
    choose_varied_chats,
    group_by_mechanism,
    worst_count,
    worst_sheet,
)
from medal_judges.eval.scores.scores import Scores
from medal_judges.report.figure import (
    BLUE,
    Bar,
    Bars,
    Figure,
    Intervals,
    Series,
    axis_range,
)
from medal_judges.report.page import (
    TURN_KEY,
    Block,
    Fold,
    Page,
    Section,
    Sheet,
    chat_html,
    count_text,
    render_template,
)
from medal_judges.report.table import (
    Table,
    in_percent,
    number_text,
    percent_text,
    unique_slugs,
)
from medal_judges.stats.intervals import Estimate

_PACKAGE = "medal_judges.eval.report"
_PANELS = 4  # dimensions in the picture
_BINS = 8
_LEVELS = 10  # an ordinal scale of more levels gets bins
_LONGEST_ID = 16  # characters of an id in a heading
_LONGEST_REASON = 160
_SEARCH = Markup(
    '<p class="controls" hidden><label>Search <input type="search" data-filter="worst" '
    'placeholder="id, text or reason"></label></p>'
)


def report_page(
    title: str,
    scores: Scores,
    estimates: ReportEstimates,
    gates: Sequence[GateResult],
    worst: Sequence[WorstChat],
    facts: Sequence[tuple[str, str]],
) -> Page:
    """Returns the page report.html, with its tables and its picture.

    Args:
        title: The heading.
        scores: The judgements of the chats.
        estimates: Means and shares, by group and period.
        gates: The verdicts on limits.
        worst: Candidates for the worst chats, the worst first. The page shows at most a third of
            them, chosen so that they are bad for different reasons.
        facts: (name, value) pairs on how the page was made.
    """
    worst = choose_varied_chats(worst, worst_count(scores))
    figures: dict[str, Figure] = {}
    summary: list[Block] = []
    if scores.dimensions:
        figures["scores"] = _report_picture(scores, estimates)
        summary.append(figures["scores"])
    summary += _summary_blocks(scores, estimates, gates)
    by_column = []
    names = order_dimensions(scores, estimates)
    slugs = unique_slugs(list(estimates.groups))
    for slug, (column, parts) in zip(slugs, estimates.groups.items(), strict=True):
        table = group_table(scores, estimates, column, parts)
        blocks: list[Block] = [table]
        if names:
            panel = _interval_panel(scores, parts, names[0])
            blocks.insert(0, Figure(f"{names[0]} by {column}", [panel]))
        by_column.append(Section(f"by-{slug}", table.title, blocks, lead=""))
    if estimates.periods:
        table = group_table(scores, estimates, "period", estimates.periods)
        by_column.append(Section("time", "By period", [table], lead=""))
    tables: dict[str, Table | Sheet] = {"estimates": estimates_sheet(estimates)}
    if worst:
        tables["worst"] = worst_sheet(scores, worst)
    counts = [(scores.frame["id"].nunique(), "dialogue")]
    counts.append((len(scores.judged_names), "dimension"))
    return Page(
        name="report",
        title=title,
        subtitle=count_text(counts),
        sections=[
            Section("summary", "In short", summary),
            Section(
                "worst",
                f"{len(worst)} of the worst {scores.unit}s",
                list(_worst_blocks(worst)),
                link="Worst",
            ),
            *by_column,
            Section("facts", "How to read this", [list(facts)]),
        ],
        leads=_PACKAGE,
        tables=tables,
        figures=figures,
    )


def _summary_blocks(
    scores: Scores, estimates: ReportEstimates, gates: Sequence[GateResult]
) -> Iterator[Block]:
    if not scores.rows:
        yield "The file has no judgements: nothing to report on."
        return
    yield render_template(
        _PACKAGE,
        "summary.html",
        answer=headline_sentence(scores, estimates),
        gates=gates,
        findings=finding_sentences(scores, estimates),
        notes=note_sentences(scores),
        is_corrected=bool(estimates.total.corrected),
    )
    if scores.dimensions:
        yield summary_table(scores, estimates)


def _worst_blocks(worst: Sequence[WorstChat]) -> Iterator[Block]:
    """Yields the blocks of the section on the worst chats: a search field, a note, and a foldable
    list of chats for each reason."""
    if not worst:
        return
    yield _SEARCH
    if not any(chat.turns for chat in worst):
        yield "The texts are not here: give the scored chats with --chats."
    elif any(chat.contributions for chat in worst):
        yield TURN_KEY
    for mechanism, chats in group_by_mechanism(worst).items():
        folds = []
        for chat in chats:
            turns = chat_html(chat.turns, chat.contributions)
            folds.append(Fold(_chat_heading(chat), [turns]))
        heading = f"{mechanism[:1].upper()}{mechanism[1:]}"
        yield Fold(
            f"{heading}: {count_text([(len(chats), 'chat')])}", folds, is_open=True
        )


def _chat_heading(chat: WorstChat) -> str:
    """Returns the score, id and reason of ``chat`` in one line."""
    judgement = chat.judgement
    parts = ["–" if chat.score is None else number_text(chat.score)]
    id = judgement.id
    if len(id) > _LONGEST_ID:
        id = f"{id[: _LONGEST_ID - 1]}…"
    parts.append(id)
    if judgement.turn is not None:
        parts.append(f"turn {judgement.turn}")
    reason = chat.reason.text
    if chat.reason.mechanism == OWN_WORDS and len(reason) > _LONGEST_REASON:
        reason = f"{reason[:_LONGEST_REASON]}…"
    return " · ".join([*parts, reason])


def _report_picture(scores: Scores, estimates: ReportEstimates) -> Figure:
    """Returns the picture of a report: the first dimensions over time. Without periods, it shows
    the distributions of their scores."""
    names = order_dimensions(scores, estimates)
    if len(estimates.periods) > 1:
        panels = [
            _timeline_panel(scores, estimates.periods, name) for name in names[:_PANELS]
        ]
        return Figure("By period", panels)
    names = [name for name in names if name not in scores.bad]
    bars = [_distribution_bars(scores, name) for name in names[:_PANELS]]
    return Figure(f"Share of {scores.unit}s by score", bars)


def _distribution_bars(scores: Scores, name: str) -> Bars:
    """Returns a histogram of the scores on the dimension ``name``: the share of rows at each point
    of a scale such as 1 to 5, or in 8 bins of a continuous scale."""
    dimension = scores.dimensions[name]
    numbers = scores.scores[name]
    numbers = numbers[np.isfinite(numbers)]
    levels = dimension.levels
    if scores.is_share(name) or not 2 < len(levels) <= _LEVELS:
        sizes, edges = np.histogram(numbers, _BINS, (dimension.low, dimension.high))
        labels = [f"{low:.3g} to {high:.3g}" for low, high in pairwise(edges)]
    else:
        sizes = (np.round(numbers)[:, None] == np.array(levels)).sum(axis=0)
        labels = [f"{level:g}" for level in levels]
    bars = []
    for label, share in zip(labels, (sizes / len(numbers)).tolist(), strict=True):
        bars.append(Bar(label, [(share, BLUE)], percent_text(share)))
    return Bars(name, bars, float(sizes.max() / len(numbers)))


def _interval_panel(
    scores: Scores, parts: Sequence[GroupResult], name: str
) -> Intervals:
    """Returns a chart of the dimension ``name``: the estimate with its interval in each of
    ``parts`` (groups)."""
    _, estimates = _axis_label_and_estimates(scores, parts, name)
    groups = [part.name for part in parts]
    return Intervals(name, groups, estimates, axis_range(estimates))


def _timeline_panel(
    scores: Scores, periods: Sequence[GroupResult], name: str
) -> Series:
    """Returns a chart of the dimension ``name`` over time: the estimate in each of ``periods``."""
    label, estimates = _axis_label_and_estimates(scores, periods, name)
    low, high = axis_range(estimates)
    dimension = scores.dimensions[name]
    factor = 100.0 if scores.is_share(name) else 1.0
    span = max(low, factor * dimension.low), min(high, factor * dimension.high)
    return Series(name, [period.name for period in periods], estimates, span, label)


def _axis_label_and_estimates(
    scores: Scores, parts: Sequence[GroupResult], name: str
) -> tuple[str, list[Estimate]]:
    """Returns the label of the axis for the dimension ``name``, such as ``mean``, and the estimate
    in each of ``parts`` (groups or periods). Shares are in percent."""
    estimates = [part.best_estimate(name) for part in parts]
    if not scores.is_share(name):
        return "mean", estimates
    return f"% of {scores.unit}s", [in_percent(estimate) for estimate in estimates]
