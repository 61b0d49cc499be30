"""The page of ``medal compare``: verdicts, and tables of systems and pairs."""

from __future__ import annotations

from collections.abc import Mapping

from medal_judges.eval.comparison.results import (
    ComparedOn,
    SystemComparison,
    name_in_words,
    pairing_words,
)
from medal_judges.report.console import Printout
from medal_judges.report.figure import Figure, Intervals, axis_range
from medal_judges.report.page import (
    Block,
    Page,
    Section,
    count_text,
    facts_section,
    render_template,
)
from medal_judges.report.table import (
    Cell,
    Row,
    Share,
    Table,
    in_percent,
    p_value_cell,
    slug,
)
from medal_judges.stats.intervals import Estimate

_PACKAGE = "medal_judges.eval.comparison"
_NAMED = 4  # systems in a title
_LINES = 3  # of the table in the terminal
_NOTES = 2  # in the terminal; the page has all


def comparison_page(comparison: SystemComparison) -> Page:
    """Returns the page compare.html, with compare.json, tables and figures."""
    answers = [
        result.headline_sentence() for result in comparison.results if result.bad
    ]
    answers.insert(0, comparison.results[0].headline_sentence())
    notes = comparison.notes
    if len(comparison.results[0].pairs) == 1:
        pairing = pairing_words(comparison.results[0].pairs[0]).capitalize()
        if comparison.results[0].basis == "people":
            pairing += ", corrected by human labels"
        notes = [" ".join([f"{pairing}.", *notes[:1]]), *notes[1:]]
    count = len(comparison.systems)
    named = f"{count} systems"
    if count <= _NAMED:
        named = " · ".join(comparison.systems)
    counts = [(count, "system"), (sum(comparison.counts.values()), "dialogue")]
    counts.append((len(comparison.dimensions), "dimension"))
    tables: dict[str, Table] = {}
    figures: dict[str, Figure] = {}
    blocks: dict[str, list[Block]] = {}
    for result in comparison.results:
        name = slug(result.dimension)
        systems, pairs = systems_table(result), pairs_table(result)
        tables |= {f"systems-{name}": systems, f"differences-{name}": pairs}
        figures[name] = _figure(result)
        blocks.setdefault(result.judged_dimension, []).extend(
            [figures[name], systems, pairs]
        )
    return Page(
        name="compare",
        title=f"Compared: {named}",
        subtitle=count_text(counts),
        sections=_sections(comparison, blocks),
        tables=tables,
        figures=figures,
        record=comparison.to_record(),
        printout=Printout(
            head=answers[:2],
            tables=[short_table(comparison)],
            notes=notes[:_NOTES],
        ),
    )


def _sections(
    comparison: SystemComparison, blocks: Mapping[str, list[Block]]
) -> list[Section]:
    """Returns the sections of the page.

    Args:
        blocks: Dimension -> its pictures and tables.
    """
    summary = [*comparison.verdicts(), *comparison.notes]
    sections = [Section("verdict", "Which is better", summary)]
    for dimension, parts in blocks.items():
        sections.append(Section(slug(dimension), name_in_words(dimension), parts))
    terms = render_template(_PACKAGE, "terms.html", comparisons=comparison.comparisons)
    sections.append(Section("terms", "How to read it", [terms]))
    return [*sections, facts_section(comparison.facts)]


