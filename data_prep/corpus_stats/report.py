"""Tables, charts and page of the statistics: MEDAL's Table 2, Figures 2, 9 and 10, ORALIS's 2 and
3."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import get_args

import numpy as np

from medal_judges import __version__
from medal_judges.data_prep.corpus_stats.statistics import (
    ALL,
    MAX_NAMES,
    NOT_STATED,
    OVERALL,
    CorpusStatistics,
    ScaledDimension,
    Side,
    Subset,
)
from medal_judges.data_prep.corpus_stats.tokens import MTLD_UNDEFINED
from medal_judges.report import console
from medal_judges.report.figure import Bar, Bars, BarSegment, Figure, Tone
from medal_judges.report.page import (
    Block,
    Fold,
    Section,
    counted,
    facts_section,
    folded,
    write_page,
)
from medal_judges.report.table import DASH, Cell, Heat, Row, Table, number, unique_slugs
from medal_judges.stats.estimate import Estimate

_PAIRS = "Language and chatbot"
_SIDES: tuple[Side, ...] = get_args(Side)[1:]
_BRIEF = 7  # with this many columns, the terminal shows no intervals
_PIPED = 160  # width of the terminal tables if the output is piped
_SHARES = (
    "95% intervals: Wilson's if every row is its own conversation or the share is 0 or 100%, else "
    "a jackknife over conversation groups."
)
_MEANS = "95% intervals: a jackknife over conversation groups."


def text_table(stats: CorpusStatistics, head: str, subsets: Sequence[Subset]) -> Table:
    """Dialogues, turns, length of a turn by unit, MTLD. As in all tables by subset, the last row is
    of all dialogues."""
    rows: list[Row] = []
    for subset in (*subsets, ALL):
        lengths = (stats.length(subset, unit) for unit in stats.units)
        mtld = (stats.mtld(subset), stats.together(subset))
        rows.append((subset.label, stats.count(subset), stats.turns(subset), *lengths, *mtld))
    units = (f"{unit.capitalize()} a turn" for unit in stats.units)
    columns = (head, "Dialogues", "Turns", *units, "MTLD", "MTLD, run together")
    title = f"Dialogues and texts by {head.lower()}"
    return Table(title, columns, rows, tokens_note(stats), pinned={-1: "total"})


def side_table(stats: CorpusStatistics, head: str, subsets: Sequence[Subset]) -> Table:
    """The same figures for the turns of users and of assistants."""
    rows: list[Row] = []
    for subset in (*subsets, ALL):
        turns = (stats.turns(subset, side) for side in _SIDES)
        lengths = (stats.length(subset, unit, side) for unit in stats.units for side in _SIDES)
        mtld = (stats.mtld(subset, side) for side in _SIDES)
        rows.append((subset.label, *turns, *lengths, *mtld))
    figures = ("Turns", *(unit.capitalize() for unit in stats.units), "MTLD")
    columns = (head, *(f"{figure}, {side}" for figure in figures for side in _SIDES))
    title = f"Users and assistants, by {head.lower()}"
    return Table(title, columns, rows, tokens_note(stats), pinned={-1: "total"})


def tokens_note(stats: CorpusStatistics) -> str:
    """The tokens that MTLD counts, by language."""
    by_tool: dict[str, list[str]] = {}
    for lang, tool in sorted(stats.lemmatisers.items()):
        by_tool.setdefault(tool.name, []).append(lang)
    tools = "; ".join(f"{', '.join(langs)}: {name}" for name, langs in by_tool.items())
    return f"MTLD over: {tools}." if tools else ""


def label_table(
    stats: CorpusStatistics,
    what: str,
    head: str,
    subsets: Sequence[Subset],
    dimensions: Sequence[ScaledDimension],
) -> Table:
    """Percent of the rows at 1, or means on the raw scales, with 95% intervals."""
    factor = 100 if (percent := dimensions[0] in stats.shares) else 1
    rows: list[Row] = []
    for subset in (*subsets, ALL):
        shown = []
        for e in (stats.figure(subset, d) for d in dimensions):
            value, low, high = (v and factor * v for v in (e.value, e.low, e.high))
            shown.append(Estimate(value, low, high, reason=e.reason))
        rows.append((subset.label, stats.count(subset), *shown))
    note = _SHARES if percent else _MEANS
    if several := stats.counts["several answers"]:
        note += f" {several} rows have several answers: their mean, 1 from 0.5 on."
    suffix = ", %" if percent else ""
    columns = (head, "Rows", *(stats.label(d) + suffix for d in dimensions))
    return Table(f"{what} by {head.lower()}", columns, rows, note, pinned={-1: "total"})


def label_tables(
    stats: CorpusStatistics, head: str, subsets: Sequence[Subset], graded: list[ScaledDimension]
) -> Iterator[Table]:
    """Returns a table of the issues, one of other shares and one of the means of ``graded``, each
    if there are any."""
    named = {"Issues": stats.issues, "Answers of 1": stats.other_shares, "Mean answers": graded}
    return (label_table(stats, what, head, subsets, d) for what, d in named.items() if d)


def distribution_table(
    stats: CorpusStatistics, dimension: ScaledDimension, subsets: Sequence[Subset]
) -> Table:
    """Percent of the rows at each level; empty with a note if the scale has no levels."""
    title = f"Distribution of {stats.label(dimension)}"
    whole = stats.distribution(ALL, dimension)
    if isinstance(whole, str):
        return Table(title, ("Language", "Rows"), (), whole)

    rows: list[Row] = []
    for subset in (*subsets, ALL):
        levels = stats.distribution(subset, dimension)
        assert not isinstance(levels, str)  # the scale is the same in every subset
        n, none = sum(levels.counts), Estimate(None, reason="no label")
        rows.append((subset.label, n, *(100 * share if n else none for share in levels.shares)))
    columns = ("Language", "Rows", *(f"{level}, %" for level in whole.levels))
    note = "Means of several answers are at the nearest level, halves up."
    return Table(title, columns, rows, note, pinned={-1: "total"})


def heat_figure(
    stats: CorpusStatistics, dimensions: Sequence[ScaledDimension], top: float
) -> Figure | None:
    """A heat map for each dimension, chatbots by languages; None without chatbots or dimensions.
    ``top`` is the share of an issue with the deepest colour."""
    if not stats.chatbots or not dimensions:
        return None
    langs, chatbots = stats.langs, stats.chatbots
    columns = [*langs, ALL] if len(langs) > 1 else langs
    lines = [*chatbots, ALL] if len(chatbots) > 1 else chatbots
    maps = []
    for dimension in dimensions:
        issue, share = dimension in stats.issues, dimension in stats.shares
        means = [stats.figure(pair, dimension).value for pair in stats.pairs]
        known = [value for value in means if value is not None] or [0.0]
        # Without a scale, the colours span the means shown.
        low, high = dimension.scale or (min(known), max(known))
        high = top if issue else high
        unit = ", mean" if not share else ", %" if issue else ", % at 1"
        factor, digits = (100, 1) if share else (1, 2)
        rows: list[Row] = []
        for line in lines:
            cells: list[Cell] = []
            for subset in (Subset(column.lang, line.chatbot) for column in columns):
                e, n = stats.figure(subset, dimension), stats.answers(subset, dimension)
                if e.value is None:
                    cells.append(e)
                    continue
                tooltip = counted([(int(np.isfinite(n).sum()), "row")])
                if e.low is not None and e.high is not None:
                    ends = (number(factor * end, digits) for end in (e.low, e.high))
                    tooltip = f"[{', '.join(ends)}], {tooltip}"
                strength = (e.value - low) / (high - low) if high > low else 0.0
                shown = number(factor * e.value, digits)
                cells.append(Heat(shown, strength, "neg" if issue else "pos", tooltip, e.value))
            rows.append((line.label, *cells))
        head = ("Chatbot", *(column.label for column in columns))
        maps.append(Table(f"{stats.label(dimension)}{unit}", head, rows, style="heat small"))
    return Figure(f"{stats.name}: chatbots by languages", maps)


def issue_figure(stats: CorpusStatistics) -> Figure | None:
    """Percent of the rows with each issue by language, with intervals; None without issues."""
    panels = []
    for dimension in stats.issues:
        name, bars, top = stats.label(dimension), [], 0.0
        for lang in stats.langs:
            e = stats.figure(lang, dimension)
            if e.value is None:
                bars.append(Bar(lang.label, (), text=DASH, tooltip=f"{lang.label}: {e.reason}"))
                continue
            top = max(top, e.value, e.high or 0.0)
            interval = None if e.low is None or e.high is None else (100 * e.low, 100 * e.high)
            segment = BarSegment(100 * e.value, 1)
            bars.append(Bar(lang.label, [segment], interval, number(100 * e.value, 1)))
        panels.append(Bars(name, bars, 100 * top or 1.0, f"{name}, % by language"))
    return Figure(f"{stats.name}: issues by language, %", panels) if panels else None


def level_figure(stats: CorpusStatistics, dimension: ScaledDimension) -> Figure | str:
    """Percent of the rows at each level by language; or why there are no levels."""
    name, bars = stats.label(dimension), []
    tones: list[Tone] = []
    scale: Sequence[int] = ()
    for lang in stats.langs:
        levels = stats.distribution(lang, dimension)
        if isinstance(levels, str):
            return levels
        scale, n = levels.levels, sum(levels.counts)
        steps = len(scale) - 1
        places = [2 * i / steps - 1 if steps else 1.0 for i in range(len(scale))]
        tones = [("neg" if at < 0 else "pos", round(100 * abs(at))) for at in places]
        segments = [
            BarSegment(
                100 * share,
                tone,
                number(100 * share, 1),
                f"{lang.label}, {level}: {number(100 * share, 1)}% ({count} of {n})",
            )
            for level, count, share, tone in zip(*levels, tones, strict=True)
            if count
        ]
        bars.append(Bar(lang.label, segments, text="" if n else f"{DASH} no label"))
    return Figure(
        f"{stats.name}: {name}, %",
        [Bars("", bars, 100.0, f"{name}: share of each level by language", wide=True)],
        heading=name,
        legend=[(str(level), tone) for level, tone in zip(scale, tones, strict=True)],
    )


def answers_figure(stats: CorpusStatistics) -> Figure | None:
    """Rows at each level of every dimension with a scale, or in ten equal parts of a scale without
    few whole levels (ORALIS, Figures 2 and 3); None without such dimensions."""
    panels = []
    for dimension in (dimension for dimension in stats.graded if dimension.scale):
        levels = stats.distribution(ALL, dimension)
        if isinstance(levels, str):
            counts, edges = np.histogram(stats.labels[dimension], 10, dimension.scale)
            parts = [f"{number(a, 1)} to {number(b, 1)}" for a, b in pairwise(edges)]
        else:
            counts, parts = np.array(levels.counts), [str(level) for level in levels.levels]
        rows = zip(parts, counts.tolist(), strict=True)
        bars = [Bar(part, [BarSegment(n, 0)], text=str(n)) for part, n in rows]
        name = stats.label(dimension)
        panels.append(Bars(name, bars, float(counts.max() or 1), f"{name}: rows by answer"))
    return Figure(f"{stats.name}: answers of each dimension, rows", panels) if panels else None


def write_report(stats: CorpusStatistics, folder: Path) -> Path:
    """Write stats.html, tables/*.csv and figures/* under ``folder``; returns the page's path."""
    heads = [
        ("Language", stats.langs),
        ("Chatbot", stats.chatbots),
        ("User model", stats.users),
        (_PAIRS, stats.pairs if len(stats.langs) > 1 else []),
    ]
    heads = [(head, subsets) for head, subsets in heads if subsets]
    single = [(head, subsets) for head, subsets in heads if head != _PAIRS]
    texts = [text_table(stats, head, subsets) for head, subsets in single]
    texts += [side_table(stats, head, subsets) for head, subsets in single]
    texts += [text_table(stats, head, subsets) for head, subsets in heads if head == _PAIRS]

    cells = (*stats.pairs, *stats.chatbots)
    shares = [stats.figure(subset, d).value for subset in cells for d in stats.issues]
    top = max((value for value in shares if value is not None), default=0.0)
    overall = [d for d in stats.graded if d.name == OVERALL]
    # Issues and overall; all dimensions if the set has neither.
    mapped = [*stats.issues, *overall] or [*stats.other_shares, *stats.graded]
    heat = heat_figure(stats, mapped, top)
    maps_lead = (
        "Percent of the dialogues with the issue, chatbots by languages, and the mean of overall. "
        f"Orange is worse, blue is better. The deepest orange is {number(100 * top, 1)}% in every "
        "map of an issue; overall spans its scale. Hover over a cell for its 95% interval and "
        "number of rows."
        if stats.issues
        else "Chatbots by languages. The deepest colour is the top of the scale. Hover over a cell "
        "for its 95% interval and number of rows."
    )
    issues = issue_figure(stats)

    figures = {"heatmaps": heat, "issues": issues, "answers": answers_figure(stats)}
    drawn: dict[str, Figure | None] = {}
    distribution: list[Block] = []
    for dimension in overall or stats.graded:
        figure = level_figure(stats, dimension)
        if isinstance(figure, str):
            distribution.append(f"{stats.label(dimension)}: {DASH} {figure}.")
        else:
            drawn[stats.label(dimension)] = figure
            table = distribution_table(stats, dimension, stats.langs)
            distribution += [figure, Fold("The numbers", [table])]
    figures |= dict(zip(unique_slugs(list(drawn)), drawn.values(), strict=True))

    by_head = [list(label_tables(stats, head, s, stats.graded)) for head, s in heads]
    labels = [block for tables in zip(*by_head, strict=True) for block in folded(tables, 1)]
    sections = [
        Section(
            "texts",
            "Dialogues and texts",
            folded(texts, len(single)),
            "Turns per dialogue, words per turn, and characters per turn for languages written "
            "without spaces. MTLD is the mean over dialogues. 'Run together' joins all dialogues "
            "of a language into one text. A row over several languages averages all their "
            "dialogues.",
            "Texts",
        ),
        Section("heatmaps", "Chatbots by languages", [heat] if heat else [], maps_lead),
        Section(
            "bars",
            "Issues by language",
            [issues] if issues else [],
            "Percent of the dialogues of a language with the issue, with 95% intervals. Every "
            "panel has its own axis.",
        ),
        Section(
            "distribution",
            "Distribution of answers",
            distribution,
            "Percent of the rows at each level, by language. Orange is the lower half of the "
            "scale, blue the upper half.",
            "Distribution",
        ),
        Section(
            "labels",
            "Labels",
            labels or ["No row has a label: there are no issues and no scores to count."],
            "Every share and mean of the figures above, with its 95% interval." if labels else "",
        ),
        facts_section(facts(stats)),
    ]
    chatbots = [name for name in stats.names("chatbot") if name != NOT_STATED]
    subtitle = counted(
        [
            (sum(stats.levels.values()), "dialogue"),
            (len(stats.langs), "language"),
            (len(chatbots), "chatbot"),
            (stats.counts["answered"], "labelled row"),
        ]
    )
    tables = [table for section in sections for table in _tables(section.blocks)]
    sheets = dict(zip(unique_slugs([each.title for each in tables]), tables, strict=True))
    title = f"Statistics of {stats.name}"
    path = folder / "stats.html"
    return write_page(path, title, subtitle, sections, tables=sheets, figures=figures)


def _tables(blocks: Iterable[Block]) -> Iterator[Table]:
    for block in blocks:
        if isinstance(block, Table):
            yield block
        elif isinstance(block, Fold):
            yield from _tables(block.blocks)


def facts(stats: CorpusStatistics) -> list[tuple[str, str]]:
    """How the figures were made, as (name, value) pairs."""
    counts = stats.counts
    pairs = [
        ("files", stats.name),
        ("rows", ", ".join(f"{n} at level {level}" for level, n in sorted(stats.levels.items()))),
        ("data", stats.data),
        ("sources", ", ".join(f"{name} ({n})" for name, n in stats.sources.most_common(20))),
        ("MTLD", "threshold 0.72, at least 10 tokens a factor, mean of both directions, tokens in "
         f"lower case without punctuation. A dialogue without a value ({MTLD_UNDEFINED}) does not "
         "count in the mean. Under 100 tokens a value is rough."),
        ("run together", "all dialogues in file order as one text; the second pass reads each "
         "dialogue from its end"),
        ("version", f"medal-judges {__version__}"),
    ]  # fmt: skip
    pairs += [("labels by", f"{by} ({n} rows)") for by, n in stats.labelled_by.most_common(20)]
    names = {which: len(stats.names(which)) for which in ("chatbot", "user")}
    cautions = [
        (stats.levels["turn"], "turn level", "rows end at the judged turn; a conversation with "
         "several judged turns counts as several dialogues"),
        (counts["failed"], "failures", "rows have no labels because the judge failed"),
        (counts["malformed"], "malformed", "rows are marked malformed; they are counted"),
        *((n if n > MAX_NAMES else 0, f"{which} names", f"are more than {MAX_NAMES}: no tables by "
           "name") for which, n in names.items()),
    ]  # fmt: skip
    return pairs + [(name, f"{n} {text}") for n, name, text in cautions if n]


def print_report(stats: CorpusStatistics) -> None:
    """Print the main tables; the page and the CSV files have the rest."""
    overall = [d for d in stats.graded if d.name == OVERALL] or stats.graded[:3]
    tables: list[Table] = []
    for head, subsets in (("Language", stats.langs), ("Chatbot", stats.chatbots)):
        if not subsets:
            continue
        tables.append(text_table(stats, head, subsets))
        if head == "Language":
            tables.append(side_table(stats, head, subsets))
        tables += label_tables(stats, head, subsets, overall)
    notes = [tokens_note(stats), "" if stats.labels else "No row has a label."]
    console.print_tables(tables, notes, piped=_PIPED, brief_from=_BRIEF)
