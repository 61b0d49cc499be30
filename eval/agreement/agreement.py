"""Agreement of annotators with one another, by dimension and language (MEDAL, Tables 4 and 5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

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
from medal_judges.records.dimension import Kind
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.stats.alpha import alpha_statistic, no_interval
from medal_judges.stats.correlation import MIN_ROWS, Floats, Statistic, ratio, weighted_spearman
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import Clusters, choose_clusters, too_few, wilson, with_intervals
from medal_judges.stats.weights import Weights, effective_size, row_weights, weighted

ALL = "all"  # every language together
_NO_PAIRS = "no row has answers of two annotators"


@dataclass(frozen=True, slots=True)
class Agreement:
    """How well annotators agree on one dimension of the rows of one language.

    ``figures``: ``exact`` (share of pairs of answers to one row that are equal), ``adjacent``
    (share at most 1 apart, graded dimensions only), ``alpha`` (Krippendorff's, ``measurement``
    nominal, ordinal or interval) and ``spearman`` (over pairs of annotators); ``ceiling``: one
    annotator against the others, see ceiling.py; ``each``: the people by name, see rater_model.py.
    ``rows`` have an answer, ``shared`` of them two
    or more, which make ``pairs``. ``columns`` says what a pair of annotators is: ``people``
    by name, or ``positions`` in the label list, which need not be the same person in two rows; of
    more than 50 those with most answers make ``spearman`` and ``ceiling``.
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
        """One JSON object; estimates as value, low, high and reason."""
        about = ("dimension", "kind", "lang", "rows", "shared", "pairs", "annotators", "columns")
        record: dict[str, Any] = {name: getattr(self, name) for name in about}
        record |= {"mean": self.mean, "share_positive": self.share_positive}
        record["measurement"] = self.measurement
        for name in ("figures", "ceiling"):
            record[name] = _estimate_records(getattr(self, name))
        record["annotator"] = {
            one.name: {"answers": one.answers, **_estimate_records(one.figures)}
            for one in self.each
        }
        return record


def _estimate_records(estimates: Mapping[str, Estimate]) -> dict[str, Any]:
    return {key: _estimate_record(value) for key, value in estimates.items()}


def _estimate_record(estimate: Estimate) -> dict[str, Any]:
    names = ("value", "low", "high", "reason")
    return {name: getattr(estimate, name) for name in names}


def agreements(
    rows: Sequence[LabelledDialogue],
    dimensions: Sequence[str] = (),
    *,
    weights: Weights = "none",
) -> list[Agreement]:
    """Agreement on each of ``dimensions`` (all when none is named), in each language and, where
    there are several, in all together. Intervals are those of intervals.py. ``weights``: how rows
    count, see weights.py.

    Raises MedalError for a dimension that no row has, and where rows state two scales of one: raw
    answers of the two are no common measure.
    """
    known = dimensions_of(rows)
    for name in dimensions:
        if name not in known:
            raise MedalError(
                f"no row has the dimension {name!r}", hint=f"there: {', '.join(known)}"
            )
    langs = sorted({row.dialogue.lang for row in rows})
    agreed = []
    for name in dimensions or known:
        _require_one_scale(rows, name)
        kind = kind_of(rows, name)
        for lang in [*langs, *([ALL] if len(langs) > 1 else [])]:
            chosen = [row for row in rows if lang in (ALL, row.dialogue.lang)]
            agreed.append(_agreement(chosen, name, kind, lang, weights))
    return agreed


def _require_one_scale(rows: Sequence[LabelledDialogue], name: str) -> None:
    scales = {scale for row in rows if (scale := row.scales.get(name)) is not None}
    if len(scales) > 1:
        told = " and ".join(
            f"{scale[0]:g} to {scale[1]:g}" for scale in sorted(scales)[:2] if scale
        )
        raise MedalError(
            f"answers to {name!r} are on several scales: {told}",
            hint="bring them onto one scale, or take each part by itself",
        )


def dimensions_of(rows: Sequence[LabelledDialogue]) -> list[str]:
    """Dimensions in the order they occur in, ``overall`` last."""
    names = dict.fromkeys(name for row in rows for name in row.labels)
    return [name for name in names if name != "overall"] + ["overall"] * ("overall" in names)


