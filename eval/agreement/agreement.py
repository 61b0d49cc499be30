"""Agreement of annotators with one another, by dimension and language (MEDAL, Tables 4 and 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from medal_judges.config import Config, option
from medal_judges.errors import MedalError
from medal_judges.eval.metaeval.alignment import answer_matrix
from medal_judges.eval.metaeval.ceiling import (
    MEASUREMENT,
    binary_ceiling,
    busiest,
    graded_ceiling,
    krippendorff_alpha,
)
from medal_judges.eval.metaeval.metaeval import kind_of
from medal_judges.eval.metaeval.rater_model import (
    AnnotatorFigures,
    annotator_figures,
    answers_by_annotator,
)
from medal_judges.reading.options import DEFAULT_READING, ReadOptions
from medal_judges.records.dimension import Kind
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.stats.alpha import alpha_statistic, no_interval
from medal_judges.stats.correlation import MIN_ROWS, Floats, Statistic, ratio, weighted_spearman
from medal_judges.stats.estimate import Estimate, undefined
from medal_judges.stats.intervals import choose_clusters, estimated, too_few, wilson
from medal_judges.stats.weights import Weights, effective_size, row_weights, weighted

ALL = "all"  # every language together


class AgreementOptions(Config):
    """Options of ``medal agreement``."""

    source: str = option(
        argument=True, metavar="FILE_OR_SPEC", help="Labelled file, or a spec: fed:dialogue."
    )
    out: Path | None = option(None, help="Folder to write: the page, CSV and JSON.")
    dimension: tuple[str, ...] = option((), help="Only this dimension; may be repeated.")
    weights: Weights | None = option(
        None, help="curation: weight rows by curation.weight, to estimate figures of the pool."
    )
    offline: bool = option(False, help="Never use the network.")
    reading: ReadOptions = DEFAULT_READING


ABOUT = ("dimension", "kind", "lang", "rows", "shared", "pairs", "annotators", "columns", "mean",
         "share_positive", "measurement")  # fmt: skip
ESTIMATE = ("value", "low", "high", "reason")


@dataclass(frozen=True, slots=True)
class Agreement:
    """How well annotators agree on one dimension of the rows of one language.

    ``figures``: ``exact`` (share of pairs of answers to one row that are equal), ``adjacent``
    (share at most 1 apart, graded dimensions only), ``alpha`` (Krippendorff's) and ``spearman``
    (over pairs of annotators); ``ceiling``: one annotator against the others; ``each``: the people
    by name. ``rows`` have an answer, ``shared`` of them two or more, which make ``pairs``.
    ``columns``: whether annotators are ``people`` by name or ``positions`` in the label list.
    ``share_positive``: share of the answers that are 1, of a binary dimension.
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
    share_positive: float | None
    measurement: str
    figures: Mapping[str, Estimate]
    ceiling: Mapping[str, Estimate]
    each: Sequence[AnnotatorFigures]

    def to_record(self) -> dict[str, Any]:
        """Returns one JSON object; estimates as value, low, high and reason."""

        def estimates(figures: Mapping[str, Estimate]) -> dict[str, Any]:
            return {key: {n: getattr(e, n) for n in ESTIMATE} for key, e in figures.items()}

        people = {one.name: {"answers": one.answers, **estimates(one.figures)} for one in self.each}
        about = {name: getattr(self, name) for name in ABOUT}
        figures = {"figures": estimates(self.figures), "ceiling": estimates(self.ceiling)}
        return about | figures | {"annotator": people}


def agreements(
    rows: Sequence[LabelledDialogue],
    dimensions: Sequence[str] = (),
    *,
    weights: Weights = "none",
) -> list[Agreement]:
    """Returns the agreement on each of ``dimensions`` (default: all, ``overall`` last), in each
    language and, if there are several, in all together.

    Raises MedalError for a dimension that no row has, and if rows state two scales of one.
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
        answered = [row for row in rows if (r := row.rating(name)) is not None and r.given]
        for lang in [*langs, *([ALL] if len(langs) > 1 else [])]:
            chosen = [row for row in answered if lang in (ALL, row.dialogue.lang)]
            found.append(_agreement(chosen, name, kind, lang, weights))
    return found


def _agreement(
    rows: Sequence[LabelledDialogue], name: str, kind: Kind, lang: str, weights: Weights
) -> Agreement:
    """Returns the agreement on ``rows``, which all have an answer."""
    values = answer_matrix(rows, name)
    by = answers_by_annotator(rows, name, values)
    given = np.isfinite(values)
    answers = given.sum(axis=1)
    counts = row_weights(rows, weights)
    released = any(row.aggregated for row in rows)
    ceiling: dict[str, Estimate] = {}
    if released or not (answers > 1).any():
        none = "released as means or votes, without single answers"
        names = ("exact", *(("adjacent",) if kind == "ordinal" else ()), "alpha", "spearman")
        figures = undefined(names, none if released else "no row has answers of two annotators")
    else:
        figures, ceiling = _figures(rows, kind, values, by.values, counts)
    each = given if counts is None else given * counts[:, None]
    total = float((each * np.where(given, values, 0.0)).sum())
    mean = total / float(each.sum()) if given.any() else None
    return Agreement(
        dimension=name,
        kind=kind,
        lang=lang,
        rows=len(rows),
        shared=int((answers > 1).sum()),
        pairs=int((answers * (answers - 1) // 2).sum()),
        annotators=by.annotators,
        columns=by.columns,
        mean=mean,
        share_positive=mean if kind == "binary" else None,
        measurement=MEASUREMENT[kind],
        figures=figures,
        ceiling=ceiling,
        each=[] if released else annotator_figures(by, kind, [row.group for row in rows]),
    )


def _figures(
    rows: Sequence[LabelledDialogue],
    kind: Kind,
    values: Floats,
    people: Floats,
    weights: Floats | None,
) -> tuple[dict[str, Estimate], dict[str, Estimate]]:
    """Returns the figures and the ceiling; ``people`` are ``values`` by annotator, if named. The
    spearman figure is the mean over pairs of annotators by the number of rows both answered."""
    paired = np.isfinite(values).sum(axis=1) > 1
    # A row with one answer takes no part, so it must not count towards an interval either.
    rows = [row for row, has in zip(rows, paired, strict=True) if has]
    values, people = values[paired], people[paired]
    weights = None if weights is None else weights[paired]
    clusters = choose_clusters([row.dialogue.chatbot for row in rows], [row.group for row in rows])
    measurement = MEASUREMENT[kind]
    statistic = weighted(_statistic(values, people, kind), weights)
    none = f"no two annotators share {MIN_ROWS} rows on which both vary"
    estimates = estimated(statistic, clusters, none)
    alpha = krippendorff_alpha(values, measurement, weights)
    if (why := no_interval(values, measurement)) or alpha.value is None:
        estimates["alpha"] = replace(alpha, reason=alpha.reason or why)
    else:
        estimates["alpha"] = replace(estimates["alpha"], value=alpha.value)
    trials = float(clusters.count)
    if weights is not None:  # clusters of different weight
        _, member = np.unique(np.asarray(clusters.names), return_inverse=True)
        trials = effective_size(np.bincount(member, weights).tolist())
    for key in ("exact", "adjacent"):
        # The jackknife sees no spread at 0 or 1: Wilson's interval, one trial a cluster.
        if key in estimates and estimates[key].value in (0, 1) and not too_few(clusters):
            share = estimates[key].value or 0.0
            low, high = wilson(share * trials, trials)
            estimates[key] = replace(estimates[key], low=low, high=high, reason=None)
    if kind == "binary":
        return estimates, binary_ceiling(values, clusters, weights=weights)
    return estimates, graded_ceiling(values, [], clusters, weights=weights)


def _statistic(values: Floats, people: Floats, kind: Kind) -> Statistic:
    alpha = alpha_statistic(values, MEASUREMENT[kind])
    answers = [np.sort(row[np.isfinite(row)]) for row in values]
    sizes = np.array([len(row) for row in answers])
    pairs = sizes * (sizes - 1) / 2
    close = {}  # of each row the number of pairs of answers at most a distance apart
    for key, distance in {"exact": 0.0, "adjacent": 1.0}.items():
        upto = [np.searchsorted(r, r + distance + 1e-9, side="right").sum() for r in answers]
        if key == "exact" or kind == "ordinal":
            close[key] = np.array(upto) - sizes * (sizes + 1) / 2
    # Pairs of annotators, with the rows that both answered.
    both = []
    for a, b in combinations(busiest(people), 2):
        rows = np.flatnonzero(np.isfinite(people[:, a]) & np.isfinite(people[:, b]))
        if len(rows) >= MIN_ROWS:
            both.append((rows, people[rows, a], people[rows, b]))

    def statistic(weights: Floats) -> dict[str, Floats]:
        figures = {key: ratio(weights @ count, weights @ pairs) for key, count in close.items()}
        total, size = np.zeros(len(weights)), np.zeros(len(weights))
        for rows, one, other in both:
            mine = weights[:, rows]
            rho = weighted_spearman(one, other, mine)  # NaN if a side is constant
            total += np.where(np.isfinite(rho), rho * mine.sum(axis=1), 0.0)
            size += np.where(np.isfinite(rho), mine.sum(axis=1), 0.0)
        return figures | {"alpha": alpha(weights), "spearman": ratio(total, size)}

    return statistic
