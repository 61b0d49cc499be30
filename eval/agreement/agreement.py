"""Agreement of annotators with one another, by dimension and language (MEDAL, Tables 4 and 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations, compress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from medal_judges.config import OFFLINE, Config, option
from medal_judges.errors import MedalError
from medal_judges.eval.metaeval.alignment import METRICS, answer_matrix, label
from medal_judges.eval.metaeval.ceiling import (
    MEASUREMENT,
    answers_by_annotator,
    busiest,
    human_ceiling,
)
from medal_judges.eval.metaeval.metaeval import kind_of
from medal_judges.reading.dialogues import DEFAULT_READING, ReadOptions
from medal_judges.records.dimension import Kind
from medal_judges.records.labelled import LabelledDialogue, Scale
from medal_judges.report.console import Printout, rich_table
from medal_judges.report.page import Block, Page, Section, counted, facts_section
from medal_judges.report.table import Cell, Figured, Row, Table, slug
from medal_judges.stats.alpha import alpha_statistic, no_interval
from medal_judges.stats.correlation import MIN_ROWS, Floats, mean_spearman, ratio
from medal_judges.stats.equal import Values, tolerance_of
from medal_judges.stats.estimate import Estimate, undefined
from medal_judges.stats.intervals import (
    BESIDE,
    WHOM,
    Clusters,
    Lead,
    choose_clusters,
    estimated,
    leading,
    too_few,
    wilson,
)

ALL = "all"  # every language together
PEOPLE, POSITIONS = "people", "positions"
_POSITIONS_NOTE = (
    "The rows do not name their annotators, so a pair is two positions in the label list. If a "
    "position is not the same person throughout, ρ mixes people; α and percent agreement do not "
    "depend on it."
)


_GRIDS = {
    "percent": "Percent agreement",
    "alpha": "Krippendorff's α",
    "spearman": "Spearman ρ",
}
# Columns of the table of figures in the terminal.
_PRINTED = (
    "Dimension",
    "with 2+ answers",
    "annotators",
    "mean answer",
    "exact",
    "±1",
    "α",
    "ρ",
)
Numbers = npt.NDArray[np.intp]


class AgreementOptions(Config):
    """Options of ``medal agreement``."""

    source: str = option(
        argument=True,
        metavar="FILE_OR_SPEC",
        help="Labelled file, or a spec: fed:dialogue.",
    )
    out: Path | None = option(
        None, help="Folder to write: the page, its tables and JSON."
    )
    dimension: tuple[str, ...] = option(
        (), help="Only this dimension; may be repeated."
    )
    interval_for: Lead = option(
        "these", help="Whom intervals are for: these chatbots, or others like them."
    )
    offline: bool = OFFLINE
    reading: ReadOptions = DEFAULT_READING


@dataclass(frozen=True, slots=True)
class Agreement:
    """How well annotators agree on one dimension of the rows of one language.

    ``figures``: ``exact`` (share of pairs of answers to one row that are equal), ``adjacent``
    (share at most 1 apart, graded dimensions only), ``alpha`` (Krippendorff's) and ``spearman``
    (over pairs of annotators); ``ceiling``: one annotator against the others. ``rows`` have an
    answer, ``shared`` of them two or more, which make ``pairs``. ``clusters``: what intervals leave
    out. ``columns``: whether annotators
    are ``people`` by name or ``positions`` in the label list. The ``mean`` of a binary dimension is
    the share of 1.
    """

    dimension: str
    kind: Kind
    lang: str
    rows: int
    shared: int
    pairs: int
    annotators: int
    columns: str
    mean: float | None
    measurement: str
    figures: Mapping[str, Estimate]
    ceiling: Mapping[str, Estimate]
    clusters: str


def agreements(
    rows: Sequence[LabelledDialogue],
    dimensions: Sequence[str] = (),
    *,
    lead: Lead = "these",
) -> list[Agreement]:
    """Returns the agreement on each of ``dimensions`` (default: all, ``overall`` last), in each
    language and, if there are several, in all together.

    Raises MedalError for a dimension that no row has, and if rows state different scales for one.
    """
    labelled: dict[str, None] = {}
    for row in rows:
        labelled |= dict.fromkeys(row.labels)
    names = sorted(labelled, key=lambda name: name == "overall")
    langs = sorted({row.dialogue.lang for row in rows})
    if len(langs) > 1:
        langs.append(ALL)
    measured = []
    for name in dimensions or names:
        if name not in labelled:
            hint = f"there: {', '.join(names)}"
            raise MedalError(f"no row has the dimension {name!r}", hint=hint)
        scale = _common_scale(rows, name)
        kind = kind_of(rows, name)
        answered = [row for row in rows if row.has_label(name)]
        for lang in langs:
            of_lang = [row for row in answered if lang in (ALL, row.dialogue.lang)]
            measured.append(_agreement(of_lang, name, kind, lang, scale, lead))
    return measured


def _common_scale(rows: Sequence[LabelledDialogue], dimension: str) -> Scale | None:
    """Returns the scale that rows state, if any. Raises MedalError if they state several."""
    scales = {row.scales.get(dimension) for row in rows} - {None}
    if len(scales) > 1:
        (low, high), (other_low, other_high) = sorted(filter(None, scales))[:2]
        raise MedalError(
            f"answers to {dimension!r} are on several scales: {low:g} to {high:g} and "
            f"{other_low:g} to {other_high:g}",
            hint="convert them to one scale, or split the file by scale",
        )
    return next(iter(scales), None)


def _agreement(
    rows: Sequence[LabelledDialogue],
    dimension: str,
    kind: Kind,
    lang: str,
    scale: Scale | None,
    lead: Lead,
) -> Agreement:
    """Returns the agreement on one dimension of rows that all have an answer."""
    answers = answer_matrix(rows, dimension)
    by_person, is_named, annotators = answers_by_annotator(rows, dimension, answers)
    counts = np.isfinite(answers).sum(axis=1)
    ceiling: dict[str, Estimate] = {}
    names = ["exact", "alpha", "spearman"]
    if kind == "ordinal":
        names.insert(1, "adjacent")
    if any(row.aggregated for row in rows):
        reason = "released as means or votes, without single answers"
        figures = undefined(names, reason)
    elif not (counts > 1).any():
        figures = undefined(names, "no row has answers of two annotators")
    else:
        tolerance = tolerance_of(scale, answers)
        people = Values(by_person, tolerance)
        figures, ceiling = _figures(
            rows, kind, Values(answers, tolerance), people, lead
        )
    mean = None
    if counts.any():
        mean = float(np.nanmean(answers))
    return Agreement(
        dimension=dimension,
        kind=kind,
        lang=lang,
        rows=len(rows),
        shared=int((counts > 1).sum()),
        pairs=int((counts * (counts - 1) // 2).sum()),
        annotators=annotators,
        columns=PEOPLE if is_named else POSITIONS,
        mean=mean,
        measurement=MEASUREMENT[kind],
        figures=figures,
        ceiling=ceiling,
        clusters=_clusters(rows, lead).unit,
    )


def _clusters(rows: Sequence[LabelledDialogue], lead: Lead) -> Clusters:
    chatbots = [row.dialogue.chatbot for row in rows]
    return choose_clusters(chatbots, [row.group for row in rows], lead)


def _figures(
    rows: Sequence[LabelledDialogue],
    kind: Kind,
    answers: Values,
    people: Values,
    lead: Lead,
) -> tuple[dict[str, Estimate], dict[str, Estimate]]:
    """Returns the figures and the ceiling. ``people`` has the ``answers`` by annotator if
    annotators are named. Spearman's correlation is averaged over pairs of annotators, weighted by
    the rows that both answered."""
    is_shared = np.isfinite(answers.numbers).sum(axis=1) > 1
    # A row with one answer takes no part, so it must not count towards an interval either.
    clusters = _clusters(list(compress(rows, is_shared)), lead)
    answers, people = answers[is_shared], people[is_shared]
    measurement = MEASUREMENT[kind]
    alpha_of = alpha_statistic(answers.numbers, measurement)
    pairs, close = _close_pairs(answers, kind)
    annotator_pairs = _annotator_pairs(people)

    def statistic(weights: Floats) -> dict[str, Floats]:
        figures = {}
        for key, count in close.items():
            figures[key] = ratio(weights @ count, weights @ pairs)
        figures["alpha"] = alpha_of(weights)
        figures["spearman"] = mean_spearman(annotator_pairs, weights, MIN_ROWS)
        return figures

    undefined_reason = f"no two annotators share {MIN_ROWS} rows on which both vary"
    estimates = estimated(statistic, clusters, undefined_reason)
    alpha = estimates["alpha"].value
    if alpha is None:
        estimates["alpha"] = Estimate(None, reason="all answers are equal")
    elif reason := no_interval(answers.numbers, measurement):
        estimates["alpha"] = Estimate(alpha, reason=reason)
    for key in close:
        # The jackknife sees no spread at 0 or 1: Wilson's interval, one trial a cluster.
        share = estimates[key].value
        if share in (0, 1) and not too_few(clusters):
            low, high = wilson(share * clusters.count, clusters.count)
            estimates[key] = replace(estimates[key], low=low, high=high, reason=None)
    return estimates, human_ceiling(answers, kind, clusters)


def _close_pairs(answers: Values, kind: Kind) -> tuple[Floats, dict[str, Floats]]:
    """Returns for each row the number of pairs of answers, and of those that are equal and (graded
    dimensions only) at most 1 apart."""
    first, second = np.triu_indices(answers.numbers.shape[1], 1)
    # NaN if one of the two gave no answer.
    gaps = np.abs(answers.numbers[:, first] - answers.numbers[:, second])
    distances = {"exact": 0.0}
    if kind == "ordinal":
        distances["adjacent"] = 1.0
    close: dict[str, Floats] = {}
    for key, distance in distances.items():
        close[key] = (gaps <= distance + answers.tolerance).sum(axis=1) * 1.0
    return np.isfinite(gaps).sum(axis=1) * 1.0, close


def _annotator_pairs(people: Values) -> list[tuple[Numbers, Values, Values]]:
    """Returns the pairs of annotators that share enough rows: these rows, and both's answers."""
    is_given = np.isfinite(people.numbers)
    pairs = []
    for first, second in combinations(busiest(people.numbers), 2):
        rows = np.flatnonzero(is_given[:, first] & is_given[:, second])
        if len(rows) >= MIN_ROWS:
            pairs.append((rows, people[rows, first], people[rows, second]))
    return pairs


def agreement_page(
    agreements: Sequence[Agreement], title: str, facts: Sequence[tuple[str, str]]
) -> Page:
    """Returns agreement.html, agreement.json and tables of languages by dimensions: percent (MEDAL,
    Table 4; ±1 in a head: within one step), alpha (Table 5) and spearman, and all figures."""
    figures, ceilings = _figure_table(agreements), _ceiling_tables(agreements)
    tables = {"figures": figures}
    sections = []
    for anchor, heading in _GRIDS.items():
        tables[anchor] = _grid(agreements, anchor, heading)
        blocks: list[Block] = [tables[anchor]]
        if anchor == "spearman" and _has_positions(agreements):
            blocks.insert(0, _POSITIONS_NOTE)
        sections.append(Section(anchor, heading, blocks))
    sections += [
        Section("figures", "All figures", [figures]),
        Section("ceilings", "Human ceilings", ceilings),
        facts_section(facts),
    ]
    tables |= {slug(table.title): table for table in ceilings}
    dimensions = {agreement.dimension for agreement in agreements}
    langs = {agreement.lang for agreement in agreements} - {ALL}
    return Page(
        name="agreement",
        title=title,
        subtitle=counted([(len(dimensions), "dimension"), (len(langs), "language")]),
        sections=sections,
        leads=__package__,
        tables=tables,
        record={
            "facts": dict(facts),
            "agreement": [asdict(part) for part in agreements],
        },
        printout=Printout(
            tables=[rich_table(figures, _PRINTED, ("α",)), *ceilings],
            notes=_notes(agreements),
        ),
    )


def _has_positions(agreements: Sequence[Agreement]) -> bool:
    return any(agreement.columns == POSITIONS for agreement in agreements)


def _notes(agreements: Sequence[Agreement]) -> list[str]:
    """Says what ρ mixes, and why α has no interval or no value."""
    notes = [_POSITIONS_NOTE] * _has_positions(agreements)
    names_by_reason: dict[str, list[str]] = {}
    for agreement in agreements:
        if reason := agreement.figures["alpha"].reason:
            name = f"{agreement.dimension} ({agreement.lang})"
            names_by_reason.setdefault(reason, []).append(name)
    for reason, names in names_by_reason.items():
        notes.append(f"α: {reason}: {', '.join(names)}")
    return notes


def _grid(agreements: Sequence[Agreement], metric: str, heading: str) -> Table:
    """Returns the table of languages by dimensions of one metric."""
    columns: dict[str, str] = {}
    rows: dict[str, list[Cell]] = {}  # agreements have all dimensions of each language
    for agreement in agreements:
        name, key = agreement.dimension.replace("_", " "), metric
        if metric == "percent":
            key = "adjacent" if agreement.kind == "ordinal" else "exact"
        if key == "adjacent":
            name += " ±1"
        columns[agreement.dimension] = name
        row = rows.setdefault(agreement.lang, [agreement.lang])
        row.append(agreement.figures[key])
    columns_with_language = ("Language", *columns.values())
    return Table(f"{heading} by language", columns_with_language, list(rows.values()))


def _figure_table(agreements: Sequence[Agreement]) -> Table:
    """Returns every figure with its counts, by language."""
    lead = leading(agreement.clusters for agreement in agreements)
    has_beside = any(agreement.figures["alpha"].beside for agreement in agreements)
    rows: list[Row] = []
    headings: dict[int, str] = {}
    for part in sorted(agreements, key=lambda part: (part.lang == ALL, part.lang)):
        if part.lang not in headings.values():
            headings[len(rows)] = part.lang
        alpha = part.figures["alpha"]
        not_graded = Estimate(None, reason="not a graded dimension")
        cells: list[Cell] = [
            part.dimension.replace("_", " "),
            part.rows,
            part.shared,
            part.pairs,
            f"{part.annotators} {part.columns}",
            Estimate(part.mean, reason="no answer" if part.mean is None else None),
            part.figures["exact"],
            part.figures.get("adjacent", not_graded),
            part.measurement,
            alpha,
        ]
        if has_beside:
            cells.append(Figured(alpha.beside, bare=True))
        rows.append([*cells, part.figures["spearman"]])
    beside = [f"α, {BESIDE[lead].lower()}"] * has_beside
    columns = (
        "Dimension",
        "rows",
        "with 2+ answers",
        "pairs",
        "annotators",
        "mean answer",
        "exact",
        "±1",
        "α is",
        "α",
        *beside,
        "ρ",
    )
    note = (
        f"95% intervals are for {WHOM[lead]}. The mean answer of an issue is the share of answers "
        "that mark it."
    )
    return Table("Figures by language and dimension", columns, rows, note, headings)


def _ceiling_tables(agreements: Sequence[Agreement]) -> list[Table]:
    """Returns the human ceilings by language, of graded dimensions and of issues."""
    tables = []
    for title, is_issue, metrics in (
        ("Graded dimensions", False, ("spearman", "pearson", "kendall")),
        ("Issues", True, METRICS),
    ):
        rows: list[Row] = []
        for part in agreements:
            if part.ceiling and (part.kind == "binary") == is_issue:
                ceilings = [part.ceiling[metric] for metric in metrics]
                rows.append([part.lang, part.dimension.replace("_", " "), *ceilings])
        if rows:
            columns = ("Language", "Dimension", *map(label, metrics))
            tables.append(Table(f"Human ceilings: {title}", columns, rows))
    return tables
