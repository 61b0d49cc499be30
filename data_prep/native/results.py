"""What ``medal data compare-native`` writes and prints beside its verdicts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from medal_judges.data_prep.native.page import page
from medal_judges.data_prep.native.rates import ALL, MEANS, Rates
from medal_judges.report.numbers import DASH
from medal_judges.report.table import write_csv
from medal_judges.stats.results import Estimate

Facts = Sequence[tuple[str, str]]
_COUNTS = ("criterion", "lang", "pairs", "scored", "contexts")
_ESTIMATE = ("value", "low", "high", "reason")
_JACKKNIFE = "jackknife of contexts"


def write_results(found: Sequence[Rates], facts: Facts, folder: Path) -> Path:
    """Write results.json, results.csv (one line a figure) and report.html; path of the page."""
    folder.mkdir(parents=True, exist_ok=True)
    record = {"facts": dict(facts), "rates": [one.to_record() for one in found]}
    text = json.dumps(record, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    (folder / "results.json").write_text(text, encoding="utf-8", newline="\n")
    lines = [
        (
            *(getattr(one, name) for name in _COUNTS),
            figure,
            *(getattr(estimate, name) for name in _ESTIMATE),
            _interval(one, figure, estimate),
        )
        for one in found
        for figure, estimate in one.figures.items()
    ]
    write_csv(folder / "results.csv", (*_COUNTS, "figure", *_ESTIMATE, "interval"), lines)
    path = folder / "report.html"
    path.write_text(page(found, facts), encoding="utf-8", newline="\n")
    return path


def _interval(one: Rates, figure: str, estimate: Estimate) -> str:
    """How this figure's interval was made, which ``one.method`` tells of most shares only."""
    if estimate.low is None:
        return "none"
    if figure in MEANS:
        return _JACKKNIFE
    return "Wilson" if estimate.value in (0, 1) else one.method


def print_rates(found: Sequence[Rates]) -> None:
    """One table a criterion, one row a language."""
    from rich.table import Table

    from medal_judges.report.console import wide_console

    console = wide_console()
    for criterion in dict.fromkeys(one.criterion for one in found):
        table = Table(title=f"{criterion}: native against translated, % of pairs [95%]")
        for name in ("language", "pairs", "win", "tie", "loss", "win - loss", "order decided"):
            table.add_column(name, justify="left" if name == "language" else "right")
        for one in found:
            if one.criterion == criterion:
                table.add_row(*_row(one))
        console.print(table)
    langs = {one.lang for one in found}
    for one in found:
        if one.lang == ALL and len(langs) > 1:  # listed by language
            continue
        for reason, count in one.unscored.most_common():
            said = f"{one.criterion}, {one.lang}: {count} unscored: {reason}"
            console.print(said, style="dim", markup=False, highlight=False)


def _row(one: Rates) -> tuple[str, ...]:
    scored = str(one.scored) if one.scored == one.pairs else f"{one.scored} of {one.pairs}"
    shown = (one.figures[name] for name in ("win", "tie", "loss", "net", "inconsistent"))
    return (one.lang, scored, *(_percent(estimate) for estimate in shown))


def _percent(estimate: Estimate) -> str:
    if estimate.value is None:
        return DASH
    if estimate.low is None or estimate.high is None:
        return f"{100 * estimate.value:.1f}"
    return f"{100 * estimate.value:.1f} [{100 * estimate.low:.0f}, {100 * estimate.high:.0f}]"
