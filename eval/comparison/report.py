"""What ``medal compare`` prints and writes: the tables, the page, CSV, JSON and PNG."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from medal_judges.eval.comparison.results import ALL, ComparedOn, PairResult, SystemComparison
from medal_judges.report.console import print_tables, wide_console
from medal_judges.report.figure import Figure, Range, padded
from medal_judges.report.figure_files import write_figures
from medal_judges.report.page import (
    Block,
    Facts,
    Fold,
    Section,
    counted,
    facts_section,
    render_page,
)
from medal_judges.report.table import Cell, IntervalBar, PValue, Row, Table, slug, write_csv
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.systems import SystemDifference
from medal_judges.storage.files import atomic_write

_PRINTED = 15  # pairs of a table in the terminal; page and CSV have all
_NAMED = 4  # systems in a title
_IN_SIGHT = 12  # pairs of a table that is not folded
_ESTIMATE = ("value", "low", "high", "reason")
_PEOPLE = (
    "The mean is what people would say of all dialogues: the judge's mean, corrected by its error "
    "on the labelled ones."
)
_JUDGE = "The mean is the judge's."
_TERMS = (
    (
        "Corrected by people",
        "Prediction-powered inference: the judge's mean of all dialogues, plus its error on those "
        "that people labelled. Labelled dialogues are taken as a random sample of each system's.",
    ),
    (
        "Rank · group",
        "The ranks that a system may have; all of this page are right together in 95 of 100 "
        "comparisons. Systems that share a letter cannot be told apart (p above 0.05).",
    ),
    ("Difference", "The first minus the second, with its 95% interval."),
    (
        "Compared",
        "Paired in the contexts that both met, by the difference in each; unpaired else; then the "
        "dialogues of the first and of the second.",
    ),
    (
        "Won · tied · lost",
        "By the first, by the judge: of the contexts that both met, or in percent of all pairs of "
        "a dialogue of each.",
    ),
    (
        "Smallest",
        "The difference that as many dialogues show in 80 of 100 cases (one comparison, 5%).",
    ),
)


def _terms(found: SystemComparison) -> list[tuple[str, str]]:
    p_value = (
        f"Two-sided, after Holm's correction over all {found.comparisons} comparisons of this "
        "page. Above 0.05 it does not show that two systems are equal."
    )
    terms = [*_TERMS, ("p", p_value)]
    if found.asked is not None:
        more = (
            "Dialogues that each system further needs to show that difference in 80 of 100 cases, "
            "with as large a part of them labelled as now."
        )
        terms.append((f"More for {found.asked:g}", more))
    return terms


def print_comparison(found: SystemComparison) -> None:
    """Verdicts, then a table of systems and one of differences for each dimension."""
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


def write_comparison(found: SystemComparison, folder: Path, title: str = "") -> Path:
    """Write compare.html, compare.json, systems.csv, differences.csv and figures/*.png; path of
    the page. Raises MissingExtraError (after the others) where matplotlib is not installed."""
    record = json.dumps(found.to_record(), ensure_ascii=False, indent=1, allow_nan=False)
    atomic_write(folder / "compare.json", record + "\n")
    _write_csv(found, folder)
    count = len(found.systems)
    named = " · ".join(found.systems) if count <= _NAMED else f"{count} systems"
    path = atomic_write(folder / "compare.html", render(found, title or f"Compared: {named}"))
    write_figures(figures(found), folder / "figures")
    return path


def render(found: SystemComparison, title: str) -> str:
    """The page as text."""
    langs = found.languages
    subtitle = counted(
        [
            (len(found.systems), "system"),
            (sum(found.counts.values()), "dialogue"),
            (len(found.dimensions), "dimension"),
            *([(len(langs), "language")] if langs else []),
        ]
    )
    sections = [Section("verdict", "Which is better", _lead(found))]
    for dimension in found.dimensions:
        sections.append(_section(found, dimension))
    sections.append(Section("terms", "How to read it", [Facts(_terms(found))]))
    return render_page(title, subtitle, [*sections, facts_section(found.facts)])


def _lead(found: SystemComparison) -> list[Block]:
    listed = Markup("").join(
        Markup('<li dir="auto">{}</li>').format(text) for text in found.verdicts()
    )
    blocks: list[Block] = [Markup("<ul>{}</ul>").format(listed)]
    blocks += [Markup('<p class="note">{}</p>').format(note) for note in found.notes]
    return blocks


def _section(found: SystemComparison, dimension: str) -> Section:
    """All languages together, then each language in a fold."""
    blocks: list[Block] = []
    for result in found.results:
        if result.dimension != dimension:
            continue
        tables: list[Block] = [systems_table(result)]
        pairs = pairs_table(found, result)
        if len(pairs.rows) > _IN_SIGHT:
            tables.append(Fold(f"{len(pairs.rows)} differences", [pairs]))
        elif pairs.rows:
            tables.append(pairs)
        blocks += tables if result.lang == ALL else [Fold(f"Language: {result.lang}", tables)]
    return Section(slug(dimension), dimension.replace("_", " "), blocks)


def systems_table(result: ComparedOn) -> Table:
    """One row a system, best first."""
    people = result.basis == "people"
    labelled = any(system.labelled for system in result.systems)
    unscored = any(system.unscored for system in result.systems)
    span = _span([system.best for system in result.systems])
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
    better = "" if result.good == "high" else " Lower is better."
    note = (_PEOPLE if people else _JUDGE) + better
    heads += ["Dialogues", *(["Unscored"] if unscored else [])]
    return Table(_title(result, "systems"), heads, rows, note)


def pairs_table(found: SystemComparison, result: ComparedOn) -> Table:
    """One row a pair of systems."""
    people = any(pair.difference.corrected is not None for pair in result.pairs)
    rows = [_pair_row(found, pair, people) for pair in result.pairs]
    heads = ["First", "Second", "Difference", "p"]
    heads += ["Judge alone"] if people else []
    heads += ["Won · tied · lost", "Compared", "Smallest"]
    if found.asked is not None:
        heads.append(f"More for {found.asked:g}")
    note = (
        "Each interval is of its difference alone; p is after Holm's correction over all "
        f"{found.comparisons} comparisons, so that it may be above 0.05 where the interval leaves "
        "0 out."
    )
    note = note if found.comparisons > 1 else ""
    return Table(_title(result, "differences"), heads, rows, note)


def _pair_row(found: SystemComparison, pair: PairResult, people: bool) -> Row:
    told, tested = pair.difference, pair.tested
    cells: list[Cell] = [
        pair.first,
        pair.second,
        tested.estimate,
        None if pair.p_holm is None else PValue(pair.p_holm),
    ]
    if people:
        cells.append(told.judge.estimate)
    cells += [_won(pair), _compared(told), tested.smallest]
    if found.asked is not None:
        more = pair.more
        equal = more is not None and more[0] == more[1]
        told_more = None if more is None else f"{more[0]:,} and {more[1]:,}"
        cells.append(more[0] if more is not None and equal else told_more)
    return tuple(cells)


def _compared(told: SystemDifference) -> str:
    """How the two were compared: paired or not, contexts, dialogues."""
    parts: list[str] = [told.pairing]
    if told.shared:
        parts.append(f"{told.shared:,} contexts")
    if told.rows != (told.shared, told.shared):
        parts.append(f"{told.rows[0]:,} and {told.rows[1]:,}")
    if any(told.left_out):
        parts.append(f"{told.left_out[0]:,} and {told.left_out[1]:,} left out")
    return ", ".join(parts)


def _won(pair: PairResult) -> str:
    told = pair.difference
    counts = (told.wins, told.ties, told.losses)
    if told.by_context:
        return " · ".join(f"{count:,}" for count in counts)
    return " · ".join(f"{count / max(1, sum(counts)):.0%}" for count in counts)


def figures(found: SystemComparison) -> dict[str, Figure]:
    """The means of the systems on each dimension, by file name."""
    return {
        f"systems-{slug(result.dimension)}-{slug(result.lang)}": Figure(
            _title(result, "systems"), [systems_table(result)]
        )
        for result in found.results
        if any(system.best.low is not None for system in result.systems)
    }


def _title(result: ComparedOn, what: str) -> str:
    name = result.dimension.replace("_", " ")
    return f"{name}: {what}" if result.lang == ALL else f"{name}, {result.lang}: {what}"


def _span(estimates: Sequence[Estimate]) -> Range:
    ends = [end for e in estimates for end in (e.value, e.low, e.high) if end is not None]
    return padded(ends) if ends else (0.0, 1.0)


def _write_csv(found: SystemComparison, folder: Path) -> None:
    at = ("dimension", "lang", "basis")
    parts = ("judge", "people", "corrected")
    heads = [f"{part}_{name}" for part in parts for name in _ESTIMATE]
    ranks = ("rank_best", "rank_worst", "groups")
    systems = (
        (
            *(getattr(result, name) for name in at),
            *(s.system, s.n, s.unscored, s.labelled),
            *(_cell(getattr(s, part), name) for part in parts for name in _ESTIMATE),
            *(*s.rank, s.groups),
        )
        for result in found.results
        for s in result.systems
    )
    columns = (*at, "system", "n", "unscored", "labelled", *heads, *ranks)
    write_csv(folder / "systems.csv", columns, systems)
    _write_differences(found, folder)


def _write_differences(found: SystemComparison, folder: Path) -> None:
    names = (*_ESTIMATE, "p_value")
    heads = [f"{part}_{name}" for part in ("judge", "corrected") for name in (*names, "smallest")]
    lines = []
    for result in found.results:
        for pair in result.pairs:
            told = pair.difference
            figures_of = [
                value
                for tested in (told.judge, told.corrected)
                for value in (
                    *(_cell(None if tested is None else tested.estimate, name) for name in names),
                    None if tested is None else tested.smallest,
                )
            ]
            counts = (told.pairing, told.shared, *told.rows, *told.left_out)
            wins = (told.wins, told.ties, told.losses, told.by_context)
            more = pair.more or (None, None)
            about = (result.dimension, result.lang, pair.basis, pair.first, pair.second)
            lines.append((*about, *figures_of, pair.p_holm, *wins, *counts, *more))
    columns = ("dimension", "lang", "basis", "first", "second", *heads, "p_holm")
    columns += ("wins", "ties", "losses", "wins_by_context", "compared", "shared_contexts")
    columns += ("rows_first", "rows_second", "left_out_first", "left_out_second")
    write_csv(folder / "differences.csv", (*columns, "more_first", "more_second"), lines)


def _cell(estimate: Estimate | None, name: str) -> object:
    return None if estimate is None else getattr(estimate, name)
