"""Tables, figures and page of the statistics: MEDAL's Table 2, Figures 2, 9 and 10."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

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
from medal_judges.data_prep.share_bars import share_bars
from medal_judges.report.console import Printout
from medal_judges.report.figure import Bar, Bars, BarSegment, Figure, Tone
from medal_judges.report.page import Page, Section, counted, facts_section
from medal_judges.report.table import (
    DASH,
    Cell,
    Heat,
    Row,
    Share,
    Table,
    number,
    percent,
    unique_slugs,
)
from medal_judges.stats.estimate import Estimate

_GROUPINGS = {"Language": "lang", "Chatbot": "chatbot", "User model": "user"}
_MAX_LEVELS = 11
_TEXTS = (
    "Turns per dialogue, words per turn, and characters per turn for languages written without "
    "spaces. MTLD (threshold 0.72, at least 10 tokens a factor, mean of both directions) is the "
    f"mean over the dialogues with a value; {MTLD_UNDEFINED} in the others. Under 100 tokens a "
    "value is rough."
)
_MAPS = (
    "Chatbots by languages. Orange is worse, blue is better; the deepest colour is the highest "
    "share of an issue in any map, and the end of a scale."
)
_ISSUES = "Share of the dialogues of a language with the issue, with 95% intervals."
_LEVELS = (
    "Share of the rows at each level, by language. Orange is the lower half of the scale, blue the "
    "upper half. A mean of several answers counts at the nearest level."
)
_LABELS = (
    "Shares of issues and means of the other dimensions, with 95% intervals by group. An issue is "
    "present if the mean of a row's answers is 0.5 or more."
)
_NO_LABELS = "No row has a label: there are no issues and no scores to count."


def statistics_page(stats: CorpusStatistics) -> Page:
    """Returns the page stats.html, its tables and figures, and what the terminal shows of it."""
    texts = []
    labels = []
    for head in _GROUPINGS:
        if stats.names(_GROUPINGS[head]):
            texts.append(text_table(stats, head))
            labels.append(label_table(stats, head))
    if not len(stats.labels.columns):
        labels = []
    tables = [*texts, *labels]
    table_names = unique_slugs([table.title for table in tables])
    maps = heat_maps(stats)
    issues = issue_figure(stats)
    levels = level_figures(stats)
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
        counted(counts),
        [
            Section("texts", "Dialogues and texts", texts, _TEXTS, "Texts"),
            Section("heatmaps", "Chatbots by languages", [maps] if maps else [], _MAPS),
            Section("bars", "Issues by language", [issues] if issues else [], _ISSUES),
            Section("distribution", "Distribution", [*levels.values()], _LEVELS),
            Section("labels", "Labels", labels or [_NO_LABELS], _LABELS),
            facts_section(facts(stats)),
        ],
        tables=dict(zip(table_names, tables, strict=True)),
        figures=figures,
        printout=Printout(tables, [] if labels else ["No row has a label."]),
    )


def _groups(stats: CorpusStatistics, column: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yields the rows of each name in ``column``, then all rows."""
    for name in stats.names(column):
        yield name, stats.rows[stats.rows[column] == name]
    yield "all", stats.rows


def text_table(stats: CorpusStatistics, head: str) -> Table:
    """Returns dialogues, turns, lengths of a turn and MTLD, by ``head`` (MEDAL, Table 2)."""
    units = [unit for unit in UNITS if stats.rows[f"{unit}_user"].notna().any()]
    columns = [head, "Dialogues", "Turns"]
    for name in (*map(str.capitalize, units), "MTLD"):
        columns += [f"{name}, {side}" for side in SIDES]
    table: list[Row] = []
    for name, rows in _groups(stats, _GROUPINGS[head]):
        turns = rows.turns_user + rows.turns_assistant
        cells: list[Cell] = [len(rows), _value(turns.mean(), "no dialogue")]
        for unit in units:
            for side in SIDES:
                lengths = rows[f"{unit}_{side}"].dropna()
                turn_count = rows[f"turns_{side}"][lengths.index].sum()
                mean_length = lengths.sum() / (turn_count or np.nan)
                reason = f"no turn of this side in a language measured in {unit}"
                cells.append(_value(mean_length, reason))
        for side in SIDES:
            cells.append(_value(rows[f"mtld_{side}"].mean(), MTLD_UNDEFINED))
        table.append((name, *cells))
    langs_by_tool: dict[str, list[str]] = {}
    for lang, tool in sorted(stats.tools.items()):
        langs_by_tool.setdefault(tool, []).append(lang)
    tools = []
    for tool, langs in langs_by_tool.items():
        tools.append(f"{', '.join(langs)}: {tool}")
    title = f"Dialogues and texts by {head.lower()}"
    note = f"MTLD over: {'; '.join(tools)}."
    return Table(title, columns, table, note, pinned={-1: "total"})


def _value(value: float, reason: str) -> Estimate:
    """Returns a value as a cell, which is empty for ``reason`` if the value is NaN."""
    if np.isnan(value):
        return Estimate(None, reason=reason)
    return Estimate(float(value))


