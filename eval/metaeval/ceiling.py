"""What people agree on: the human ceiling, and a judge's agreement without annotators' noise.

A judge is usually compared with the mean of all annotators, and an annotator with the mean of the
others. That mean is noisier, so an annotator seems worse than a judge who is no better.
``like_for_like`` compares both with the same annotators, on the same rows.

Graded answers follow an additive model: quality of the dialogue, leaning of the annotator, error. A
correlation with the mean answer is divided by the root of that mean's reliability (Spearman 1904;
Shrout and Fleiss 1979). Issues follow Dawid and Skene (1979), as crowd-kit fits it, with the judge
as one more annotator. That model's posterior is not used: noisy answers lower agreement with it.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt

from medal_judges.eval.metaeval.alignment import (
    METRICS,
    THRESHOLD,
    Aligned,
    classification_statistic,
    not_classifiable,
)
from medal_judges.records.dimension import Kind
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.stats.alpha import alpha_statistic
from medal_judges.stats.correlation import (
    MIN_ROWS,
    Floats,
    Statistic,
    correlation_statistic,
    ratio,
    undefined_reason,
    weighted_spearman,
)
from medal_judges.stats.estimate import Estimate, undefined
from medal_judges.stats.intervals import Clusters, estimated
from medal_judges.stats.significance import paired_difference
from medal_judges.stats.weights import weighted

CORRELATIONS = ("pearson", "spearman", "kendall", "within_system", "centred")
MOST_COLUMNS = 50
MIN_SHARED = 10  # rows with two answers, for figures without noise
_RELEASED = "the set was released as means or votes, without single answers"
MEASUREMENT = {"binary": "nominal", "ordinal": "ordinal", "continuous": "interval"}


def against_ceiling(aligned: Aligned, kind: Kind, *, whole: bool = True) -> dict[str, Any]:
    """Returns fields of a ResultRow: ``ceiling``, ``like_for_like``, ``ceiling_rows`` and
    ``ceiling_difference``, on the scored rows with two or more answers. A slice (not ``whole``) has
    the headline figures only."""
    binary = kind == "binary"
    names = ("f1_present", "f1_absent") if binary else ("spearman", "pearson", "kendall")
    headline = names[0]
    twice = np.isfinite(aligned.values).sum(axis=1) > 1
    released = any(row.aggregated for row in aligned.rows)
    if released or not twice.any():
        reason = _RELEASED if released else "one annotator per row"
        none = undefined(names if whole else names[:1], reason)
        return {"ceiling": none, "like_for_like": none}
    shared = aligned.part(np.flatnonzero(twice))
    values, score, weights, clusters = shared.values, shared.score, shared.weights, shared.clusters
    bots = [] if binary else shared.chatbots
    person = human_ceiling(values, kind, clusters, bots, weights=weights)
    if why := not_classifiable(score, values) if binary else undefined_reason(shared.human, score):
        judge = undefined(METRICS if binary else CORRELATIONS, why)
    else:
        judge = human_ceiling(values, kind, clusters, bots, judge=score, weights=weights)
    if not whole:
        return {
            "ceiling": {headline: person[headline]},
            "like_for_like": {headline: judge[headline]},
        }
    sides = (judge[headline], person[headline])
    difference = next((side for side in sides if side.value is None), None)
    if difference is None:
        one, two = (ceiling_statistic(values, kind, judge=by) for by in (score, None))
        assert one is not None and two is not None  # their figures are defined
        one, two = weighted(one, weights), weighted(two, weights)
        difference = paired_difference(one, two, headline, clusters)
    alpha = Estimate(None, reason="all answers are equal")
    if np.nanmax(values) != np.nanmin(values):
        own = np.ones(len(values)) if weights is None else weights / weights.mean()
        alpha = Estimate(float(alpha_statistic(values, MEASUREMENT[kind])(own[None])[0]))
    return {
        "ceiling": person | {"alpha": alpha},
        "like_for_like": judge,
        "ceiling_rows": len(shared.rows),
        "ceiling_difference": difference,
    }


def human_ceiling(
    values: Floats,
    kind: Kind,
    clusters: Clusters,
    chatbots: Sequence[str | None] = (),
    *,
    judge: Floats | None = None,
    weights: Floats | None = None,
) -> dict[str, Estimate]:
    """Returns the agreement of one annotator with the others, or of ``judge``, scores of shape
    (rows,), in the annotator's place. ``values``: shape (rows, annotators), NaN if not given.

    Graded: correlations with the mean of the others, averaged over the positions of the label list
    by rows; positions with fewer than 3 rows or a constant side are left out. Issues: F1+, F1-,
    precision, recall and accuracy, averaged over ordered pairs of positions (MEDAL, Figure 5).
    """
    names = METRICS if kind == "binary" else CORRELATIONS[: 5 if chatbots else 3]
    statistic = ceiling_statistic(values, kind, chatbots, judge)
    if statistic is None:
        reason = "no row has answers of two annotators"
        if (np.isfinite(values).sum(axis=1) > 1).any():
            reason = "annotators share fewer than 3 rows, or give all of them the same answer"
        return undefined(names, reason)
    reason = "undefined against every annotator"
    return estimated(weighted(statistic, weights), clusters, reason, names)


def ceiling_statistic(
    values: Floats,
    kind: Kind,
    chatbots: Sequence[str | None] = (),
    judge: Floats | None = None,
) -> Statistic | None:
    """Returns a function of row weights that computes the figures of ``human_ceiling``; None if
    there is no position or pair to compare."""
    given = np.isfinite(values)
    parts: list[tuple[npt.NDArray[np.intp], Statistic]] = []
    if kind == "binary":
        for one, other in permutations(busiest(values), 2):
            rows = np.flatnonzero(given[:, one] & given[:, other])
            if len(rows):
                side = values[rows, one] if judge is None else judge[rows]
                parts.append((rows, classification_statistic(side, values[rows][:, [other]])))
    else:
        for position in busiest(values):
            others = np.delete(values, position, axis=1)
            rows = np.flatnonzero(given[:, position] & np.isfinite(others).any(axis=1))
            if len(rows) < MIN_ROWS:
                continue
            person, mean = values[rows, position], np.nanmean(others[rows], axis=1)
            if np.ptp(person) > 0 and np.ptp(mean) > 0:
                bots = [chatbots[i] for i in rows.tolist()] if chatbots else []
                side = person if judge is None else judge[rows]
                parts.append((rows, correlation_statistic(mean, side, bots)))

    def statistic(weights: Floats) -> dict[str, Floats]:
        """The mean over the parts that have a figure, weighted by their rows."""
        sizes = np.array([weights[:, rows].sum(axis=1) for rows, _ in parts])
        each = [part(weights[:, rows]) for rows, part in parts]
        means = {}
        for name in each[0]:
            values = np.array([one[name] for one in each])
            defined = np.where(np.isfinite(values), sizes, 0.0)
            total = (defined * np.where(defined > 0, values, 0.0)).sum(axis=0)
            means[name] = ratio(total, defined.sum(axis=0))
        return means

    return statistic if parts else None


def busiest(values: Floats) -> list[int]:
    """Returns the MOST_COLUMNS columns of ``values`` with the most answers. Pairs of columns are
    compared, so that their number would grow with the square."""
    answers = np.isfinite(values).sum(axis=0)
    return sorted(np.argsort(-answers, kind="stable")[:MOST_COLUMNS].tolist())


def noise_free(aligned: Aligned, kind: Kind, dimension: str) -> dict[str, Estimate]:
    """Returns the judge's agreement with the annotators' shared opinion, without their errors, on
    the scored rows with two answers or more."""
    binary = kind == "binary"
    names = ("f1_present", "f1_absent") if binary else ("spearman", "pearson")
    if any(row.aggregated for row in aligned.rows):
        return undefined(names, _RELEASED)
    part = aligned.part(np.flatnonzero(np.isfinite(aligned.values).sum(axis=1) > 1))
    if len(part.rows) < MIN_SHARED:
        reason = f"{len(part.rows)} rows with two answers, fewer than {MIN_SHARED}"
        return undefined(names, reason)
    score, people = part.score, part.values
    if why := not_classifiable(score, people) if binary else undefined_reason(part.human, score):
        return undefined(names, why)
    values, named, _ = answers_by_annotator(part.rows, dimension, people)
    if binary:
        return issue_noise_free(values, named, score)
    return graded_noise_free(values, named, score, part.clusters, part.weights)


def answers_by_annotator(
    rows: Sequence[LabelledDialogue], name: str, values: Floats
) -> tuple[Floats, bool, int]:
    """Returns answers by annotator, shape (rows, annotators), whether annotators are named, and
    their number, which may be above MOST_COLUMNS.

    Without names in ``extra["annotators"]`` of every row, and for labels of a machine
    (``labels_by``), the answers are ``values``, shape (rows, positions in the label list): a
    position may be another person in another row.
    """
    given = np.isfinite(values)
    answers = Counter[str]()
    for row, row_given in zip(rows, given, strict=True):
        people: Any = None if row.extra.get("labels_by") else row.extra.get("annotators")
        known = isinstance(people, list) and len(people) == len(row.labels[name])
        texts = ["" if person is None else str(person) for person in people] if known else []
        # Annotators without a name are not one person.
        if not texts or len(set(texts)) < len(texts) or not all(text.strip() for text in texts):
            return values, False, int(given.any(axis=0).sum())
        answers.update(text for text, one in zip(texts, row_given, strict=False) if one)
    most = sorted(answers, key=lambda person: (-answers[person], person))[:MOST_COLUMNS]
    column = {person: k for k, person in enumerate(sorted(most))}
    out = np.full((len(rows), len(column)), np.nan)
    for i, row in enumerate(rows):
        for k, person in enumerate(map(str, row.extra["annotators"])):
            if person in column:
                out[i, column[person]] = values[i, k]
    return out, True, len(answers)


def leanings(people: Floats) -> Floats:
    """Returns how far above the average annotator each annotator answers the same rows, shape
    (annotators,), by least squares. The mean is 0. ``people``: shape (rows, annotators), NaN if not
    given."""
    given = np.isfinite(people)
    counts = np.maximum(given.sum(axis=1), 1)
    mean = np.where(given, people, 0.0).sum(axis=1) / counts
    apart = np.where(given, people - mean[:, None], 0.0).sum(axis=0)
    shares = given / counts[:, None]
    normal = np.diag(given.sum(axis=0).astype(float)) - given.T.astype(float) @ shares
    # Annotators without a common row (and the level as a whole) are not identified: least norm.
    found: Floats = np.linalg.pinv(normal) @ apart
    centred: Floats = found - found.mean()
    return centred


def graded_noise_free(
    values: Floats, named: bool, score: Floats, clusters: Clusters, weights: Floats | None = None
) -> dict[str, Estimate]:
    """Returns Spearman and Pearson of a judge with what annotators share, without their errors.

    ``values``: answers by annotator, by name if ``named``; every row needs two or more. A value
    above 1 is chance: reliability is an estimate too.
    """
    adjusted = values - leanings(values) if named else values
    answers = np.isfinite(values).sum(axis=1).astype(float)
    means = np.nanmean(adjusted, axis=1)
    squares = np.nansum((adjusted - means[:, None]) ** 2, axis=1)
    # degrees of freedom of the leanings
    spent = int(np.isfinite(values).any(axis=0).sum()) - 1 if named else 0

    def statistic(counts: Floats) -> dict[str, Floats]:
        total = counts.sum(axis=1)
        free = counts @ (answers - 1) - spent
        error = (counts @ squares) / np.where(free > 0, free, np.nan)
        noise = error * (counts @ (1 / answers)) / total
        one = means - ((counts @ means) / total)[:, None]
        two = score - ((counts @ score) / total)[:, None]
        squares_one, squares_two = ((counts * side**2).sum(axis=1) for side in (one, two))
        spread = squares_one / (total - 1)
        shared = np.where(spread - noise > 0, spread - noise, np.nan)
        root = np.sqrt(shared / spread)  # of the mean answer's reliability
        with np.errstate(invalid="ignore"):  # nothing varies: NaN, which is undefined
            pearson = (counts * one * two).sum(axis=1) / np.sqrt(squares_one * squares_two)
        spearman = weighted_spearman(means, score, counts)
        return {"spearman": spearman / root, "pearson": pearson / root}

    none = "annotators agree no more than chance would: no common answer to compare a judge with"
    return estimated(weighted(statistic, weights), clusters, none)


def issue_noise_free(values: Floats, named: bool, score: Floats) -> dict[str, Estimate]:
    """Returns F1+ and F1- of a judge with whether the issue is there, by Dawid and Skene's model;
    the judge, present from a probability ``score`` of 0.5 on, is one more annotator. Annotators
    that are positions, not ``named``, share one sensitivity and specificity."""
    names = ("f1_present", "f1_absent")
    try:
        from crowdkit.aggregation import DawidSkene
        from pandas import DataFrame
    except ImportError:
        install = "needs the package crowd-kit: pip install 'medal-judges[annotate]'"
        return undefined(names, install)
    columns, judge = np.column_stack([values, score >= THRESHOLD]), values.shape[1]
    at, worker = np.nonzero(np.isfinite(columns))
    labels = (columns[at, worker] >= THRESHOLD).astype(int)
    if not 0 < labels.mean() < 1:
        return undefined(names, "all answers are equal")
    worker = worker if named else np.where(worker < judge, 0, worker)
    model = DawidSkene()
    with warnings.catch_warnings():  # crowd-kit uses pandas as it was
        warnings.simplefilter("ignore")
        model.fit(DataFrame({"task": at, "worker": worker, "label": labels}))
    errors, priors = model.errors_, model.priors_
    assert errors is not None and priors is not None  # fitted
    # A label that the judge never gave has no row.
    sensitivity, specificity = (float(errors[label].get((judge, label), 0.0)) for label in (1, 0))
    there = float(priors[1])
    wrong = there * (1 - sensitivity) + (1 - there) * (1 - specificity)
    rights = there * sensitivity, (1 - there) * specificity
    return {
        name: Estimate(2 * right / (2 * right + wrong), reason="no interval: one fit of the model")
        if 2 * right + wrong > 0
        else Estimate(None, reason="the model has no such dialogue")
        for name, right in zip(names, rights, strict=True)
    }
