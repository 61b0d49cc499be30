"""Tables, figures and page of the statistics: MEDAL's Table 2, Figures 2, 9 and 10."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from medal_judges import __version__
from medal_judges.data_prep.corpus_stats.statistics import (
    MAX_NAMES,
    NOT_STATED,
    SIDES,
    UNITS,
    CorpusStatistics,
)
from medal_judges.data_prep.corpus_stats.tokens import MTLD_UNDEFINED
from medal_judges.data_prep.share_bars import share_panel
from medal_judges.report.console import Printout
from medal_judges.report.figure import Bar, Bars, Figure
from medal_judges.report.page import Page, Section, count_text, facts_section
from medal_judges.report.table import (
    Cell,
    Row,
    Share,
    Table,
    unique_slugs,
)
from medal_judges.stats.intervals import Estimate

_GROUPINGS = {"Language": "lang", "Chatbot": "chatbot", "User model": "user"}
_MAX_LEVELS = 11
_TEXTS = (
    "Turns per dialogue, words per turn, and characters per turn for languages written without "
    "spaces. MTLD (threshold 0.72, at least 10 tokens a factor, mean of both directions) is the "
    f"mean over the dialogues with a value; {MTLD_UNDEFINED} in the others. Under 100 tokens a "
    "value is rough."
)
_MAPS = "Chatbots by languages."
_ISSUES = "Share of the dialogues of a language with the issue, with 95% intervals."
_LEVELS = (
    "Share of the rows at each level, by language. Orange is the lower half of the scale, purple "
    "the upper half. A mean of several answers counts at the nearest level."
)
_LABELS = (
    "Shares of issues and means of the other dimensions, with 95% intervals by group. An issue is "
    "present if the mean of a row's answers is 0.5 or more."
)
_NO_LABELS = "No row has a label: there are no issues and no scores to count."


def statistics_page(stats: CorpusStatistics) -> Page:
    """Returns the page stats.html that shows ``stats``. The page has tables, figures, and the lines
    to print in the terminal."""
    texts = []
    labels = []
    for head in _GROUPINGS:
        if stats.groupable_names(_GROUPINGS[head]):
            texts.append(text_statistics_table(stats, head))
            labels.append(label_statistics_table(stats, head))
    if not len(stats.labels.columns):
        labels = []
    tables = [*texts, *labels]
    table_names = unique_slugs([table.title for table in tables])
    maps = list(chatbot_language_tables(stats))
    issues = issue_figure(stats)
    levels = score_distribution_figures(stats)
    figures = dict(zip(unique_slugs(list(levels)), levels.values(), strict=True))
    if issues is not None:
        figures["issues"] = issues
    chatbots = stats.rows.chatbot[stats.rows.chatbot != NOT_STATED]
    counts = [
        (len(stats.rows), "dialogue"),
        (stats.rows.lang.nunique(), "language"),
        (chatbots.nunique(), "chatbot"),
        (stats.counts["labelled"], "labelled row"),
    ]
    return Page(
        "stats",
        f"Statistics of {stats.name}",
        count_text(counts),
        [
            Section("texts", "Dialogues and texts", texts, _TEXTS, "Texts"),
            Section("maps", "Chatbots by languages", maps, _MAPS),
            Section("bars", "Issues by language", [issues] if issues else [], _ISSUES),
            Section("distribution", "Distribution", [*levels.values()], _LEVELS),
            Section("labels", "Labels", labels or [_NO_LABELS], _LABELS),
            facts_section(provenance_facts(stats)),
        ],
        tables=dict(zip(table_names, tables, strict=True)),
        figures=figures,
        printout=Printout(tables, [] if labels else ["No row has a label."]),
    )


def _rows_per_name_and_all(
    stats: CorpusStatistics, column: str
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yields (name, rows of that name) for each name in ``column`` of ``stats``, and then (``all``,
    all rows).

    Args:
        stats: The statistics, with one row for each dialogue.
        column: ``lang``, ``chatbot`` or ``user``. With more than 60 names, only ``all`` is yielded.
    """
    for name in stats.groupable_names(column):
        yield name, stats.rows[stats.rows[column] == name]
    yield "all", stats.rows


