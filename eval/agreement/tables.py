"""What ``medal agreement`` writes beside its page: JSON, CSV, and the table in the terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from medal_judges.eval.agreement.agreement import Agreement
from medal_judges.eval.agreement.page import POSITION_NOTE, dimensions, headline, page
from medal_judges.report.csv_tables import write_table
from medal_judges.report.numbers import primary_metric
from medal_judges.stats.results import Estimate

_COUNTS = ("dimension", "kind", "lang", "rows", "shared", "pairs", "annotators", "columns")
_ABOUT = (*_COUNTS, "mean", "share_positive", "measurement")
_ESTIMATE = ("value", "low", "high", "reason")
_HEADS = ("dimension", "rows", "annotators", "positive", "exact", "±1", "α", "95%", "ρ", "ceiling")
_NONE = "–"


def write_agreement(
    found: Sequence[Agreement], heading: str, facts: Sequence[tuple[str, str]], folder: Path
) -> Path:
    """Write agreement.html, agreement.json, figures.csv, and one CSV each of languages by
    dimensions: percent.csv (MEDAL, Table 4), alpha.csv (Table 5), spearman.csv. Path of the page.
    """
    folder.mkdir(parents=True, exist_ok=True)
    record = {"facts": dict(facts), "agreement": [a.to_record() for a in found]}
    text = json.dumps(record, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    (folder / "agreement.json").write_text(text, encoding="utf-8")
    write_table(folder / "figures.csv", (*_ABOUT, "part", "figure", *_ESTIMATE), _lines(found))
    for name, figure in _GRIDS.items():
        write_table(folder / f"{name}.csv", ("lang", *dimensions(found)), _grid(found, figure))
    path = folder / "agreement.html"
    path.write_text(page(heading, found, facts), encoding="utf-8", newline="\n")
    return path


_GRIDS: dict[str, Callable[[Agreement], Estimate]] = {
    "percent": headline,
    "alpha": lambda one: one.figures["alpha"],
    "spearman": lambda one: one.figures["spearman"],
}


def _grid(
    found: Sequence[Agreement], figure: Callable[[Agreement], Estimate]
) -> list[Sequence[object]]:
    at = {(a.lang, a.dimension): figure(a).value for a in found}
    langs = dict.fromkeys(a.lang for a in found)
    return [[lang, *(at[lang, name] for name in dimensions(found))] for lang in langs]


def _lines(found: Sequence[Agreement]) -> list[Sequence[object]]:
    lines: list[Sequence[object]] = []
    for one in found:
        about = [getattr(one, name) for name in _ABOUT]
        for part, figures in (("agreement", one.figures), ("ceiling", one.ceiling)):
            for name, e in figures.items():
                lines.append([*about, part, name, *(getattr(e, key) for key in _ESTIMATE)])
    return lines


def print_agreement(found: Sequence[Agreement]) -> None:
    """One table a language; dimensions run down, so that their names fit a terminal."""
    from rich.table import Table

    from medal_judges.report.console import wide_console

    console = wide_console()
    for lang in dict.fromkeys(a.lang for a in found):
        table: Any = Table(title=lang)
        for name in _HEADS:
            table.add_column(name, justify="left" if name == "dimension" else "right")
        for one in found:
            if one.lang == lang:
                table.add_row(*_row(one))
        console.print(table)
    for note in notes(found):
        console.print(note, style="dim", markup=False, highlight=False)


def _row(one: Agreement) -> tuple[str, ...]:
    alpha = one.figures["alpha"]
    span = _NONE
    if alpha.low is not None and alpha.high is not None:
        span = f"{alpha.low:.2f} to {alpha.high:.2f}"
    positive = _NONE if one.share_positive is None else f"{one.share_positive:.1%}"
    counts = (one.dimension, str(one.shared), str(one.annotators), positive)
    shares = (_percent(one.figures["exact"]), _percent(one.figures.get("adjacent")))
    beyond = (_number(alpha), span, _number(one.figures["spearman"]))
    ceiling = one.ceiling.get(primary_metric(one.kind), Estimate(None))
    return (*counts, *shares, *beyond, _number(ceiling))


def _percent(found: Estimate | None) -> str:
    return _NONE if found is None or found.value is None else f"{found.value:.1%}"


def _number(found: Estimate) -> str:
    return _NONE if found.value is None else f"{found.value:.3f}"


def notes(found: Sequence[Agreement]) -> list[str]:
    """What a reader has to know of these figures, and why some are missing."""
    said = [
        "rows: those with two answers or more; α nominal for issues, ordinal for grades; ceiling: "
        "one annotator against the others, F1+ for issues, Spearman for grades"
    ]
    if any(a.columns == "positions" for a in found):
        said.append(POSITION_NOTE)
    reasons: dict[str, list[str]] = {}
    for one in found:
        if one.figures["alpha"].reason:
            at = f"{one.dimension} ({one.lang})"
            reasons.setdefault(str(one.figures["alpha"].reason), []).append(at)
    said += [f"α: {why}: {', '.join(where)}" for why, where in reasons.items()]
    return said
