"""Ways from a judge's scores to people's, and the nested cross-validation that measures them.

The inner folds choose a way, the outer ones measure the choice on dialogues that it has not seen.
docs/results/align.md has how often the interval of the gain holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from medal_judges.errors import ConfigError
from medal_judges.models.hybrid.judge import Blend
from medal_judges.models.hybrid.members import HybridConfig
from medal_judges.stats.correlation import Floats, undefined_reason, weighted_spearman
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import DIFFERENCE, Clusters, jackknife
from medal_judges.training.families.hybrid import FitRows, fit_blend
from medal_judges.training.loop.calibration import fit_isotonic

FOLDS = 5
AS_IS, MEAN, LENGTH, ALIGNED = "judge as it is", "mean rating", "length", "aligned judge"
# Folds share most of their rows, so the jackknife of the errors is too narrow; see the results.
INFLATION = 1.5
POWER = 1.96 + 0.84  # standard errors of a gain that 80% of samples show
# The vectors' part of a ridge is a member's score on [0, 1]: 0.5 is none, 1 this many scales more.
REACH = 4.0
_ALPHAS, _SIZES = (3.0, 30.0, 300.0), (0.0, 0.05, 0.2)  # a vector has 768 columns
Rows = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Material:
    """What ways learn from: ``scores`` [n, inputs] of the ``inputs`` (MEMBER:DIMENSION) and
    people's mean ``targets`` [n], on [0, 1]; sentence ``vectors`` [n, W]; the ``groups`` of rows
    that are held out together. ``own`` is the column of the judge's score of this dimension, -1 if
    it has none; the last column is that of length."""

    inputs: tuple[str, ...]
    scores: Floats
    vectors: Floats
    targets: Floats
    groups: npt.NDArray[np.str_]
    own: int


@dataclass(frozen=True, slots=True)
class Fit:
    """A fitted way. ``net``: (mean [W], weights [W]) of the vectors, the last input of ``blend``;
    None if it uses none."""

    blend: Blend
    columns: tuple[int, ...]
    net: tuple[Floats, Floats] | None = None

    def units(self, material: Material, rows: Rows) -> Floats:
        """Returns the scores of ``rows`` on [0, 1], as the saved judge gives them."""
        units = material.scores[rows][:, self.columns]
        if self.net is not None:
            part = 0.5 + (material.vectors[rows] - self.net[0]) @ self.net[1] / REACH
            units = np.column_stack([units, np.clip(part, 0, 1)])
        return self.blend(units)


Way = Callable[[Material, Rows], Fit]


def ways(material: Material) -> dict[str, Way]:
    """Returns name -> way, cheapest first."""
    own, names = material.own, material.inputs
    judge = [i for i, name in enumerate(names) if name.startswith("judge:")]
    boxed = [i for i, name in enumerate(names) if name.startswith("boxed:")]
    plain = [i for i in range(len(names)) if i not in boxed]
    found: dict[str, Way] = {}
    if own >= 0:
        found[AS_IS] = as_it_is
        found["linear map"] = partial(line, columns=[own], alpha=1.0, nonnegative=True)
        found["isotonic map"] = isotonic
    for size in _SIZES:
        for alpha in _ALPHAS:
            name = f"ridge{' with sentence vectors' if size else ''}, penalty {alpha:g}"
            name += f", size {size:g}" if size else ""
            found[name] = partial(line, columns=plain, alpha=alpha, size=size)
    if boxed:
        columns = [*([own] if own >= 0 else judge), *boxed]
        found["stack with boxed"] = partial(line, columns=columns, alpha=3.0, nonnegative=own >= 0)
    return found


def as_it_is(material: Material, rows: Rows) -> Fit:
    name, own = material.inputs[material.own], material.own
    return Fit(Blend((name,), np.zeros(1), np.ones(1), np.ones(1), 0.0), (own,))


def isotonic(material: Material, rows: Rows) -> Fit:
    fit, own = as_it_is(material, rows), material.scores[rows, material.own]
    curve = np.array(fit_isotonic(own.tolist(), material.targets[rows].tolist()))
    return replace(fit, blend=replace(fit.blend, curve=curve))


def line(
    material: Material,
    rows: Rows,
    *,
    columns: Sequence[int] = (),
    alpha: float,
    size: float = 0.0,
    nonnegative: bool = False,
) -> Fit:
    """Fits a ridge over ``columns`` of the scores and, with a ``size``, the vectors. Without
    columns it is the mean."""
    names, y = tuple(material.inputs[i] for i in columns), material.targets[rows]
    units, sizes = material.scores[rows][:, columns], np.ones(len(columns))
    if size:
        units = np.column_stack([units, material.vectors[rows]])
        sizes = np.append(sizes, np.full(material.vectors.shape[1], size))
    same = np.full(len(rows), "")
    config = HybridConfig.model_construct(alpha=alpha, nonnegative=nonnegative)
    table = FitRows(names, units, y, same, same, np.ones(len(rows)))
    if not np.ptp(units, axis=0).any():
        zeros = np.zeros(len(columns))
        return Fit(Blend(names, zeros, zeros + 1, zeros, float(y.mean())), tuple(columns))
    blend, net = fit_blend(config, table, sizes), None
    if size:
        own, weights = len(columns), blend.weights / blend.spread
        net = blend.center[own:], weights[own:]
        head = (blend.center[:own], blend.spread[:own], blend.weights[:own])
        tail = (0.5, 1.0, REACH)  # undoes what ``units`` does
        center, spread, coef = (np.append(a, end) for a, end in zip(head, tail, strict=True))
        blend = Blend((*names, "vectors:"), center, spread, coef, blend.intercept)
    return Fit(blend, tuple(columns), net)


# -- nested cross-validation -----------------------------------------------------------------------


def folds(material: Material, rows: Rows) -> Iterator[tuple[Rows, Rows]]:
    """Yields (rows to learn from, rows held out), whole groups together."""
    from sklearn.model_selection import GroupKFold

    groups = material.groups[rows]
    parts = min(FOLDS, len(np.unique(groups)))
    for learn, held in GroupKFold(parts).split(groups, groups=groups):
        yield rows[learn], rows[held]


def choose(material: Material, rows: Rows, known: Mapping[str, Way]) -> str:
    """Returns the way with the smallest squared error on held-out ``rows``; the first of equals."""
    errors = dict.fromkeys(known, 0.0)
    for learn, held in folds(material, rows):
        for name, way in known.items():
            apart = way(material, learn).units(material, held) - material.targets[held]
            errors[name] += float(apart @ apart)
    return min(errors, key=lambda name: errors[name])


def crossed(material: Material, known: Mapping[str, Way], least: int = 0) -> Floats:
    """Returns a score of each row by the way chosen and fitted without its group, from the first
    ``least`` rows of a random order if it is not 0."""
    units, rows = np.zeros(len(material.targets)), np.arange(len(material.targets))
    order = np.random.default_rng(0).permutation(len(rows))
    for learn, held in folds(material, rows):
        if least:
            learn = order[np.isin(order, learn)][:least]
        way = known[choose(material, learn, known) if len(known) > 1 else next(iter(known))]
        units[held] = way(material, learn).units(material, held)
    return units


@dataclass(frozen=True, slots=True)
class Measured:
    """One line of the proof: the ``error`` (root mean square, in units of people's scale) and
    Spearman's ``rho`` with people's mean, and the ``gain`` of the aligned judge over it."""

    name: str
    error: float | None
    rho: float | None
    gain: Estimate | None = None


@dataclass(frozen=True, slots=True)
class Proof:
    """What nested cross-validation says of one dimension. ``units``: name of a line -> scores [n]
    on [0, 1] of rows that it was not fitted on. ``more`` labels would show the gain; None if it is
    shown, or if there is none."""

    way: str
    fit: Fit
    base: str
    gain: Estimate
    more: int | None
    lines: tuple[Measured, ...]
    units: Mapping[str, Floats]

    @property
    def kept(self) -> bool:
        """Whether the gain is above 0 beyond chance."""
        return self.gain.low is not None and self.gain.low > 0


def prove(material: Material, span: float, people: Floats) -> Proof:
    """Chooses a way on all rows and measures that choice out of fold. ``span`` is the width of
    people's scale, ``people`` [n, annotators] their answers in its units."""
    y, rows = material.targets, np.arange(len(material.targets))
    known = ways(material)
    only_mean: Way = partial(line, alpha=1.0)
    by_length: Way = partial(line, columns=[len(material.inputs) - 1], alpha=1.0)
    units = {ALIGNED: crossed(material, known)}
    if material.own >= 0:
        units[AS_IS] = material.scores[:, material.own]
    units |= {MEAN: crossed(material, {"": only_mean}), LENGTH: crossed(material, {"": by_length})}
    base = AS_IS if material.own >= 0 else MEAN
    gains = {other: gain_over(material, span, units[ALIGNED], units[other]) for other in units}
    lines = []
    for name, score in units.items():
        rho = None
        if name != MEAN and undefined_reason(y, score) is None:
            rho = float(weighted_spearman(y, score, np.ones((1, len(y))))[0])
        gain = None if name == ALIGNED else gains[name][0]
        lines.append(Measured(name, span * float(np.sqrt(np.mean((score - y) ** 2))), rho, gain))
    gain, error = gains[base]
    more = None
    if gain.value is not None and gain.value > 1e-9 and not (gain.low is not None and gain.low > 0):
        more = max(1, math.ceil(len(y) * (POWER * error / gain.value) ** 2) - len(y))
    way = choose(material, rows, known)
    fit = known[way](material, rows)
    spread = float(np.std(units[ALIGNED] - y))
    fit = replace(fit, blend=replace(fit.blend, residual=spread))
    lines += ceiling(people)
    return Proof(way, fit, base, gain, more, tuple(lines), units)


def gain_over(
    material: Material, span: float, aligned: Floats, other: Floats
) -> tuple[Estimate, float]:
    """Returns by how much the error of ``aligned`` is smaller, with its interval and p-value by the
    jackknife over groups, and its standard error."""
    ours, theirs = ((units - material.targets) ** 2 for units in (aligned, other))

    def statistic(weights: Floats) -> dict[str, Floats]:
        total = weights.sum(axis=1)
        gain = np.sqrt(weights @ theirs / total) - np.sqrt(weights @ ours / total)
        return {"gain": span * gain}

    value = float(statistic(np.ones((1, len(ours))))["gain"][0])
    clusters = Clusters("conversation", tuple(material.groups.tolist()))
    spread = jackknife(statistic, clusters, DIFFERENCE)["gain"]
    if spread.reason:
        return Estimate(value, reason=spread.reason), 0.0
    spread = replace(spread, error=spread.error * math.sqrt(INFLATION))
    low, high = value - spread.half, value + spread.half
    return Estimate(value, low, high, spread.p_value(value)), spread.error


def ceiling(people: Floats) -> list[Measured]:
    """Returns the agreement of one annotator with the mean of the others, over all annotators."""
    given = np.isfinite(people)
    rows, columns = np.nonzero(given & (given.sum(axis=1) > 1)[:, None])
    if not len(rows):
        return []
    totals, counts = np.nansum(people, axis=1), given.sum(axis=1)
    one = people[rows, columns]
    others = (totals[rows] - one) / (counts[rows] - 1)
    rho = None
    if undefined_reason(others, one) is None:
        rho = float(weighted_spearman(others, one, np.ones((1, len(one))))[0])
    return [Measured("one person, the others", float(np.sqrt(np.mean((one - others) ** 2))), rho)]


def held_together(bots: Sequence[str | None], contexts: Sequence[str]) -> npt.NDArray[np.str_]:
    """Returns the group of each row: its chatbot if all rows name one, there are five, and none
    answers a context of another; else its context. Raises ConfigError with fewer than 5 groups."""
    named = [bot for bot in bots if bot is not None]
    pairs = set(zip(contexts, named, strict=False))
    crossing = len(named) < len(bots) or len(pairs) > len(set(contexts))
    groups = contexts if crossing or len(set(named)) < FOLDS else named
    if (count := len(set(groups))) < FOLDS:
        raise ConfigError(
            f"labels of {count} conversations: at least {FOLDS} are needed, because a judge is "
            "measured on conversations that it was not fitted on",
            hint="label chats of further conversations",
        )
    return np.array(groups)
