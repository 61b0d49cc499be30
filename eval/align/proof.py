"""Ways from a judge's scores to people's, and the nested cross-validation that measures them: inner
folds choose a way, outer folds measure the choice on dialogues that it has not seen.

A gain counts only over the better of two baselines that use nothing of a label but its level: the
judge after a line fitted to its scores, and the mean of the labels. Shuffled labels have the level
of the real ones, and any constant repairs a judge whose level is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from medal_judges.models.base.heads import fit_isotonic, on_scale
from medal_judges.models.hybrid.judge import HybridJudge, Line
from medal_judges.records.dimension import EQUAL, Dimension
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.stats.correlation import Floats, undefined_reason, weighted_spearman
from medal_judges.stats.equal import Values, tolerance_of
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import DIFFERENCE, Clusters, jackknife

FOLDS, MIN_LABELS = 5, 20
# Folds share training rows, which adds (test rows / training rows) to the 1 / FOLDS of a variance
# (Nadeau and Bengio 2003, "Inference for the generalization error").
INFLATION = 1 + FOLDS / (FOLDS - 1)
AS_IS, LINE, MEAN = "judge as it is", "judge after a line", "mean rating"
LENGTH, ALIGNED = "length", "aligned judge"
REVERSED = 2.33  # standard errors of a correlation that labels by chance exceed in 1%
POWER = 1.96 + 0.84  # standard errors of a gain that 80% of samples show
# The vectors' part of a line is a member's score on [0, 1]: 0.5 is none, and 0.9 adds this many
# times 0.4 to the raw score, far more than any fit does (in log odds for 0/1 labels).
VECTORS, REACH = "vectors:", 40.0
_ALPHAS, _SIZES = (3.0, 30.0, 300.0), (0.0, 1.0, 5.0)
# A penalty of 1 on squared errors weighs as 1 / 4 on log losses: a log loss curves by p (1 - p), at
# most 1 / 4, and log odds are 4 times as large as probabilities.
_LOGISTIC = 4.0
_LEAST_CHANCE = 0.01  # a probability of 0 that is wrong would have an infinite loss
Rows = npt.NDArray[np.intp]
Names = npt.NDArray[np.str_]


class Measure(str, Enum):
    """How an error is measured."""

    DISTANCE = "root mean square distance from people's mean"
    LOG_LOSS = "log loss"


@dataclass(frozen=True, slots=True)
class Material:
    """What ways learn from, a row for each dialogue.

    ``scores`` [n, inputs] of the ``inputs`` (MEMBER:DIMENSION) and people's mean ``targets`` [n],
    on [0, 1]; sentence ``vectors`` [n, W]. A score is NaN if a changed prompt leaves a row
    unscored, and so does each way with this prompt. The choice of a way holds ``groups`` of rows
    out, its measurement ``contexts``. ``judge_column`` is the column of the judge's score that the
    labels are about. ``span`` is the width of people's scale.
    """

    inputs: tuple[str, ...]
    scores: Floats
    vectors: Floats
    targets: Floats
    groups: Names
    contexts: Names
    judge_column: int
    span: float
    measure: Measure = Measure.DISTANCE

    def losses(self, units: Floats, targets: Floats) -> Floats:
        """Returns the loss of each score ``units``: its log loss, or its squared error."""
        if self.measure is Measure.DISTANCE:
            return (units - targets) ** 2
        chances = np.clip(units, _LEAST_CHANCE, 1 - _LEAST_CHANCE)
        return -(targets * np.log(chances) + (1 - targets) * np.log1p(-chances))

    def error(self, mean_loss: Floats) -> Floats:
        """Returns the error of scores with this mean loss, in units of people's scale for a
        distance."""
        if self.measure is Measure.DISTANCE:
            return self.span * np.sqrt(mean_loss)
        return mean_loss


@dataclass(frozen=True, slots=True)
class Fit:
    """A fitted way. ``net``: (mean [W], weights [W]) of the vectors, if it uses them."""

    line: Line
    net: tuple[Floats, Floats] | None = None

    def units(self, material: Material, rows: Rows) -> Floats:
        """Returns the scores of ``rows`` on [0, 1], as the saved judge gives them."""
        members = [name for name in self.line.inputs if name != VECTORS]
        units = material.scores[rows][:, list(map(material.inputs.index, members))]
        if self.net is not None:
            mean, weights = self.net
            vector_scores = 0.5 + (material.vectors[rows] - mean) @ weights / REACH
            units = np.column_stack([units, on_scale(vector_scores)])
        return self.line(units)


Way = Callable[[Material, Rows], Fit]


def ways(material: Material) -> dict[str, Way]:
    """Returns name -> way, cheapest first. They do the same whether labels are
    counted up or down."""
    judge = material.judge_column
    columns_by_member: dict[str, list[int]] = {}
    for column, name in enumerate(material.inputs):
        member = name.partition(":")[0]
        columns = columns_by_member.setdefault(member, [])
        if column != judge:
            columns.append(column)
    surface = [*columns_by_member["repetition"], *columns_by_member["length"]]
    ridge_columns = [judge, *columns_by_member["judge"], *surface]
    candidates: dict[str, Way] = {
        "linear map": partial(line, columns=[judge]),
        "isotonic map": partial(isotonic, column=judge),
    }
    for size in _SIZES:
        vectors = ""
        if size:
            vectors = f" with sentence vectors of size {size:g}"
        for alpha in _ALPHAS:
            ridge = partial(line, columns=ridge_columns, alpha=alpha, size=size)
            candidates[f"ridge{vectors}, penalty {alpha:g}"] = ridge
    if "boxed" in columns_by_member:
        stacked_columns = [judge, *columns_by_member["boxed"]]
        candidates["stack with boxed"] = partial(
            line, columns=stacked_columns, alpha=3.0
        )
    return candidates


def isotonic(material: Material, rows: Rows, *, column: int) -> Fit:
    """Maps one input by an isotonic regression, which falls if the labels fall with the input."""
    units, y = material.scores[rows, column], material.targets[rows]
    if units.std() < EQUAL:
        return line(material, rows)
    start, step = 0.0, 1.0
    if (units - units.mean()) @ y < 0:  # it falls
        start, step = 1.0, -1.0
    curve = fit_isotonic((start + step * units).tolist(), y.tolist())
    return Fit(Line((material.inputs[column],), (step,), start, curve=curve))


def line(
    material: Material,
    rows: Rows,
    *,
    columns: Sequence[int] = (),
    alpha: float = 1.0,
    size: float = 0.0,
) -> Fit:
    """Fits a line to ``columns`` and, with a ``size``, the vectors: a ridge, or a logistic
    regression if errors are log losses. Without columns it is the mean.

    The first column has a penalty of 1 and the others ``alpha``, so that a large one leaves the
    line of the first. All vectors together vary as much as a column does, times ``size``.
    """
    names = tuple(material.inputs[i] for i in columns)
    mean_target = float(material.targets[rows].mean())
    units = material.scores[:, list(columns)]
    rows = rows[np.isfinite(units[rows]).all(axis=1)]
    units, y = units[rows], material.targets[rows]
    count = len(columns)
    if count == 0 or len(rows) < 3 or len(np.unique(y)) == 1:
        return Fit(Line((), (), mean_target))
    center, spread = units.mean(axis=0), units.std(axis=0)
    spread[spread < EQUAL] = 1.0
    spread[1:] *= alpha**0.5
    z = (units - center) / spread
    logistic = material.measure is Measure.LOG_LOSS
    if not size:
        weights, intercept = _regression(z, y, material.measure)
        return Fit(_line(names, weights / spread, center, intercept, logistic))
    vectors = material.vectors[rows]
    mean = vectors.mean(axis=0)
    total_spread = math.sqrt(vectors.var(axis=0).sum())
    width = max(total_spread, EQUAL) * alpha**0.5 / size
    z = np.column_stack([z, (vectors - mean) / width])
    weights, intercept = _regression(z, y, material.measure)
    slopes = np.append(weights[:count] / spread, REACH)
    # The middle of the vectors' score in ``Fit.units``.
    centers = np.append(center, 0.5)
    vector_line = _line((*names, VECTORS), slopes, centers, intercept, logistic)
    return Fit(vector_line, net=(mean, weights[count:] / width))


def _line(
    inputs: tuple[str, ...],
    slopes: Floats,
    centers: Floats,
    middle: float,
    logistic: bool,
) -> Line:
    """Returns the line with ``slopes`` that is ``middle`` where the inputs are ``centers``."""
    intercept = float(middle - centers @ slopes)
    return Line(inputs, tuple(slopes.tolist()), intercept, logistic=logistic)


def _regression(z: Floats, y: Floats, measure: Measure) -> tuple[Floats, float]:
    """Returns the weights of the columns ``z`` and the intercept, with a penalty of 1. A logistic
    regression learns from a mean between 0 and 1 as from one label of each kind, with its share as
    their weight."""
    from sklearn.linear_model import LogisticRegression, ridge_regression

    if measure is Measure.DISTANCE:
        mean_target = float(y.mean())
        return ridge_regression(z, y - mean_target, 1.0), mean_target
    shares = np.append(y, 1 - y)
    labels = np.repeat([1, 0], len(y))
    has_weight = shares > 0
    model = LogisticRegression(C=_LOGISTIC, tol=1e-6, max_iter=1000)
    model.fit(np.vstack([z, z])[has_weight], labels[has_weight], shares[has_weight])
    return model.coef_[0], float(model.intercept_[0])


# -- nested cross-validation -----------------------------------------------------------------------


def folds(rows: Rows, groups: Names) -> Iterator[tuple[Rows, Rows]]:
    """Yields (rows to learn from, rows held out), whole groups together; nothing for one group."""
    from sklearn.model_selection import GroupKFold

    count = min(FOLDS, len(np.unique(groups[rows])))
    if count < 2:
        return
    for learnt, held_out in GroupKFold(count).split(rows, groups=groups[rows]):
        yield rows[learnt], rows[held_out]


def choose(material: Material, rows: Rows, candidates: Mapping[str, Way]) -> str:
    """Returns the way with the smallest loss on held-out ``rows``, or the first that is as good up
    to EQUAL. An unscored row is wrong by the whole scale."""
    if len(candidates) == 1:
        return next(iter(candidates))
    groups = material.groups
    if len(np.unique(groups[rows])) == 1:  # few labels can be of one chatbot
        groups = material.contexts
    losses = dict.fromkeys(candidates, 0.0)
    for learnt, held_out in folds(rows, groups):
        y = material.targets[held_out]
        for name, way in candidates.items():
            units = way(material, learnt).units(material, held_out)
            units = np.where(np.isnan(units), y < 0.5, units)
            losses[name] += float(material.losses(units, y).sum())
    smallest = min(losses.values()) + EQUAL * len(rows)
    return next(name for name, loss in losses.items() if loss <= smallest)


def crossed(materials: Sequence[Material], candidates: Mapping[str, Way]) -> Floats:
    """Returns a score of each row by the way chosen and fitted without its context.
    ``materials``: that of each fold, and that of all rows."""
    rows = np.arange(len(materials[-1].targets))
    units = np.zeros(len(rows))
    parts = folds(rows, materials[-1].contexts)
    for (learnt, held_out), material in zip(parts, materials, strict=False):
        way = candidates[choose(material, learnt, candidates)]
        units[held_out] = way(material, learnt).units(material, held_out)
    return units


@dataclass(frozen=True, slots=True)
class Measured:
    """One line of the proof: the ``error`` (see Measure) and Spearman's ``rho`` with people's mean,
    and the ``gain`` of the aligned judge over it."""

    name: str
    error: float
    rho: float | None
    gain: Estimate | None = None


@dataclass(frozen=True, slots=True)
class Proof:
    """What nested cross-validation says of one dimension.

    ``units``: name of a line -> scores [n] on [0, 1] of rows that it was not fitted on; ``targets``
    [n] are people's; ``scored`` are these rows: those that the aligned judge scores. ``gain`` is
    that over the line ``base``, the better of LINE and MEAN; ``more`` labels would show it, None if
    it is shown or there is none.
    """

    way: str
    base: str
    measure: Measure
    gain: Estimate
    more: int | None
    lines: tuple[Measured, ...]
    fit: Fit
    units: Mapping[str, Floats]
    targets: Floats
    scored: Rows

    @property
    def kept(self) -> bool:
        """Whether the gain is above 0 beyond chance."""
        return beyond_chance(self.gain)

    @property
    def is_reversed(self) -> bool:
        """Whether labels fall as the judge's scores rise, beyond chance (1%)."""
        rho = self.line(AS_IS).rho
        return rho is not None and rho * math.sqrt(len(self.targets) - 1) < -REVERSED

    def line(self, name: str) -> Measured:
        return next(line for line in self.lines if line.name == name)

    def notes(self) -> list[str]:
        """Returns what a simpler judge does, if it does as well."""
        notes: list[str] = []
        level, length = self.line(AS_IS).gain, self.line(LENGTH).gain
        if not self.kept and level and beyond_chance(level):
            notes.append(
                f"its level or spread is off: a line or a constant corrects it (gain {text(level)} "
                f"over the {AS_IS}); --keep-anyway writes such a judge"
            )
        if length and not beyond_chance(length):
            notes.append(f"length does as well: the gain over it is {text(length)}")
        return notes