def text_statistics_table(stats: CorpusStatistics, head: str) -> Table:
    """Returns a table of text statistics (MEDAL, Table 2), with one row for each language, chatbot
    or user model and a last row ``all``.

    Args:
        stats: The statistics to show.
        head: What a row of the table stands for: ``Language``, ``Chatbot`` or ``User model``.

    Returns:
        A table with the number of dialogues and the mean number of turns, and for users and
        assistants the mean length of a turn and the mean MTLD (lexical diversity).
    """
    units = [unit for unit in UNITS if stats.rows[f"{unit}_user"].notna().any()]
    columns = [head, "Dialogues", "Turns"]
    for name in (*map(str.capitalize, units), "MTLD"):
        columns += [f"{name}, {side}" for side in SIDES]
    table: list[Row] = []
    for name, rows in _rows_per_name_and_all(stats, _GROUPINGS[head]):
        turns = rows.turns_user + rows.turns_assistant
        cells: list[Cell] = [len(rows), _to_cell(turns.mean(), "no dialogue")]
        for unit in units:
            for side in SIDES:
                lengths = rows[f"{unit}_{side}"].dropna()
                turn_count = rows[f"turns_{side}"][lengths.index].sum()
                mean_length = lengths.sum() / (turn_count or np.nan)
                reason = f"no turn of this side in a language measured in {unit}"
                cells.append(_to_cell(mean_length, reason))
        for side in SIDES:
            cells.append(_to_cell(rows[f"mtld_{side}"].mean(), MTLD_UNDEFINED))
        table.append((name, *cells))
    langs_by_tool: dict[str, list[str]] = {}
    for lang, tool in sorted(stats.tools.items()):
        langs_by_tool.setdefault(tool, []).append(lang)
    tools = []
    for tool, langs in langs_by_tool.items():
        tools.append(f"{', '.join(langs)}: {tool}")
    title = f"Dialogues and texts by {head.lower()}"
    note = f"MTLD over: {'; '.join(tools)}."
    return Table(title, columns, table, note, last="total")


def _to_cell(value: float, reason: str) -> Estimate:
    """Returns ``value`` as a table cell without an interval. NaN becomes an empty cell that
    states ``reason``."""
    if np.isnan(value):
        return Estimate(None, reason=reason)
    return Estimate(float(value))


def label_statistics_table(stats: CorpusStatistics, head: str) -> Table:
    """Returns a table with the share of each yes-or-no dimension and the mean of each numeric
    dimension, with their 95% intervals.

    Args:
        stats: The statistics to show.
        head: What a row of the table stands for: ``Language``, ``Chatbot`` or ``User model``. The
            last row is ``all``.
    """
    dimensions = [*stats.shares, *stats.graded_dimensions]
    table: list[Row] = []
    for name, rows in _rows_per_name_and_all(stats, _GROUPINGS[head]):
        cells: list[Cell] = [len(rows)]
        for dimension in dimensions:
            figure = stats.estimate(rows, dimension)
            cell: Cell = figure
            if dimension in stats.shares:
                cell = Share(figure)
            cells.append(cell)
        table.append((name, *cells))
    columns = (head, "Rows", *dimensions)
    return Table(f"Labels by {head.lower()}", columns, table, last="total")


# -- figures ---------------------------------------------------------------------------------------


