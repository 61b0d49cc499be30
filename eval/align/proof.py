"""Regressions of people's ratings on judges' scores, and the nested cross-validation that measures
their errors.

The inner folds choose a regression. The outer folds measure it on conversations that it has not
seen.

It is compared with two baselines: a line fitted to the judge's score, and the mean rating. Without
them, a regression on shuffled labels would look like a gain, because it corrects the mean of a
judge's scores.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold

from medal_judges.models.hybrid.judge import Formula, HybridJudge
from medal_judges.records.dimension import EQUAL, Dimension
from medal_judges.report.console import Printout
from medal_judges.report.table import Cell, Row, Table, estimate_text
from medal_judges.stats.correlation import Floats, undefined_reason, weighted_spearman
from medal_judges.stats.equal import Values, tolerance_of
from medal_judges.stats.intervals import DIFFERENCE, Clusters, Estimate, jackknife

_NOTES = 4  # sentences in the terminal
FOLDS, MIN_LABELS = 5, 20
# Folds share training rows, which adds (test rows / training rows) to the 1 / FOLDS of a variance
# (Nadeau and Bengio 2003, "Inference for the generalization error").
INFLATION = 1 + FOLDS / (FOLDS - 1)
AS_IS, LINE, MEAN = "judge as it is", "judge corrected by a line", "mean rating"
LENGTH, ALIGNED, PERSON = "length", "aligned judge", "one person, the others"
REVERSED = 2.33  # standard errors of a correlation that labels by chance exceed in 1%
ALPHAS = (3.0, 30.0, 300.0)
Rows = npt.NDArray[np.intp]
Names = npt.NDArray[np.str_]
Columns = tuple[int, ...]


class Fit(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regression of people's ratings on judges' scores, both on [0, 1], as an
    estimator of scikit-learn.

    Attributes:
        columns: Indices of the columns of the input matrix [rows, scores] that are used. Empty to
            predict the mean rating.
        alpha: The penalty of the ridge regression.
        is_curve: Whether to fit a monotone curve to a single column. False fits a ridge regression.
        line: The fitted function from scores to a rating, set by ``fit``.
    """

    def __init__(
        self, columns: Columns = (), alpha: float = 1.0, is_curve: bool = False
    ) -> None:
        self.columns = columns
        self.alpha = alpha
        self.is_curve = is_curve

    def fit(self, x: Floats, y: Floats) -> Fit:
        inputs = tuple(map(str, self.columns))
        units = x[:, list(self.columns)]
        if not inputs:
            self.line = Formula((), (), float(y.mean()))
        elif self.is_curve:
            start, step = 0.0, 1.0
            if (units[:, 0] - units.mean()) @ y < 0:
                start, step = 1.0, -1.0
            curve = IsotonicRegression(y_min=0, y_max=1)
            curve.fit(start + step * units[:, 0], y)
            knots = curve.X_thresholds_.tolist(), curve.y_thresholds_.tolist()
            self.line = Formula(
                inputs, (step,), start, curve=(tuple(knots[0]), tuple(knots[1]))
            )
        else:
            spread = np.maximum(units.std(axis=0), EQUAL)
            center = units.mean(axis=0)
            ridge = Ridge(self.alpha).fit((units - center) / spread, y)
            weights = ridge.coef_ / spread
            intercept = float(ridge.intercept_ - center @ weights)
            self.line = Formula(inputs, tuple(weights.tolist()), intercept)
        return self

    def predict(self, x: Floats) -> Floats:
        return self.line(x[:, list(self.columns)])

    @property
    def name(self) -> str:
        """Returns the kind of regression in words, such as ``a line`` or ``a monotone curve``."""
        if self.is_curve:
            return "a monotone curve"
        if len(self.columns) > 1:
            return f"a ridge over {len(self.columns)} scores, penalty {self.alpha:g}"
        return "a line"


