"""What annotators' noise hides: their leaning and reliability, and a judge's agreement without it.

Graded answers are an additive model: the dialogue's quality, the annotator's leaning (some are
strict), and an error of their own. The variance of what annotators share follows from how far
answers to one dialogue differ; a correlation with the mean answer is then divided by the root of
that mean's reliability (Spearman 1904, "The proof and measurement of association between two
things"; Shrout and Fleiss 1979, the intraclass correlation). Issues are Dawid and Skene's model
(1979), as crowd-kit computes it, with the judge as one more annotator: each has a sensitivity and a
specificity, and errs independently of the others.
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
from medal_judges.stats.correlation import Floats, Statistic, undefined_reason, weighted_spearman
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import Clusters, choose_clusters, with_intervals
from medal_judges.stats.weights import weighted

MIN_ANSWERS = 10  # of one annotator, to rows that another answered too
PEOPLE, POSITIONS = "people", "positions"
GRADED, BINARY = ("spearman", "pearson"), ("f1_present", "f1_absent")
_NO_SHARED = "annotators agree no more than chance would: nothing to hold a judge against"
_NO_INTERVAL = "no interval: one fit of the rater model"


@dataclass(frozen=True, slots=True)
class AnswerMatrix:
    """Answers to one dimension by annotator.

    ``values``: shape (rows, annotators), NaN where not given. ``columns`` says what a column is:
    one of the ``people`` by name, or a position in the label list, which need not be the same
    person in two rows. ``annotators`` counts all, also those beyond the MOST_COLUMNS shown.
    """

    values: Floats
    columns: str
    people: tuple[str, ...]
    annotators: int


def answers_by_annotator(
    rows: Sequence[LabelledDialogue], name: str, values: Floats
) -> AnswerMatrix:
    """Answers by person where every row names its annotators in ``extra["annotators"]``, else
    ``values``, shape (rows, positions), as they are.

    Labels of a machine (``labels_by``) are nobody's, though the row may still name those who
    annotated it before.
    """
    given = np.isfinite(values)
    by_position = AnswerMatrix(values, POSITIONS, (), int(given.any(axis=0).sum()))
    named: list[list[str]] = []
    for row in rows:
        people = None if row.extra.get("labels_by") else row.extra.get("annotators")
        if not isinstance(people, list) or len(people) != len(row.labels[name]):
            return by_position
        if any(person is None or not str(person).strip() for person in people):
            return by_position  # those without a name are not one person
        named.append([str(person) for person in people])
        if len(set(named[-1])) < len(people):
            return by_position
    answers = Counter(
        person
        for people, gave in zip(named, given, strict=True)
        for person, answered in zip(people, gave, strict=False)
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


# -- graded answers: an additive model ----------------------------------------------------------


def leanings(people: Floats) -> Floats:
    """How far above the average annotator each answers the same rows, shape (annotators,), by least
    squares; their mean is 0. ``people``: shape (rows, annotators), NaN where not given."""
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
    """Rows with two answers or more, their means and what answers to one row differ by."""

    counts: Floats
    means: Floats
    squares: Floats  # sum of squared distances from the row's mean
    spent: int  # degrees of freedom that leanings took

    def reliability(self, weights: Floats) -> tuple[Floats, Floats]:
        """(Reliability of the mean answer, variance of what annotators share), each of shape
        (samples,), NaN where annotators share nothing; ``weights``: shape (samples, rows)."""
        total = weights.sum(axis=1)
        free = weights @ (self.counts - 1) - self.spent
        error = (weights @ self.squares) / np.where(free > 0, free, np.nan)
        noise = error * (weights @ (1 / self.counts)) / total
        middle = (weights @ self.means) / total
        spread = (weights * (self.means - middle[:, None]) ** 2).sum(axis=1) / (total - 1)
        shared = np.where(spread - noise > 0, spread - noise, np.nan)
        return shared / spread, shared


def _shared(values: Floats, lean: Floats | None) -> _Shared:
    adjusted = values if lean is None else values - lean
    counts = np.isfinite(values).sum(axis=1).astype(float)
    means = np.nanmean(adjusted, axis=1)
    squares = np.nansum((adjusted - means[:, None]) ** 2, axis=1)
    spent = 0 if lean is None else int(np.isfinite(values).any(axis=0).sum()) - 1
    return _Shared(counts, means, squares, spent)


def graded_noise_free(
    answers: AnswerMatrix, score: Floats, clusters: Clusters, weights: Floats | None = None
) -> dict[str, Estimate]:
    """Spearman and Pearson of a judge with what annotators share, not with their errors.

    ``score``: shape (rows,). On rows with two answers or more, which all of ``answers`` must be.
    A value above 1 is chance: reliability is an estimate too. None where people agree no more than
    chance would.
    """
    lean = leanings(answers.values) if answers.columns == PEOPLE else None
    shared = _shared(answers.values, lean)

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

    return _estimated(weighted(statistic, weights), clusters)


def _estimated(statistic: Statistic, clusters: Clusters) -> dict[str, Estimate]:
    whole = statistic(np.ones((1, len(clusters.names))))
    plain = {
        name: Estimate(float(value[0]))
        if np.isfinite(value[0])
        else Estimate(None, reason=_NO_SHARED)
        for name, value in whole.items()
    }
    return with_intervals(plain, statistic, clusters)


# -- issues: Dawid and Skene --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IssueModel:
    """Prevalence of an issue, and (sensitivity, specificity) of each column, shape (columns, 2),
    NaN where a column has no answer."""

    prevalence: float
    rates: Floats


def issue_model(columns: Floats, *, alike: int = 0) -> IssueModel | str:
    """Dawid and Skene's model of the 0 or 1 answers ``columns``, shape (rows, columns), NaN where
    not given; the first ``alike`` columns are positions and share one sensitivity and specificity.
    In words why there is none: all answers are equal, or crowd-kit is not installed."""
    try:
        from crowdkit.aggregation import DawidSkene
        from pandas import DataFrame
    except ImportError:
        return "needs the package crowd-kit: pip install 'medal-judges[annotate]'"
    at, column = np.nonzero(np.isfinite(columns))
    said = (columns[at, column] >= THRESHOLD).astype(int)
    if not 0 < said.mean() < 1:
        return "all answers are equal"
    column = np.where(column < alike, 0, column)
    model = DawidSkene()
    with warnings.catch_warnings():  # crowd-kit uses pandas as it was
        warnings.simplefilter("ignore")
        model.fit(DataFrame({"task": at, "worker": column, "label": said}))
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
    """F1+ and F1- of a judge with whether the issue is there: the judge, present from a probability
    ``score`` of 0.5 on, is one more annotator of the model."""
    columns = np.column_stack([answers.values, score >= THRESHOLD])
    alike = answers.values.shape[1] if answers.columns == POSITIONS else 0
    model = issue_model(columns, alike=alike)
    if isinstance(model, str):
        return {name: Estimate(None, reason=model) for name in BINARY}
    (sensitivity, specificity), there = model.rates[-1], model.prevalence
    cells = {
        "tp": there * sensitivity,
        "fn": there * (1 - sensitivity),
        "fp": (1 - there) * (1 - specificity),
        "tn": (1 - there) * specificity,
    }
    of_all = figures({name: np.array([[cell]]) for name, cell in cells.items()})
    return {
        name: Estimate(float(of_all[name][0]), reason=_NO_INTERVAL)
        if np.isfinite(of_all[name][0])
        else Estimate(None, reason="the model has no such dialogue")
        for name in BINARY
    }


# -- a judge on a set, and each annotator -------------------------------------------------------


def noise_free(aligned: Aligned, kind: Kind, dimension: str) -> dict[str, Estimate]:
    """The judge's agreement with what annotators share, on the scored rows with two answers or
    more; None with a reason where answers were released as means, or nobody answered twice."""
    names = BINARY if kind == "binary" else GRADED
    if any(row.aggregated for row in aligned.rows):
        return _none(names, "the set was released as means or votes, without single answers")
    twice = np.flatnonzero(np.isfinite(aligned.values).sum(axis=1) > 1)
    if len(twice) < MIN_ANSWERS:
        return _none(names, f"{len(twice)} rows with two answers, fewer than {MIN_ANSWERS}")
    part = aligned.part(twice.tolist())
    answers = answers_by_annotator(part.rows, dimension, part.values)
    if kind == "binary":
        if reason := not_classifiable(part.score, part.values):
            return _none(names, reason)
        return issue_noise_free(answers, part.score)
    if reason := undefined_reason(part.human, part.score):
        return _none(names, reason)
    clusters = choose_clusters(part.chatbots, part.groups)
    return graded_noise_free(answers, part.score, clusters, part.weights)


def _none(names: Sequence[str], reason: str) -> dict[str, Estimate]:
    return {name: Estimate(None, reason=reason) for name in names}


@dataclass(frozen=True, slots=True)
class AnnotatorFigures:
    """One annotator on one dimension, on ``answers`` rows that another answered too.

    Graded: ``leaning``, how far above the average annotator they answer the same rows, raw scale,
    and ``reliability``, the correlation of their answers with what annotators share. Issues:
    ``sensitivity`` and ``specificity``.
    """

    name: str
    answers: int
    figures: Mapping[str, Estimate]


def annotator_figures(
    answers: AnswerMatrix, kind: Kind, groups: Sequence[str]
) -> list[AnnotatorFigures]:
    """Each of the people by name; empty where rows do not name them, or fewer than two answer the
    same rows. ``groups``: the conversation of each row, which intervals leave out in turn."""
    twice = np.isfinite(answers.values).sum(axis=1) > 1
    if answers.columns != PEOPLE or not twice.any():
        return []
    values = answers.values[twice]
    names = [name for name, part in zip(groups, twice, strict=True) if part]
    clusters = Clusters("conversation", tuple(names))
    counts = np.isfinite(values).sum(axis=0).tolist()
    each = _of_issue(values) if kind == "binary" else _of_graded(values, clusters)
    return [
        AnnotatorFigures(person, count, figures_of)
        for person, count, figures_of in zip(answers.people, counts, each, strict=True)
    ]


def _of_issue(values: Floats) -> list[dict[str, Estimate]]:
    names = ("sensitivity", "specificity")
    model = issue_model(values)
    if isinstance(model, str):
        return [_none(names, model)] * values.shape[1]
    return [
        {
            name: Estimate(float(rate), reason=_NO_INTERVAL)
            if np.isfinite(rate)
            else Estimate(None, reason="no answer")
            for name, rate in zip(names, rates, strict=True)
        }
        for rates in model.rates
    ]


def _of_graded(values: Floats, clusters: Clusters) -> list[dict[str, Estimate]]:
    lean = leanings(values)
    shared = _shared(values, lean)
    each = []
    for k in range(values.shape[1]):
        rows = np.flatnonzero(np.isfinite(values[:, k]))
        if len(rows) < MIN_ANSWERS:
            reason = f"{len(rows)} answers to rows that others answered, fewer than {MIN_ANSWERS}"
            each.append(_none(("leaning", "reliability"), reason))
            continue
        others = np.delete(values, k, axis=1)[rows] - np.delete(lean, k)
        of_rows = Clusters(clusters.unit, tuple(clusters.names[i] for i in rows))
        whole = shared.reliability(np.ones((1, len(values))))[1]
        statistic = _annotator_statistic(values[rows, k], np.nanmean(others, axis=1), whole)
        each.append(_estimated(statistic, of_rows))
    return each


def _annotator_statistic(mine: Floats, others: Floats, shared: Floats) -> Statistic:
    """``leaning`` and ``reliability`` of answers ``mine`` beside the mean of the others', each of
    shape (rows,); ``shared`` is the variance of what annotators share."""

    def statistic(weights: Floats) -> dict[str, Floats]:
        total = weights.sum(axis=1)
        lean = (weights @ (mine - others)) / total
        one = mine - (weights @ mine)[:, None] / total[:, None]
        two = others - (weights @ others)[:, None] / total[:, None]
        # The others' errors are not mine: what we have in common is what annotators share.
        common = (weights * one * two).sum(axis=1) / (total - 1)
        spread = (weights * one**2).sum(axis=1) / (total - 1)
        return {"leaning": lean, "reliability": common / np.sqrt(spread * shared)}

    return statistic
