"""What ``medal compare`` prints and writes: tables, the page, JSON, CSV and figures."""

from __future__ import annotations

import json
from pathlib import Path

from markupsafe import Markup

from medal_judges.eval.comparison.compare import ALL, ComparedOn, SystemComparison
from medal_judges.report.console import print_tables, wide_console
from medal_judges.report.figure import Figure, padded
from medal_judges.report.page import (
    Block,
    Fold,
    Section,
    counted,
    facts_section,
    fragment,
    write_page,
)
from medal_judges.report.table import Cell, IntervalBar, PValue, Row, Table, slug
from medal_judges.storage.files import atomic_write

_PRINTED = 15  # pairs of a table in the terminal; page and CSV have all
_NAMED = 4  # systems in a title
_IN_SIGHT = 12  # pairs of a table that is not folded
_PEOPLE = (
    "The mean is the estimated human mean of all dialogues: the judge's mean, corrected by its "
    "error on the labelled ones."
)


def print_comparison(found: SystemComparison) -> None:
    """Prints a table of systems and one of differences for each dimension, then the verdicts."""
    tables = []
    for result in found.results:
        tables.append(systems_table(result))
        if 0 < len(result.pairs) <= _PRINTED:
            tables.append(pairs_table(found, result))
    print_tables(tables, found.notes, piped=150)
    console = wide_console(piped=150)
    console.print(f"Judge: {found.judge}", highlight=False, style="dim", soft_wrap=True)
    for sentence in found.verdicts():
        console.print(sentence, highlight=False, style="bold", soft_wrap=True)


def write_comparison(found: SystemComparison, folder: Path) -> Path:
    """Writes compare.json, compare.html, tables/*.csv and figures/*; returns the page's path."""
    record = json.dumps(found.to_record(), ensure_ascii=False, indent=1, allow_nan=False)
    atomic_write(folder / "compare.json", record + "\n")
    count, langs = len(found.systems), len(found.languages)
    named = " · ".join(found.systems) if count <= _NAMED else f"{count} systems"
    dialogues = sum(found.counts.values())
    counts = [(count, "system"), (dialogues, "dialogue"), (len(found.dimensions), "dimension")]
    counts += [(langs, "language")] if langs else []
    verdicts = [Markup('<li dir="auto">{}</li>').format(text) for text in found.verdicts()]
    lead: list[Block] = [Markup("<ul>{}</ul>").format(Markup("").join(verdicts)), *found.notes]
    terms = fragment(str(__package__), "terms.html", comparisons=found.comparisons)
    sections = [Section("verdict", "Which is better", lead)]
    sheets: dict[str, Table] = {}
    figures: dict[str, Figure] = {}
    for dimension in found.dimensions:  # all languages together, then each in a fold
        blocks: list[Block] = []
        for result in found.results:
            if result.dimension == dimension:
                systems, pairs = systems_table(result), pairs_table(found, result)
                name = f"{slug(dimension)}-{slug(result.lang)}"
                sheets |= {f"systems-{name}": systems, f"differences-{name}": pairs}
                if any(system.best.low is not None for system in result.systems):
                    figures[f"systems-{name}"] = Figure(systems.title, [systems])
                tables: list[Block] = [systems]
                if len(pairs.rows) > _IN_SIGHT:
                    tables.append(Fold(f"{len(pairs.rows)} differences", [pairs]))
                elif pairs.rows:
                    tables.append(pairs)
                lang = result.lang
                blocks += tables if lang == ALL else [Fold(f"Language: {lang}", tables)]
        sections.append(Section(slug(dimension), dimension.replace("_", " "), blocks))
    return write_page(
        folder / "compare.html",
        f"Compared: {named}",
        counted(counts),
        [
            *sections,
            Section("terms", "How to read it", [terms]),
            facts_section(found.facts),
        ],
        tables=sheets,
        figures=figures,
    )


def _title(result: ComparedOn, what: str) -> str:
    name = result.dimension.replace("_", " ")
    return f"{name}: {what}" if result.lang == ALL else f"{name}, {result.lang}: {what}"


def systems_table(result: ComparedOn) -> Table:
    """One row a system, best first."""
    people = result.basis == "people"
    labelled = any(system.labelled for system in result.systems)
    unscored = any(system.unscored for system in result.systems)
    best = [system.best for system in result.systems]
    ends = [end for e in best for end in (e.value, e.low, e.high) if end is not None]
    span = padded(ends) if ends else (0.0, 1.0)
    rows: list[Row] = []
    for system in result.systems:
        first, last = system.rank
        rank = f"{first}" if first == last else f"{first} to {last}"
        bar = IntervalBar(system.best, span)
        cells: list[Cell] = [system.system, system.best, bar, f"{rank} · {system.groups}"]
        cells += [system.judge] if people else []
        cells += [system.people, system.labelled] if labelled else []
        rows.append((*cells, system.n, *([system.unscored] if unscored else [])))
    heads = ["System", "Mean", "", "Rank · group"]
    heads += ["Judge alone"] if people else []
    heads += ["People, labelled ones", "Labelled"] if labelled else []
    heads += ["Dialogues", *(["Unscored"] if unscored else [])]
    note = _PEOPLE if people else "The mean is the judge's."
    note += "" if result.good == "high" else " Lower is better."
    return Table(_title(result, "systems"), heads, rows, note)


def pairs_table(found: SystemComparison, result: ComparedOn) -> Table:
    """One row a pair of systems."""
    people = any(pair.difference.corrected is not None for pair in result.pairs)
    rows: list[Row] = []
    for pair in result.pairs:
        difference = pair.difference
        p_value = None if pair.p_holm is None else PValue(pair.p_holm)
        cells: list[Cell] = [pair.first, pair.second, pair.tested.estimate, p_value]
        cells += [difference.judge.estimate] if people else []
        counts = (difference.wins, difference.ties, difference.losses)
        if difference.by_context:
            cells.append(" · ".join(f"{count:,}" for count in counts))
        else:
            cells.append(" · ".join(f"{count / max(1, sum(counts)):.0%}" for count in counts))
        how: list[str] = [difference.pairing]
        if difference.shared:
            how.append(f"{difference.shared:,} contexts")
        if difference.rows != (difference.shared, difference.shared):
            how.append(f"{difference.rows[0]:,} and {difference.rows[1]:,}")
        if any(difference.left_out):
            how.append(f"{difference.left_out[0]:,} and {difference.left_out[1]:,} left out")
        rows.append((*cells, ", ".join(how), pair.tested.smallest))
    heads = ["First", "Second", "Difference", "p", *(["Judge alone"] if people else [])]
    heads += ["Won · tied · lost", "Compared", "Smallest"]
    note = (
        "Each interval is of its difference alone; p is after Holm's correction over all "
        f"{found.comparisons} comparisons, so it may be above 0.05 although the interval excludes "
        "0."
    )
    return Table(_title(result, "differences"), heads, rows, note if found.comparisons > 1 else "")
