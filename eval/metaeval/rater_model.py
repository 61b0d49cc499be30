"""Annotator noise: each annotator's leaning and reliability, and a judge's agreement without it.

Graded answers follow an additive model: quality of the dialogue, leaning of the annotator, error.
The variance that annotators share follows from how far answers to one dialogue differ; a
correlation with the mean answer is divided by the root of that mean's reliability (Spearman 1904;
Shrout and Fleiss 1979). Issues follow Dawid and Skene (1979), as crowd-kit fits it, with the judge
as one more annotator. The posterior of an issue model would not do: noisy answers attenuate it.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from medal_judges.eval.metaeval.alignment import Aligned
from medal_judges.eval.metaeval.ceiling import MOST_COLUMNS
from medal_judges.eval.metaeval.classification import THRESHOLD, not_classifiable
from medal_judges.records.dimension import Kind
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.stats.correlation import Floats, undefined_reason, weighted_spearman
from medal_judges.stats.estimate import Estimate, undefined
from medal_judges.stats.intervals import Clusters, estimated
from medal_judges.stats.weights import weighted

MIN_ANSWERS = 10  # of one annotator, to rows that another answered too
_NO_SHARED = "annotators agree no more than chance would: no common answer to compare a judge with"
_NO_INTERVAL = "no interval: one fit of the rater model"


def answers_by_annotator(
    rows: Sequence[LabelledDialogue], name: str, values: Floats
) -> tuple[Floats, tuple[str, ...], int]:
    """Returns answers by annotator, shape (rows, annotators), the annotators' names, and their
    number, which may be above MOST_COLUMNS.

    Without names in ``extra["annotators"]`` of every row, and for labels of a machine
    (``labels_by``), the answers are ``values``, shape (rows, positions in the label list), and
    there are no names: a position may be another person in another row.
    """
    given = np.isfinite(values)
    answers = Counter[str]()
    for row, row_given in zip(rows, given, strict=True):
        people = None if row.extra.get("labels_by") else row.extra.get("annotators")
        named = isinstance(people, list) and len(people) == len(row.labels[name])
        texts = ["" if person is None else str(person) for person in people or ()] if named else []
        # Annotators without a name are not one person.
        if not texts or len(set(texts)) < len(texts) or not all(text.strip() for text in texts):
            return values, (), int(given.any(axis=0).sum())
        answers.update(text for text, one in zip(texts, row_given, strict=False) if one)
    most = sorted(answers, key=lambda person: (-answers[person], person))[:MOST_COLUMNS]
    column = {person: k for k, person in enumerate(sorted(most))}
    out = np.full((len(rows), len(column)), np.nan)
    for i, row in enumerate(rows):
        for k, person in enumerate(map(str, row.extra["annotators"])):
            if person in column:
                out[i, column[person]] = values[i, k]
    return out, tuple(column), len(answers)


def leanings(people: Floats) -> Floats:
    """Returns how far above the average annotator each answers the same rows, shape (annotators,),
    by least squares; their mean is 0. ``people``: shape (rows, annotators), NaN if not given."""
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


def _reliability(
    values: Floats, lean: Floats | None
) -> tuple[Floats, Callable[[Floats], tuple[Floats, Floats]]]:
    """Returns the mean answers without leanings, shape (rows,), and a function of row weights: the
    reliability of the mean answer and the variance that annotators share, NaN if they share
    nothing. Every row has two answers or more."""
    adjusted = values if lean is None else values - lean
    counts = np.isfinite(values).sum(axis=1).astype(float)
    means = np.nanmean(adjusted, axis=1)
    squares = np.nansum((adjusted - means[:, None]) ** 2, axis=1)
    # degrees of freedom of the leanings
    spent = 0 if lean is None else int(np.isfinite(values).any(axis=0).sum()) - 1

    def reliability(weights: Floats) -> tuple[Floats, Floats]:
        total = weights.sum(axis=1)
        free = weights @ (counts - 1) - spent
        error = (weights @ squares) / np.where(free > 0, free, np.nan)
        noise = error * (weights @ (1 / counts)) / total
        middle = (weights @ means) / total
        spread = (weights * (means - middle[:, None]) ** 2).sum(axis=1) / (total - 1)
        shared = np.where(spread - noise > 0, spread - noise, np.nan)
        return shared / spread, shared

    return means, reliability


def graded_noise_free(
    values: Floats, named: bool, score: Floats, clusters: Clusters, weights: Floats | None = None
) -> dict[str, Estimate]:
    """Returns Spearman and Pearson of a judge with what annotators share, without their errors.

    ``values``: answers by annotator, by name if ``named``; every row needs two or more. A value
    above 1 is chance: reliability is an estimate too.
    """
    means, reliability = _reliability(values, leanings(values) if named else None)

    def statistic(counts: Floats) -> dict[str, Floats]:
        root = np.sqrt(reliability(counts)[0])
        total = counts.sum(axis=1, keepdims=True)
        one = means - (counts @ means)[:, None] / total
        two = score - (counts @ score)[:, None] / total
        spreads = (counts * one**2).sum(axis=1) * (counts * two**2).sum(axis=1)
        with np.errstate(invalid="ignore"):  # nothing varies: NaN, which is undefined
            pearson = (counts * one * two).sum(axis=1) / np.sqrt(spreads)
        return {
            "spearman": weighted_spearman(means, score, counts) / root,
            "pearson": pearson / root,
        }

    return estimated(weighted(statistic, weights), clusters, _NO_SHARED)


def issue_model(columns: Floats, *, alike: int = 0) -> tuple[float, Floats] | str:
    """Fits Dawid and Skene's model to the 0 or 1 answers ``columns``, shape (rows, columns), NaN if
    not given; the first ``alike`` columns are positions and share one sensitivity and specificity.

    Returns the prevalence, and the (sensitivity, specificity) of each column, NaN for a column
    without an answer; or the reason as text if there is no model.
    """
    try:
        from crowdkit.aggregation import DawidSkene
        from pandas import DataFrame
    except ImportError:
        return "needs the package crowd-kit: pip install 'medal-judges[annotate]'"
    at, column = np.nonzero(np.isfinite(columns))
    labels = (columns[at, column] >= THRESHOLD).astype(int)
    if not 0 < labels.mean() < 1:
        return "all answers are equal"
    column = np.where(column < alike, 0, column)
    model = DawidSkene()
    with warnings.catch_warnings():  # crowd-kit uses pandas as it was
        warnings.simplefilter("ignore")
        model.fit(DataFrame({"task": at, "worker": column, "label": labels}))
    errors, priors = model.errors_, model.priors_
    assert errors is not None and priors is not None  # fitted
    rates = np.full((columns.shape[1], 2), np.nan)
    for k in np.unique(column):
        # A label that an annotator never gave has no row.
        rates[k] = [errors[label].get((k, label), 0.0) for label in (1, 0)]
    rates[:alike] = rates[0]
    return float(priors[1]), rates


def issue_noise_free(values: Floats, named: bool, score: Floats) -> dict[str, Estimate]:
    """Returns F1+ and F1- of a judge with whether the issue is there; the judge, present from a
    probability ``score`` of 0.5 on, is one more annotator of the model."""
    columns = np.column_stack([values, score >= THRESHOLD])
    model = issue_model(columns, alike=0 if named else values.shape[1])
    if isinstance(model, str):
        return undefined(("f1_present", "f1_absent"), model)
    there, rates = model
    sensitivity, specificity = (float(rate) for rate in rates[-1])
    hits, passed = there * sensitivity, (1 - there) * specificity
    wrong = there * (1 - sensitivity) + (1 - there) * (1 - specificity)
    return {
        name: Estimate(2 * right / (2 * right + wrong), reason=_NO_INTERVAL)
        if 2 * right + wrong > 0
        else Estimate(None, reason="the model has no such dialogue")
        for name, right in (("f1_present", hits), ("f1_absent", passed))
    }


def noise_free(aligned: Aligned, kind: Kind, dimension: str) -> dict[str, Estimate]:
    """Returns the judge's agreement with what annotators share, on the scored rows with two answers
    or more."""
    names = ("f1_present", "f1_absent") if kind == "binary" else ("spearman", "pearson")
    if any(row.aggregated for row in aligned.rows):
        return undefined(names, "the set was released as means or votes, without single answers")
    twice = np.flatnonzero(np.isfinite(aligned.values).sum(axis=1) > 1)
    if len(twice) < MIN_ANSWERS:
        return undefined(names, f"{len(twice)} rows with two answers, fewer than {MIN_ANSWERS}")
    part = aligned.part(twice)
    values, people, _ = answers_by_annotator(part.rows, dimension, part.values)
    if kind == "binary":
        reason = not_classifiable(part.score, part.values)
        return (
            undefined(names, reason)
            if reason
            else issue_noise_free(values, bool(people), part.score)
        )
    if reason := undefined_reason(part.human, part.score):
        return undefined(names, reason)
    return graded_noise_free(values, bool(people), part.score, part.clusters, part.weights)


def annotator_figures(
    values: Floats, people: Sequence[str], kind: Kind, groups: Sequence[str]
) -> dict[str, tuple[int, Mapping[str, Estimate]]]:
    """Returns of each of ``people`` the number of answers to rows that another answered too, and
    figures on these rows; empty if no two answer the same rows.

    Graded: ``leaning``, how far above the average annotator they answer the same rows, and
    ``reliability``, the correlation of their answers with what annotators share. Issues:
    ``sensitivity`` and ``specificity``. ``values``: shape (rows, people); ``groups``: the
    conversation of each row, which intervals leave out in turn.
    """
    twice = np.isfinite(values).sum(axis=1) > 1
    if not people or not twice.any():
        return {}
    values = values[twice]
    names = [name for name, shared in zip(groups, twice, strict=True) if shared]
    each: list[dict[str, Estimate]]
    if kind == "binary":
        model, rates = issue_model(values), ("sensitivity", "specificity")
        if isinstance(model, str):
            each = [undefined(rates, model)] * len(people)
        else:
            each = [
                {
                    name: Estimate(float(value), reason=_NO_INTERVAL)
                    if np.isfinite(value)
                    else Estimate(None, reason="no answer")
                    for name, value in zip(rates, row, strict=True)
                }
                for row in model[1]
            ]
    else:
        lean = leanings(values)
        shared = _reliability(values, lean)[1](np.ones((1, len(values))))[1]
        each = [_graded_figures(values, k, lean, shared, names) for k in range(len(people))]
    counts = np.isfinite(values).sum(axis=0).tolist()
    return {person: (n, one) for person, n, one in zip(people, counts, each, strict=True)}


def _graded_figures(
    values: Floats, k: int, lean: Floats, shared: Floats, groups: Sequence[str]
) -> dict[str, Estimate]:
    """Returns ``leaning`` and ``reliability`` of annotator ``k``; ``shared``: the variance that
    annotators share."""
    rows = np.flatnonzero(np.isfinite(values[:, k]))
    if len(rows) < MIN_ANSWERS:
        reason = f"{len(rows)} answers to rows that others answered, fewer than {MIN_ANSWERS}"
        return undefined(("leaning", "reliability"), reason)
    mine = values[rows, k]
    others = np.nanmean(np.delete(values, k, axis=1)[rows] - np.delete(lean, k), axis=1)

    def statistic(weights: Floats) -> dict[str, Floats]:
        total = weights.sum(axis=1)
        one = mine - (weights @ mine)[:, None] / total[:, None]
        two = others - (weights @ others)[:, None] / total[:, None]
        # The others' errors are independent: the covariance is what annotators share.
        common = (weights * one * two).sum(axis=1) / (total - 1)
        spread = (weights * one**2).sum(axis=1) / (total - 1)
        return {
            "leaning": (weights @ (mine - others)) / total,
            "reliability": common / np.sqrt(spread * shared),
        }

    clusters = Clusters("conversation", tuple(groups[i] for i in rows.tolist()))
    return estimated(statistic, clusters, _NO_SHARED)
