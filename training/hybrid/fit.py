"""Fitting a hybrid's numbers: the stack's lines, the selection's choices, the cascade's threshold.

Each source is centred on its own mean, and all weigh the same: their raters use the scale
differently, and the level of a judge's scores there says nothing of how it ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from medal_judges.errors import ConfigError
from medal_judges.models.hybrid.combination import Blend
from medal_judges.models.hybrid.config import HybridConfig

FOLDS = 5
# With members' scores standardised and n rows, a penalty of n halves the weight of a lone member.
ALPHAS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)


@dataclass(frozen=True, slots=True)
class FitRows:
    """Rows of one dimension: ``units`` [n, members] of the members' scores on [0, 1], ``targets``
    [n] on [0, 1], and of each row its source, its conversation and its weight."""

    members: tuple[str, ...]
    units: np.ndarray
    targets: np.ndarray
    sources: np.ndarray
    groups: np.ndarray
    weights: np.ndarray

    def part(self, rows: np.ndarray) -> FitRows:
        """The same for a selection of rows."""
        columns = (self.units, self.targets, self.sources, self.groups, self.weights)
        return FitRows(self.members, *(column[rows] for column in columns))

    def shares(self) -> np.ndarray:
        """Weights [n] in which every source counts the same; they add up to n."""
        _, numbers = np.unique(self.sources, return_inverse=True)
        totals = np.bincount(numbers, self.weights)
        return self.weights / totals[numbers] / len(totals) * len(numbers)


def settled(config: HybridConfig, rows: FitRows) -> HybridConfig:
    """``config`` with a number for ``alpha: auto``: of ALPHAS the one whose cross-validated scores
    agree best with people (mean over sources; the smallest of equals, and 1 where there are too few
    conversations to tell)."""
    if config.alpha != "auto":
        return config
    best, top = ALPHAS[0], -2.0
    if config.combiner == "ridge":
        for alpha in ALPHAS:
            scores = crossed(config.model_copy(update={"alpha": alpha}), rows)
            figures = {} if scores is None else agreement(scores, rows)
            # A penalty that leaves a source without a figure is not compared on the others.
            whole = len(figures) == len(np.unique(rows.sources))
            if whole and (mean := mean_agreement(figures)) is not None and mean > top + 1e-9:
                best, top = alpha, mean
    return config.model_copy(update={"alpha": best})


def fit_blend(config: HybridConfig, rows: FitRows) -> Blend:
    """The line of one dimension, for an ``alpha`` that is a number (see ``settled``).

    Raises ConfigError with fewer than 3 rows, or where no member's score differs between them.
    """
    if len(rows.targets) < 3:
        raise ConfigError(f"a stack needs at least 3 rows with a rating; here: {len(rows.targets)}")
    w = rows.shares()
    centers = _source_means(rows.units, rows.sources, w)
    level = _source_means(rows.targets[:, None], rows.sources, w)[:, 0]
    x, y = rows.units - centers, rows.targets - level
    spread = np.sqrt(np.average(x**2, axis=0, weights=w))
    varied = spread > 0
    if not varied.any():
        raise ConfigError("every member gives all fitting rows of a source the same score")
    z = x / np.where(varied, spread, 1.0)
    # The mean over rows with these weights is the mean of the sources' means.
    middle = float(np.average(level, weights=w))
    knots = None
    if config.combiner == "isotonic":
        from sklearn.isotonic import IsotonicRegression

        weights = varied / varied.sum()
        line = IsotonicRegression(out_of_bounds="clip").fit(z @ weights, y + middle, w)
        knots = np.stack([line.X_thresholds_, line.y_thresholds_])
        fitted, intercept = np.interp(z @ weights, *knots), 0.0
    else:
        from sklearn.linear_model import Ridge

        # Both sides are centred by source, so an intercept would be 0.
        ridge = Ridge(alpha=config.alpha, positive=config.nonnegative, fit_intercept=False)
        weights = ridge.fit(z, y, sample_weight=w).coef_
        fitted, intercept = middle + z @ weights, middle
    residual = float(np.sqrt(np.average((y + middle - fitted) ** 2, weights=w)))
    center, spread = np.average(centers, axis=0, weights=w), np.where(varied, spread, 1.0)
    return Blend(rows.members, center, spread, weights, intercept, residual, knots)


def _source_means(values: np.ndarray, sources: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Of each row [n, columns] the mean of its source."""
    means = np.zeros_like(values, dtype=float)
    for name in np.unique(sources):
        own = sources == name
        means[own] = np.average(values[own], axis=0, weights=w[own])
    return means


def folds(groups: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(rows to fit, rows to predict), with all rows of a conversation on one side; nothing where
    there are fewer conversations than folds."""
    from sklearn.model_selection import GroupKFold

    if len(np.unique(groups)) >= FOLDS:
        yield from GroupKFold(FOLDS).split(groups, groups=groups)


def crossed(config: HybridConfig, rows: FitRows) -> np.ndarray | None:
    """Scores [n] of each row by a line that was fitted without its conversation (5 folds).

    None where there are too few conversations.
    """
    scores = np.full(len(rows.targets), np.nan)
    for learn, held in folds(rows.groups):
        scores[held] = fit_blend(config, rows.part(learn))(rows.units[held])
    return scores if np.isfinite(scores).all() else None


def agreement(scores: np.ndarray, rows: FitRows) -> dict[str, float]:
    """Spearman's correlation with the targets by source; sources where it is undefined left out."""
    from scipy.stats import spearmanr

    figures = {}
    for name in dict.fromkeys(rows.sources.tolist()):
        own = rows.sources == name
        x, y = scores[own], rows.targets[own]
        if len(x) >= 3 and np.ptp(x) > 0 and np.ptp(y) > 0:
            figures[str(name)] = float(spearmanr(x, y).statistic)
    return figures


def mean_agreement(by_source: dict[str, float]) -> float | None:
    """The mean over sources, each the same; None where there is none."""
    return sum(by_source.values()) / len(by_source) if by_source else None


def best_member(rows: FitRows) -> str:
    """The member whose mean agreement over sources is highest; the first one of equals.

    Raises ConfigError where no member's agreement is defined.
    """
    known = {
        name: value
        for column, name in enumerate(rows.members)
        if (value := mean_agreement(agreement(rows.units[:, column], rows))) is not None
    }
    if not known:
        raise ConfigError("no member's agreement is defined: scores or ratings never differ")
    return max(known, key=lambda name: known[name])


def threshold_for(uncertain: Sequence[float], share: float) -> float:
    """The smallest of the values that at most ``share`` of them are above; -1 for a share of 1.

    With ties fewer than ``share`` are above: a threshold cannot part equals.
    """
    if share >= 1:
        return -1.0  # an uncertainty of 0 is deferred too
    ordered = np.sort(np.asarray(uncertain, dtype=float))
    return float(ordered[max(0, int(np.ceil((1 - share) * len(ordered) - 1e-9)) - 1)])
