"""Agreement of annotators with one another, by dimension and language (MEDAL, Tables 4 and 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np

from medal_judges.config import Config, option
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
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.report.console import print_tables, rich_table, wide_console
from medal_judges.report.page import Section, counted, facts_section, write_page
from medal_judges.report.table import Figured, Row, Table, slug
from medal_judges.stats.alpha import alpha_statistic, no_interval
from medal_judges.stats.correlation import MIN_ROWS, Floats, ratio, weighted_spearman
from medal_judges.stats.equal import Values, tolerance_of
from medal_judges.stats.estimate import Estimate, undefined
from medal_judges.stats.intervals import (
    BESIDE,
    WHOM,
    Lead,
    choose_clusters,
    estimated,
    leading,
    too_few,
    wilson,
)
from medal_judges.storage.files import write_json

ALL = "all"  # every language together
PEOPLE, POSITIONS = "people", "positions"
_POSITIONS_NOTE = (
    "The rows do not name their annotators, so a pair is two positions in the label list. If a "
    "position is not the same person throughout, ρ mixes people; α and percent agreement do not "
    "depend on it."
)


class AgreementOptions(Config):
    """Options of ``medal agreement``."""

    source: str = option(
        argument=True, metavar="FILE_OR_SPEC", help="Labelled file, or a spec: fed:dialogue."
    )
    out: Path | None = option(None, help="Folder to write: the page, its tables and JSON.")
    dimension: tuple[str, ...] = option((), help="Only this dimension; may be repeated.")
    interval_for: Lead = option(
        "these", help="Whom intervals are for: these chatbots, or others like them."
    )
    offline: bool = option(False, help="Never use the network.")
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
    known = dict.fromkeys(name for row in rows for name in row.labels)
    ordered = sorted(known, key=lambda name: name == "overall")
    langs = sorted({row.dialogue.lang for row in rows})
    found = []
    for name in dimensions or ordered:
        if name not in known:
            raise MedalError(
                f"no row has the dimension {name!r}", hint=f"there: {', '.join(ordered)}"
            )
        scales = {scale for row in rows if (scale := row.scales.get(name)) is not None}
        if len(scales) > 1:
            two = " and ".join(f"{low:g} to {high:g}" for low, high in sorted(scales)[:2])
            raise MedalError(
                f"answers to {name!r} are on several scales: {two}",
                hint="convert them to one scale, or split the file by scale",
            )
        kind = kind_of(rows, name)
        answered = [row for row in rows if row.has_label(name)]
        for lang in [*langs, *([ALL] if len(langs) > 1 else [])]:
            chosen = [row for row in answered if lang in (ALL, row.dialogue.lang)]
            values = answer_matrix(chosen, name)
            by_person, named, annotators = answers_by_annotator(chosen, name, values)
            given = np.isfinite(values)
            answers = given.sum(axis=1)
            released = any(row.aggregated for row in chosen)
            ceiling: dict[str, Estimate] = {}
            if released or not (answers > 1).any():
                reason = "no row has answers of two annotators"
                if released:
                    reason = "released as means or votes, without single answers"
                graded = ("adjacent",) if kind == "ordinal" else ()
                figures = undefined(("exact", *graded, "alpha", "spearman"), reason)
            else:
                tolerance = tolerance_of(next(iter(scales), None), values)
                answers_of = Values(values, tolerance), Values(by_person, tolerance)
                figures, ceiling = _figures(chosen, kind, *answers_of, lead)
            found.append(
                Agreement(
                    dimension=name,
                    kind=kind,
                    lang=lang,
                    rows=len(chosen),
                    shared=int((answers > 1).sum()),
                    pairs=int((answers * (answers - 1) // 2).sum()),
                    annotators=annotators,
                    columns=PEOPLE if named else POSITIONS,
                    mean=float(values[given].mean()) if given.any() else None,
                    measurement=MEASUREMENT[kind],
                    figures=figures,
                    ceiling=ceiling,
                    clusters=choose_clusters(*_named(chosen), lead).unit,
                )
            )
    return found


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
    paired = np.isfinite(answers.numbers).sum(axis=1) > 1
    # A row with one answer takes no part, so it must not count towards an interval either.
    rows = [row for row, has in zip(rows, paired, strict=True) if has]
    answers, people = answers[paired], people[paired]
    values, given = answers.numbers, np.isfinite(people.numbers)
    clusters = choose_clusters(*_named(rows), lead)
    measurement = MEASUREMENT[kind]
    alpha_of = alpha_statistic(values, measurement)
    in_order = [np.sort(row[np.isfinite(row)]) for row in values]
    sizes = np.array([len(row) for row in in_order])
    pairs = sizes * (sizes - 1) / 2
    close = {}  # of each row the number of pairs of answers at most a distance apart
    for key, distance in {"exact": 0.0, "adjacent": 1.0}.items():
        far = distance + answers.tolerance
        upto = [np.searchsorted(row, row + far, side="right").sum() for row in in_order]
        if key == "exact" or kind == "ordinal":
            close[key] = np.array(upto) - sizes * (sizes + 1) / 2
    both = []  # pairs of annotators, with the rows that both answered
    for a, b in combinations(busiest(people.numbers), 2):
        shared = np.flatnonzero(given[:, a] & given[:, b])
        if len(shared) >= MIN_ROWS:
            both.append((shared, people[shared, a], people[shared, b]))

    def statistic(weights: Floats) -> dict[str, Floats]:
        figures = {key: ratio(weights @ count, weights @ pairs) for key, count in close.items()}
        total, size = np.zeros(len(weights)), np.zeros(len(weights))
        for shared, one, other in both:
            mine = weights[:, shared]
            rho = weighted_spearman(one, other, mine)  # NaN if a side is constant
            total += np.where(np.isfinite(rho), rho * mine.sum(axis=1), 0.0)
            size += np.where(np.isfinite(rho), mine.sum(axis=1), 0.0)
        return figures | {"alpha": alpha_of(weights), "spearman": ratio(total, size)}

    none = f"no two annotators share {MIN_ROWS} rows on which both vary"
    estimates = estimated(statistic, clusters, none)
    alpha = estimates["alpha"].value
    if alpha is None:
        estimates["alpha"] = Estimate(None, reason="all answers are equal")
    elif why := no_interval(values, measurement):
        estimates["alpha"] = Estimate(alpha, reason=why)
    for key in ("exact", "adjacent"):
        # The jackknife sees no spread at 0 or 1: Wilson's interval, one trial a cluster.
        if key in estimates and estimates[key].value in (0, 1) and not too_few(clusters):
            share = estimates[key].value or 0.0
            low, high = wilson(share * clusters.count, clusters.count)
            estimates[key] = replace(estimates[key], low=low, high=high, reason=None)
    return estimates, human_ceiling(answers, kind, clusters)


def _named(rows: Sequence[LabelledDialogue]) -> tuple[list[str | None], list[str]]:
    return [row.dialogue.chatbot for row in rows], [row.group for row in rows]


def write_agreement(
    agreements: Sequence[Agreement], heading: str, facts: Sequence[tuple[str, str]], folder: Path
) -> Path:
    """Writes agreement.html, agreement.json and tables/ (CSV and LaTeX): of languages by dimensions
    percent (MEDAL, Table 4; ±1 in a head: within one step), alpha (Table 5) and spearman, and all
    figures; returns the page's path."""
    record = {"facts": dict(facts), "agreement": [asdict(one) for one in agreements]}
    write_json(folder / "agreement.json", record)
    names = list(dict.fromkeys(one.dimension for one in agreements))
    langs = list(dict.fromkeys(one.lang for one in agreements))
    sections, tables = [], {"figures": _figure_table(agreements)}
    titles = {"percent": "Percent agreement", "alpha": "Krippendorff's α", "spearman": "Spearman ρ"}
    for anchor, title in titles.items():
        heads = {name: name for name in names}
        at = {}
        for one in agreements:
            graded = anchor == "percent" and one.kind == "ordinal"
            key = "adjacent" if graded else "exact" if anchor == "percent" else anchor
            at[one.lang, one.dimension] = one.figures[key]
            heads[one.dimension] += " ±1" if graded and one.lang == langs[0] else ""
        shown = (head.replace("_", " ") for head in heads.values())
        rows: list[Row] = [(lang, *(at[lang, name] for name in names)) for lang in langs]
        grid = tables[anchor] = Table(f"{title} by language", ("Language", *shown), rows)
        unnamed = anchor == "spearman" and any(one.columns == POSITIONS for one in agreements)
        sections.append(Section(anchor, title, [*[_POSITIONS_NOTE] * unnamed, grid]))
    ceilings = _ceiling_tables(agreements)
    sections += [
        Section("figures", "All figures", [tables["figures"]]),
        Section("ceilings", "Human ceilings", ceilings),
        facts_section(facts),
    ]
    tables |= {slug(table.title): table for table in ceilings}
    subtitle = counted([(len(names), "dimension"), (len({*langs} - {ALL}), "language")])
    path = folder / "agreement.html"
    return write_page(path, heading, subtitle, sections, leads=__package__, tables=tables)


