"""What ``medal agreement`` writes and prints: the page, JSON, CSV, and tables in the terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from medal_judges.eval.agreement.agreement import ALL, Agreement
from medal_judges.eval.metaeval.rater_model import POSITIONS
from medal_judges.report.console import rich_table, wide_console
from medal_judges.report.numbers import interval, label, number
from medal_judges.report.page import Section, counted, facts_section, write_page
from medal_judges.report.table import Cell, Heat, Row, Table, write_csv
from medal_judges.stats.estimate import Estimate
from medal_judges.storage.files import atomic_write

_PERCENT = (
    "Share of pairs of answers to one dialogue that are equal; for graded dimensions (marked "
    "±1) that differ by no more than one. Where all pairs or none agree, the interval is "
    "Wilson's with one trial a chatbot or conversation."
)
_ALPHA = (
    "Agreement beyond chance: 1 is perfect, 0 what shuffled answers would give. Nominal for "
    "issues, ordinal for graded dimensions. There is no interval where leaving "
    "out one chatbot or conversation leaves no α, as happens when an issue is rare."
)
_SPEARMAN = (
    "Spearman ρ of two annotators over the dialogues both answered, averaged over pairs of "
    "annotators by the number of those dialogues. Of more than 50 annotators, ρ and the ceiling "
    "are over the 50 with most answers."
)
_POSITIONS = (
    "The rows do not name their annotators, so a pair is two positions in the label list. If a "
    "position is not the same person throughout, ρ mixes people; α and percent agreement do not "
    "depend on it."
)
_CEILING = (
    "One annotator against the mean of the others (graded), or one against another (issues), "
    "averaged over positions. A judge that is held against the mean of all of them can score "
    "higher without being better; medal benchmark holds it against the same others too."
)
_ANNOTATORS = (
    "Each annotator on the dialogues that another answered too. Leaning: how far above the average "
    "annotator they answer the same dialogues. Reliability: correlation of their answers with "
    "what annotators share, without the others' errors; above 1 is chance. Issues: how often they "
    "mark one that is there (sensitivity), and leave alone what is none (specificity), by Dawid "
    "and Skene's model, as crowd-kit fits it."
)
_ABOUT = ("dimension", "kind", "lang", "rows", "shared", "pairs", "annotators", "columns", "mean",
          "share_positive", "measurement")  # fmt: skip
_PRINTED = ("Dimension", "with 2+ answers", "annotators", "mean answer", "exact", "±1", "α", "ρ")
_ESTIMATE = ("value", "low", "high", "reason")

Figure = Callable[[Agreement], Estimate]


def headline(one: Agreement) -> Estimate:
    """Adjacent agreement of a graded dimension, exact agreement of any other (Table 4)."""
    return one.figures["adjacent" if one.kind == "ordinal" else "exact"]


# MEDAL's Tables 4 and 5, and the same of Spearman: languages by dimensions.
_GRIDS: dict[str, tuple[str, str, Figure]] = {
    "percent": ("Percent agreement", _PERCENT, headline),
    "alpha": ("Krippendorff's α", _ALPHA, lambda one: one.figures["alpha"]),
    "spearman": ("Spearman", _SPEARMAN, lambda one: one.figures["spearman"]),
}


def write_agreement(
    agreements: Sequence[Agreement],
    heading: str,
    facts: Sequence[tuple[str, str]],
    folder: Path,
) -> Path:
    """Write agreement.html, agreement.json, figures.csv, and one CSV each of languages by
    dimensions: percent.csv (MEDAL, Table 4), alpha.csv (Table 5), spearman.csv. Path of the page.
    """
    record = {"facts": dict(facts), "agreement": [one.to_record() for one in agreements]}
    text = json.dumps(record, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    atomic_write(folder / "agreement.json", text)
    lines = (
        (
            *(getattr(one, name) for name in _ABOUT),
            part,
            name,
            *(getattr(estimate, key) for key in _ESTIMATE),
        )
        for one in agreements
        for part, figures in (
            ("agreement", one.figures),
            ("ceiling", one.ceiling),
            *((f"annotator {a.name}", a.figures) for a in one.each),
        )
        for name, estimate in figures.items()
    )
    write_csv(folder / "figures.csv", (*_ABOUT, "part", "figure", *_ESTIMATE), lines)
    names = _dimensions(agreements)
    for file, (_, _, figure) in _GRIDS.items():
        at = {(one.lang, one.dimension): figure(one).value for one in agreements}
        rows = ((lang, *(at[lang, name] for name in names)) for lang in _langs(agreements))
        write_csv(folder / f"{file}.csv", ("lang", *names), rows)
    langs = [lang for lang in _langs(agreements) if lang != ALL]
    subtitle = counted([(len(_dimensions(agreements)), "dimension"), (len(langs), "language")])
    mixed = any(one.columns == POSITIONS for one in agreements)
    sections = [
        Section(
            anchor,
            name,
            [_grid(name, agreements, figure)],
            f"{lead} {_POSITIONS}" if mixed and anchor == "spearman" else lead,
        )
        for anchor, (name, lead, figure) in _GRIDS.items()
    ]
    sections.append(Section("figures", "All figures", [_figure_table(agreements)]))
    sections.append(Section("ceilings", "Human ceilings", _ceiling_tables(agreements), _CEILING))
    if each := _annotator_tables(agreements):
        sections.append(Section("annotators", "Annotators", each, _ANNOTATORS))
    sections.append(facts_section(facts))
    return write_page(folder / "agreement.html", heading, subtitle, sections)


def _dimensions(agreements: Sequence[Agreement]) -> list[str]:
    """Dimensions in order of appearance."""
    return list(dict.fromkeys(one.dimension for one in agreements))


def _langs(agreements: Sequence[Agreement]) -> list[str]:
    return list(dict.fromkeys(one.lang for one in agreements))


def _grid(name: str, agreements: Sequence[Agreement], figure: Figure) -> Table:
    """A heat map, one row a language and one column a dimension."""
    at = {(one.lang, one.dimension): figure(one) for one in agreements}
    names = _dimensions(agreements)
    graded = {one.dimension for one in agreements if figure is headline and one.kind == "ordinal"}
    columns = [n.replace("_", " ") + (" ±1" if n in graded else "") for n in names]
    rows = [(lang, *(_heat(at[lang, n]) for n in names)) for lang in _langs(agreements)]
    title = f"{name.replace('Spearman', 'Spearman ρ')} by language"
    return Table(title, ("Language", *columns), rows, style="heat")


def _heat(estimate: Estimate) -> Cell:
    """The figure over its interval, or over a dash that says why there is none."""
    value, reason = estimate.value, estimate.reason
    if value is None:
        return estimate
    below = estimate if reason or interval(estimate) else None
    sign: Literal["pos", "neg"] = "neg" if value < 0 else "pos"
    return Heat(number(value), abs(value), sign, reason or "", value, below)


def _by_language(
    title: str,
    columns: Sequence[str],
    agreements: Sequence[Agreement],
    cells: Callable[[Agreement], Row],
    note: str = "",
) -> Table:
    """One row a dimension, grouped by language."""
    rows: list[Row] = []
    headings: dict[int, str] = {}
    for lang in _langs(agreements):
        headings[len(rows)] = lang
        in_lang = [one for one in agreements if one.lang == lang]
        rows += [(one.dimension.replace("_", " "), *cells(one)) for one in in_lang]
    return Table(title, columns, rows, note, headings)


def _figure_table(agreements: Sequence[Agreement]) -> Table:
    """Every figure with its counts."""

    def cells(one: Agreement) -> Row:
        return (
            one.rows,
            one.shared,
            one.pairs,
            f"{one.annotators} {one.columns}",
            Estimate(one.mean, reason=None if one.mean is not None else "no answer"),
            one.figures["exact"],
            one.figures.get("adjacent", Estimate(None, reason="not a graded dimension")),
            one.measurement,
            one.figures["alpha"],
            one.figures["spearman"],
        )

    columns = ("Dimension", "rows", "with 2+ answers", "pairs", "annotators", "mean answer",
               "exact", "±1", "α is", "α", "ρ")  # fmt: skip
    note = "The mean answer of an issue is the share of answers that mark it."
    return _by_language("Figures by language and dimension", columns, agreements, cells, note)


def _ceiling_tables(agreements: Sequence[Agreement]) -> list[Table]:
    """One annotator against the others, a table for graded dimensions and one for issues."""

    def table(title: str, kinds: Sequence[str], metrics: Sequence[str]) -> Table:
        chosen = [one for one in agreements if one.ceiling and one.kind in kinds]
        none = Estimate(None, reason="not computed")
        columns = ("Dimension", *map(label, metrics))
        return _by_language(
            title, columns, chosen, lambda one: [one.ceiling.get(m, none) for m in metrics]
        )

    tables = (
        table("Graded dimensions", ("ordinal", "continuous"), ("spearman", "pearson", "kendall")),
        table(
            "Issues", ("binary",), ("f1_present", "f1_absent", "precision", "recall", "accuracy")
        ),
    )
    return [table for table in tables if table.rows]


def _annotator_tables(agreements: Sequence[Agreement]) -> list[Table]:
    """The people by name, a table for graded dimensions and one for issues; over all languages
    where there are several, since people's habits hardly change with them."""
    last = {one.dimension: one for one in agreements}  # of all languages, where there are several
    tables = []
    for title, kinds, metrics in (
        ("Graded dimensions", ("ordinal", "continuous"), ("leaning", "reliability")),
        ("Issues", ("binary",), ("sensitivity", "specificity")),
    ):
        rows: list[Row] = []
        headings: dict[int, str] = {}
        for one in last.values():
            if one.kind in kinds and one.each:
                headings[len(rows)] = one.dimension.replace("_", " ")
                rows += [(a.name, a.answers, *(a.figures[m] for m in metrics)) for a in one.each]
        tables.append(Table(title, ("Annotator", "answers", *metrics), rows, headings=headings))
    return [table for table in tables if table.rows]


def print_agreement(agreements: Sequence[Agreement]) -> None:
    """The page's tables, α with its interval."""
    console = wide_console()
    console.print(rich_table(_figure_table(agreements), _PRINTED, intervals=("α",)))
    for table in _ceiling_tables(agreements):
        console.print(rich_table(replace(table, title=f"Human ceilings: {table.title}")))
    for table in _annotator_tables(agreements):
        console.print(rich_table(replace(table, title=f"Annotators: {table.title}")))
    for note in _notes(agreements):
        console.print(note, style="dim", highlight=False)


def _notes(agreements: Sequence[Agreement]) -> list[str]:
    """What a reader has to know of these figures, and why some are missing."""
    lines = [
        "α: nominal for issues, ordinal for graded dimensions; ceiling: one annotator against the "
        "others; the mean answer of an issue is the share of answers that mark it"
    ]
    if any(one.columns == POSITIONS for one in agreements):
        lines.append(_POSITIONS)
    reasons: dict[str, list[str]] = {}
    for one in agreements:
        if reason := one.figures["alpha"].reason:
            reasons.setdefault(reason, []).append(f"{one.dimension} ({one.lang})")
    return lines + [f"α: {why}: {', '.join(where)}" for why, where in reasons.items()]