def beyond_chance(gain: Estimate) -> bool:
    """Says whether the whole interval of a gain is above 0."""
    return gain.low is not None and gain.low > EQUAL


def text(gain: Estimate) -> str:
    """Returns a gain with its interval."""
    value = f"{gain.value or 0.0:.2f}"
    if gain.low is None:
        return value
    return f"{value} [{gain.low:.2f}, {gain.high:.2f}]"


def prove(materials: Sequence[Material], people: Floats) -> Proof:
    """Chooses a way on all rows and measures that choice out of fold. ``materials``: see
    ``crossed``; ``people`` [n, annotators] are their answers on [0, 1]."""
    material = materials[-1]
    candidates = ways(material)
    length = material.inputs.index("length:overall")
    units = {
        ALIGNED: crossed(materials, candidates),
        AS_IS: material.scores[:, material.judge_column],
        LINE: crossed(materials, {"": partial(line, columns=[material.judge_column])}),
        MEAN: crossed(materials, {"": line}),
        LENGTH: crossed(materials, {"": partial(line, columns=[length])}),
    }
    scored = np.flatnonzero(np.isfinite(units[ALIGNED]))
    y = material.targets[scored]
    losses: dict[str, Floats] = {}
    lines: list[Measured] = []
    gains: dict[str, Estimate] = {}
    errors: dict[str, float] = {}
    for name, all_units in units.items():
        units[name] = all_units[scored]
        losses[name] = material.losses(units[name], y)
        if name != ALIGNED:
            gains[name], errors[name] = gain_over(
                material, material.contexts[scored], losses[ALIGNED], losses[name]
            )
        lines.append(_measured(material, name, y, units[name], gains.get(name)))
    base = MEAN
    if float((losses[MEAN] - losses[LINE]).mean()) > EQUAL:
        base = LINE
    lines += _one_person(material, people[scored])
    way = choose(material, np.arange(len(material.targets)), candidates)
    fit = candidates[way](material, np.arange(len(material.targets)))
    residual = float(np.std(units[ALIGNED] - y))
    return Proof(
        way,
        base,
        material.measure,
        gain=gains[base],
        more=_further_labels(gains[base], errors[base], len(y)),
        lines=tuple(lines),
        fit=replace(fit, line=replace(fit.line, residual=residual)),
        units=units,
        targets=y,
        scored=scored,
    )


