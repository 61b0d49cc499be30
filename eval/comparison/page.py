"""The page of ``medal compare``: verdicts, tables of systems and pairs, and chats to read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from medal_judges.eval.comparison.compare import HINT
from medal_judges.eval.comparison.results import (
    ALL,
    BASIS_NAMES,
    ComparedOn,
    PairResult,
    SystemComparison,
    SystemResult,
    pair_words,
    spoken,
)
from medal_judges.eval.scores.trust import trust_section
from medal_judges.report.console import Printout
from medal_judges.report.figure import Figure, padded
from medal_judges.report.page import (
    Block,
    Fold,
    Page,
    Section,
    chat_block,
    counted,
    facts_section,
    fragment,
)
from medal_judges.report.table import (
    Cell,
    IntervalBar,
    Row,
    Table,
    ends_of,
    number,
    p_cell,
    slug,
)

_PACKAGE = "medal_judges.eval.comparison"
_PRINTED = 15  # pairs of a table in the terminal; page and CSV have all
_NAMED = 4  # systems in a title
_IN_SIGHT = 12  # pairs of a table that is not folded
_READ = "Pairs of chats in one context. A large difference can also be an error of the judge."
_PEOPLE = (
    "The mean is the estimated human mean of all dialogues: the judge's mean, corrected by its "
    "error on the labelled ones."
)


def comparison_page(comparison: SystemComparison) -> Page:
    """Returns compare.html, compare.json, its tables and figures, and what the terminal shows."""
    count = len(comparison.systems)
    named = f"{count} systems"
    if count <= _NAMED:
        named = " · ".join(comparison.systems)
    counts = [(count, "system"), (sum(comparison.counts.values()), "dialogue")]
    counts.append((len(comparison.dimensions), "dimension"))
    if languages := comparison.languages:
        counts.append((len(languages), "language"))
    tables: dict[str, Table] = {}
    figures: dict[str, Figure] = {}
    printed = []
    blocks: dict[str, list[Block]] = {}
    for result in comparison.results:
        name = f"{slug(result.dimension)}-{slug(result.lang)}"
        systems, pairs = systems_table(result), pairs_table(comparison, result)
        tables |= {f"systems-{name}": systems, f"differences-{name}": pairs}
        if any(system.best.low is not None for system in result.systems):
            figures[f"systems-{name}"] = Figure(systems.title, [systems])
        printed.append(systems)
        if 0 < len(result.pairs) <= _PRINTED:
            printed.append(pairs)
        blocks.setdefault(result.base, []).extend(_table_blocks(result, systems, pairs))
    verdicts = [(sentence, "bold") for sentence in comparison.verdicts()]
    return Page(
        name="compare",
        title=f"Compared: {named}",
        subtitle=counted(counts),
        sections=list(_sections(comparison, blocks)),
        tables=tables,
        figures=figures,
        record=comparison.to_record(),
        printout=Printout(
            tables=printed,
            notes=comparison.notes,
            foot=[(f"Judge: {comparison.judge}", "dim"), *verdicts],
            piped=150,
        ),
    )


def _sections(
    comparison: SystemComparison, blocks: Mapping[str, Sequence[Block]]
) -> Iterator[Section]:
    """Yields the sections; ``blocks`` has the tables of each dimension."""
    verdicts = [_verdict(result) for result in comparison.over_languages]
    summary = fragment(_PACKAGE, "verdict.html", verdicts=verdicts, by=BASIS_NAMES)
    notes = [note.removesuffix(HINT) for note in comparison.notes]
    yield Section("verdict", "Which is better", [summary, *notes])
    for dimension, tables in blocks.items():
        yield Section(slug(dimension), spoken(dimension), tables)
    folds = _differing_folds(comparison)
    yield Section("differing", "Where the scores differ most", folds, _READ, "Chats")
    yield trust_section([comparison.judge])
    systems = chain.from_iterable(result.systems for result in comparison.results)
    has_labels = any(system.labelled for system in systems)
    comparisons = comparison.comparisons
    terms = fragment(_PACKAGE, "terms.html", comparisons=comparisons, people=has_labels)
    yield Section("terms", "How to read it", [terms])
    yield facts_section(comparison.facts)


def _verdict(result: ComparedOn) -> tuple[ComparedOn, str, str, bool]:
    """Returns the result in words, by how much, and whether any two systems can be told apart."""
    verdict, how = result.words()
    how = how.lstrip(" ,:;")
    best_two = {system.system for system in result.systems[:2]}
    for pair in result.pairs:
        # Of many systems: how far the best is ahead.
        if not how and {pair.first, pair.second} == best_two:
            how = "".join(pair_words(pair, result.good))
    return result, verdict, how, any(pair.apart for pair in result.pairs)


def _table_blocks(result: ComparedOn, systems: Table, pairs: Table) -> list[Block]:
    """Returns the tables of a result; those of a single language are folded."""
    blocks: list[Block] = [systems]
    if len(pairs.rows) > _IN_SIGHT:
        blocks.append(Fold(f"{len(pairs.rows)} differences", [pairs]))
    elif pairs.rows:
        blocks.append(pairs)
    if result.lang == ALL:
        return blocks
    return [Fold(f"Language: {result.lang}", blocks)]


def _differing_folds(comparison: SystemComparison) -> list[Fold]:
    folds: list[Fold] = []
    for dimension, sides in comparison.differing:
        scores = ", ".join(f"{system} {number(score)}" for system, _, score, _ in sides)
        chats = [(*side, chat_block(side[3])) for side in sides]
        block = fragment(_PACKAGE, "differing.html", chats=chats)
        folds.append(Fold(f"{spoken(dimension)}: {scores}", [block], is_open=not folds))
    return folds


def systems_table(result: ComparedOn) -> Table:
    """Returns a table with one row a system, best first."""
    is_corrected = result.basis == "people"
    has_labels = any(system.labelled for system in result.systems)
    has_gaps = any(system.unscored for system in result.systems)
    span = padded(ends_of(system.best for system in result.systems) or [0.0, 1.0])
    columns = ["System", "Mean", "", "Rank · group"]
    columns += ["Judge alone"] * is_corrected
    columns += ["People, labelled ones", "Labelled"] * has_labels
    columns += ["Dialogues"] + ["Unscored"] * has_gaps
    rows: list[Row] = []
    for system in result.systems:
        bar = IntervalBar(system.best, span)
        cells: list[Cell] = [system.system, system.best, bar, _rank(system)]
        if is_corrected:
            cells.append(system.judge)
        if has_labels:
            cells += [system.people, system.labelled]
        cells.append(system.n)
        if has_gaps:
            cells.append(system.unscored)
        rows.append(cells)
    note = _PEOPLE if is_corrected else "The mean is the judge's."
    if result.bad is not None:
        columns[1] = "Share"
        note = note.replace("mean", "share")
    if result.good == "low":
        note += " Lower is better."
    return Table(f"{result.label}: systems", columns, rows, note)


def _rank(system: SystemResult) -> str:
    first, last = system.rank
    ranks = f"{first}" if first == last else f"{first} to {last}"
    return f"{ranks} · {system.groups}"


def pairs_table(comparison: SystemComparison, result: ComparedOn) -> Table:
    """Returns a table with one row a pair of systems."""
    is_corrected = any(pair.difference.corrected is not None for pair in result.pairs)
    rows: list[Row] = []
    for pair in result.pairs:
        cells: list[Cell] = [pair.first, pair.second, pair.estimate]
        cells.append(p_cell(pair.estimate))
        if is_corrected:
            cells.append(pair.difference.judge.estimate)
        rows.append([*cells, _wins(pair), _how_compared(pair), pair.tested.smallest])
    columns = ["First", "Second", "Difference", "p"]
    columns += ["Judge alone"] * is_corrected
    columns += ["Won · tied · lost", "Compared", "Smallest"]
    note = ""
    if comparison.comparisons > 1 and result.bad is None:
        note = (
            f"Intervals and p-values are corrected alike for all {comparison.comparisons} "
            "comparisons (Holm): an interval excludes 0 if its p-value is below 0.05."
        )
    return Table(f"{result.label}: differences", columns, rows, note)


def _wins(pair: PairResult) -> str:
    """Returns what the first won, tied and lost: in contexts, or in percent of all pairs."""
    difference = pair.difference
    counts = (difference.wins, difference.ties, difference.losses)
    if difference.by_context:
        return " · ".join(f"{count:,}" for count in counts)
    total = max(1, sum(counts))
    return " · ".join(f"{count / total:.0%}" for count in counts)


def _how_compared(pair: PairResult) -> str:
    difference = pair.difference
    texts: list[str] = [difference.pairing]
    if difference.shared:
        texts.append(counted([(difference.shared, "context")]))
    if difference.rows != (difference.shared, difference.shared):
        texts.append("{:,} and {:,}".format(*difference.rows))
    if any(difference.left_out):
        texts.append("{:,} and {:,} left out".format(*difference.left_out))
    return ", ".join(texts)
