"""Agreement of annotators with one another, by dimension and language (MEDAL, Tables 4 and 5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations, compress

import numpy as np

from medal_judges.errors import MedalError
from medal_judges.eval.metaeval.alignment import infer_kind, rating_matrix
from medal_judges.eval.metaeval.metrics import fullest_columns, ratings_by_annotator
from medal_judges.records.dimension import Kind
from medal_judges.records.labelled import LabelledDialogue, Scale
from medal_judges.report.console import Printout, rich_table
from medal_judges.report.figure import Figure, Intervals, axis_range
from medal_judges.report.page import Page, Section, count_text, facts_section
from medal_judges.report.table import Cell, Row, Share, Table, estimate_text, slug
from medal_judges.stats.alpha import Measurement, alpha_statistic, no_interval_reason
from medal_judges.stats.correlation import (
    MIN_ROWS,
    Floats,
    mean_spearman_of_groups,
    ratio,
    weighted_spearman,
)
from medal_judges.stats.equal import Values, tolerance_of
from medal_judges.stats.intervals import (
    THESE,
    Clusters,
    Estimate,
    choose_clusters,
    estimate_metrics,
    estimate_or_reason,
    too_few_reason,
    undefined_estimates,
    wilson_interval,
)

ALL = "all"  # every language together
MEASUREMENT: dict[Kind, Measurement] = {
    "binary": "nominal",
    "ordinal": "ordinal",
    "continuous": "interval",
}
_MIN_ANSWERS = 5  # of an annotator who always gives the same one
_POSITIONS_NOTE = (
    "Annotators have no names here. ρ is of the first label, the second, and so on."
)
_PRINTED = ("Dimension", "Annotators", "Equal", "±1", "α", "ρ")  # in the terminal
_LINES = 5  # dimensions in the terminal
_NOTES = 2  # in the terminal; the page has all


@dataclass(frozen=True, slots=True)
class Annotator:
    """One annotator's ratings on one dimension, compared with the mean ratings of
    the other annotators.

    Attributes:
        name: The annotator's name. Without names, the place of the rating in each dialogue's list
            of ratings, such as ``position 1``.
        rows: The number of dialogues that this annotator and at least one other rated. The other
            attributes are computed from these dialogues.
        bias: The annotator's mean rating minus the mean rating of the other annotators.
        reliability: Spearman's correlation with the mean rating of the other annotators.
        constant: The rating that the annotator always gives. None if the ratings vary, or with
            fewer than 5 ratings.
    """

    name: str
    rows: int
    bias: Estimate
    reliability: Estimate
    constant: float | None


@dataclass(frozen=True, slots=True)
class Agreement:
    """How well annotators agree on one dimension, in the dialogues of one language.

    Attributes:
        dimension: The name of the dimension.
        kind: The kind of the dimension: ``binary``, ``ordinal`` or ``continuous``.
        lang: The language, such as ``en``, or ``all`` for all languages together.
        rows: The number of dialogues with a rating.
        shared: The number of dialogues with two ratings or more.
        pairs: The number of pairs of ratings of the same dialogue.
        annotators: The number of annotators. If annotators have no names, the largest number of
            ratings of one dialogue.
        named: Whether the data names the annotators.
        mean: The mean of all ratings, None without ratings.
        estimates: Statistic -> estimate. ``exact``: the share of pairs with equal ratings.
            ``adjacent`` (only of ordinal dimensions): the share of pairs that differ by at most 1.
            ``alpha``: Krippendorff's alpha. ``spearman``: the mean correlation over pairs of
            annotators.
        by_annotator: One entry for each annotator. If annotators have no names, one entry for the
            first ratings of all dialogues, one for the second ratings, and so on.
    """

    dimension: str
    kind: Kind
    lang: str
    rows: int
    shared: int
    pairs: int
    annotators: int
    named: bool
    mean: float | None
    estimates: Mapping[str, Estimate]
    by_annotator: Sequence[Annotator]


def measure_agreements(
    rows: Sequence[LabelledDialogue], dimensions: Sequence[str] = ()
) -> list[Agreement]:
    """Measures how well annotators agree, on each dimension and in each language.

    Args:
        rows: Labelled dialogues or turns.
        dimensions: Names of dimensions. By default all dimensions are measured, ``overall`` last.

    Returns:
        One entry for each dimension and language. The entries of a dimension are together. If it
        has several languages, its last entry is for all languages together.

    Raises:
        MedalError: A dimension has no label, or its labels are on different scales.
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
            hint = f"Use one of: {', '.join(names)}"
            raise MedalError(f"no row has the dimension {name!r}", hint=hint)
        scale = _common_scale(rows, name)
        kind = infer_kind(rows, name)
        answered = [row for row in rows if row.has_label(name)]
        for lang in langs:
            of_lang = [row for row in answered if lang in (ALL, row.dialogue.lang)]
            measured.append(_measure_agreement(of_lang, name, kind, lang, scale))
    return measured