def _further_labels(gain: Estimate, error: float, count: int) -> int | None:
    """Returns how many more labels would show the ``gain``, whose standard error with ``count``
    labels is ``error``; None if it is shown, or there is none."""
    if gain.value is None or gain.value <= 0 or gain.low is None or gain.low > 0:
        return None
    return max(1, math.ceil(count * ((POWER * error / gain.value) ** 2 - 1)))


def _one_person(material: Material, people: Floats) -> list[Measured]:
    """Returns the line of each answer against the mean of the others of its row, if there are
    any."""
    answered = np.isfinite(people)
    counts = answered.sum(axis=1)
    rows, annotators = np.nonzero(answered & (counts > 1)[:, None])
    if not len(rows):
        return []
    labels = people[rows, annotators]
    mean_of_others = (np.nansum(people, axis=1)[rows] - labels) / (counts[rows] - 1)
    predictions = labels.copy()
    # a label is no probability, but it predicts one
    if material.measure is Measure.LOG_LOSS:
        for label in np.unique(labels):
            predictions[labels == label] = mean_of_others[labels == label].mean()
    return [_measured(material, "one person, the others", mean_of_others, predictions)]


def _measured(
    material: Material,
    name: str,
    human: Floats,
    score: Floats,
    gain: Estimate | None = None,
) -> Measured:
    rho = None
    tolerance = tolerance_of(None, human)
    sides = Values(human, tolerance), Values(score, tolerance)
    if name != MEAN and undefined_reason(*sides) is None:
        rho = float(weighted_spearman(*sides, np.ones((1, len(human))))[0])
    mean_loss = np.array(material.losses(score, human).mean())
    return Measured(name, float(material.error(mean_loss)), rho, gain)


