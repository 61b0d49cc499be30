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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from medal_judges.eval.metaeval.alignment import Aligned
from medal_judges.eval.metaeval.ceiling import MOST_COLUMNS
from medal_judges.eval.metaeval.classification import THRESHOLD, figures, not_classifiable
from medal_judges.records.dimension import Kind
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.stats.correlation import Floats, undefined_reason, weighted_spearman
from medal_judges.stats.estimate import Estimate, undefined
from medal_judges.stats.intervals import Clusters, choose_clusters, estimated
from medal_judges.stats.weights import weighted

MIN_ANSWERS = 10  # of one annotator, to rows that another answered too
PEOPLE, POSITIONS = "people", "positions"
_NO_SHARED = "annotators agree no more than chance would: no common answer to compare a judge with"
_NO_INTERVAL = "no interval: one fit of the rater model"


@dataclass(frozen=True, slots=True)
class AnswerMatrix:
    """Answers to one dimension by annotator, shape (rows, annotators), NaN if not given.

    ``columns``: whether a column is one of the ``people`` by name or a position in the label list,
    which may be another person in another row. ``annotators`` counts those beyond MOST_COLUMNS too.
    """

    values: Floats
    columns: str
    people: tuple[str, ...]
    annotators: int


@dataclass(frozen=True, slots=True)
class AnnotatorFigures:
    """One annotator on one dimension, on ``answers`` rows that another answered too.

    Graded: ``leaning``, how far above the average annotator they answer the same rows, and
    ``reliability``, the correlation of their answers with what annotators share. Issues:
    ``sensitivity`` and ``specificity``.
    """

    name: str
    answers: int
    figures: Mapping[str, Estimate]


def answers_by_annotator(
    rows: Sequence[LabelledDialogue], name: str, values: Floats
) -> AnswerMatrix:
    """Returns answers by person if every row names its annotators in ``extra["annotators"]``, else
    ``values``, shape (rows, positions). Rows labelled by a machine (``labels_by``) name nobody."""
    given = np.isfinite(values)
    named: list[list[str]] = []
    for row in rows:
        people = None if row.extra.get("labels_by") else row.extra.get("annotators")
        if not isinstance(people, list) or len(people) != len(row.labels[name]):
            break
        texts = ["" if person is None else str(person) for person in people]
        if len(set(texts)) < len(texts) or not all(text.strip() for text in texts):
            break  # annotators without a name are not one person
        named.append(texts)
    if len(named) < len(rows):
        return AnswerMatrix(values, POSITIONS, (), int(given.any(axis=0).sum()))
    answers = Counter(
        person
        for people, row_given in zip(named, given, strict=True)
        for person, answered in zip(people, row_given, strict=False)
        if answered
    )
    most = sorted(answers, key=lambda person: (-answers[person], person))[:MOST_COLUMNS]
    column = {person: k for k, person in enumerate(sorted(most))}
    out = np.full((len(rows), len(column)), np.nan)
    for i, people in enumerate(named):
        for k, person in enumerate(people):
            if person in column:
                out[i, column[person]] = values[i, k]
    return AnswerMatrix(out, PEOPLE, tuple(sorted(most)), len(answers))


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


@dataclass(frozen=True, slots=True)
class _Shared:
    """Rows with two answers or more: number of answers, mean, and sum of squared distances from the
    mean. ``spent``: degrees of freedom of the leanings."""

    counts: Floats
    means: Floats
    squares: Floats
    spent: int

    @classmethod
    def of(cls, values: Floats, lean: Floats | None) -> _Shared:
        adjusted = values if lean is None else values - lean
        counts = np.isfinite(values).sum(axis=1).astype(float)
        means = np.nanmean(adjusted, axis=1)
        squares = np.nansum((adjusted - means[:, None]) ** 2, axis=1)
        spent = 0 if lean is None else int(np.isfinite(values).any(axis=0).sum()) - 1
        return cls(counts, means, squares, spent)

    def reliability(self, weights: Floats) -> tuple[Floats, Floats]:
        """Returns the reliability of the mean answer and the variance that annotators share, each
        of shape (samples,), NaN if they share nothing; ``weights``: shape (samples, rows)."""
        total = weights.sum(axis=1)
        free = weights @ (self.counts - 1) - self.spent
        error = (weights @ self.squares) / np.where(free > 0, free, np.nan)
        noise = error * (weights @ (1 / self.counts)) / total
        middle = (weights @ self.means) / total
        spread = (weights * (self.means - middle[:, None]) ** 2).sum(axis=1) / (total - 1)
        shared = np.where(spread - noise > 0, spread - noise, np.nan)
        return shared / spread, shared


def graded_noise_free(
    answers: AnswerMatrix, score: Floats, clusters: Clusters, weights: Floats | None = None
) -> dict[str, Estimate]:
    """Returns Spearman and Pearson of a judge with what annotators share, without their errors.

    ``score``: shape (rows,); every row needs two answers or more. A value above 1 is chance:
    reliability is an estimate too.
    """
    lean = leanings(answers.values) if answers.columns == PEOPLE else None
    shared = _Shared.of(answers.values, lean)

    def statistic(counts: Floats) -> dict[str, Floats]:
        root = np.sqrt(shared.reliability(counts)[0])
        total = counts.sum(axis=1, keepdims=True)
        one = shared.means - (counts @ shared.means)[:, None] / total
        two = score - (counts @ score)[:, None] / total
        spreads = (counts * one**2).sum(axis=1) * (counts * two**2).sum(axis=1)
        with np.errstate(invalid="ignore"):  # nothing varies: NaN, which is undefined
            pearson = (counts * one * two).sum(axis=1) / np.sqrt(spreads)
        spearman = weighted_spearman(shared.means, score, counts)
        return {"spearman": spearman / root, "pearson": pearson / root}

    return estimated(weighted(statistic, weights), clusters, _NO_SHARED)


