"""What ``medal agreement`` writes and prints: the page, JSON, CSV, and tables in the terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from medal_judges.eval.agreement.agreement import ALL, Agreement
from medal_judges.eval.metaeval.rater_model import POSITIONS
from medal_judges.report.console import print_tables, rich_table, wide_console
from medal_judges.report.numbers import interval, label, number
from medal_judges.report.page import Section, counted, facts_section, write_page
from medal_judges.report.table import Cell, Heat, Row, Table, write_csv
from medal_judges.stats.estimate import Estimate
from medal_judges.storage.files import atomic_write

_PERCENT = (
    "Share of pairs of answers to one dialogue that are equal; for graded dimensions (marked "
    "±1) that differ by no more than one. If all pairs or none agree, the interval is Wilson's "
    "with one trial a chatbot or conversation."
)
_ALPHA = (
    "Agreement beyond chance: 1 is perfect, 0 is the agreement of shuffled answers. Nominal for "
    "issues, ordinal for graded dimensions. There is no interval if leaving out one chatbot or "
    "conversation leaves no α, as happens for a rare issue."
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
    "averaged over positions. A judge that is compared with the mean of all of them can score "
    "higher without being better; medal benchmark also compares it with the same others."
)
_ANNOTATORS = (
    "Each annotator on the dialogues that another answered too. Leaning: how far above the average "
    "annotator they answer the same dialogues. Reliability: correlation of their answers with "
    "what annotators share, without the others' errors; above 1 is chance. Issues: how often they "
    "mark one that is there (sensitivity), and leave the other dialogues unmarked (specificity), "
    "by Dawid and Skene's model, as crowd-kit fits it."
)
_ABOUT = ("dimension", "kind", "lang", "rows", "shared", "pairs", "annotators", "columns", "mean",
          "share_positive", "measurement")  # fmt: skip
_PRINTED = ("Dimension", "with 2+ answers", "annotators", "mean answer", "exact", "±1", "α", "ρ")
_ESTIMATE = ("value", "low", "high", "reason")
_GRADED, _ISSUES = ("Graded dimensions", ("ordinal", "continuous")), ("Issues", ("binary",))


def headline(one: Agreement) -> Estimate:
    """Returns adjacent agreement of a graded dimension, exact agreement of any other (Table 4)."""
    return one.figures["adjacent" if one.kind == "ordinal" else "exact"]


# MEDAL's Tables 4 and 5, and the same for Spearman: languages by dimensions.
_GRIDS: dict[str, tuple[str, str, Callable[[Agreement], Estimate]]] = {
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
    """Writes agreement.html, agreement.json, figures.csv, and a CSV of languages by dimensions:
    percent.csv (MEDAL, Table 4), alpha.csv (Table 5), spearman.csv; returns the page's path."""
    record = {"facts": dict(facts), "agreement": [one.to_record() for one in agreements]}
    text = json.dumps(record, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    atomic_write(folder / "agreement.json", text)
    lines = []
    for one in agreements:
        about = [getattr(one, name) for name in _ABOUT]
        parts = [("agreement", one.figures), ("ceiling", one.ceiling)]
        parts += [(f"annotator {a.name}", a.figures) for a in one.each]
        for part, figures in parts:
            for name, estimate in figures.items():
                values = [getattr(estimate, key) for key in _ESTIMATE]
                lines.append((*about, part, name, *values))
    write_csv(folder / "figures.csv", (*_ABOUT, "part", "figure", *_ESTIMATE), lines)
    names, langs = _names(agreements)
    mixed = any(one.columns == POSITIONS for one in agreements)
    graded = {one.dimension for one in agreements if one.kind == "ordinal"}
    sections = []
    for anchor, (title, lead, figure) in _GRIDS.items():
        at = {(one.lang, one.dimension): figure(one) for one in agreements}
        plain = ((lang, *(at[lang, name].value for name in names)) for lang in langs)
        write_csv(folder / f"{anchor}.csv", ("lang", *names), plain)
        heads = [
            n.replace("_", " ") + (" ±1" if anchor == "percent" and n in graded else "")
            for n in names
        ]
        rows = [(lang, *(_heat(at[lang, n]) for n in names)) for lang in langs]
        shown = f"{title.replace('Spearman', 'Spearman ρ')} by language"
        grid = Table(shown, ("Language", *heads), rows, style="heat")
        lead = f"{lead} {_POSITIONS}" if mixed and anchor == "spearman" else lead
        sections.append(Section(anchor, title, [grid], lead))
    people = _annotator_tables(agreements)
    sections += [
        Section("figures", "All figures", [_figure_table(agreements)]),
        Section("ceilings", "Human ceilings", _ceiling_tables(agreements), _CEILING),
        Section("annotators", "Annotators", people, _ANNOTATORS),
        facts_section(facts),
    ]
    several = [lang for lang in langs if lang != ALL]
    subtitle = counted([(len(names), "dimension"), (len(several), "language")])
    return write_page(folder / "agreement.html", heading, subtitle, sections)


def _names(agreements: Sequence[Agreement]) -> tuple[list[str], list[str]]:
    """Returns dimensions and languages in order of appearance."""
    dimensions = dict.fromkeys(one.dimension for one in agreements)
    return list(dimensions), list(dict.fromkeys(one.lang for one in agreements))


def _heat(estimate: Estimate) -> Cell:
    """The figure over its interval, or over a dash with the reason for none."""
    value, reason = estimate.value, estimate.reason
    if value is None:
        return estimate
    below = estimate if reason or interval(estimate) else None
    sign = "neg" if value < 0 else "pos"
    return Heat(number(value), abs(value), sign, reason or "", value, below)  # type: ignore[arg-type]


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
    for lang in _names(agreements)[1]:
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
    none = Estimate(None, reason="not computed")
    tables = []
    for (title, kinds), metrics in (
        (_GRADED, ("spearman", "pearson", "kendall")),
        (_ISSUES, ("f1_present", "f1_absent", "precision", "recall", "accuracy")),
    ):
        chosen = [one for one in agreements if one.ceiling and one.kind in kinds]

        def cells(one: Agreement, metrics: Sequence[str] = metrics) -> Row:
            return [one.ceiling.get(metric, none) for metric in metrics]

        columns = ("Dimension", *map(label, metrics))
        tables.append(_by_language(title, columns, chosen, cells))
    return [table for table in tables if table.rows]


def _annotator_tables(agreements: Sequence[Agreement]) -> list[Table]:
    """The people by name, a table for graded dimensions and one for issues, over all languages."""
    last = {one.dimension: one for one in agreements}  # of all languages, if there are several
    tables = []
    for (title, kinds), metrics in (
        (_GRADED, ("leaning", "reliability")),
        (_ISSUES, ("sensitivity", "specificity")),
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
    """Prints the page's tables, α with its interval, and notes on them."""
    wide_console().print(rich_table(_figure_table(agreements), _PRINTED, intervals=("α",)))
    named = (("Human ceilings", _ceiling_tables), ("Annotators", _annotator_tables))
    notes = [
        "α: nominal for issues, ordinal for graded dimensions; ceiling: one annotator against the "
        "others; the mean answer of an issue is the share of answers that mark it"
    ]
    if any(one.columns == POSITIONS for one in agreements):
        notes.append(_POSITIONS)
    reasons: dict[str, list[str]] = {}
    for one in agreements:
        if reason := one.figures["alpha"].reason:
            reasons.setdefault(reason, []).append(f"{one.dimension} ({one.lang})")
    notes += [f"α: {why}: {', '.join(where)}" for why, where in reasons.items()]
    tables = [
        replace(table, title=f"{name}: {table.title}")
        for name, tables_of in named
        for table in tables_of(agreements)
    ]
    print_tables(tables, notes)