def _agreement(
    rows: Sequence[LabelledDialogue], name: str, kind: Kind, lang: str, weights: Weights
) -> Agreement:
    answered = [row for row in rows if (r := row.rating(name)) is not None and r.given]
    values = answer_matrix(answered, name)
    by = answers_by_annotator(answered, name, values)
    answers = np.isfinite(values).sum(axis=1)
    counts = row_weights(answered, weights)
    released = any(row.aggregated for row in answered)
    figures, ceiling = _figures(answered, kind, values, by.values, counts)
    return Agreement(
        dimension=name,
        kind=kind,
        lang=lang,
        rows=len(answered),
        shared=int((answers > 1).sum()),
        pairs=int((answers * (answers - 1) // 2).sum()),
        annotators=by.annotators,
        columns=by.columns,
        mean=_mean(values, counts),
        figures=figures,
        ceiling=ceiling,
        each=[] if released else annotator_figures(by, kind, [row.group for row in answered]),
    )


def _mean(values: Floats, weights: Floats | None) -> float | None:
    """Mean of all answers, each counting as its row does."""
    given = np.isfinite(values)
    if not given.any():
        return None
    counts = given if weights is None else given * weights[:, None]
    return float((counts * np.where(given, values, 0.0)).sum() / counts.sum())


def _figures(
    rows: Sequence[LabelledDialogue],
    kind: Kind,
    values: Floats,
    people: Floats,
    weights: Floats | None,
) -> tuple[dict[str, Estimate], dict[str, Estimate]]:
    names = ("exact", *(("adjacent",) if kind == "ordinal" else ()), "alpha", "spearman")
    if any(row.aggregated for row in rows):
        reason = "released as means or votes, without single answers"
        return {key: Estimate(None, reason=reason) for key in names}, {}
    paired = np.isfinite(values).sum(axis=1) > 1
    if not paired.any():
        return {key: Estimate(None, reason=_NO_PAIRS) for key in names}, {}
    # A row with one answer takes no part, so that it must not count towards an interval either.
    rows = [row for row, has in zip(rows, paired, strict=True) if has]
    values, people = values[paired], people[paired]
    weights = None if weights is None else weights[paired]
    clusters = choose_clusters([row.dialogue.chatbot for row in rows], [row.group for row in rows])
    statistic = weighted(_statistic(values, people, kind), weights)
    plain = _plain(statistic, values, kind, weights)
    estimates = with_intervals(plain, statistic, clusters)
    if why := no_interval(values, MEASUREMENT[kind]):
        estimates["alpha"] = replace(plain["alpha"], reason=plain["alpha"].reason or why)
    trials = _trials(clusters, weights)
    if not too_few(clusters):
        estimates = {key: _at_an_end(key, estimate, trials) for key, estimate in estimates.items()}
    if kind == "binary":
        return estimates, binary_ceiling(values, clusters, weights=weights)
    return estimates, graded_ceiling(values, [], clusters, weights=weights)


def _trials(clusters: Clusters, weights: Floats | None) -> float:
    """Clusters; of unlike weight, how many alike tell as much."""
    if weights is None:
        return clusters.count
    _, member = np.unique(np.asarray(clusters.names), return_inverse=True)
    return effective_size(np.bincount(member, weights).tolist())


def _plain(
    statistic: Statistic, values: Floats, kind: Kind, weights: Floats | None
) -> dict[str, Estimate]:
    """The figures of the rows as they are; alpha by the package where no weights are."""
    figures_of_all = statistic(np.ones((1, len(values))))
    plain = {
        key: Estimate(float(value[0]))
        if np.isfinite(value[0])
        else Estimate(None, reason=f"no two annotators share {MIN_ROWS} rows on which both vary")
        for key, value in figures_of_all.items()
    }
    return plain | {"alpha": krippendorff_alpha(values, MEASUREMENT[kind], weights)}


def _statistic(values: Floats, people: Floats, kind: Kind) -> Statistic:
    alpha = alpha_statistic(values, MEASUREMENT[kind])
    spearman = _pairwise_spearman(people)
    within = {"exact": 0.0} | ({"adjacent": 1.0} if kind == "ordinal" else {})
    counts = {key: _pairs_within(values, distance) for key, distance in within.items()}

    def statistic(weights: Floats) -> dict[str, Floats]:
        shares = {}
        for key, (close, pairs) in counts.items():
            shares[key] = ratio(weights @ close, weights @ pairs)
        return shares | {"alpha": alpha(weights), "spearman": spearman(weights)}

    return statistic


def _pairs_within(values: Floats, distance: float) -> tuple[Floats, Floats]:
    """Pairs of answers at most ``distance`` apart, and all pairs, each of shape (rows,)."""
    close, pairs = np.zeros(len(values)), np.zeros(len(values))
    for i, row in enumerate(values):
        answers = np.sort(row[np.isfinite(row)])
        upto = np.searchsorted(answers, answers + distance + 1e-9, side="right")
        close[i] = (upto - np.arange(1, len(answers) + 1)).sum()
        pairs[i] = len(answers) * (len(answers) - 1) / 2
    return close, pairs


def _pairwise_spearman(people: Floats) -> Callable[[Floats], Floats]:
    """Spearman of each pair of annotators on the rows both answered, averaged over pairs by the
    number of those rows; pairs of which one gives a single answer throughout take no part. Of many
    annotators those with most answers, see ``busiest``."""
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


def _at_an_end(key: str, estimate: Estimate, trials: float) -> Estimate:
    """A share of 0 or 1 stays so whatever is left out, but is not known exactly: Wilson's interval,
    one trial a cluster."""
    if key not in ("exact", "adjacent") or estimate.value not in (0, 1):
        return estimate
    low, high = wilson(estimate.value * trials, trials)
    return replace(estimate, low=low, high=high, reason=None)
