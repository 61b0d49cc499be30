"""Ways from a judge's scores to people's, and the nested cross-validation that measures them: inner
folds choose a way, outer folds measure the choice on dialogues that it has not seen."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from medal_judges.models.base.heads import on_scale
from medal_judges.models.hybrid.judge import Blend, HybridJudge
from medal_judges.models.hybrid.members import HybridConfig
from medal_judges.records.dimension import Dimension
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.stats.correlation import Floats, undefined_reason, weighted_spearman
from medal_judges.stats.equal import Values, tolerance_of
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import DIFFERENCE, Clusters, jackknife
from medal_judges.training.calibration import fit_isotonic
from medal_judges.training.families.hybrid import FitRows, fit_blend

FOLDS, MIN_LABELS = 5, 20
# Folds share training rows, which adds (test rows / training rows) to the 1 / FOLDS of a variance
# (Nadeau and Bengio 2003, "Inference for the generalization error").
INFLATION = 1 + FOLDS / (FOLDS - 1)
AS_IS, MEAN, LENGTH, ALIGNED = "judge as it is", "mean rating", "length", "aligned judge"
POWER = 1.96 + 0.84  # standard errors of a gain that 80% of samples show
# The vectors' part of a ridge is a member's score on [0, 1]: 0.5 is none, 1 this many scales more.
VECTORS, REACH = "vectors:", 4.0
REWRITTEN = "rewritten"
PROMPTS = ("few-shot", REWRITTEN)  # and the dimension: members, the judge with a changed prompt
_ALPHAS, _SIZES = (3.0, 30.0, 300.0), (0.0, 0.05, 0.2)  # a vector has 768 columns
Rows = npt.NDArray[np.intp]
Names = npt.NDArray[np.str_]


@dataclass(frozen=True, slots=True)
class Material:
    """What ways learn from: ``scores`` [n, inputs] of the ``inputs`` (MEMBER:DIMENSION; NaN where a
    changed prompt leaves a row unscored, and so each way with this prompt does) and
    people's mean ``targets`` [n], on [0, 1]; sentence ``vectors`` [n, W]. The choice of a way holds
    ``groups`` of rows out, its measurement ``contexts``. ``own`` is the column of the judge's score
    of this dimension, -1 if it has none."""

    inputs: tuple[str, ...]
    scores: Floats
    vectors: Floats
    targets: Floats
    groups: Names
    contexts: Names
    own: int


@dataclass(frozen=True, slots=True)
class Fit:
    """A fitted way. ``net``: (mean [W], weights [W]) of the vectors, if it uses them."""

    blend: Blend
    net: tuple[Floats, Floats] | None = None

    def units(self, material: Material, rows: Rows) -> Floats:
        """Returns the scores of ``rows`` on [0, 1], as the saved judge gives them."""
        columns = [material.inputs.index(name) for name in self.blend.members if name != VECTORS]
        units = material.scores[rows][:, columns]
        if self.net is not None:
            part = 0.5 + (material.vectors[rows] - self.net[0]) @ self.net[1] / REACH
            units = np.column_stack([units, on_scale(part)])
        return self.blend(units)


Way = Callable[[Material, Rows], Fit]


def ways(material: Material) -> dict[str, Way]:
    """Returns name -> way, cheapest first."""
    own, found = material.own, dict[str, Way]()
    parts = [name.partition(":")[0] for name in material.inputs]
    at = {part: [i for i, one in enumerate(parts) if one == part] for part in parts}
    plain = [*at["judge"], *at["repetition"], *at["length"]]
    if own >= 0:
        found[AS_IS] = partial(unmapped, column=own)
        found["linear map"] = partial(line, columns=[own], alpha=1.0, nonnegative=True)
        found["isotonic map"] = partial(unmapped, column=own, curved=True)
    for size in _SIZES:
        for alpha in _ALPHAS:
            name = f"ridge{f' with sentence vectors of size {size:g}' * (size > 0)}"
            found[f"{name}, penalty {alpha:g}"] = partial(
                line, columns=plain, alpha=alpha, size=size
            )
    for name in (part for part in at if part.startswith(PROMPTS)):
        linear = partial(line, columns=at[name], alpha=1.0, nonnegative=True)
        found[f"prompt, {name}"] = partial(unmapped, column=at[name][0])
        found[f"prompt, {name}, linear map"] = linear
    if "boxed" in at:
        columns = [*([own] if own >= 0 else at["judge"]), *at["boxed"]]
        found["stack with boxed"] = partial(line, columns=columns, alpha=3.0, nonnegative=own >= 0)
    return found


def unmapped(material: Material, rows: Rows, *, column: int, curved: bool = False) -> Fit:
    """Takes one input as it is or, if ``curved``, mapped by an isotonic regression."""
    own, y, curve = material.scores[rows, column], material.targets[rows], None
    if curved:
        curve = np.array(fit_isotonic(own.tolist(), y.tolist()))
    name = (material.inputs[column],)
    return Fit(Blend(name, np.zeros(1), np.ones(1), np.ones(1), 0.0, curve=curve))


def line(
    material: Material,
    rows: Rows,
    *,
    columns: Sequence[int] = (),
    alpha: float = 1.0,
    size: float = 0.0,
    nonnegative: bool = False,
) -> Fit:
    """Fits a ridge over ``columns`` and, with a ``size``, the vectors. Without both it is the
    mean."""
    names, own = tuple(material.inputs[i] for i in columns), len(columns)
    middle = float(material.targets[rows].mean())
    rows = rows[np.isfinite(material.scores[rows][:, list(columns)]).all(axis=1)]
    y = material.targets[rows]
    units, sizes = material.scores[rows][:, list(columns)], np.ones(own)
    if size:
        units = np.column_stack([units, material.vectors[rows]])
        sizes = np.append(sizes, np.full(material.vectors.shape[1], size))
    if len(rows) < 3 or not np.ptp(units, axis=0).any():
        zeros = np.zeros(own)
        return Fit(Blend(names, zeros, zeros + 1, zeros, middle))
    same = np.full(len(rows), "")
    config = HybridConfig.model_construct(alpha=alpha, nonnegative=nonnegative)
    blend = fit_blend(config, FitRows(names, units, y, same, same, np.ones(len(rows))), sizes)
    if not size:
        return Fit(blend)
    net = blend.center[own:], blend.weights[own:] / blend.spread[own:]
    head, tail = (blend.center, blend.spread, blend.weights), (0.5, 1.0, REACH)  # undoes ``units``
    center, spread, weights = (np.append(a[:own], b) for a, b in zip(head, tail, strict=True))
    return Fit(Blend((*names, VECTORS), center, spread, weights, blend.intercept), net)


# -- nested cross-validation -----------------------------------------------------------------------


def folds(rows: Rows, groups: Names) -> Iterator[tuple[Rows, Rows]]:
    """Yields (rows to learn from, rows held out), whole groups together; nothing for one group."""
    from sklearn.model_selection import GroupKFold

    parts = min(FOLDS, len(np.unique(groups[rows])))
    for learn, held in GroupKFold(parts).split(rows, groups=groups[rows]) if parts > 1 else ():
        yield rows[learn], rows[held]


def choose(material: Material, rows: Rows, known: Mapping[str, Way]) -> str:
    """Returns the way with the smallest squared error on held-out ``rows``; the first of equals. An
    unscored row is wrong by the whole scale."""
    errors = dict.fromkeys(known, 0.0)
    several = len(np.unique(material.groups[rows])) > 1  # few labels can be of one chatbot
    groups = material.groups if several else material.contexts
    for learn, held in folds(rows, groups) if len(known) > 1 else ():
        for name, way in known.items():
            apart = way(material, learn).units(material, held) - material.targets[held]
            errors[name] += float((np.nan_to_num(apart, nan=1.0) ** 2).sum())
    return min(errors, key=lambda name: errors[name])


def crossed(
    materials: Sequence[Material], known: Mapping[str, Way], most: int | None = None
) -> Floats:
    """Returns a score of each row by the way chosen and fitted without its context, on at most
    ``most`` rows in a random order. ``materials``: that of each fold, and that of all rows."""
    order, contexts = np.arange(len(materials[-1].targets)), materials[-1].contexts
    units, shuffled = np.zeros(len(order)), np.random.default_rng(0).permutation(order)
    for (learn, held), material in zip(folds(order, contexts), materials, strict=False):
        learn = np.sort(shuffled[np.isin(shuffled, learn)][:most])
        fit = known[choose(material, learn, known)](material, learn)
        units[held] = fit.units(material, held)
    return units


@dataclass(frozen=True, slots=True)
class Measured:
    """One line of the proof: the ``error`` (root mean square, in units of people's scale) and
    Spearman's ``rho`` with people's mean, and the ``gain`` of the aligned judge over it."""

    name: str
    error: float
    rho: float | None
    gain: Estimate | None = None


@dataclass(frozen=True, slots=True)
class Proof:
    """What nested cross-validation says of one dimension. ``units``: name of a line -> scores [n]
    on [0, 1] of rows that it was not fitted on; ``targets`` [n] are people's; ``scored`` are these
    rows: those that the aligned judge scores. ``gain`` is that over the line ``base``; ``more``
    labels would show it, None if it is shown or there is none. ``curve``: (number of labels,
    error)."""

    way: str
    base: str
    gain: Estimate
    more: int | None
    lines: tuple[Measured, ...]
    curve: Sequence[tuple[float, float]]
    fit: Fit
    units: Mapping[str, Floats]
    targets: Floats
    scored: Rows

    @property
    def kept(self) -> bool:
        """Whether the gain is above 0 beyond chance."""
        return self.gain.low is not None and self.gain.low > 0


def prove(
    materials: Sequence[Material], span: float, people: Floats, *, curve: bool = False
) -> Proof:
    """Chooses a way on all rows and measures that choice out of fold, with a learning ``curve`` if
    wanted. ``materials``: see ``crossed``; ``span`` is the width of people's scale, ``people``
    [n, annotators] are their answers."""
    material = materials[-1]
    known, alone = ways(material), material.inputs.index("length:overall")
    units = {ALIGNED: crossed(materials, known)}
    scored = np.flatnonzero(np.isfinite(units[ALIGNED]))
    if material.own >= 0:
        units[AS_IS] = material.scores[:, material.own]
    units[MEAN] = crossed(materials, {"": line})
    units[LENGTH] = crossed(materials, {"": partial(line, columns=[alone])})
    units = {name: column[scored] for name, column in units.items()}
    y, contexts, people = material.targets[scored], material.contexts[scored], people[scored]
    base, lines, gains = AS_IS if material.own >= 0 else MEAN, list[Measured](), {}
    for name, score in units.items():
        gains[name] = gain_over(span, y, contexts, units[ALIGNED], score)
        gain = None if name == ALIGNED else gains[name][0]
        lines.append(_measured(name, y * span, score * span, gain))
    given = np.isfinite(people)
    at, who = np.nonzero(given & (given.sum(axis=1) > 1)[:, None])
    if len(at):
        others = (np.nansum(people, axis=1)[at] - people[at, who]) / (given.sum(axis=1)[at] - 1)
        lines.append(_measured("one person, the others", others, people[at, who]))
    (gain, error), more, points = gains[base], None, list[tuple[float, float]]()
    if gain.value and gain.value > 0 and gain.low is not None and gain.low <= 0:
        more = max(1, math.ceil(len(y) * ((POWER * error / gain.value) ** 2 - 1)))
    most = len(y) * (FOLDS - 1) // FOLDS
    for count in sorted({int(n) for n in np.geomspace(10, most, 6)}) if curve else ():
        apart = span * (crossed(materials, known, count)[scored] - y)
        points.append((float(count), float(np.sqrt(np.nanmean(apart**2)))))
    rows = np.arange(len(material.targets))
    way = choose(material, rows, known)
    fit, spread = known[way](material, rows), float(np.std(units[ALIGNED] - y))
    fit = replace(fit, blend=replace(fit.blend, residual=spread))
    return Proof(way, base, gain, more, tuple(lines), points, fit, units, y, scored)


def _measured(name: str, human: Floats, score: Floats, gain: Estimate | None = None) -> Measured:
    rho = None
    tolerance = tolerance_of(None, human)
    sides = Values(human, tolerance), Values(score, tolerance)
    if name != MEAN and undefined_reason(*sides) is None:
        rho = float(weighted_spearman(*sides, np.ones((1, len(human))))[0])
    return Measured(name, float(np.sqrt(np.mean((score - human) ** 2))), rho, gain)


def gain_over(
    span: float, y: Floats, contexts: Names, aligned: Floats, other: Floats
) -> tuple[Estimate, float]:
    """Returns by how much the error of ``aligned`` is smaller, with its interval and p-value by the
    jackknife over contexts, and its standard error."""
    ours, theirs = ((units - y) ** 2 for units in (aligned, other))

    def statistic(weights: Floats) -> dict[str, Floats]:
        total = weights.sum(axis=1)
        return {"": span * (np.sqrt(weights @ theirs / total) - np.sqrt(weights @ ours / total))}

    value = float(statistic(np.ones((1, len(ours))))[""][0])
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
        found: dict[str, Any] = {}
        for name, one in self.proofs.items():
            scale = [self.dimensions[name].low, self.dimensions[name].high]
            found[name] = {"rows": len(self.rows[name]), "scale": scale, "gain": asdict(one.gain)}
            found[name] |= {k: getattr(one, k) for k in ("kept", "way", "base", "more", "curve")}
            found[name]["lines"] = [asdict(each) for each in one.lines]
        return {**self.facts, "judge_written": self.judge is not None, "dimensions": found}

    def sentences(self) -> list[str]:
        """Returns for each dimension whether the labels improve the judge, and by how much."""
        found = []
        for name, proof in self.proofs.items():
            gain, low, high = proof.gain.value or 0.0, proof.gain.low, proof.gain.high
            shown = f"gain {gain:.2f}" + ("" if low is None else f" [{low:.2f}, {high:.2f}]")
            what, by = ("improve", f", by {proof.way}") if proof.kept else ("do not improve", "")
            found.append(f"{name}: labels {what} this judge ({shown}){by}")
            if proof.more is not None:
                found.append(f"about {proof.more} more labels like these would show such a gain")
        return found
