"""The page of ``medal data compare-native``: bars of win, tie and loss (MEDAL, Figure 8)."""

from __future__ import annotations

from collections.abc import Sequence

from medal_judges.data_prep.native.rates import ALL, Rates
from medal_judges.report.figure import Bar, Bars, BarSegment, Figure, Tone
from medal_judges.report.page import Block, Section, counted, facts_section, render_page
from medal_judges.report.table import Row, Table

_OUTCOMES: dict[str, tuple[str, Tone]] = {
    "win": ("native better", ("pos", 100)),
    "tie": ("tie", ("pos", 0)),
    "loss": ("translated better", ("neg", 100)),
}
_FIGURES = ("win", "tie", "loss", "net", "inconsistent", "first_shown")
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
    "changed. First shown: share of its answers for the dialogue shown first; 0.5 is no bias."
)


def page(rates: Sequence[Rates], facts: Sequence[tuple[str, str]]) -> str:
    """The whole page as text."""
    criteria = list(dict.fromkeys(one.criterion for one in rates))
    sections = [
        _section(f"criterion-{i}", name, [one for one in rates if one.criterion == name])
        for i, name in enumerate(criteria)
    ]
    langs = {one.lang for one in rates} - {ALL}
    said = f"{len(criteria)} criteria · {counted([(len(langs), 'language')])}"
    return render_page("Native against translated", said, [*sections, facts_section(facts)])


def _section(anchor: str, name: str, rates: Sequence[Rates]) -> Section:
    unscored = [
        f"{one.lang}: {count} unscored, {reason}"
        for one in rates
        if one.lang != ALL or len(rates) == 1
        for reason, count in one.unscored.most_common()
    ]
    blocks: list[Block] = [_figure(name, rates), _table(name, rates), *unscored, _NOTE]
    return Section(anchor, name, blocks, _LEAD, link=name.capitalize())


def _figure(name: str, rates: Sequence[Rates]) -> Figure:
    """One stacked bar a language; the numbers stand in the table as well."""
    bars = []
    for one in rates:
        shares = {key: one.figures[key].value or 0.0 for key in _OUTCOMES}
        segments = [
            BarSegment(share, tone, f"{100 * share:.0f}%", f"{one.lang}: {outcome} {share:.1%}")
            for key, (outcome, tone) in _OUTCOMES.items()
            if (share := shares[key])
        ]
        bars.append(Bar(one.lang, segments))
    description = f"{name}: win, tie and loss by language, numbers in the table"
    panel = Bars("", bars, 1.0, description, wide=True)
    return Figure(name, [panel], legend=list(_OUTCOMES.values()), legend_name="Outcomes")


def _table(name: str, rates: Sequence[Rates]) -> Table:
    columns = ("Language", "Pairs", "Scored", "Contexts", "Win", "Tie", "Loss", "Win − loss",
               "Order decided", "First shown")  # fmt: skip
    ordered = sorted(rates, key=lambda one: one.lang == ALL)
    rows: list[Row] = [
        (
            one.lang,
            one.pairs,
            one.scored,
            one.contexts,
            *(one.figures[figure] for figure in _FIGURES),
        )
        for one in ordered
    ]
    total = {-1: "total"} if ordered and ordered[-1].lang == ALL else {}
    return Table(f"{name}: native against translated", columns, rows, pinned=total)  # type: ignore[arg-type]
