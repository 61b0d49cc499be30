"""Tables, charts and page of the statistics: MEDAL's Table 2, Figures 2, 9 and 10."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from medal_judges import __version__
from medal_judges.data_prep.corpus_stats.statistics import (
    ALL,
    MAX_NAMES,
    NOT_STATED,
    OVERALL,
    CorpusStatistics,
    ScaledDimension,
    Subset,
)
from medal_judges.data_prep.corpus_stats.tokens import MTLD_UNDEFINED
from medal_judges.report import console
from medal_judges.report.figure import Bar, Bars, BarSegment, Figure, Tone
from medal_judges.report.numbers import DASH, number
from medal_judges.report.page import (
    Block,
    Fold,
    Section,
    counted,
    facts_section,
    folded,
    write_page,
)
from medal_judges.report.table import Cell, Heat, Row, Table, unique_slugs
from medal_judges.stats.estimate import Estimate

_PAIRS = "Language and chatbot"
_SIDES = ("user", "assistant")
_BRIEF = 7  # with this many columns, the terminal shows no intervals
_PIPED = 160  # width of the terminal tables if the output is piped
_INTERVALS = {
    "Wilson": "Wilson's if every row is its own conversation",
    "jackknife of groups": "a jackknife over conversation groups",
    "Wilson over groups": "Wilson's over groups if a share is 0 or 100%",
}
_LEADS = {
    "texts": "Turns per dialogue, words per turn, and characters per turn for languages written "
    "without spaces. MTLD is the mean over dialogues. 'Run together' joins all dialogues of a "
    "language into one text. A row over several languages averages all their dialogues.",
    "bars": "Percent of the dialogues of a language with the issue, with 95% intervals. Every "
    "panel has its own axis.",
    "distribution": "Percent of the rows at each level, by language. Orange is the lower half of "
    "the scale, blue the upper half.",
    "labels": "Every share and mean of the figures above, with its 95% interval.",
    "course": "How generated dialogues ended, and how many tries each user turn took.",
}
_MAPS = (
    "Percent of the dialogues with the issue, chatbots by languages, and the mean of overall. "
    "Orange is worse, blue is better. The deepest orange is {top}% in every map of an issue; "
    "overall spans its scale. Hover over a cell for its 95% interval and number of rows."
)
_OTHER_MAPS = (
    "Chatbots by languages. The deepest colour is the top of the scale. Hover over a cell for its "
    "95% interval and number of rows."
)


# -- tables ----------------------------------------------------------------------------------------


def _table(
    title: str,
    columns: Sequence[str],
    subsets: Sequence[Subset],
    cells: Callable[[Subset], Row],
    note: str = "",
) -> Table:
    """One row a subset, and a last row for all."""
    rows = [(subset.label, *cells(subset)) for subset in (*subsets, ALL)]
    return Table(title, tuple(columns), rows, note, pinned={-1: "total"})


def text_table(stats: CorpusStatistics, head: str, subsets: Sequence[Subset]) -> Table:
    """Dialogues, turns, length of a turn by unit, MTLD."""

    def cells(subset: Subset) -> Row:
        lengths = (stats.length(subset, unit) for unit in stats.units)
        mtld = (stats.mtld(subset), stats.together(subset))
        return (stats.count(subset), stats.turns(subset), *lengths, *mtld)

    units = (f"{unit.capitalize()} a turn" for unit in stats.units)
    columns = (head, "Dialogues", "Turns", *units, "MTLD", "MTLD, run together")
    title = f"Dialogues and texts by {head.lower()}"
    return _table(title, columns, subsets, cells, tokens_note(stats))


def side_table(stats: CorpusStatistics, head: str, subsets: Sequence[Subset]) -> Table:
    """The same figures for the turns of users and of assistants."""

    def cells(subset: Subset) -> Row:
        turns = (stats.turns(subset, side) for side in _SIDES)  # type: ignore[arg-type]
        lengths = (stats.length(subset, unit, side) for unit in stats.units for side in _SIDES)  # type: ignore[arg-type]
        return (*turns, *lengths, *(stats.mtld(subset, side) for side in _SIDES))  # type: ignore[arg-type]

    figures = ("Turns", *(unit.capitalize() for unit in stats.units), "MTLD")
    columns = (head, *(f"{figure}, {side}" for figure in figures for side in _SIDES))
    title = f"Users and assistants, by {head.lower()}"
    return _table(title, columns, subsets, cells, tokens_note(stats))


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
    *,
    percent: bool,
) -> Table:
    """Percent of the rows at 1, or means on the raw scales, with 95% intervals."""

    def cells(subset: Subset) -> Row:
        estimates = [stats.figure(subset, d).estimate for d in dimensions]
        if percent:
            estimates = [
                replace(e, value=_percent(e.value), low=_percent(e.low), high=_percent(e.high))
                for e in estimates
            ]
        return (stats.count(subset), *estimates)

    methods = {
        stats.figure(subset, d).method
        for subset in (ALL, *stats.langs, *stats.chatbots, *stats.users, *stats.pairs)
        for d in dimensions
    }
    used = "; ".join(text for method, text in _INTERVALS.items() if method in methods)
    note = f"95% intervals: {used}." if used else "No intervals."
    if several := stats.counts["several answers"]:
        note += f" {several} rows have several answers: their mean, 1 from 0.5 on."
    suffix = ", %" if percent else ""
    columns = (head, "Rows", *(stats.label(d) + suffix for d in dimensions))
    return _table(f"{what} by {head.lower()}", columns, subsets, cells, note)


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def distribution_table(
    stats: CorpusStatistics, dimension: ScaledDimension, subsets: Sequence[Subset]
) -> Table:
    """Percent of the rows at each level; empty with a note if the scale has no levels."""
    title = f"Distribution of {stats.label(dimension)}"
    whole = stats.distribution(ALL, dimension)
    if isinstance(whole, str):
        return Table(title, ("Language", "Rows"), (), whole)

    def cells(subset: Subset) -> Row:
        levels = stats.distribution(subset, dimension)
        assert not isinstance(levels, str)  # the scale is the same in every subset
        n, none = sum(levels.counts), Estimate(None, reason="no label")
        return (n, *(100 * share if n else none for share in levels.shares))

    columns = ("Language", "Rows", *(f"{level}, %" for level in whole.levels))
    note = "Means of several answers are at the nearest level, halves up."
    return _table(title, columns, subsets, cells, note)


def ending_table(stats: CorpusStatistics, head: str, subsets: Sequence[Subset]) -> Table | None:
    """Percent of the dialogues by how they ended; None if no row states it."""
    whole = stats.endings(ALL)
    kinds = sorted(whole, key=lambda kind: -whole[kind][0])

    def cells(subset: Subset) -> Row:
        ended = stats.endings(subset)
        none = Estimate(None, reason="no row states it")
        shares = (100 * ended.get(kind, (0, 0.0))[1] if ended else none for kind in kinds)
        return (sum(n for n, _ in ended.values()), *shares)

    columns = (head, "Rows", *(f"{kind}, %" for kind in kinds))
    title = f"How dialogues ended by {head.lower()}"
    return _table(title, columns, subsets, cells) if kinds else None


def tries_table(stats: CorpusStatistics, head: str, subsets: Sequence[Subset]) -> Table | None:
    """Tries per user turn; None if no row has them."""

    def cells(subset: Subset) -> Row:
        row: list[Cell] = []
        for tries in (stats.tries(subset, "first"), stats.tries(subset, "later")):
            once = tries.at_once
            row += [tries.turns, tries.mean, once if once.value is None else 100 * once.value]
        return (*row, max(stats.tries(subset, which).most for which in ("first", "later")))

    columns = (head, "First turns", "Tries", "At once, %", "Later turns", "Tries, later",
               "At once, later, %", "Most")  # fmt: skip
    note = (
        "Accepted turns only. A first turn that several chatbots share counts once for each of "
        "their dialogues."
    )
    title = f"Tries per user turn by {head.lower()}"
    if not stats.tries(ALL, "first").turns:
        return None
    return _table(title, columns, subsets, cells, note)


# -- charts ----------------------------------------------------------------------------------------


def heat_figure(stats: CorpusStatistics, dimensions: Sequence[ScaledDimension]) -> Figure | None:
    """A heat map for each dimension, chatbots by languages; None without chatbots or dimensions."""
    if not stats.chatbots or not dimensions:
        return None
    top, langs, chatbots = _highest_share(stats), stats.langs, stats.chatbots
    columns = [*langs, ALL] if len(langs) > 1 else langs
    lines = [*chatbots, ALL] if len(chatbots) > 1 else chatbots
    maps = []
    for dimension in dimensions:
        issue, share = dimension in stats.issues, stats.is_share(dimension)
        factor, digits = (100, 1) if share else (1, 2)
        if share:
            low, high = 0.0, top if issue else 1.0
        elif dimension.scale is not None:
            low, high = dimension.scale
        else:  # the colours span the means shown
            means = [stats.figure(pair, dimension).estimate.value for pair in stats.pairs]
            known = [value for value in means if value is not None] or [0.0]
            low, high = min(known), max(known)
        rows = [
            (
                line.label,
                *(
                    _heat_cell(
                        stats, dimension, Subset(c.lang, line.chatbot), (low, high), factor, digits
                    )
                    for c in columns
                ),
            )
            for line in lines
        ]
        unit = ", mean" if not share else ", %" if issue else ", % at 1"
        maps.append(
            Table(
                f"{stats.label(dimension)}{unit}",
                ("Chatbot", *(column.label for column in columns)),
                rows,
                style="heat small",
            )
        )
    return Figure(f"{stats.name}: chatbots by languages", maps)


def _heat_cell(
    stats: CorpusStatistics,
    dimension: ScaledDimension,
    subset: Subset,
    span: tuple[float, float],
    factor: int,
    digits: int,
) -> Cell:
    figure, (low, high) = stats.figure(subset, dimension), span
    e = figure.estimate
    if e.value is None:
        return e
    tooltip = f"{figure.n} row{'' if figure.n == 1 else 's'}"
    if e.low is not None and e.high is not None:
        ends = (number(factor * end, digits) for end in (e.low, e.high))
        tooltip = f"[{', '.join(ends)}], {tooltip}"
    strength = (e.value - low) / (high - low) if high > low else 0.0
    sign = "neg" if dimension in stats.issues else "pos"
    return Heat(number(factor * e.value, digits), strength, sign, tooltip, e.value)  # type: ignore[arg-type]


def _highest_share(stats: CorpusStatistics) -> float:
    """The largest share of any issue in any cell of the heat maps."""
    shares = (
        stats.figure(subset, d).estimate.value
        for subset in (*stats.pairs, *stats.chatbots)
        for d in stats.issues
    )
    return max((value for value in shares if value is not None), default=0.0)


def issue_figure(stats: CorpusStatistics) -> Figure | None:
    """Percent of the rows with each issue by language, with intervals; None without issues."""
    panels = []
    for dimension in stats.issues:
        name, bars, top = stats.label(dimension), [], 0.0
        for lang in stats.langs:
            e = stats.figure(lang, dimension).estimate
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


# -- page ------------------------------------------------------------------------------------------


def write_report(stats: CorpusStatistics, folder: Path) -> Path:
    """Write stats.html, tables/*.csv and figures/* under ``folder``; returns the page's path."""
    counts = [
        (sum(stats.levels.values()), "dialogue"),
        (len(stats.langs), "language"),
        (len([name for name in stats.names("chatbot") if name != NOT_STATED]), "chatbot"),
        (stats.counts["answered"], "labelled row"),
    ]
    sections = page(stats)
    tables = [table for section in sections for table in _tables(section.blocks)]
    overall = [d for d in stats.graded if d.name == OVERALL]
    figures = {
        "heatmaps": heat_figure(stats, [*stats.issues, *overall]),
        "issues": issue_figure(stats),
    }
    levels = {stats.label(d): level_figure(stats, d) for d in stats.graded}
    drawn = {name: figure for name, figure in levels.items() if isinstance(figure, Figure)}
    figures |= dict(zip(unique_slugs(list(drawn)), drawn.values(), strict=True))
    return write_page(
        folder / "stats.html",
        f"Statistics of {stats.name}",
        counted(counts),
        sections,
        tables=dict(zip(unique_slugs([each.title for each in tables]), tables, strict=True)),
        figures=figures,
    )


def _tables(blocks: Iterable[Block]) -> Iterator[Table]:
    for block in blocks:
        if isinstance(block, Table):
            yield block
        elif isinstance(block, Fold):
            yield from _tables(block.blocks)


def page(stats: CorpusStatistics) -> list[Section]:
    """The sections of the page."""
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
    endings = [t for head, subsets in heads if (t := ending_table(stats, head, subsets))]
    tries = [t for head, subsets in heads if (t := tries_table(stats, head, subsets))]
    issues = issue_figure(stats)

    overall = [d for d in stats.graded if d.name == OVERALL]
    others = [d for d in [*stats.other_shares, *stats.graded] if d not in overall]
    maps: list[Block] = []
    if (figure := heat_figure(stats, [*stats.issues, *overall])) is not None:
        maps.append(figure)
    if (more := heat_figure(stats, others)) is not None:
        name = f"{len(others)} {'more ' if maps else ''}dimensions"
        maps.append(Fold(name, [more], is_open=not maps))
    top = number(100 * _highest_share(stats), 1)

    levels: dict[ScaledDimension, list[Block]] = {}
    for dimension in stats.graded:
        drawn = level_figure(stats, dimension)
        if isinstance(drawn, str):
            levels[dimension] = [f"{stats.label(dimension)}: {DASH} {drawn}."]
        else:
            table = distribution_table(stats, dimension, stats.langs)
            levels[dimension] = [drawn, Fold("The numbers", [table])]
    shown = [d for d in levels if d.name == OVERALL] or list(levels)
    distribution = [block for d in shown for block in levels[d]]
    if rest := [d for d in levels if d not in shown]:
        folded_blocks = [block for d in rest for block in levels[d]]
        distribution.append(Fold(f"{len(rest)} more dimensions", folded_blocks))

    labels: list[Block] = []
    for what, dimensions, percent in (
        ("Issues", stats.issues, True),
        ("Answers of 1", stats.other_shares, True),
        ("Mean answers", stats.graded, False),
    ):
        if dimensions:
            labels += folded(
                [label_table(stats, what, h, s, dimensions, percent=percent) for h, s in heads], 1
            )
    no_labels = "No row has a label: there are no issues and no scores to count."
    return [
        Section(
            "texts", "Dialogues and texts", folded(texts, len(single)), _LEADS["texts"], "Texts"
        ),
        Section(
            "heatmaps",
            "Chatbots by languages",
            maps,
            _MAPS.format(top=top) if stats.issues else _OTHER_MAPS,
        ),
        Section("bars", "Issues by language", [issues] if issues else [], _LEADS["bars"]),
        Section(
            "distribution",
            "Distribution of answers",
            distribution,
            _LEADS["distribution"],
            "Distribution",
        ),
        Section("labels", "Labels", labels or [no_labels], _LEADS["labels"] if labels else ""),
        Section(
            "course", "Ends and tries", folded(endings, 1) + folded(tries, 1), _LEADS["course"]
        ),
        facts_section(facts(stats)),
    ]


def facts(stats: CorpusStatistics) -> list[tuple[str, str]]:
    """How the figures were made, as (name, value) pairs."""
    counts = stats.counts
    several = f"{counts['several answers']} rows have more than one answer to a question."
    pairs = [
        ("files", stats.name),
        ("rows", ", ".join(f"{n} at level {level}" for level, n in sorted(stats.levels.items()))),
        ("data", stats.data),
        ("sources", ", ".join(f"{name} ({n})" for name, n in stats.sources.most_common(20))),
        ("MTLD", "threshold 0.72, at least 10 tokens a factor, mean of both directions, tokens in "
         f"lower case without punctuation. A dialogue without a value ({MTLD_UNDEFINED}) does not "
         "count in the mean. Under 100 tokens a value is rough."),
        ("MTLD over", tokens_note(stats).removeprefix("MTLD over: ")),
        ("run together", "all dialogues in file order as one text; the second pass reads each "
         "dialogue from its end"),
        ("several answers", f"{several} Their mean counts; an issue is present from 0.5 on."),
        ("intervals", "95%: Wilson for shares if every row is its own conversation, else a "
         "jackknife over groups with Student's t; Wilson over groups for shares of 0 and 100%"),
        ("version", f"medal-judges {__version__}"),
    ]  # fmt: skip
    if stats.weighting:
        pairs.append(("weights", stats.weighting))
    pairs += [("labels by", f"{by} ({n} rows)") for by, n in stats.labelled_by.most_common(20)]
    cautions = [
        (stats.levels["turn"], "turn level", "rows end at the judged turn; a conversation with "
         "several judged turns counts as several dialogues"),
        (counts["failed"], "failures", "rows have no labels because the judge failed"),
        (counts["malformed"], "malformed", "rows are marked malformed; they are counted"),
        (counts["unreadable"], "ends and tries", "rows have them in an unknown form; not counted"),
    ]  # fmt: skip
    for which, what in (("chatbot", "chatbots"), ("user", "user models")):
        many = len(stats.names(which))  # type: ignore[arg-type]
        text = f"names, more than {MAX_NAMES}: no tables by name"
        cautions.append((many if many > MAX_NAMES else 0, what, text))
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
        for what, dimensions, percent in (
            ("Issues", stats.issues, True),
            ("Mean answers", overall, False),
        ):
            if dimensions:
                tables.append(label_table(stats, what, head, subsets, dimensions, percent=percent))
    unlabelled = "" if stats.labels else "No row has a label."
    notes = [tokens_note(stats), stats.weighting or "", unlabelled]
    console.print_tables(tables, notes, piped=_PIPED, brief_from=_BRIEF)
