"""Tables, charts and page of the statistics: MEDAL's Table 2, Figures 2, 9 and 10, ORALIS's 2 and
3."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Literal

import numpy as np

from medal_judges import __version__
from medal_judges.data_prep.corpus_stats.statistics import (
    ALL,
    MAX_NAMES,
    NOT_STATED,
    SIDES,
    CorpusStatistics,
    ScaledDimension,
    Subset,
)
from medal_judges.data_prep.corpus_stats.tokens import MTLD_UNDEFINED
from medal_judges.data_prep.share_bars import in_percent, share_bars
from medal_judges.report.console import Printout, rich_table
from medal_judges.report.figure import Bar, Bars, BarSegment, Figure, Tone
from medal_judges.report.page import (
    Block,
    Page,
    Section,
    counted,
    facts_section,
    folded,
)
from medal_judges.report.table import DASH, Cell, Heat, Row, Table, number, unique_slugs

_SPEAKERS = SIDES[1:]
_BRIEF = 7  # with this many columns, the terminal shows no intervals
_PIPED = 160  # width of the terminal tables if the output is piped
_SHARES = (
    "95% intervals: Wilson's if every row is its own conversation or the share is 0 or 100%, else "
    "a jackknife over conversation groups."
)
_MEANS = "95% intervals: a jackknife over conversation groups."
_TEXTS_LEAD = (
    "Turns per dialogue, words per turn, and characters per turn for languages written without "
    "spaces. MTLD is the mean over dialogues. A row over several languages averages all their "
    "dialogues."
)
_ISSUE_MAPS_LEAD = (
    "Percent of the dialogues with the issue, chatbots by languages, and the mean of overall. "
    "Orange is worse, blue is better. The deepest orange is {}% in every map of an issue; overall "
    "spans its scale. Hover over a cell for its 95% interval and number of rows."
)
_MAPS_LEAD = (
    "Chatbots by languages. The deepest colour is the top of the scale. Hover over a cell for its "
    "95% interval and number of rows."
)
_ISSUES_LEAD = (
    "Percent of the dialogues of a language with the issue, with 95% intervals. Every panel has "
    "its own axis."
)
_DISTRIBUTION_LEAD = (
    "Percent of the rows at each level, by language. Orange is the lower half of the scale, blue "
    "the upper half."
)
_LABELS_LEAD = "Every share and mean of the figures above, with its 95% interval."
_NO_LABELS = "No row has a label: there are no issues and no scores to count."
_MTLD_FACT = (
    "threshold 0.72, at least 10 tokens a factor, mean of both directions, tokens in lower case "
    f"without punctuation. A dialogue without a value ({MTLD_UNDEFINED}) does not count in the "
    "mean. Under 100 tokens a value is rough."
)


# -- tables ----------------------------------------------------------------------------------------


def _by_subset(
    title: str,
    columns: Sequence[str],
    subsets: Iterable[Subset],
    cells_of: Callable[[Subset], Iterable[Cell]],
    note: str,
) -> Table:
    """A table with a row for each of ``subsets``, and a last row for all dialogues."""
    rows = [(subset.label, *cells_of(subset)) for subset in (*subsets, ALL)]
    return Table(title, columns, rows, note, pinned={-1: "total"})


def text_table(stats: CorpusStatistics, head: str, subsets: Sequence[Subset]) -> Table:
    """Dialogues, turns, length of a turn by unit, MTLD."""
    units = stats.units

    def cells_of(subset: Subset) -> list[Cell]:
        lengths = [stats.length(subset, unit) for unit in units]
        return [stats.count(subset), stats.turns(subset), *lengths, stats.mtld(subset)]

    lengths = [f"{unit.capitalize()} a turn" for unit in units]
    columns = (head, "Dialogues", "Turns", *lengths, "MTLD")
    title = f"Dialogues and texts by {head.lower()}"
    return _by_subset(title, columns, subsets, cells_of, tokens_note(stats))


def side_table(stats: CorpusStatistics, head: str, subsets: Sequence[Subset]) -> Table:
    """The same figures for the turns of users and of assistants."""
    columns: tuple[str, ...] = (head,)
    for name in ("Turns", *map(str.capitalize, stats.units), "MTLD"):
        columns += tuple(f"{name}, {side}" for side in _SPEAKERS)

    def cells_of(subset: Subset) -> list[Cell]:
        cells: list[Cell] = [stats.turns(subset, side) for side in _SPEAKERS]
        for unit in stats.units:
            cells += [stats.length(subset, unit, side) for side in _SPEAKERS]
        return cells + [stats.mtld(subset, side) for side in _SPEAKERS]

    title = f"Users and assistants, by {head.lower()}"
    return _by_subset(title, columns, subsets, cells_of, tokens_note(stats))


def tokens_note(stats: CorpusStatistics) -> str:
    """The tokens that MTLD counts, by language."""
    langs_by_tool: dict[str, list[str]] = {}
    for lang, tool in sorted(stats.lemmatisers.items()):
        langs_by_tool.setdefault(tool.name, []).append(lang)
    tools = "; ".join(
        f"{', '.join(langs)}: {name}" for name, langs in langs_by_tool.items()
    )
    if tools:
        return f"MTLD over: {tools}."
    return ""


def label_table(
    stats: CorpusStatistics,
    title: str,
    head: str,
    subsets: Sequence[Subset],
    dimensions: Sequence[ScaledDimension],
) -> Table:
    """Percent of the rows at 1, or means on the raw scales, with 95% intervals."""
    is_share = dimensions[0] in stats.shares
    suffix = ", %" if is_share else ""
    note = _SHARES if is_share else _MEANS
    if several := stats.counts["several answers"]:
        note += f" {several} rows have several answers: their mean, 1 from 0.5 on."

    def cells_of(subset: Subset) -> list[Cell]:
        cells: list[Cell] = [stats.count(subset)]
        for dimension in dimensions:
            figure = stats.figure(subset, dimension)
            cells.append(in_percent(figure) if is_share else figure)
        return cells

    names = [stats.label(dimension) + suffix for dimension in dimensions]
    title = f"{title} by {head.lower()}"
    return _by_subset(title, (head, "Rows", *names), subsets, cells_of, note)


def label_tables(
    stats: CorpusStatistics,
    head: str,
    subsets: Sequence[Subset],
    graded: list[ScaledDimension],
) -> list[Table]:
    """Returns a table of the issues, one of other shares and one of the means of ``graded``, each
    if there are any."""
    dimensions = {
        "Issues": stats.issues,
        "Answers of 1": stats.other_shares,
        "Mean answers": graded,
    }
    tables = []
    for title, group in dimensions.items():
        if group:
            tables.append(label_table(stats, title, head, subsets, group))
    return tables


# -- figures ---------------------------------------------------------------------------------------


def heat_map(stats: CorpusStatistics, dimension: ScaledDimension, top: float) -> Table:
    """The map of one dimension: chatbots by languages, with a row and a column for all of them.
    ``top`` is the share of an issue with the deepest colour."""
    figures = [stats.figure(pair, dimension).value for pair in stats.pairs]
    means = [value for value in figures if value is not None] or [0.0]
    # Without a scale, the colours span the means in the map.
    low, high = dimension.scale or (min(means), max(means))
    unit = ", mean"
    if dimension in stats.issues:
        high = top
        unit = ", %"
    elif dimension in stats.shares:
        unit = ", % at 1"
    langs = _with_total(stats.langs)
    chatbots = _with_total(stats.chatbots)
    rows: list[Row] = []
    for chatbot in chatbots:
        subsets = [Subset(lang.lang, chatbot.chatbot) for lang in langs]
        cells = [
            _heat_cell(stats, subset, dimension, (low, high)) for subset in subsets
        ]
        rows.append((chatbot.label, *cells))
    head = ("Chatbot", *(lang.label for lang in langs))
    return Table(f"{stats.label(dimension)}{unit}", head, rows, style="heat small")


def _with_total(subsets: list[Subset]) -> list[Subset]:
    if len(subsets) > 1:
        return [*subsets, ALL]
    return subsets


def _heat_cell(
    stats: CorpusStatistics,
    subset: Subset,
    dimension: ScaledDimension,
    span: tuple[float, float],
) -> Cell:
    """A cell whose colour says where the figure lies in ``span``; without a figure its reason."""
    figure = printed = stats.figure(subset, dimension)
    digits = 2
    if dimension in stats.shares:
        printed = in_percent(figure)
        digits = 1
    if figure.value is None or printed.value is None:
        return figure
    answered = np.isfinite(stats.answers(subset, dimension)).sum()
    tooltip = counted([(int(answered), "row")])
    if printed.low is not None and printed.high is not None:
        low = number(printed.low, digits)
        tooltip = f"[{low}, {number(printed.high, digits)}], {tooltip}"
    lowest, highest = span
    strength = 0.0
    if highest > lowest:
        strength = (figure.value - lowest) / (highest - lowest)
    sign: Literal["neg", "pos"] = "neg" if dimension in stats.issues else "pos"
    text = number(printed.value, digits)
    return Heat(text, strength, sign, tooltip, figure.value)


def issue_bars(stats: CorpusStatistics, dimension: ScaledDimension) -> Bars:
    """Percent of the rows with an issue by language, with intervals."""
    name = stats.label(dimension)
    shares = {lang.label: stats.figure(lang, dimension) for lang in stats.langs}
    return share_bars(name, shares, f"{name}, % by language")


def level_figure(stats: CorpusStatistics, dimension: ScaledDimension) -> Figure:
    """Percent of the rows at each level of a dimension that has levels, by language."""
    name = stats.label(dimension)
    scale = stats.distribution(ALL, dimension).levels
    tones = [_tone(i, len(scale)) for i in range(len(scale))]
    bars = []
    for lang in stats.langs:
        levels = stats.distribution(lang, dimension)
        total = sum(levels.counts)
        segments = []
        for level, count, share, tone in zip(*levels[:3], tones, strict=True):
            if count:
                percent = number(100 * share, 1)
                tooltip = f"{lang.label}, {level}: {percent}% ({count} of {total})"
                segments.append(BarSegment(100 * share, tone, percent, tooltip))
        text = "" if total else f"{DASH} no label"
        bars.append(Bar(lang.label, segments, text=text))
    return Figure(
        f"{stats.name}: {name}, %",
        [Bars("", bars, 100.0, f"{name}: share of each level by language", wide=True)],
        heading=name,
        legend=[(str(level), tone) for level, tone in zip(scale, tones, strict=True)],
    )


def _tone(index: int, levels: int) -> Tone:
    """Orange for the lower half of the levels, blue for the upper half; pale in the middle."""
    position = 1.0
    if levels > 1:
        position = 2 * index / (levels - 1) - 1
    return ("neg" if position < 0 else "pos", round(100 * abs(position)))


def answer_bars(stats: CorpusStatistics, dimension: ScaledDimension) -> Bars:
    """Rows at each level of a dimension with a scale, or in ten equal parts of a scale without few
    whole levels (ORALIS, Figures 2 and 3)."""
    levels = stats.distribution(ALL, dimension)
    counts = levels.counts
    parts = list(map(str, levels.levels))
    if levels.reason:
        histogram, edges = np.histogram(stats.labels[dimension], 10, dimension.scale)
        counts = tuple(histogram.tolist())
        ends = [number(edge, 1) for edge in edges]
        parts = list(map("{} to {}".format, ends, ends[1:]))
    bars = []
    for part, count in zip(parts, counts, strict=True):
        bars.append(Bar(part, [BarSegment(count, 0)], text=str(count)))
    name = stats.label(dimension)
    return Bars(name, bars, float(max(counts) or 1), f"{name}: rows by answer")


# -- page ------------------------------------------------------------------------------------------


def statistics_page(stats: CorpusStatistics) -> Page:
    """Returns the page stats.html, its tables and figures, and what the terminal shows of it."""
    texts, labels = _tables(stats)
    tables = [*texts, *chain.from_iterable(labels)]
    label_blocks: list[Block] = []
    for of_one_kind in labels:
        label_blocks += folded(of_one_kind, 1)
    top = _highest_share(stats)
    # Issues and overall; all dimensions if the set has neither.
    mapped = [*stats.issues, *stats.overall] or [*stats.other_shares, *stats.graded]
    maps_lead = _MAPS_LEAD
    if stats.issues:
        maps_lead = _ISSUE_MAPS_LEAD.format(number(100 * top, 1))
    distribution, level_figures = _distributions(stats, stats.overall or stats.graded)
    figures = _figures(stats, mapped, top)
    # By language, chatbot and user model, each of texts and of sides.
    in_sight = len([*filter(None, (stats.langs, stats.chatbots, stats.users))])
    heat_maps: list[Block] = [*filter(None, [figures.get("heatmaps")])]
    issues: list[Block] = [*filter(None, [figures.get("issues")])]
    table_names = unique_slugs([table.title for table in tables])
    return Page(
        "stats",
        f"Statistics of {stats.name}",
        _subtitle(stats),
        [
            Section(
                "texts",
                "Dialogues and texts",
                folded(texts, in_sight),
                _TEXTS_LEAD,
                "Texts",
            ),
            Section("heatmaps", "Chatbots by languages", heat_maps, maps_lead),
            Section("bars", "Issues by language", issues, _ISSUES_LEAD),
            Section(
                "distribution",
                "Distribution of answers",
                distribution,
                _DISTRIBUTION_LEAD,
                "Distribution",
            ),
            Section(
                "labels",
                "Labels",
                label_blocks or [_NO_LABELS],
                _LABELS_LEAD * bool(labels),
            ),
            facts_section(facts(stats)),
        ],
        tables=dict(zip(table_names, tables, strict=True)),
        figures=figures | level_figures,
        printout=_printout(stats),
    )


def _tables(stats: CorpusStatistics) -> tuple[list[Table], list[list[Table]]]:
    """The tables of texts; and those of labels, of each kind one for each grouping."""
    groupings = [
        ("Language", stats.langs),
        ("Chatbot", stats.chatbots),
        ("User model", stats.users),
    ]
    groupings = [grouping for grouping in groupings if grouping[1]]
    texts = [text_table(stats, *grouping) for grouping in groupings]
    texts += [side_table(stats, *grouping) for grouping in groupings]
    if stats.pairs and len(stats.langs) > 1:
        groupings.append(("Language and chatbot", stats.pairs))
        texts.append(text_table(stats, *groupings[-1]))
    labels = [label_tables(stats, *grouping, stats.graded) for grouping in groupings]
    return texts, list(map(list, zip(*labels, strict=True)))


def _figures(
    stats: CorpusStatistics, mapped: Sequence[ScaledDimension], top: float
) -> dict[str, Figure]:
    """The figures by file name, without those that would be empty: maps of the dimensions
    ``mapped``, with ``top`` as in ``heat_map``, bars of the issues, and bars of the answers."""
    maps: list[Table] = []
    if stats.chatbots:
        maps = [heat_map(stats, dimension, top) for dimension in mapped]
    scaled = [dimension for dimension in stats.graded if dimension.scale]
    panels: dict[str, tuple[str, Sequence[Bars | Table]]] = {
        "heatmaps": ("chatbots by languages", maps),
        "issues": (
            "issues by language, %",
            [issue_bars(stats, issue) for issue in stats.issues],
        ),
        "answers": (
            "answers of each dimension, rows",
            [answer_bars(stats, dimension) for dimension in scaled],
        ),
    }
    figures = {}
    for name, (title, drawn) in panels.items():
        if drawn:
            figures[name] = Figure(f"{stats.name}: {title}", drawn)
    return figures


def _highest_share(stats: CorpusStatistics) -> float:
    """The highest share of an issue in a cell of the heat maps."""
    highest = 0.0
    for subset in (*stats.pairs, *stats.chatbots):
        for dimension in stats.issues:
            highest = max(highest, stats.figure(subset, dimension).value or 0.0)
    return highest


def _distributions(
    stats: CorpusStatistics, dimensions: Sequence[ScaledDimension]
) -> tuple[list[Block], dict[str, Figure]]:
    """The blocks on the levels of ``dimensions``, and their figures by file name."""
    blocks: list[Block] = []
    figures = {}
    for dimension in dimensions:
        name = stats.label(dimension)
        if reason := stats.distribution(ALL, dimension).reason:
            blocks.append(f"{name}: {DASH} {reason}.")
            continue
        figures[name] = level_figure(stats, dimension)
        blocks.append(figures[name])
    return blocks, dict(zip(unique_slugs(list(figures)), figures.values(), strict=True))


def _subtitle(stats: CorpusStatistics) -> str:
    chatbots = [name for name in stats.names("chatbot") if name != NOT_STATED]
    return counted(
        [
            (len(stats.rows), "dialogue"),
            (len(stats.langs), "language"),
            (len(chatbots), "chatbot"),
            (stats.counts["answered"], "labelled row"),
        ]
    )


def facts(stats: CorpusStatistics) -> list[tuple[str, str]]:
    """How the figures were made, as (name, value) pairs."""
    levels = [
        f"{count} at level {level}" for level, count in sorted(stats.levels.items())
    ]
    sources = [f"{name} ({count})" for name, count in stats.sources.most_common(20)]
    pairs = [
        ("files", stats.name),
        ("rows", ", ".join(levels)),
        ("data", stats.data),
        ("sources", ", ".join(sources)),
        ("MTLD", _MTLD_FACT),
        ("version", f"medal-judges {__version__}"),
    ]
    for labeller, count in stats.labelled_by.most_common(20):
        pairs.append(("labels by", f"{labeller} ({count} rows)"))
    if turns := stats.levels["turn"]:
        text = "rows end at the judged turn; a conversation with several judged turns counts as"
        pairs.append(("turn level", f"{turns} {text} several dialogues"))
    if failed := stats.counts["failed"]:
        pairs.append(
            ("failures", f"{failed} rows have no labels because the judge failed")
        )
    if malformed := stats.counts["malformed"]:
        pairs.append(
            ("malformed", f"{malformed} rows are marked malformed; they are counted")
        )
    for speaker in ("chatbot", "user"):
        if (names := len(stats.names(speaker))) > MAX_NAMES:
            text = f"{names} are more than {MAX_NAMES}: no tables by name"
            pairs.append((f"{speaker} names", text))
    return pairs


def _printout(stats: CorpusStatistics) -> Printout:
    """The main tables for the terminal."""
    graded = stats.overall or stats.graded[:3]
    tables: list[Table] = []
    if stats.langs:
        tables.append(text_table(stats, "Language", stats.langs))
        tables.append(side_table(stats, "Language", stats.langs))
        tables += label_tables(stats, "Language", stats.langs, graded)
    if stats.chatbots:
        tables.append(text_table(stats, "Chatbot", stats.chatbots))
        tables += label_tables(stats, "Chatbot", stats.chatbots, graded)
    notes = [tokens_note(stats), "" if stats.labels else "No row has a label."]
    printed = []
    for table in tables:
        intervals = () if len(table.columns) >= _BRIEF else None
        printed.append(rich_table(table, intervals=intervals))
    return Printout(printed, notes, piped=_PIPED)
