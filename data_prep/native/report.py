"""Win, tie and loss rates of native dialogues with 95% intervals, and report (MEDAL, Figure 8).

Pairs of one seed context resemble each other (other languages, other chatbots), so the intervals
come from a jackknife over contexts. If each context has one pair, a share has Wilson's interval; so
has, with one trial a context, a share on which all pairs agree.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from medal_judges.data_prep.native.comparison import Verdict
from medal_judges.report.console import rich_table, wide_console
from medal_judges.report.figure import Bar, Bars, BarSegment, Figure, Tone
from medal_judges.report.page import Block, Section, counted, facts_section, write_page
from medal_judges.report.table import Row, Table
from medal_judges.stats.correlation import Floats
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import FISHER, LOGIT, Clusters, wilson, with_intervals
from medal_judges.storage.files import atomic_write

ALL = "all"
FIGURES = {
    "win": "Win",
    "tie": "Tie",
    "loss": "Loss",
    "net": "Win − loss",
    "first_shown": "First shown",
}
_OUTCOMES: dict[str, tuple[str, Tone]] = {
    "win": ("native better", ("pos", 100)),
    "tie": ("tie", ("pos", 0)),
    "loss": ("translated better", ("neg", 100)),
}
_COLUMNS = ("Language", "Pairs", "Scored", "Contexts", *FIGURES.values())
_PRINTED = ("Language", "Pairs", "Scored", "Win", "Tie", "Loss", "Win − loss", "First shown")
_LEAD = (
    "Share of the pairs in which a judge prefers the dialogue written in the language to the one "
    "translated from English, on the same seed context. Each pair is shown in both orders: a side "
    "wins if it is chosen both times, and all else is a tie."
)
_NOTE = (
    "Shares of the scored pairs, with 95% intervals: Wilson's if each context has one pair; if "
    "several pairs share one (languages, chatbots), a jackknife over contexts, and for a share of "
    "0 or 1 Wilson's with one trial a context. Win − loss and First shown always have the "
    "jackknife's. Tie: the judge changed its answer when the order changed. First shown: share of "
    "its answers for the dialogue shown first; 0.5 means no bias."
)


@dataclass(frozen=True, slots=True)
class Rates:
    """One criterion and language (or ``all``).

    ``figures``: ``win``, ``tie`` and ``loss`` are shares of the scored pairs, ``first_shown`` is
    the share of answers that chose the dialogue shown first, ``net`` is win minus loss.
    ``unscored`` counts reasons, the most frequent first.
    """

    criterion: str
    lang: str
    pairs: int
    scored: int
    contexts: int
    figures: dict[str, Estimate]
    unscored: dict[str, int]


def rates(verdicts: Sequence[Verdict]) -> list[Rates]:
    """For each criterion: each language by code, then all if there are several."""
    listed = []
    for criterion in dict.fromkeys(v["criterion"] for v in verdicts):
        mine = [v for v in verdicts if v["criterion"] == criterion]
        langs = sorted({v["lang"] for v in mine})
        parts = {lang: [v for v in mine if v["lang"] == lang] for lang in langs}
        for lang, part in (parts | ({ALL: mine} if len(langs) > 1 else {})).items():
            scored = [v for v in part if v["result"] is not None]
            contexts = len({v["group"] for v in scored})
            failures = Counter(
                v["native_first"]["failure"] or v["translated_first"]["failure"] or "no answer came"
                for v in part
                if v["result"] is None
            )
            counts = (len(part), len(scored), contexts)
            figures = _figures(scored, contexts)
            listed.append(Rates(criterion, lang, *counts, figures, dict(failures.most_common())))
    return listed


def _figures(scored: Sequence[Verdict], contexts: int) -> dict[str, Estimate]:
    if not scored:
        return dict.fromkeys(FIGURES, Estimate(None, reason="no pair was scored"))
    choices = [(v["native_first"]["choice"], v["translated_first"]["choice"]) for v in scored]
    values = {  # one number a pair, whose mean is the figure
        name: np.array([float(v["result"] == name) for v in scored])
        for name in ("win", "tie", "loss")
    }
    first = [((one == "native") + (other == "translated")) / 2 for one, other in choices]
    values["first_shown"] = np.array(first)
    values["net"] = values["win"] - values["loss"]
    plain = {name: Estimate(float(column.mean())) for name, column in values.items()}

    def statistic(weights: Floats) -> dict[str, Floats]:
        total = weights.sum(axis=1)
        return {name: weights @ column / total for name, column in values.items()}

    clusters = Clusters("conversation", tuple(v["group"] for v in scored))
    figures = with_intervals(plain, statistic, clusters, lambda n: FISHER if n == "net" else LOGIT)
    for name in ("win", "tie", "loss"):  # each pair is in or out
        share = float(values[name].mean())
        if contexts == len(scored) or share in (0, 1):
            low, high = wilson(share * contexts, contexts)
            figures[name] = replace(plain[name], low=low, high=high)
    return figures


def write_report(rates: Sequence[Rates], facts: Mapping[str, str], folder: Path) -> Path:
    """Write results.json, report.html, its tables and figures; returns the path of the page."""
    record = {"facts": dict(facts), "rates": [asdict(one) for one in rates]}
    text = json.dumps(record, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    atomic_write(folder / "results.json", text)
    sections, figures, tables = [], {}, {}
    for i, (name, part) in enumerate(_by_criterion(rates).items()):
        anchor = f"criterion-{i}"
        bars = []
        for one in part:
            segments = [
                BarSegment(share, tone, f"{100 * share:.0f}%", f"{one.lang}: {outcome} {share:.1%}")
                for key, (outcome, tone) in _OUTCOMES.items()
                if (share := one.figures[key].value)
            ]
            bars.append(Bar(one.lang, segments))
        description = f"{name}: win, tie and loss by language, numbers in the table"
        panel = Bars("", bars, 1.0, description, wide=True)
        legend = list(_OUTCOMES.values())
        figures[anchor] = Figure(name, [panel], legend=legend, legend_name="Outcomes")
        tables[anchor] = _table(name, part)
        blocks: list[Block] = [figures[anchor], tables[anchor], *_unscored(part), _NOTE]
        sections.append(Section(anchor, name, blocks, _LEAD, link=name.capitalize()))
    langs = {one.lang for one in rates} - {ALL}
    return write_page(
        folder / "report.html",
        "Native against translated",
        f"{len(sections)} criteria · {counted([(len(langs), 'language')])}",
        [*sections, facts_section(facts.items())],
        tables=tables,
        figures=figures,
    )


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
        if one.lang != ALL
        for reason, count in one.unscored.items()
    ]


def _table(name: str, rates: Sequence[Rates]) -> Table:
    rows: list[Row] = [
        (one.lang, one.pairs, one.scored, one.contexts, *(one.figures[key] for key in FIGURES))
        for one in rates
    ]
    title, has_total = f"{name}: native against translated", rates[-1].lang == ALL
    return Table(title, _COLUMNS, rows, pinned={-1: "total"} if has_total else {})