def label_table(stats: CorpusStatistics, head: str) -> Table:
    """Returns the shares and means of all dimensions by ``head``."""
    dimensions = [*stats.shares, *stats.graded]
    table: list[Row] = []
    for name, rows in _groups(stats, _GROUPINGS[head]):
        cells: list[Cell] = [len(rows)]
        for dimension in dimensions:
            figure = stats.figure(rows, dimension)
            cell: Cell = figure
            if dimension in stats.shares:
                cell = Share(figure)
            cells.append(cell)
        table.append((name, *cells))
    columns = (head, "Rows", *dimensions)
    return Table(f"Labels by {head.lower()}", columns, table, pinned={-1: "total"})


# -- figures ---------------------------------------------------------------------------------------


def heat_maps(stats: CorpusStatistics) -> Figure | None:
    """Returns a map of chatbots by languages for each issue and each graded dimension (MEDAL,
    Figure 2); None if no chatbot is stated."""
    if not stats.names("chatbot"):
        return None
    top = 0.0
    for issue in stats.issues:
        shares = stats.labels[issue].groupby([stats.rows.lang, stats.rows.chatbot])
        top = max(top, shares.mean().max())
    maps = []
    for dimension in (*stats.issues, *stats.graded):
        maps.append(_heat_map(stats, dimension, top))
    return Figure(f"{stats.name}: chatbots by languages", maps)


def _heat_map(stats: CorpusStatistics, dimension: str, top: float) -> Table:
    """Returns the map of one dimension; ``top`` is the share of an issue with the deepest
    colour."""
    is_issue = dimension in stats.issues
    sign: Literal["neg", "pos"] = "neg" if is_issue else "pos"
    labels = stats.labels[dimension]
    low, high = stats.scales[dimension] or (labels.min(), labels.max())
    if is_issue:
        high = top
    langs = stats.names("lang")
    rows: list[Row] = []
    for chatbot in stats.names("chatbot"):
        cells: list[Cell] = []
        for lang in langs:
            figure = stats.figure(stats.select(lang=lang, chatbot=chatbot), dimension)
            cell: Cell = figure
            if figure.value is not None:
                text = number(figure.value)
                if is_issue:
                    text = percent(figure.value)
                strength = (figure.value - low) / (high - low or 1.0)
                cell = Heat(text, strength, sign, "", figure.value)
            cells.append(cell)
        rows.append((chatbot, *cells))
    return Table(dimension, ("Chatbot", *langs), rows, style="heat small")


def issue_figure(stats: CorpusStatistics) -> Figure | None:
    """Returns the share of each issue by language (MEDAL, Figure 9); None without issues."""
    panels = []
    for issue in stats.issues:
        shares = {}
        for lang in stats.names("lang"):
            shares[lang] = stats.figure(stats.select(lang=lang), issue)
        panels.append(share_bars(issue, shares))
    if panels:
        return Figure(f"{stats.name}: issues by language, %", panels)
    return None


def level_figures(stats: CorpusStatistics) -> dict[str, Figure]:
    """Returns the share of rows at each level by language (MEDAL, Figure 10), for each graded
    dimension whose scale has a few whole levels."""
    figures = {}
    for dimension in stats.graded:
        low, high = stats.scales[dimension] or (0.5, 0.5)
        if low % 1 == 0 and high % 1 == 0 and high - low < _MAX_LEVELS:
            levels = list(range(int(low), int(high) + 1))
            figures[dimension] = _level_figure(stats, dimension, levels)
    return figures


def _level_figure(stats: CorpusStatistics, dimension: str, levels: list[int]) -> Figure:
    tones: list[Tone] = []
    legend = []
    for i, level in enumerate(levels):
        # orange for the lower half of the levels, blue for the upper half
        position = 2 * i / max(1, len(levels) - 1) - 1
        tones.append(("neg" if position < 0 else "pos", round(100 * abs(position))))
        legend.append((str(level), tones[i]))
    bars = []
    for lang in stats.names("lang"):
        answers = stats.labels.loc[stats.rows.lang == lang, dimension].dropna()
        counts = np.floor(answers + 0.5).value_counts()
        segments = []
        for level, tone in zip(levels, tones, strict=True):
            count = int(counts.get(level, 0))
            if count:
                share = count / len(answers)
                segments.append(BarSegment(100 * share, tone, percent(share)))
        text = ""
        if not segments:
            text = f"{DASH} no label"
        bars.append(Bar(lang, segments, text=text))
    return Figure(
        f"{stats.name}: {dimension}, %",
        [Bars("", bars, 100.0, wide=True)],
        heading=dimension,
        legend=legend,
    )


def facts(stats: CorpusStatistics) -> list[tuple[str, str]]:
    """Returns how the statistics were made, as (name, value) pairs."""
    pairs = [
        ("files", stats.name),
        ("data", stats.data),
        ("version", f"medal-judges {__version__}"),
    ]
    for labeller, count in stats.labelled_by.most_common(20):
        pairs.append(("labels by", f"{labeller} ({count} rows)"))
    for kind in ("failed", "malformed"):
        if stats.counts[kind]:
            pairs.append((kind, f"{stats.counts[kind]} rows; they are counted"))
    for speaker in ("chatbot", "user"):
        count = stats.rows[speaker].nunique()
        if count > MAX_NAMES:
            text = f"{count} are more than {MAX_NAMES}: no tables by name"
            pairs.append((f"{speaker} names", text))
    return pairs
