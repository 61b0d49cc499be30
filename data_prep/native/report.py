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
from typing import Any

import numpy as np

from medal_judges.data_prep.native.comparison import Verdict
from medal_judges.report.console import rich_table, wide_console
from medal_judges.report.figure import Bar, Bars, BarSegment, Figure, Tone
from medal_judges.report.page import Block, Section, counted, facts_section, write_page
from medal_judges.report.table import Row, Table, write_csv
from medal_judges.stats.correlation import Floats
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import FISHER, LOGIT, Clusters, wilson, with_intervals
from medal_judges.storage.files import atomic_write

ALL = "all"
SHARES = ("win", "tie", "loss", "inconsistent")  # of pairs: each one is in or out
FIGURES = {
    "win": "Win",
    "tie": "Tie",
    "loss": "Loss",
    "net": "Win − loss",
    "inconsistent": "Order decided",
    "first_shown": "First shown",
}
_WILSON, _JACKKNIFE = "Wilson", "jackknife of contexts"
_OUTCOMES: dict[str, tuple[str, Tone]] = {
    "win": ("native better", ("pos", 100)),
    "tie": ("tie", ("pos", 0)),
    "loss": ("translated better", ("neg", 100)),
}
_COLUMNS = ("Language", "Pairs", "Scored", "Contexts", *FIGURES.values())
_PRINTED = ("Language", "Pairs", "Scored", "Win", "Tie", "Loss", "Win − loss", "Order decided")
_LEAD = (
    "Share of the pairs in which a judge prefers the dialogue written in the language to the one "
    "translated from English, on the same seed context. Each pair is shown in both orders: a side "
    "wins if it is chosen both times, and all else is a tie."
)
_NOTE = (
    "Shares of the scored pairs, with 95% intervals: Wilson's if each context has one pair; if "
    "several pairs share one (languages, chatbots), a jackknife over contexts, and for a share of "
    "0 or 1 Wilson's with one trial a context. Win − loss and First shown always have the "
    "jackknife's. Order decided: the judge changed its answer when the order changed. First shown: "
    "share of its answers for the dialogue shown first; 0.5 means no bias."
)


@dataclass(frozen=True, slots=True)
class Rates:
    """One criterion and language (or ``all``).

    ``figures``: ``win``, ``tie``, ``loss`` and ``inconsistent`` are shares of the scored pairs,
    ``first_shown`` the share of answers that chose the dialogue shown first, ``net`` is win minus
    loss. ``unscored`` counts reasons, the most frequent first.
    """

    criterion: str
    lang: str
    pairs: int
    scored: int
    contexts: int
    figures: dict[str, Estimate]
    unscored: dict[str, int]

    @property
    def method(self) -> str:
        """The method of most intervals of shares."""
        if not self.scored:
            return "none"
        return _WILSON if self.contexts == self.scored else _JACKKNIFE

    def interval(self, figure: str) -> str:
        """The method of the interval of one figure."""
        estimate = self.figures[figure]
        if estimate.low is None:
            return "none"
        if figure not in SHARES:
            return _JACKKNIFE
        return _WILSON if estimate.value in (0, 1) else self.method

    def to_record(self) -> dict[str, Any]:
        """For results.json."""
        return asdict(self) | {"method": self.method}


def rates(verdicts: Sequence[Verdict]) -> list[Rates]:
    """For each criterion: each language by code, then all if there are several."""
    listed = []
    for criterion in dict.fromkeys(v["criterion"] for v in verdicts):
        mine = [v for v in verdicts if v["criterion"] == criterion]
        langs = sorted({v["lang"] for v in mine})
        parts = {lang: [v for v in mine if v["lang"] == lang] for lang in langs}
        if len(langs) > 1:
            parts[ALL] = mine
        for lang, part in parts.items():
            scored = [v for v in part if v["result"] is not None]
            contexts = len({v["group"] for v in scored})
            failures = Counter(_failure(v) for v in part if v["result"] is None)
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
    values["inconsistent"] = np.array([float(one != other) for one, other in choices])
    values["first_shown"] = np.array([_first_shown(*each) for each in choices])
    values["net"] = values["win"] - values["loss"]
    plain = {name: Estimate(float(column.mean())) for name, column in values.items()}

    def statistic(weights: Floats) -> dict[str, Floats]:
        total = weights.sum(axis=1)
        return {name: weights @ column / total for name, column in values.items()}

    clusters = Clusters("conversation", tuple(v["group"] for v in scored))
    figures = with_intervals(plain, statistic, clusters, lambda n: FISHER if n == "net" else LOGIT)
    for name in SHARES:
        share = float(values[name].mean())
        if contexts == len(scored) or share in (0, 1):
            low, high = wilson(share * contexts, contexts)
            figures[name] = replace(plain[name], low=low, high=high)
    return figures


def _failure(verdict: Verdict) -> str:
    failures = verdict["native_first"]["failure"], verdict["translated_first"]["failure"]
    return failures[0] or failures[1] or "no answer came"


def _first_shown(native_first: str, translated_first: str) -> float:
    """Share of the two answers that chose what was shown first; neither counts as a half."""
    shown = (native_first, "native"), (translated_first, "translated")
    return sum(0.5 if c == "neither" else float(c == first) for c, first in shown) / 2


def write_report(rates: Sequence[Rates], facts: Mapping[str, str], folder: Path) -> Path:
    """Write results.json, results.csv (one line a figure) and report.html; path of the page."""
    record = {"facts": dict(facts), "rates": [one.to_record() for one in rates]}
    text = json.dumps(record, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    atomic_write(folder / "results.json", text)
    columns = ("criterion", "lang", "pairs", "scored", "contexts", "figure")
    lines = [
        (
            *(getattr(one, name) for name in columns[:-1]),
            name,
            *(estimate.value, estimate.low, estimate.high, estimate.reason),
            one.interval(name),
        )
        for one in rates
        for name, estimate in one.figures.items()
    ]
    heads = (*columns, "value", "low", "high", "reason", "interval")
    write_csv(folder / "results.csv", heads, lines)
    sections, figures, tables = [], {}, {}
    for i, (name, part) in enumerate(_by_criterion(rates).items()):
        figures[f"criterion-{i}"], tables[f"criterion-{i}"] = (
            _figure(name, part),
            _table(name, part),
        )
        blocks: list[Block] = [*(each[f"criterion-{i}"] for each in (figures, tables))]
        blocks += [*_unscored(part), _NOTE]
        sections.append(Section(f"criterion-{i}", name, blocks, _LEAD, link=name.capitalize()))
    langs = {one.lang for one in rates} - {ALL}
    subtitle = f"{len(sections)} criteria · {counted([(len(langs), 'language')])}"
    return write_page(
        folder / "report.html",
        "Native against translated",
        subtitle,
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
        if one.lang != ALL or len(rates) == 1
        for reason, count in one.unscored.items()
    ]


def _figure(name: str, rates: Sequence[Rates]) -> Figure:
    """One stacked bar a language; the table has the numbers too."""
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
    has_total = bool(rates) and rates[-1].lang == ALL
    title = f"{name}: native against translated"
    return Table(title, _COLUMNS, rows, pinned={-1: "total"} if has_total else {})