@dataclass(frozen=True, slots=True)
class FitData:
    """The scores and ratings that a regression is fitted to, one row for each dialogue.

    Attributes:
        inputs: Names of the columns of ``scores``, such as ``judge:overall``.
        scores: [rows, inputs] judges' scores on [0, 1].
        ratings: [rows, annotators] people's ratings on [0, 1], NaN if missing.
        contexts: [rows] name of each row's conversation. Cross-validation holds out whole
            conversations.
        judge_column: The index in ``inputs`` of the score that is aligned with people.
        span: The width of people's scale in points, such as 4 for a scale from 1 to 5.
    """

    inputs: tuple[str, ...]
    scores: Floats
    ratings: Floats
    contexts: Names
    judge_column: int
    span: float

    @property
    def targets(self) -> Floats:
        """Returns the mean rating of each row, [rows]."""
        return np.asarray(np.nanmean(self.ratings, axis=1))

    def choose_fit(self, rows: Rows) -> Fit:
        """Returns the regression that predicts ratings best, chosen by cross-validation and
        fitted to some rows.

        The candidates are a line, a monotone curve and several ridge regressions.

        Args:
            rows: Indices of the rows of ``scores`` and ``ratings`` to fit to.
        """
        judge = [(self.judge_column,)]
        everything = [tuple(range(len(self.inputs)))]
        grid = [
            {"columns": judge},
            {"columns": judge, "is_curve": [True]},
            {"columns": everything, "alpha": list(ALPHAS)},
        ]
        contexts = self.contexts[rows]
        folds = GroupKFold(min(FOLDS, len(np.unique(contexts))))
        search = GridSearchCV(Fit(), grid, scoring="neg_mean_squared_error", cv=folds)
        search.fit(self.scores[rows], self.targets[rows], groups=contexts)
        best: Fit = search.best_estimator_
        return best


def predict_held_out(fit_data: FitData, columns: Columns | None) -> Floats:
    """Returns a predicted rating for each row [rows], on [0, 1], from a regression that was fitted
    on other conversations.

    Args:
        fit_data: The scores and ratings.
        columns: Indices of the columns of ``fit_data.scores`` to fit a line to, such as ``(0,)``.
            An empty tuple predicts the mean rating. None chooses the best regression by
            cross-validation.
    """
    predictions = np.zeros(len(fit_data.scores))
    folds = GroupKFold(FOLDS)
    for learnt, left in folds.split(fit_data.scores, groups=fit_data.contexts):
        if columns is None:
            fit = fit_data.choose_fit(learnt)
        else:
            fit = Fit(columns).fit(fit_data.scores[learnt], fit_data.targets[learnt])
        predictions[left] = fit.predict(fit_data.scores[left])
    return predictions


@dataclass(frozen=True, slots=True)
class MeasuredAgreement:
    """How well one predictor of ratings, such as the aligned judge, agrees with people.

    Attributes:
        name: The predictor, such as ``aligned judge`` or ``mean rating``.
        error: The root mean square error, in points of people's scale.
        rho: Spearman's correlation, None if undefined.
        gain: This predictor's ``error`` minus the aligned judge's error. It is above 0 if the
            aligned judge is better. None for the aligned judge and for people.
    """

    name: str
    error: float
    rho: float | None
    gain: Estimate | None = None


@dataclass(frozen=True, slots=True)
class Proof:
    """The regression chosen for one dimension. Its error on held-out dialogues is compared with the
    errors of simpler predictors.

    Attributes:
        fit: The name of the chosen regression, such as ``a monotone curve``.
        line: The fitted function from judges' scores to a rating.
        base: The better of two baselines: ``judge corrected by a line`` or ``mean rating``.
        gain: The error of the baseline ``base`` minus the error of the aligned judge.
        lines: Agreement with people: one entry for the aligned judge and one for each simpler
            predictor. If dialogues have several ratings, a last entry for a single person.
        count: The number of dialogues.
    """

    fit: str
    line: Formula
    base: str
    gain: Estimate
    lines: tuple[MeasuredAgreement, ...]
    count: int

    @property
    def improves(self) -> bool:
        """Returns whether the aligned judge has a significantly smaller error than
        the baseline ``base``."""
        return is_beyond_chance(self.gain)

    @property
    def is_reversed(self) -> bool:
        """Returns whether the judge's scores have a negative correlation with the ratings that is
        significant at the 1% level."""
        rho = self.agreement_of(AS_IS).rho
        return rho is not None and rho * math.sqrt(self.count - 1) < -REVERSED

    def agreement_of(self, name: str) -> MeasuredAgreement:
        """Returns the measured agreement of the predictor ``name``, such as ``mean rating``.

        Raises:
            StopIteration: No predictor has this name.
        """
        return next(line for line in self.lines if line.name == name)

    def note_sentences(self) -> list[str]:
        """Returns up to two warnings for the user.

        One says that a line or a constant is a sufficient correction of the judge. The other says
        that the aligned judge is not shown to be better than the length of the answers.
        """
        notes: list[str] = []
        level, length = self.agreement_of(AS_IS).gain, self.agreement_of(LENGTH).gain
        if not self.improves and level and is_beyond_chance(level):
            gain = estimate_text(level)
            notes.append(
                "its level or spread is off: a line or a constant corrects it (gain "
                f"{gain} over the {AS_IS}); --keep-anyway writes such a judge"
            )
        if length and not is_beyond_chance(length):
            gain = estimate_text(length)
            notes.append(
                f"not shown to be better than the length of the answers: gain {gain}"
            )
        return notes


