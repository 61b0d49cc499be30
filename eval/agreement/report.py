"""What ``medal agreement`` writes and prints: the page, JSON, CSV, and tables in the terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from medal_judges.eval.agreement.agreement import ABOUT, ALL, ESTIMATE, Agreement
from medal_judges.eval.metaeval.rater_model import POSITIONS
from medal_judges.report.console import print_tables, rich_table, wide_console
from medal_judges.report.numbers import interval, label, number
from medal_judges.report.page import Section, counted, facts_section, write_page
from medal_judges.report.table import Cell, Heat, Row, Table, write_csv
from medal_judges.stats.estimate import Estimate
from medal_judges.storage.files import atomic_write

_POSITIONS = (
    "The rows do not name their annotators, so a pair is two positions in the label list. If a "
    "position is not the same person throughout, ρ mixes people; α and percent agreement do not "
    "depend on it."
)
_F1 = ("f1_present", "f1_absent", "precision", "recall", "accuracy")
_NO_FIGURE = Estimate(None, reason="not computed")


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
        parts = {"agreement": one.figures, "ceiling": one.ceiling}
        parts |= {f"annotator {person.name}": person.figures for person in one.each}
        about = [getattr(one, name) for name in ABOUT]
        for part, figures in parts.items():
            for name, estimate in figures.items():
                lines.append((*about, part, name, *(getattr(estimate, key) for key in ESTIMATE)))
    write_csv(folder / "figures.csv", (*ABOUT, "part", "figure", *ESTIMATE), lines)
    names = list(dict.fromkeys(one.dimension for one in agreements))
    langs = list(dict.fromkeys(one.lang for one in agreements))
    sections = []
    titles = {"percent": "Percent agreement", "alpha": "Krippendorff's α", "spearman": "Spearman"}
    mixed = any(one.columns == POSITIONS for one in agreements)
    for anchor, title in titles.items():
        heads = {name: name.replace("_", " ") for name in names}
        at = {}
        for one in agreements:
            graded = anchor == "percent" and one.kind == "ordinal"
            key = "adjacent" if graded else "exact" if anchor == "percent" else anchor
            at[one.lang, one.dimension] = one.figures[key]
            heads[one.dimension] += " ±1" if graded and one.lang == langs[0] else ""
        plain = ((lang, *(at[lang, name].value for name in names)) for lang in langs)
        write_csv(folder / f"{anchor}.csv", ("lang", *names), plain)
        rows = [(lang, *(_heat(at[lang, name]) for name in names)) for lang in langs]
        shown = "Spearman ρ" if anchor == "spearman" else title
        grid = Table(f"{shown} by language", ("Language", *heads.values()), rows, style="heat")
        note = [_POSITIONS] if mixed and anchor == "spearman" else []
        sections.append(Section(anchor, title, [*note, grid]))
    tables = _people_tables(agreements)
    sections += [
        Section("figures", "All figures", [_figure_table(agreements)]),
        Section("ceilings", "Human ceilings", tables["Human ceilings"]),
        Section("annotators", "Annotators", tables["Annotators"]),
        facts_section(facts),
    ]
    several = [lang for lang in langs if lang != ALL]
    subtitle = counted([(len(names), "dimension"), (len(several), "language")])
    return write_page(folder / "agreement.html", heading, subtitle, sections, leads=__package__)


def _heat(estimate: Estimate) -> Cell:
    """The figure over its interval, or over a dash with the reason for none."""
    value, reason = estimate.value, estimate.reason
    if value is None:
        return estimate
    below = estimate if reason or interval(estimate) else None
    sign = "neg" if value < 0 else "pos"
    return Heat(number(value), abs(value), sign, reason or "", value, below)  # type: ignore[arg-type]


def _grouped(
    title: str, columns: Sequence[str], groups: Mapping[str, Sequence[Row]], note: str = ""
) -> Table:
    """Returns a table with a heading for each group of rows."""
    rows: list[Row] = []
    headings: dict[int, str] = {}
    for heading, own in groups.items():
        headings[len(rows)] = heading
        rows += own
    return Table(title, columns, rows, note, headings)


def _figure_table(agreements: Sequence[Agreement]) -> Table:
    """Every figure with its counts."""
    by_lang: dict[str, list[Row]] = {}
    for one in agreements:
        row: Row = (
            one.dimension.replace("_", " "),
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
        by_lang.setdefault(one.lang, []).append(row)
    columns = ("Dimension", "rows", "with 2+ answers", "pairs", "annotators", "mean answer",
               "exact", "±1", "α is", "α", "ρ")  # fmt: skip
    note = "The mean answer of an issue is the share of answers that mark it."
    return _grouped("Figures by language and dimension", columns, by_lang, note)


def _people_tables(agreements: Sequence[Agreement]) -> dict[str, list[Table]]:
    """The human ceilings by language, and the people by name over all languages: of each a table
    for graded dimensions and one for issues, if they have rows."""
    tables: dict[str, list[Table]] = {"Human ceilings": [], "Annotators": []}
    last = {one.dimension: one for one in agreements}  # of all languages, if there are several
    for title, against, alone in (
        ("Graded dimensions", ("spearman", "pearson", "kendall"), ("leaning", "reliability")),
        ("Issues", _F1, ("sensitivity", "specificity")),
    ):
        ceilings: dict[str, list[Row]] = {}
        for one in agreements:
            if one.ceiling and (one.kind == "binary") == (title == "Issues"):
                figures = [one.ceiling.get(metric, _NO_FIGURE) for metric in against]
                cells: Row = (one.dimension.replace("_", " "), *figures)
                ceilings.setdefault(one.lang, []).append(cells)
        people: dict[str, list[Row]] = {
            name.replace("_", " "): [
                (a.name, a.answers, *(a.figures[metric] for metric in alone)) for a in one.each
            ]
            for name, one in last.items()
            if one.each and (one.kind == "binary") == (title == "Issues")
        }
        if ceilings:
            columns = ["Dimension", *map(label, against)]
            tables["Human ceilings"].append(_grouped(title, columns, ceilings))
        if people:
            columns = ["Annotator", "answers", *alone]
            tables["Annotators"].append(_grouped(title, columns, people))
    return tables


def print_agreement(agreements: Sequence[Agreement]) -> None:
    """Prints the page's tables, α with its interval, and notes on them."""
    printed = ("Dimension", "with 2+ answers", "annotators", "mean answer", "exact", "±1", "α", "ρ")
    wide_console().print(rich_table(_figure_table(agreements), printed, intervals=("α",)))
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
        for name, own in _people_tables(agreements).items()
        for table in own
    ]
    print_tables(tables, notes)
