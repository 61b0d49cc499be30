"""Agreement of annotators with one another, by dimension and language (MEDAL, Tables 4 and 5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

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


@dataclass(frozen=True, slots=True)
class Agreement:
    """How well annotators agree on one dimension of the rows of one language.

    ``figures``: ``exact`` (share of pairs of answers to one row that are equal), ``adjacent``
    (share at most 1 apart, graded dimensions only), ``alpha`` (Krippendorff's) and ``spearman``
    (over pairs of annotators); ``ceiling``: one annotator against the others; ``each``: the people
    by name. ``rows`` have an answer, ``shared`` of them two or more, which make ``pairs``.
    ``columns``: whether annotators are ``people`` by name or ``positions`` in the label list.
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
    figures: Mapping[str, Estimate]
    ceiling: Mapping[str, Estimate] = field(default_factory=dict)
    each: Sequence[AnnotatorFigures] = ()

    @property
    def measurement(self) -> str:
        return MEASUREMENT[self.kind]

    @property
    def share_positive(self) -> float | None:
        """Share of the answers that are 1, of a binary dimension."""
        return self.mean if self.kind == "binary" else None

    def to_record(self) -> dict[str, Any]:
        """Returns one JSON object; estimates as value, low, high and reason."""

        def estimates(figures: Mapping[str, Estimate]) -> dict[str, Any]:
            names = ("value", "low", "high", "reason")
            return {key: {n: getattr(e, n) for n in names} for key, e in figures.items()}

        about = ("dimension", "kind", "lang", "rows", "shared", "pairs", "annotators", "columns",
                 "mean", "share_positive", "measurement")  # fmt: skip
        return {name: getattr(self, name) for name in about} | {
            "figures": estimates(self.figures),
            "ceiling": estimates(self.ceiling),
            "annotator": {
                one.name: {"answers": one.answers, **estimates(one.figures)} for one in self.each
            },
        }


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
    agreed = []
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
        for lang in [*langs, *([ALL] if len(langs) > 1 else [])]:
            chosen = [row for row in rows if lang in (ALL, row.dialogue.lang)]
            agreed.append(_agreement(chosen, name, kind, lang, weights))
    return agreed


def _agreement(
    rows: Sequence[LabelledDialogue], name: str, kind: Kind, lang: str, weights: Weights
) -> Agreement:
    answered = [row for row in rows if (r := row.rating(name)) is not None and r.given]
    values = answer_matrix(answered, name)
    by = answers_by_annotator(answered, name, values)
    given = np.isfinite(values)
    answers = given.sum(axis=1)
    counts = row_weights(answered, weights)
    released = any(row.aggregated for row in answered)
    none = "released as means or votes, without single answers" if released else None
    if none is None and not (answers > 1).any():
        none = "no row has answers of two annotators"
    ceiling: dict[str, Estimate] = {}
    if none:
        names = ("exact", *(("adjacent",) if kind == "ordinal" else ()), "alpha", "spearman")
        figures = undefined(names, none)
    else:
        figures, ceiling = _figures(answered, kind, values, by.values, counts)
    each = given if counts is None else given * counts[:, None]
    total = float((each * np.where(given, values, 0.0)).sum())
    return Agreement(
        dimension=name,
        kind=kind,
        lang=lang,
        rows=len(answered),
        shared=int((answers > 1).sum()),
        pairs=int((answers * (answers - 1) // 2).sum()),
        annotators=by.annotators,
        columns=by.columns,
        mean=total / float(each.sum()) if given.any() else None,
        figures=figures,
        ceiling=ceiling,
        each=[] if released else annotator_figures(by, kind, [row.group for row in answered]),
    )


def _figures(
    rows: Sequence[LabelledDialogue],
    kind: Kind,
    values: Floats,
    people: Floats,
    weights: Floats | None,
) -> tuple[dict[str, Estimate], dict[str, Estimate]]:
    """Returns the figures and the ceiling; ``people`` are ``values`` by annotator, if named."""
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
    spearman = _pairwise_spearman(people)
    # Of each row the number of pairs of answers at most a distance apart, and of all pairs.
    counts = {}
    for key, distance in (("exact", 0.0), ("adjacent", 1.0)):
        close, pairs = np.zeros(len(values)), np.zeros(len(values))
        for i, row in enumerate(values):
            answers = np.sort(row[np.isfinite(row)])
            upto = np.searchsorted(answers, answers + distance + 1e-9, side="right")
            close[i] = (upto - np.arange(1, len(answers) + 1)).sum()
            pairs[i] = len(answers) * (len(answers) - 1) / 2
        if key == "exact" or kind == "ordinal":
            counts[key] = close, pairs

    def statistic(weights: Floats) -> dict[str, Floats]:
        shares = {
            k: ratio(weights @ close, weights @ pairs) for k, (close, pairs) in counts.items()
        }
        return shares | {"alpha": alpha(weights), "spearman": spearman(weights)}

    return statistic


def _pairwise_spearman(people: Floats) -> Callable[[Floats], Floats]:
    """Returns Spearman of each pair of annotators on the rows both answered, averaged over pairs by
    the number of those rows, without pairs with a constant side."""
    pairs: list[tuple[npt.NDArray[np.intp], int, int]] = []
    for a, b in combinations(busiest(people), 2):
        rows = np.flatnonzero(np.isfinite(people[:, a]) & np.isfinite(people[:, b]))
        if len(rows) >= MIN_ROWS:
            pairs.append((rows, a, b))

    def statistic(weights: Floats) -> Floats:
        total, size = np.zeros(len(weights)), np.zeros(len(weights))
        for rows, a, b in pairs:
            mine = weights[:, rows]
            rho = weighted_spearman(people[rows, a], people[rows, b], mine)
            total += np.where(np.isfinite(rho), rho * mine.sum(axis=1), 0.0)
            size += np.where(np.isfinite(rho), mine.sum(axis=1), 0.0)
        return ratio(total, size)

    return statistic
