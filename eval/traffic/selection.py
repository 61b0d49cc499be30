"""Selection: which conversations a person should read first, and which ones the page holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from medal_judges.eval.traffic.traffic import Codes, Traffic
from medal_judges.stats.correlation import Floats

Reason = Literal["worst", "least certain", "most unusual", "sample"]
FIRST = 6  # shown of each kind
_FEW = 20  # rows from which on a profile can be unusual
_RIDGE = 0.05  # of the variance: dimensions that always agree count about once


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows of the traffic: ``rows`` (all on the page, by badness), ``first`` (row, why) to read
    first. ``worst_kept``: how many of the worst of all are on the page for certain; ``badness``,
    ``unusual`` (rows,) of all rows, NaN where unknown."""

    rows: Codes
    first: Sequence[tuple[int, Reason]]
    worst_kept: int
    badness: Floats
    unusual: Floats
    profile: Floats
    profile_names: Sequence[str]


def select(traffic: Traffic, most: int, seed: int = 0) -> Selection:
    """At most ``most`` rows: all where they fit, else the worst half, the least certain and most
    unusual twentieths, and a random sample of what is left."""
    bad = badness(traffic)
    profile, names = profiles(traffic)
    odd = _distance(profile)
    rows = traffic.rows
    ranked = {
        "worst": _ranked(bad),
        "least certain": _ranked(traffic.uncertainty),
        "most unusual": _ranked(odd),
    }
    first: list[tuple[int, Reason]] = []
    taken: set[int] = set()
    reasons: tuple[Reason, ...] = ("worst", "least certain", "most unusual")
    for reason in reasons:
        fresh = [int(row) for row in ranked[reason] if int(row) not in taken][:FIRST]
        taken |= set(fresh)
        first += [(row, reason) for row in fresh]
    if rows <= most:
        chosen, worst_kept = np.arange(rows), rows
    else:
        worst_kept = min(len(ranked["worst"]), most // 2)
        parts = [ranked["worst"][:worst_kept], np.array(sorted(taken), dtype=np.int64)]
        parts += [ranked[name][: most // 20] for name in ("least certain", "most unusual")]
        kept = np.unique(np.concatenate(parts))[:most] if most >= len(taken) else parts[1][:most]
        others = np.setdiff1d(np.arange(rows), kept, assume_unique=True)
        room = most - len(kept)
        drawn = np.random.default_rng(seed).choice(others, room, replace=False)
        chosen = np.concatenate([kept, drawn])
    order = np.argsort(np.where(np.isnan(bad[chosen]), -math.inf, bad[chosen]), kind="stable")[::-1]
    return Selection(chosen[order], first, worst_kept, bad, odd, profile, names)


def badness(traffic: Traffic) -> Floats:
    """How bad each row is, shape (rows,), NaN where nothing is scored: how far the headline lies
    from its good end, from 0 to 1, plus a millionth of the mean probability of an issue (which
    orders equals); without a graded dimension the mean probability of an issue alone."""
    faults = [
        scores if traffic.dimensions[name].good == "low" else 1 - scores
        for name in traffic.issues
        if np.isfinite(scores := traffic.scores[name]).any()
    ]
    issues = _row_means(np.array(faults)) if faults else np.full(traffic.rows, math.nan)
    if traffic.headline is None:
        return issues
    dimension = traffic.dimensions[traffic.headline]
    ends = (dimension.high, dimension.low)
    good, bad = ends if dimension.good == "high" else ends[::-1]
    total: Floats = (traffic.scores[traffic.headline] - good) / (bad - good)
    return total + 1e-6 * np.where(np.isnan(issues), 0.0, issues)


def _row_means(columns: Floats) -> Floats:
    known = np.isfinite(columns)
    count = known.sum(axis=0)
    sums = np.where(known, columns, 0.0).sum(axis=0)
    means: Floats = np.full(len(count), math.nan)
    np.divide(sums, count, out=means, where=count > 0)
    return means


def profiles(traffic: Traffic) -> tuple[Floats, list[str]]:
    """Robust z of each row's scores and, where texts are known, of its number of turns and
    characters (logarithms), shape (columns, rows): 0 at the median, 1 at a standard deviation."""
    columns = {name: traffic.scores[name] for name in traffic.dimensions}
    columns |= {name: np.log1p(size) for name, size in traffic.sizes.items()}
    made: dict[str, Floats] = {}
    for name, column in columns.items():
        known = column[np.isfinite(column)]
        if len(known) >= _FEW and (spread := float(known.std())) > 1e-9:
            made[name] = (column - float(np.median(known))) / spread
    table = np.array(list(made.values())) if made else np.empty((0, traffic.rows))
    return table, list(made)


def _distance(profile: Floats) -> Floats:
    """Mahalanobis distance of each row's profile from the median one, shape (rows,)."""
    columns, rows = profile.shape
    if not columns:
        return np.full(rows, math.nan)
    whole = np.isfinite(profile).all(axis=0)
    filled = np.where(np.isfinite(profile), profile, 0.0)
    covariance = np.atleast_2d(np.cov(filled)) + _RIDGE * np.eye(columns)
    squares = np.einsum("cr,cr->r", filled, np.linalg.solve(covariance, filled))
    return np.where(whole, np.sqrt(squares), math.nan)


def told_unusual(selection: Selection, traffic: Traffic, row: int) -> str:
    """What makes a row unusual: the two columns in which it lies furthest from the median."""
    z = selection.profile[:, row]
    far = [int(i) for i in np.argsort(-np.abs(z))[:2] if abs(z[i]) >= 1]
    parts = []
    for i in far:
        name = selection.profile_names[i]
        column = traffic.sizes[name] if name in traffic.sizes else traffic.scores[name]
        digits = 0 if name in traffic.sizes else 2
        median = float(np.nanmedian(column))
        parts.append(f"{name} {column[row]:,.{digits}f} (median {median:,.{digits}f})")
    return "; ".join(parts)


def _ranked(values: Floats) -> Codes:
    """Rows by falling value, those without one left out; equals in their order."""
    known = np.flatnonzero(np.isfinite(values))
    return known[np.argsort(-values[known], kind="stable")]