def is_beyond_chance(gain: Estimate) -> bool:
    """Returns whether the confidence interval of ``gain`` is wholly above 0."""
    return gain.low is not None and gain.low > EQUAL


def fit_and_cross_validate(fit_data: FitData) -> Proof:
    """Chooses a regression by cross-validation, and fits it to all rows of ``fit_data``.

    The result also has errors on held-out conversations: of the regression, of the judge as it is,
    of the judge corrected by a line, of the mean rating, and of a line on the length of the
    answers.
    """
    y = fit_data.targets
    units = {
        ALIGNED: predict_held_out(fit_data, None),
        AS_IS: fit_data.scores[:, fit_data.judge_column],
        LINE: predict_held_out(fit_data, (fit_data.judge_column,)),
        MEAN: predict_held_out(fit_data, ()),
        LENGTH: predict_held_out(fit_data, (fit_data.inputs.index("length:overall"),)),
    }
    squares = {name: (scores - y) ** 2 for name, scores in units.items()}
    lines = []
    for name, scores in units.items():
        gain = None
        if name != ALIGNED:
            gain, _ = estimate_gain(fit_data, squares[ALIGNED], squares[name])
        lines.append(_measure_agreement(fit_data, name, y, scores, gain))
    lines += _measure_single_ratings(fit_data)
    base = MEAN
    if float((squares[MEAN] - squares[LINE]).mean()) > EQUAL:
        base = LINE
    fit = fit_data.choose_fit(np.arange(len(y)))
    inputs = tuple(fit_data.inputs[column] for column in fit.columns)
    return Proof(
        fit=fit.name,
        line=replace(fit.line, inputs=inputs),
        base=base,
        gain=next(line.gain for line in lines if line.name == base and line.gain),
        lines=tuple(lines),
        count=len(y),
    )


def _measure_single_ratings(fit_data: FitData) -> list[MeasuredAgreement]:
    """Measures how well one annotator's rating agrees with the mean of the
    dialogue's other ratings.

    Returns:
        A list with one entry, or an empty list if no dialogue has two ratings.
    """
    ratings = fit_data.ratings
    has_rating = np.isfinite(ratings)
    counts = has_rating.sum(axis=1)
    rows, annotators = np.nonzero(has_rating & (counts > 1)[:, None])
    if not len(rows):
        return []
    own_ratings = ratings[rows, annotators]
    sums = np.nansum(ratings, axis=1)[rows]
    mean_of_others = (sums - own_ratings) / (counts[rows] - 1)
    return [_measure_agreement(fit_data, PERSON, mean_of_others, own_ratings)]


def _measure_agreement(
    fit_data: FitData,
    name: str,
    human: Floats,
    score: Floats,
    gain: Estimate | None = None,
) -> MeasuredAgreement:
    rho = None
    tolerance = tolerance_of(None, human)
    sides = Values(human, tolerance), Values(score, tolerance)
    if name != MEAN and undefined_reason(*sides) is None:
        rho = float(weighted_spearman(*sides, np.ones((1, len(human))))[0])
    error = fit_data.span * math.sqrt(float(((score - human) ** 2).mean()))
    return MeasuredAgreement(name, error, rho, gain)