def short_table(comparison: SystemComparison) -> Table:
    """Returns the table for the terminal, of at most 3 rows.

    For two systems (such as chatbots), it has a row for each dimension with both means and their
    difference. For three or more, it has a row for each system with its mean on the first
    dimension.
    """
    first = comparison.results[0]
    rows: list[Row] = []
    if len(first.pairs) != 1:
        for system in first.systems:
            rows.append([system.system, _cell(first, system.best), system.n])
        columns = ["System", name_in_words(first.dimension), "Dialogues"]
        return Table("", columns, rows[:_LINES])
    for result in comparison.results:
        best_of = {system.system: system.best for system in result.systems}
        cells: list[Cell] = [name_in_words(result.dimension)]
        for name in comparison.systems:
            cells.append(_cell(result, best_of.get(name)))
        for pair in result.pairs:
            cells.append(_cell(result, pair.estimate, signed=True))
            cells.append(p_value_cell(pair.estimate.p_value))
        rows.append(cells + [None] * (5 - len(cells)))
    title = f"{first.pairs[0].first} minus {first.pairs[0].second}"
    columns = ["Dimension", *comparison.systems, title, "p"]
    return Table("", columns, rows[:_LINES])


def _cell(result: ComparedOn, estimate: Estimate | None, signed: bool = False) -> Cell:
    """Returns ``estimate`` as a table cell: a share in percent, a mean unchanged.

    Args:
        signed: Whether to show the sign, as of a difference.
    """
    if estimate is None or not result.is_share:
        return estimate
    return Share(estimate, signed)


def _figure(result: ComparedOn) -> Figure:
    """Returns a figure with the mean or share of each system, the best system first."""
    estimates = [system.best for system in result.systems]
    if result.is_share:
        estimates = [in_percent(estimate) for estimate in estimates]
    title = name_in_words(result.dimension) + (", %" if result.is_share else "")
    names = [system.system for system in result.systems]
    return Figure(title, [Intervals(title, names, estimates, axis_range(estimates))])


def systems_table(result: ComparedOn) -> Table:
    """Returns a table with a row for each system (such as a chatbot), the best first."""
    is_corrected = result.basis == "people"
    has_labels = any(system.labelled for system in result.systems)
    has_gaps = any(system.unscored for system in result.systems)
    columns = ["System", "Mean" if result.bad is None else "Share"]
    columns += ["Judge alone"] * is_corrected
    columns += ["People, labelled ones", "Labelled"] * has_labels
    columns += ["Dialogues"] + ["Unscored"] * has_gaps
    rows: list[Row] = []
    for system in result.systems:
        cells: list[Cell] = [system.system, _cell(result, system.best)]
        if is_corrected:
            cells.append(_cell(result, system.judge))
        if has_labels:
            cells += [_cell(result, system.people), system.labelled]
        cells.append(system.n)
        if has_gaps:
            cells.append(system.unscored)
        rows.append(cells)
    note = "By the judge."
    if is_corrected:
        note = "The estimated human mean of all dialogues: the judge's, corrected by its error on "
        note += "the labelled ones."
    if result.good == "low":
        note += " Lower is better."
    return Table(f"{name_in_words(result.dimension)}: systems", columns, rows, note)


def pairs_table(result: ComparedOn) -> Table:
    """Returns a table with a row for each pair of systems (such as chatbots)
    and their difference."""
    is_corrected = any(pair.difference.corrected is not None for pair in result.pairs)
    columns = ["First", "Second", "Difference", "p"]
    columns += ["Judge alone"] * is_corrected
    columns += ["Won · tied · lost", "Compared", "Smallest"]
    rows: list[Row] = []
    for pair in result.pairs:
        cells: list[Cell] = [pair.first, pair.second]
        cells.append(_cell(result, pair.estimate, signed=True))
        cells.append(p_value_cell(pair.estimate.p_value))
        if is_corrected:
            alone = pair.difference.judge.estimate
            cells.append(_cell(result, alone, signed=True))
        smallest: Cell = pair.tested.smallest_detectable
        counts = (pair.difference.wins, pair.difference.ties, pair.difference.losses)
        won = None
        if any(counts):
            won = " · ".join(f"{count:,}" for count in counts)
        cells += [won, pairing_words(pair)]
        if pair.tested.smallest_detectable is not None:
            smallest = _cell(
                result, Estimate(pair.tested.smallest_detectable), signed=True
            )
        rows.append([*cells, smallest])
    return Table(f"{name_in_words(result.dimension)}: differences", columns, rows)
