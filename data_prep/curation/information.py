"""What judges tell of a dialogue before anybody annotates it: the sizes of the sampling policies.

``uncertainty``: mean over judges of the spread of the judge's own distribution. ``disagreement``:
standard deviation over judges of their scores. ``expected-information``: how much the dialogue is
expected to move the correlation between people and the judges; see ``influence``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from medal_judges.dimension import Dimension
from medal_judges.errors import ConfigError, DataError
from medal_judges.jsonl import read_judgements
from medal_judges.signature import Signature

Floats = npt.NDArray[np.float64]
Rescale = Literal["ranks", "scale"]
EXPECTED_CORRELATION = 0.4  # of a judge with people, assumed before anything is annotated


@dataclass(frozen=True, slots=True)
class JudgeView:
    """One judge's scores on its own scale, and spreads from 0 to 0.5, by dialogue id."""

    name: str
    scores: Mapping[str, float]
    spreads: Mapping[str, float] = field(default_factory=dict)


def parse_rescale(text: str) -> Rescale:
    """``ranks`` or ``scale``. Raises ConfigError."""
    known: tuple[Rescale, ...] = ("ranks", "scale")
    found = next((rescale for rescale in known if rescale == text), None)
    if found is None:
        raise ConfigError(f"--rescale takes ranks or scale, not {text!r}")
    return found


def read_views(paths: Iterable[str | Path], dimension: str) -> list[JudgeView]:
    """The judges of judgement files (``medal score``), one a file.

    Raises DataError for a file without scores of ``dimension`` or with two judgements of one
    dialogue.
    """
    views: list[JudgeView] = []
    for path in paths:
        view = _view(path, dimension)
        taken = {v.name for v in views}
        name = view.name if view.name not in taken else f"{view.name} ({Path(path).name})"
        views.append(JudgeView(name, view.scores, view.spreads))
    return views


def _view(path: str | Path, dimension: str) -> JudgeView:
    scores: dict[str, float] = {}
    spreads: dict[str, float] = {}
    seen: set[str] = set()
    judge, known = "", set[str]()
    for judgement in read_judgements(path):
        if judgement.id in seen:
            hint = "score it with --level dialogue (or last)"
            raise DataError(path, None, f"two judgements of {judgement.id!r}", hint=hint)
        seen.add(judgement.id)
        judge = judge or judgement.judge
        known |= judgement.scores.keys()
        score, spread = judgement.scores.get(dimension), judgement.uncertainty(dimension)
        if score is not None:
            scores[judgement.id] = score
        if spread is not None:
            spreads[judgement.id] = spread
    if not scores:
        hint = f"dimensions there: {', '.join(sorted(known)) or 'none'}"
        raise DataError(path, None, f"no score of {dimension!r}", hint=hint)
    return JudgeView(Signature.parse(judge).judge or Path(path).name, scores, spreads)


@dataclass(frozen=True, slots=True)
class JudgeTable:
    """The judges on one pool: ``units`` in [0, 1] and ``spreads`` of shape (judges, rows), NaN
    where a judge has none; ``unjudged`` rows have no score of any judge."""

    names: tuple[str, ...]
    units: Floats
    spreads: Floats

    @property
    def unjudged(self) -> int:
        return int((~np.isfinite(self.units).any(axis=0)).sum())

    @property
    def has_spreads(self) -> bool:
        """True where a judge gave a distribution for some row."""
        return bool(np.isfinite(self.spreads).any())


def judge_table(
    views: Sequence[JudgeView], ids: Sequence[str], dimension: Dimension, rescale: Rescale = "ranks"
) -> JudgeTable:
    """The judges' scores of ``ids`` on one scale.

    ``ranks``: a judge's mid-ranks among these dialogues, so that a judge who is stricter or uses
    less of the scale does not disagree for that alone. ``scale``: the dimension's own scale;
    raises ConfigError for a score outside it.
    """
    units = np.array([[view.scores.get(id, np.nan) for id in ids] for view in views])
    spreads = np.array([[view.spreads.get(id, np.nan) for id in ids] for view in views])
    if rescale == "ranks":
        units = np.array([_ranks(row) for row in units])
    else:
        units = (units - dimension.low) / (dimension.high - dimension.low)
        for view, row in zip(views, units, strict=True):
            if np.nanmax(np.abs(row - 0.5), initial=0.0) > 0.5 + 1e-9:
                raise ConfigError(
                    f"judge {view.name}: scores of {dimension.name} outside "
                    f"{dimension.low:g} to {dimension.high:g}",
                    hint="--rescale ranks, or --rubric with the judge's own scale",
                )
    return JudgeTable(tuple(v.name for v in views), units, spreads)


