"""What ``medal data compare-native`` writes and prints beside its verdicts (MEDAL, Figure 8)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from medal_judges.data_prep.native.rates import ALL, FIGURES, Rates
from medal_judges.report.console import rich_table, wide_console
from medal_judges.report.figure import Bar, Bars, BarSegment, Figure, Tone
from medal_judges.report.page import Block, Section, counted, facts_section, write_page
from medal_judges.report.table import Row, Table, write_csv
from medal_judges.storage.files import atomic_write

_OUTCOMES: dict[str, tuple[str, Tone]] = {
    "win": ("native better", ("pos", 100)),
    "tie": ("tie", ("pos", 0)),
    "loss": ("translated better", ("neg", 100)),
}
_COLUMNS = ("Language", "Pairs", "Scored", "Contexts", *FIGURES.values())
_PRINTED = ("Language", "Pairs", "Scored", "Win", "Tie", "Loss", "Win − loss", "Order decided")
_LEAD = (
    "Share of the pairs in which a judge prefers the dialogue that was written in the language to "
    "the one translated from English, on the same seed context. Each pair is shown in both orders: "
    "a side wins where it is chosen both times, and all else is a tie."
)
_NOTE = (
    "Shares of the scored pairs, with 95% intervals: Wilson's where each context has one pair; "
    "where several pairs share one (languages, chatbots), by a jackknife that leaves out contexts, "
    "and for a share of 0 or 1 Wilson's with one trial a context. Win − loss and First shown have "
    "the jackknife's throughout. Order decided: the judge changed its answer when the order "
    "changed. First shown: share of its answers for the dialogue shown first; 0.5 means no bias."
)


def write_report(rates: Sequence[Rates], facts: Mapping[str, str], folder: Path) -> Path:
    """Write results.json, results.csv (one line a figure) and report.html; path of the page."""
    record = {"facts": dict(facts), "rates": [one.to_record() for one in rates]}
    text = json.dumps(record, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    atomic_write(folder / "results.json", text)
    counts = ("criterion", "lang", "pairs", "scored", "contexts")
    estimate_fields = ("value", "low", "high", "reason")
    lines = [
        (
            *(getattr(one, name) for name in counts),
            name,
            *(getattr(estimate, field) for field in estimate_fields),
            one.interval(name),
        )
        for one in rates
        for name, estimate in one.figures.items()
    ]
    write_csv(folder / "results.csv", (*counts, "figure", *estimate_fields, "interval"), lines)
    return _write_page(rates, facts, folder)


def print_rates(rates: Sequence[Rates]) -> None:
    """One table a criterion, one row a language, and why pairs were not scored."""
    console = wide_console(piped=140)
    for name, part in _by_criterion(rates).items():
        console.print(rich_table(_table(name, part), _PRINTED))
        for line in _unscored(part):
            console.print(f"{name}, {line}", style="dim", highlight=False)


def _by_criterion(rates: Sequence[Rates]) -> dict[str, list[Rates]]:
    names = dict.fromkeys(one.criterion for one in rates)
    return {name: [one for one in rates if one.criterion == name] for name in names}


def _unscored(rates: Sequence[Rates]) -> list[str]:
    return [
        f"{one.lang}: {count} unscored: {reason}"
        for one in rates
        if one.lang != ALL or len(rates) == 1
        for reason, count in one.unscored.items()
    ]


def _write_page(rates: Sequence[Rates], facts: Mapping[str, str], folder: Path) -> Path:
    sections = []
    for i, (name, part) in enumerate(_by_criterion(rates).items()):
        blocks: list[Block] = [_figure(name, part), _table(name, part), *_unscored(part), _NOTE]
        sections.append(Section(f"criterion-{i}", name, blocks, _LEAD, link=name.capitalize()))
    langs = {one.lang for one in rates} - {ALL}
    subtitle = f"{len(sections)} criteria · {counted([(len(langs), 'language')])}"
    sections.append(facts_section(facts.items()))
    return write_page(folder / "report.html", "Native against translated", subtitle, sections)


def _figure(name: str, rates: Sequence[Rates]) -> Figure:
    """One stacked bar a language; the numbers stand in the table as well."""
    bars = []
    for one in rates:
        segments = [
            BarSegment(share, tone, f"{100 * share:.0f}%", f"{one.lang}: {outcome} {share:.1%}")
            for key, (outcome, tone) in _OUTCOMES.items()
            if (share := one.figures[key].value)
        ]
        bars.append(Bar(one.lang, segments))
    description = f"{name}: win, tie and loss by language, numbers in the table"
    panel = Bars("", bars, 1.0, description, wide=True)
    return Figure(name, [panel], legend=list(_OUTCOMES.values()), legend_name="Outcomes")


def _table(name: str, rates: Sequence[Rates]) -> Table:
    rows: list[Row] = [
        (one.lang, one.pairs, one.scored, one.contexts, *(one.figures[key] for key in FIGURES))
        for one in rates
    ]
    title = f"{name}: native against translated"
    has_total = bool(rates) and rates[-1].lang == ALL
    return Table(title, _COLUMNS, rows, pinned={-1: "total"} if has_total else {})