def gain_over(
    material: Material, contexts: Names, aligned: Floats, baseline: Floats
) -> tuple[Estimate, float]:
    """Returns by how much the error is smaller with the losses ``aligned`` than with the losses
    ``baseline``, with its interval and p-value by the jackknife over contexts, and its standard
    error."""

    def statistic(weights: Floats) -> dict[str, Floats]:
        total = weights.sum(axis=1)
        baseline_error = material.error(weights @ baseline / total)
        return {"": baseline_error - material.error(weights @ aligned / total)}

    value = float(statistic(np.ones((1, len(aligned))))[""][0])
    clusters = Clusters("conversation", tuple(contexts.tolist()))
    spread = jackknife(statistic, clusters, DIFFERENCE)[""]
    if spread.reason:
        return Estimate(value, reason=spread.reason), 0.0
    spread = replace(spread, error=spread.error * math.sqrt(INFLATION))
    low, high = value - spread.half, value + spread.half
    return Estimate(value, low, high, spread.p_value(value)), spread.error


@dataclass(frozen=True, slots=True)
class Alignment:
    """The outcome of ``align``: ``proofs`` by dimension, on the scales of ``dimensions``, and the
    ``judge`` of the dimensions with a gain beyond chance; None if there are none."""

    judge: HybridJudge | None
    dimensions: Mapping[str, Dimension]
    proofs: Mapping[str, Proof]
    rows: Mapping[str, Sequence[LabelledDialogue]]
    facts: Mapping[str, object]

    def record(self) -> dict[str, Any]:
        """Returns the content of align.json, which has no text of a chat."""
        dimensions: dict[str, Any] = {}
        for name, proof in self.proofs.items():
            scale = [self.dimensions[name].low, self.dimensions[name].high]
            entry = {
                "rows": len(self.rows[name]),
                "scale": scale,
                "gain": asdict(proof.gain),
            }
            for key in ("kept", "way", "base", "measure", "more"):
                entry[key] = getattr(proof, key)
            entry["lines"] = [asdict(line) for line in proof.lines]
            dimensions[name] = entry
        return {
            **self.facts,
            "judge_written": self.judge is not None,
            "dimensions": dimensions,
        }

    def sentences(self) -> list[str]:
        """Returns for each dimension whether the labels improve the judge, by how much and over
        what, and which simpler judge does as well."""
        sentences: list[str] = []
        for name, proof in self.proofs.items():
            gain = f"gain {text(proof.gain)} over the {proof.base}"
            if proof.kept:
                verdict = f"improve this judge ({gain}), by {proof.way}"
            else:
                verdict = f"do not improve this judge ({gain})"
            sentences.append(f"{name}: labels {verdict}")
            if proof.more is not None:
                sentences.append(
                    f"about {proof.more} more labels like these would show such a gain"
                )
            sentences += [f"{name}: {note}" for note in proof.notes()]
        return sentences