def _ranks(row: Floats) -> Floats:
    from scipy.stats import rankdata

    known = np.isfinite(row)
    ranks = np.full(len(row), np.nan)
    if known.any():
        ranks[known] = (rankdata(row[known]) - 0.5) / known.sum()
    return ranks


def uncertainty(table: JudgeTable) -> Floats:
    """Mean spread of the judges' distributions, shape (rows,). Raises ConfigError where no judge
    gives a distribution."""
    if not table.has_spreads:
        raise ConfigError(
            "no judge gives a distribution, so none is uncertain",
            hint="take judges with classes or several members, or --policy disagreement",
        )
    return _filled(_mean(table.spreads))


def disagreement(table: JudgeTable) -> Floats:
    """Standard deviation of the judges' unit scores, shape (rows,). Raises ConfigError for one
    judge."""
    if len(table.names) < 2:
        raise ConfigError("one judge cannot disagree", hint="give --judgements at least twice")
    return _filled(np.sqrt(_variance(table.units)))


def influence(table: JudgeTable, correlation: float = EXPECTED_CORRELATION) -> Floats:
    """Root of the expected squared influence of each row on the judges' correlations with people.

    The influence of a row on a correlation r is u = x y - r (x² + y²) / 2, with x and y the
    standardised ranks of judge and people (Devlin, Gnanadesikan and Kettenring 1975, "Robust
    estimation and outlier detection with correlation coefficients", for Pearson's r). The variance
    of a weighted estimate grows with the sum of E[u²] over the chance, which for a given number of
    rows is least where chances are proportional to the root of E[u²]; to choose test points like
    this is active testing (Sawade et al. 2010, "Active risk estimation"; Kossen et al. 2021,
    "Active testing").

    What people will say is taken as normal: its mean is ``correlation`` times the judges'
    consensus, its variance the rest, and larger where judges are unsure or disagree. The mean over
    judges is taken, for the same annotations serve all of them.

    Raises ConfigError unless ``correlation`` lies in [0, 1).
    """
    if not 0 <= correlation < 1:
        raise ConfigError(f"the expected correlation lies in [0, 1), not {correlation}")
    x = np.array([_standardised(row) for row in table.units])
    mean = correlation * _standardised(_filled(_mean(x)))
    variance = (1 - correlation**2) * _relative_doubt(table)
    squares = _expected_square(x, mean, variance, correlation / 2)
    root: Floats = np.sqrt(squares.mean(axis=0))
    return root


def _expected_square(x: Floats, m: Floats, v: Floats, r: float) -> Floats:
    """E[(x y - r x² - r y²)²] for y normal with mean m and variance v, from its moments."""
    y2 = m**2 + v
    y3 = m**3 + 3 * m * v
    y4 = m**4 + 6 * m**2 * v + 3 * v**2
    squares = x**2 * y2 + r**2 * (x**4 + y4 + 2 * x**2 * y2)
    found: Floats = np.maximum(squares - 2 * r * (x**3 * m + x * y3), 0.0)
    return found


def _relative_doubt(table: JudgeTable) -> Floats:
    """Variance of what people may say, relative to its mean: half the same for all rows, half by
    disagreement between the judges and their own spreads, in equal parts."""
    sources = [_filled(_variance(table.units))] if len(table.names) > 1 else []
    if table.has_spreads:
        sources.append(_filled(_mean(table.spreads**2)))
    known = [source / source.mean() for source in sources if source.mean() > 0]
    even = np.ones(table.units.shape[1])
    return 0.5 * even + 0.5 * np.mean(known, axis=0) if known else even


def _mean(values: Floats) -> Floats:
    """Column means over what is known; NaN where nothing is."""
    known = np.isfinite(values)
    count = known.sum(axis=0)
    total = np.where(known, values, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _variance(values: Floats) -> Floats:
    """Column variances; NaN where fewer than two are known."""
    spread = _mean((values - _mean(values)) ** 2)
    return np.where(np.isfinite(values).sum(axis=0) >= 2, spread, np.nan)


def _filled(values: Floats) -> Floats:
    """Unknown values as the mean of the known: a dialogue nobody judged stays as likely as most."""
    known = values[np.isfinite(values)]
    return np.where(np.isfinite(values), values, known.mean() if len(known) else 0.0)


def _standardised(row: Floats) -> Floats:
    known = row[np.isfinite(row)]
    spread = known.std() if len(known) else 0.0
    if spread == 0:
        return np.zeros(len(row))
    return np.where(np.isfinite(row), (row - known.mean()) / spread, 0.0)