def chatbot_language_tables(stats: CorpusStatistics) -> Iterator[Table]:
    """Yields one table for each issue (a fault such as ``repetitive``) and each numeric dimension
    in ``stats`` (MEDAL, Figure 2).

    A table has a row for each chatbot and a column for each language. Its cells are shares of
    dialogues with the issue, or mean labels.
    """
    langs, chatbots = stats.groupable_names("lang"), stats.groupable_names("chatbot")
    if not chatbots:
        return
    for dimension in (*stats.issues, *stats.graded_dimensions):
        rows: list[Row] = []
        for chatbot in chatbots:
            cells: list[Cell] = [chatbot]
            for lang in langs:
                rows_of_both = stats.select_rows(lang=lang, chatbot=chatbot)
                figure = stats.estimate(rows_of_both, dimension)
                cells.append(Share(figure) if dimension in stats.issues else figure)
            rows.append(cells)
        yield Table(dimension, ("Chatbot", *langs), rows)


def issue_figure(stats: CorpusStatistics) -> Figure | None:
    """Returns a figure with a panel for each issue, which is a fault such as ``repetitive`` (MEDAL,
    Figure 9). Returns None if ``stats`` has no issues.

    A bar is the share of dialogues with the issue in one language, in percent.
    """
    panels = []
    for issue in stats.issues:
        shares = {}
        for lang in stats.groupable_names("lang"):
            shares[lang] = stats.estimate(stats.select_rows(lang=lang), issue)
        panels.append(share_panel(issue, shares))
    if panels:
        return Figure(f"{stats.name}: issues by language, %", panels)
    return None


def score_distribution_figures(stats: CorpusStatistics) -> dict[str, Figure]:
    """Returns figures with the share of each possible label, such as 1 to 5, in each language
    (MEDAL, Figure 10).

    Returns:
        Dimension -> figure. Numeric dimensions whose scale has more than 11 whole numbers are left
        out, and so are those without a known scale.
    """
    figures = {}
    for dimension in stats.graded_dimensions:
        low, high = stats.scales[dimension] or (0.5, 0.5)
        if low % 1 == 0 and high % 1 == 0 and high - low < _MAX_LEVELS:
            levels = list(range(int(low), int(high) + 1))
            figures[dimension] = _score_distribution_figure(stats, dimension, levels)
    return figures


def _score_distribution_figure(
    stats: CorpusStatistics, dimension: str, levels: list[int]
) -> Figure:
    from matplotlib import colormaps

    colours = []
    for i in range(len(levels)):
        # orange for the lower half of the levels, purple for the upper half
        colours.append(colormaps["PuOr"](i / max(1, len(levels) - 1)))
    bars = []
    for lang in stats.groupable_names("lang"):
        answers = stats.labels.loc[stats.rows.lang == lang, dimension].dropna()
        counts = np.floor(answers + 0.5).value_counts()
        segments = []
        for level, colour in zip(levels, colours, strict=True):
            share = int(counts.get(level, 0)) / max(1, len(answers))
            segments.append((100 * share, colour))
        bars.append(Bar(lang, segments, f"{len(answers):,} rows"))
    legend = list(zip(map(str, levels), colours, strict=True))
    return Figure(
        f"{stats.name}: {dimension}, %",
        [Bars("", bars, 100.0)],
        heading=dimension,
        legend=legend,
    )


def provenance_facts(stats: CorpusStatistics) -> list[tuple[str, str]]:
    """Returns (name, value) pairs about the origin of ``stats``, such as
    ``("labels by", "gpt-4.1 (90 rows)")``.

    They state the files, a hash of the data, the version of this package, the judges that labelled
    the rows, and the numbers of failed and malformed rows.
    """
    pairs = [
        ("files", stats.name),
        ("data", stats.data),
        ("version", f"medal-judges {__version__}"),
    ]
    for labeller, count in stats.labelled_by.most_common(20):
        pairs.append(("labels by", f"{labeller} ({count} rows)"))
    for kind in ("failed", "malformed"):
        if stats.counts[kind]:
            pairs.append((kind, f"{stats.counts[kind]} rows, which are counted"))
    for speaker in ("chatbot", "user"):
        count = stats.rows[speaker].nunique()
        if count > MAX_NAMES:
            text = f"{count} are more than {MAX_NAMES}: no tables by name"
            pairs.append((f"{speaker} names", text))
    return pairs