def estimate_gain(
    fit_data: FitData, aligned: Floats, baseline: Floats
) -> tuple[Estimate, float]:
    """Returns the root mean square error of a baseline minus that of the aligned judge.

    Args:
        fit_data: The data, whose conversations are the clusters of the interval.
        aligned: [rows] squared errors of the aligned judge, on a scale of [0, 1].
        baseline: [rows] squared errors of the baseline, on a scale of [0, 1].

    Returns:
        A pair: the difference with its interval, and the standard error of the difference (0
            without an interval). Both are in points of people's scale.
    """

    def statistic(weights: Floats) -> dict[str, Floats]:
        total = weights.sum(axis=1)
        errors = []
        for squares in (baseline, aligned):
            errors.append(fit_data.span * np.sqrt(weights @ squares / total))
        return {"": errors[0] - errors[1]}

    value = float(statistic(np.ones((1, len(aligned))))[""][0])
    clusters = Clusters("conversation", tuple(fit_data.contexts.tolist()))
    spread = jackknife(statistic, clusters, DIFFERENCE)[""]
    if spread.reason:
        return Estimate(value, reason=spread.reason), 0.0
    spread = replace(spread, error=spread.error * math.sqrt(INFLATION))
    low, high = value - spread.half_width, value + spread.half_width
    return Estimate(value, low, high, spread.p_value(value)), spread.error


@dataclass(frozen=True, slots=True)
class Alignment:
    """The result of ``align``: the judge fitted to human labels, and its measured errors.

    Attributes:
        judge: The aligned judge, None if no dimension is aligned.
        dimensions: Dimension name -> the dimension with people's scale.
        proofs: Dimension name -> the chosen regression with its errors.
        facts: How the result was made, as name -> value: the judge, a hash of the labels, the
            number of labelled chats, and warnings.
    """

    judge: HybridJudge | None
    dimensions: Mapping[str, Dimension]
    proofs: Mapping[str, Proof]
    facts: Mapping[str, object]

    def to_record(self) -> dict[str, Any]:
        """Returns the content of align.json: the errors on each dimension, and how
        the result was made."""
        dimensions: dict[str, Any] = {}
        for name, proof in self.proofs.items():
            dimensions[name] = {
                "rows": proof.count,
                "scale": [self.dimensions[name].low, self.dimensions[name].high],
                "kept": proof.improves,
                "fit": proof.fit,
                "base": proof.base,
                "gain": asdict(proof.gain),
                "lines": [asdict(line) for line in proof.lines],
            }
        written = self.judge is not None
        return {**self.facts, "judge_written": written, "dimensions": dimensions}

    def error_table(self) -> Table:
        """Returns a table with a row for each dimension: the held-out errors of the judge, of the
        baselines and of the aligned judge."""
        columns = {"Dimension": "", "Dialogues": "", "As it is": AS_IS, "Line": LINE}
        columns |= {"Mean": MEAN, "Length": LENGTH, "Aligned": ALIGNED}
        rows: list[Row] = []
        for name, proof in self.proofs.items():
            cells: list[Cell] = [name, proof.count]
            for line_name in filter(None, columns.values()):
                cells.append(proof.agreement_of(line_name).error)
            rows.append([*cells, proof.agreement_of(ALIGNED).rho])
        title = "Error in points: how far scores are from people's mean"
        return Table(title, [*columns, "ρ, aligned"], rows)

    def printout(self, folder: Path) -> Printout:
        """Returns the terminal output: whether the labels improve the judge, the table of errors,
        and the command that uses the aligned judge.

        Args:
            folder: The folder in which the aligned judge is saved.
        """
        answer, *notes = self.sentences()
        notes.append(str(self.facts.get("notes", "")))
        foot = str(folder / "align.json")
        if self.judge is not None:
            foot = f"medal score CHATS --judge {quote(str(folder))} --out scores.jsonl"
        return Printout([self.error_table()], notes[:_NOTES], [answer], [foot])

    def sentences(self) -> list[str]:
        """Returns sentences on each dimension. The first says whether the labels improve the judge
        and by how much. The others are warnings."""
        sentences: list[str] = []
        for name, proof in self.proofs.items():
            gain = f"gain {estimate_text(proof.gain)} over the {proof.base}"
            verb = "improve" if proof.improves else "do not improve"
            sentences.append(f"{name}: the labels {verb} this judge ({gain})")
            sentences += [f"{name}: {note}" for note in proof.note_sentences()]
        return sentences