def _figure_table(agreements: Sequence[Agreement]) -> Table:
    """Every figure with its counts, by language."""
    rows: list[Row] = []
    headings: dict[int, str] = {}
    lead = leading(one.clusters for one in agreements)
    other = (
        [f"α, {BESIDE[lead].lower()}"] if any(o.figures["alpha"].beside for o in agreements) else []
    )
    for one in sorted(agreements, key=lambda one: (one.lang == ALL, one.lang)):
        if one.lang not in headings.values():
            headings[len(rows)] = one.lang
        rows.append((
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
            *[Figured(one.figures["alpha"].beside, bare=True) for _ in other],
            one.figures["spearman"],
        ))  # fmt: skip
    columns = ("Dimension", "rows", "with 2+ answers", "pairs", "annotators", "mean answer",
               "exact", "±1", "α is", "α", *other, "ρ")  # fmt: skip
    note = f"95% intervals are for {WHOM[lead]}. The mean answer of an issue is the share of "
    note += "answers that mark it."
    return Table("Figures by language and dimension", columns, rows, note, headings)


def _ceiling_tables(agreements: Sequence[Agreement]) -> list[Table]:
    """The human ceilings by language, of graded dimensions and of issues."""
    tables = []
    for title, binary, metrics in (
        ("Graded dimensions", False, ("spearman", "pearson", "kendall")),
        ("Issues", True, METRICS),
    ):
        rows: list[Row] = [
            (one.lang, one.dimension.replace("_", " "), *(one.ceiling[m] for m in metrics))
            for one in agreements
            if one.ceiling and (one.kind == "binary") == binary
        ]
        if rows:
            columns = ("Language", "Dimension", *map(label, metrics))
            tables.append(Table(f"Human ceilings: {title}", columns, rows))
    return tables


def print_agreement(agreements: Sequence[Agreement]) -> None:
    """Prints the page's tables, α with its interval, and notes on them."""
    printed = ("Dimension", "with 2+ answers", "annotators", "mean answer", "exact", "±1", "α", "ρ")
    wide_console().print(rich_table(_figure_table(agreements), printed, intervals=("α",)))
    notes = [_POSITIONS_NOTE] * any(one.columns == POSITIONS for one in agreements)
    reasons: dict[str, list[str]] = {}
    for one in agreements:
        if reason := one.figures["alpha"].reason:
            reasons.setdefault(reason, []).append(f"{one.dimension} ({one.lang})")
    notes += [f"α: {why}: {', '.join(where)}" for why, where in reasons.items()]
    print_tables(_ceiling_tables(agreements), notes)