def _common_scale(rows: Sequence[LabelledDialogue], dimension: str) -> Scale | None:
    """Returns the one scale on which all ``rows`` are rated for ``dimension``. None if
    no row states a scale.

    Raises:
        MedalError: The rows state different scales.
    """
    scales = {row.scales.get(dimension) for row in rows} - {None}
    if len(scales) > 1:
        (low, high), (other_low, other_high) = sorted(filter(None, scales))[:2]
        raise MedalError(
            f"answers to {dimension!r} are on several scales: {low:g} to {high:g} and "
            f"{other_low:g} to {other_high:g}",
            hint="Convert them to one scale, or give one file for each scale",
        )
    return next(iter(scales), None)


def _measure_agreement(
    rows: Sequence[LabelledDialogue],
    dimension: str,
    kind: Kind,
    lang: str,
    scale: Scale | None,
) -> Agreement:
    """Measures the agreement on ``dimension``.

    Args:
        rows: Dialogues of one language that have a rating on the dimension.
        kind: The kind of the dimension, such as ``ordinal``.
        lang: The language of ``rows``, or ``all``.
        scale: (lowest, highest) rating, None if unknown.
    """
    matrix = rating_matrix(rows, dimension)
    counts = np.isfinite(matrix).sum(axis=1)
    by_person, names = ratings_by_annotator(rows, dimension, matrix)
    tolerance = tolerance_of(scale, matrix)
    people = Values(by_person, tolerance)
    reason = None
    if any(row.aggregated for row in rows):
        reason = "released as means or votes, without single answers"
    elif not (counts > 1).any():
        reason = "no row has answers of two annotators"
    estimates = undefined_estimates(
        ("exact", "adjacent", "alpha", "spearman"), reason or ""
    )
    by_annotator: list[Annotator] = []
    if reason is None:
        is_shared = counts > 1
        # A row with one answer takes no part, so it must not count towards an interval either.
        clusters = _clusters(list(compress(rows, is_shared)))
        ratings, people = Values(matrix, tolerance)[is_shared], people[is_shared]
        estimates = _agreement_estimates(ratings, people, kind, clusters)
        titles = names or [f"position {i + 1}" for i in range(people.numbers.shape[1])]
        by_annotator = list(_compare_annotators(people, titles))
    return Agreement(
        dimension=dimension,
        kind=kind,
        lang=lang,
        rows=len(rows),
        shared=int((counts > 1).sum()),
        pairs=int((counts * (counts - 1) // 2).sum()),
        annotators=int(np.isfinite(by_person).any(axis=0).sum()),
        named=bool(names),
        mean=float(np.nanmean(matrix)) if counts.any() else None,
        estimates=estimates,
        by_annotator=by_annotator,
    )


def _clusters(rows: Sequence[LabelledDialogue]) -> Clusters:
    chatbots = [row.dialogue.chatbot for row in rows]
    return choose_clusters(chatbots, [row.group for row in rows])


def _agreement_estimates(
    ratings: Values, people: Values, kind: Kind, clusters: Clusters
) -> dict[str, Estimate]:
    """Estimates how well annotators agree on one dimension.

    Args:
        ratings: [rows, positions] ratings in the order of each row's label list, NaN if not given.
            Each row has at least two.
        people: [rows, annotators] the same ratings, with a column for each annotator.
        kind: The kind of the dimension, such as ``ordinal``.
        clusters: Groups of rows, such as conversations. The jackknife leaves out one at a time.

    Returns:
        Statistic -> estimate with interval, for ``exact``, ``adjacent``, ``alpha`` and
            ``spearman``.
    """
    alpha_of = alpha_statistic(ratings.numbers, MEASUREMENT[kind])
    pairs, close = _count_close_pairs(ratings, kind)
    is_given = np.isfinite(people.numbers)
    annotator_pairs = []
    for first, second in combinations(fullest_columns(people.numbers), 2):
        rows = np.flatnonzero(is_given[:, first] & is_given[:, second])
        if len(rows) >= MIN_ROWS:
            annotator_pairs.append((rows, people[rows, first], people[rows, second]))

    def statistic(weights: Floats) -> dict[str, Floats]:
        values = alpha_of(weights)
        for key, count in close.items():
            values[key] = ratio(weights @ count, weights @ pairs)
        values["spearman"] = mean_spearman_of_groups(annotator_pairs, weights, MIN_ROWS)
        return values

    reason = f"no two annotators share {MIN_ROWS} rows on which both vary"
    estimates = estimate_metrics(statistic, clusters, reason)
    alpha = estimates["alpha"].value
    if alpha is None:
        estimates["alpha"] = Estimate(None, reason="all answers are equal")
    elif no_spread := no_interval_reason(ratings.numbers, MEASUREMENT[kind]):
        estimates["alpha"] = Estimate(alpha, reason=no_spread)
    for key in close:
        # The jackknife sees no spread at 0 or 1: Wilson's interval, one trial a cluster.
        share = estimates[key].value
        if share in (0, 1) and not too_few_reason(clusters):
            low, high = wilson_interval(share * clusters.count, clusters.count)
            estimates[key] = replace(estimates[key], low=low, high=high, reason=None)
    return estimates


def _count_close_pairs(ratings: Values, kind: Kind) -> tuple[Floats, dict[str, Floats]]:
    """Counts the pairs of ratings of each row, and how many of the pairs are equal or nearly equal.

    Args:
        ratings: [rows, positions] ratings, NaN if not given.
        kind: The kind of the dimension, such as ``ordinal``.

    Returns:
        The number of pairs [rows], and statistic -> number of close pairs [rows]: ``exact`` (equal
            ratings) and, for an ordinal ``kind``, ``adjacent`` (at most 1 apart).
    """
    first, second = np.triu_indices(ratings.numbers.shape[1], 1)
    # NaN if one of the two gave no answer.
    gaps = np.abs(ratings.numbers[:, first] - ratings.numbers[:, second])
    distances = {"exact": 0.0}
    if kind == "ordinal":
        distances["adjacent"] = 1.0
    close: dict[str, Floats] = {}
    for key, distance in distances.items():
        close[key] = (gaps <= distance + ratings.tolerance).sum(axis=1) * 1.0
    return np.isfinite(gaps).sum(axis=1) * 1.0, close


def _compare_annotators(people: Values, names: Sequence[str]) -> Iterator[Annotator]:
    """Compares each annotator with the mean rating of the other annotators.

    Args:
        people: [rows, annotators] ratings, NaN if not given.
        names: The annotators' names, one for each column.
    """
    for column, name in enumerate(names):
        ratings = people.numbers[:, column]
        other_answers = np.delete(people.numbers, column, axis=1)
        is_shared = np.isfinite(ratings) & np.isfinite(other_answers).any(axis=1)
        if not is_shared.any():
            continue
        shared = Values(ratings[is_shared], people.tolerance)
        mean = Values(np.nanmean(other_answers[is_shared], axis=1), people.tolerance)
        weights = np.ones((1, len(shared)))
        rho = float(weighted_spearman(shared, mean, weights)[0])
        reason = "fewer than 3 shared rows, or the same answer to all of them"
        constant = None
        if shared.is_constant and len(shared) >= _MIN_ANSWERS:
            constant = float(shared.numbers[0])
        bias = float((shared.numbers - mean.numbers).mean())
        yield Annotator(
            name, len(shared), Estimate(bias), estimate_or_reason(rho, reason), constant
        )


# -- the page --------------------------------------------------------------------------------------


def agreement_page(
    agreements: Sequence[Agreement], title: str, facts: Sequence[tuple[str, str]]
) -> Page:
    """Returns the page agreement.html, with the percent agreement of annotators and Krippendorff's
    α (as in Tables 4 and 5 of MEDAL).

    Args:
        agreements: The agreement on each dimension in each language.
        title: The heading of the page.
        facts: (name, value) pairs on how the page was made, such as ``("Files", "a.jsonl")``.
    """
    table, annotators = _agreement_table(agreements), _annotator_table(agreements)
    notes = list(_note_sentences(agreements))
    widest = [part for part in agreements if part.lang == agreements[-1].lang]
    names = [part.dimension.replace("_", " ") for part in widest]
    alphas = [part.estimates["alpha"] for part in widest]
    panel = Intervals("α", names, alphas, (min(0.0, axis_range(alphas)[0]), 1.0))
    picture = Figure("Krippendorff's α by dimension", [panel])
    sections = [
        Section("agreement", "Agreement", [picture, table, *notes]),
        Section("annotators", "Annotators", [annotators] if annotators.rows else []),
        facts_section(facts),
    ]
    tables = [table, annotators]
    langs = {agreement.lang for agreement in agreements} - {ALL}
    last = widest[-1]
    alpha = last.estimates["alpha"]
    answer = f"{names[-1]}: agreement of annotators is α {estimate_text(alpha)}"
    answer += " (1 is perfect, 0 is chance)."
    if alpha.value is None:
        answer = f"{names[-1]}: agreement is unknown: {alpha.reason}."
    rows = table.rows[len(table.rows) - len(widest) :]
    printed = replace(table, title="", rows=rows[-_LINES:], headings={})
    return Page(
        name="agreement",
        title=title,
        subtitle=count_text([(len(widest), "dimension"), (len(langs), "language")]),
        sections=sections,
        leads=__package__,
        tables={slug(table.title): table for table in tables if table.rows},
        figures={"alpha": picture},
        record={
            "facts": dict(facts),
            "agreement": [asdict(part) for part in agreements],
        },
        printout=Printout(
            [rich_table(printed, _PRINTED, ("α",))], notes[:_NOTES], [answer]
        ),
    )


def _note_sentences(agreements: Sequence[Agreement]) -> Iterator[str]:
    """Yields warnings for the page: annotators whose ratings never vary, and α that is undefined or
    not significantly above 0."""
    names_by_reason: dict[str, list[str]] = {}
    for agreement in agreements:
        name = f"{agreement.dimension} ({agreement.lang})"
        for annotator in agreement.by_annotator:
            if annotator.constant is not None and agreement.lang == agreements[-1].lang:
                yield (
                    f"{annotator.name} always answers {annotator.constant:g} to "
                    f"{agreement.dimension}: ρ leaves this annotator out."
                )
        alpha = agreement.estimates["alpha"]
        reason = alpha.reason
        if alpha.value is not None:
            low, high = alpha.low or alpha.value, alpha.high or alpha.value
            if high < 0:
                reason = "people disagree more than by chance, as if a scale were turned round"
            elif low <= 0:
                reason = "not shown to be above 0, so people may agree by chance alone"
        if reason:
            names_by_reason.setdefault(reason, []).append(name)
    for reason, names in names_by_reason.items():
        yield f"α of {', '.join(names)}: {reason}."
    if not all(agreement.named for agreement in agreements):
        yield _POSITIONS_NOTE


def _agreement_table(agreements: Sequence[Agreement]) -> Table:
    """Returns a table with the statistics and counts of each agreement, by language."""
    rows: list[Row] = []
    headings: dict[int, str] = {}
    not_graded = Estimate(None, reason="not a graded dimension")
    for part in sorted(agreements, key=lambda part: (part.lang == ALL, part.lang)):
        if part.lang not in headings.values():
            headings[len(rows)] = part.lang
        unit = "people" if part.named else "labels"
        mean: Cell = Estimate(part.mean, reason="no answer")
        if part.kind == "binary":
            mean = Share(Estimate(part.mean))
        row: list[Cell] = [
            part.dimension.replace("_", " "),
            part.rows,
            part.shared,
            part.pairs,
            f"{part.annotators} {unit}",
            mean,
            Share(part.estimates["exact"]),
            Share(part.estimates.get("adjacent", not_graded)),
            MEASUREMENT[part.kind],
            part.estimates["alpha"],
            part.estimates["spearman"],
        ]
        rows.append(row)
    columns = ["Dimension", "Rows", "With 2 ratings", "Pairs", "Annotators", "Mean"]
    columns += ["Equal", "±1", "α is", "α", "ρ"]
    note = (
        f"95% intervals are for {THESE}. Equal: the share of pairs of ratings of one row that are "
        "equal; ±1: that differ by at most 1. The mean of an issue is the share of ratings that "
        "mark it."
    )
    title = "Agreement by language and dimension"
    return Table(title, columns, rows, note, headings)


def _annotator_table(agreements: Sequence[Agreement]) -> Table:
    """Returns a table of the named annotators over all languages: each one's mean difference from
    the other annotators (bias) and correlation with them (reliability)."""
    rows: list[Row] = []
    for part in agreements:
        if part.named and part.lang == agreements[-1].lang:
            dimension = part.dimension.replace("_", " ")
            for annotator in part.by_annotator:
                line = (
                    dimension,
                    annotator.name,
                    annotator.rows,
                    annotator.bias,
                    annotator.reliability,
                )
                rows.append(line)
    note = (
        "Bias: the mean difference to the mean of the others on the same rows. Reliability: "
        "Spearman's ρ with it."
    )
    columns = ("Dimension", "Annotator", "rows", "bias", "reliability")
    return Table("Annotators against the others", columns, rows, note)