def _fitted(name_values: Mapping[str, float], none: str) -> dict[str, Estimate]:
    return {
        name: Estimate(float(value), reason=_NO_INTERVAL)
        if np.isfinite(value)
        else Estimate(None, reason=none)
        for name, value in name_values.items()
    }


@dataclass(frozen=True, slots=True)
class IssueModel:
    """Prevalence of an issue, and (sensitivity, specificity) of each column, shape (columns, 2),
    NaN for a column without an answer."""

    prevalence: float
    rates: Floats


def issue_model(columns: Floats, *, alike: int = 0) -> IssueModel | str:
    """Fits Dawid and Skene's model to the 0 or 1 answers ``columns``, shape (rows, columns), NaN if
    not given; the first ``alike`` columns are positions and share one sensitivity and specificity.
    Returns the reason as text if there is no model."""
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
    if alike:
        rates[:alike] = rates[0]
    return IssueModel(float(priors[1]), rates)


def issue_noise_free(answers: AnswerMatrix, score: Floats) -> dict[str, Estimate]:
    """Returns F1+ and F1- of a judge with whether the issue is there; the judge, present from a
    probability ``score`` of 0.5 on, is one more annotator of the model."""
    columns = np.column_stack([answers.values, score >= THRESHOLD])
    alike = answers.values.shape[1] if answers.columns == POSITIONS else 0
    model = issue_model(columns, alike=alike)
    names = ("f1_present", "f1_absent")
    if isinstance(model, str):
        return undefined(names, model)
    (sensitivity, specificity), there = model.rates[-1], model.prevalence
    cells = {
        "tp": there * sensitivity,
        "fn": there * (1 - sensitivity),
        "fp": (1 - there) * (1 - specificity),
        "tn": (1 - there) * specificity,
    }
    values = figures({name: np.array([[cell]]) for name, cell in cells.items()})
    found = {name: float(values[name][0]) for name in names}
    return _fitted(found, "the model has no such dialogue")


def noise_free(aligned: Aligned, kind: Kind, dimension: str) -> dict[str, Estimate]:
    """Returns the judge's agreement with what annotators share, on the scored rows with two answers
    or more."""
    names = ("f1_present", "f1_absent") if kind == "binary" else ("spearman", "pearson")
    if any(row.aggregated for row in aligned.rows):
        return undefined(names, "the set was released as means or votes, without single answers")
    twice = np.flatnonzero(np.isfinite(aligned.values).sum(axis=1) > 1)
    if len(twice) < MIN_ANSWERS:
        return undefined(names, f"{len(twice)} rows with two answers, fewer than {MIN_ANSWERS}")
    part = aligned.part(twice.tolist())
    answers = answers_by_annotator(part.rows, dimension, part.values)
    if kind == "binary":
        reason = not_classifiable(part.score, part.values)
        return undefined(names, reason) if reason else issue_noise_free(answers, part.score)
    if reason := undefined_reason(part.human, part.score):
        return undefined(names, reason)
    clusters = choose_clusters(part.chatbots, part.groups)
    return graded_noise_free(answers, part.score, clusters, part.weights)


def annotator_figures(
    answers: AnswerMatrix, kind: Kind, groups: Sequence[str]
) -> list[AnnotatorFigures]:
    """Returns the figures of each annotator; empty if rows do not name them, or no two answer the
    same rows. ``groups``: the conversation of each row, which intervals leave out in turn."""
    twice = np.isfinite(answers.values).sum(axis=1) > 1
    if answers.columns != PEOPLE or not twice.any():
        return []
    values = answers.values[twice]
    names = [name for name, part in zip(groups, twice, strict=True) if part]
    counts = np.isfinite(values).sum(axis=0).tolist()
    if kind == "binary":
        model = issue_model(values)
        rates = ("sensitivity", "specificity")
        each = (
            [undefined(rates, model)] * values.shape[1]
            if isinstance(model, str)
            else [_fitted(dict(zip(rates, row, strict=True)), "no answer") for row in model.rates]
        )
    else:
        each = [_graded_figures(values, k, names) for k in range(values.shape[1])]
    return [
        AnnotatorFigures(person, count, found)
        for person, count, found in zip(answers.people, counts, each, strict=True)
    ]


def _graded_figures(values: Floats, k: int, groups: Sequence[str]) -> dict[str, Estimate]:
    """Returns ``leaning`` and ``reliability`` of annotator ``k``."""
    lean = leanings(values)
    rows = np.flatnonzero(np.isfinite(values[:, k]))
    if len(rows) < MIN_ANSWERS:
        reason = f"{len(rows)} answers to rows that others answered, fewer than {MIN_ANSWERS}"
        return undefined(("leaning", "reliability"), reason)
    mine = values[rows, k]
    others = np.nanmean(np.delete(values, k, axis=1)[rows] - np.delete(lean, k), axis=1)
    shared = _Shared.of(values, lean).reliability(np.ones((1, len(values))))[1]

    def statistic(weights: Floats) -> dict[str, Floats]:
        total = weights.sum(axis=1)
        leaning = (weights @ (mine - others)) / total
        one = mine - (weights @ mine)[:, None] / total[:, None]
        two = others - (weights @ others)[:, None] / total[:, None]
        # The others' errors are independent: the covariance is what annotators share.
        common = (weights * one * two).sum(axis=1) / (total - 1)
        spread = (weights * one**2).sum(axis=1) / (total - 1)
        return {"leaning": leaning, "reliability": common / np.sqrt(spread * shared)}

    clusters = Clusters("conversation", tuple(groups[i] for i in rows.tolist()))
    return estimated(statistic, clusters, _NO_SHARED)
