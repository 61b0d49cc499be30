"""What a selection is worth: policies compared on a set that people have annotated in full.

For each policy and number of annotations, many selections are drawn without looking at the human
answers. Each gives a judge's Spearman correlation and its 95% bootstrap interval, once with the
selection's weights and once without. Against the correlation on the full set they show how wide
the interval is, and whether it can be believed: a narrow interval around the wrong value is no
saving.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from medal_judges.data_prep.curation.balanced import select_balanced
from medal_judges.data_prep.curation.candidate import Candidate
from medal_judges.data_prep.curation.information import EXPECTED_CORRELATION, JudgeTable
from medal_judges.data_prep.curation.policy import POLICIES, Policy, sizes_of
from medal_judges.data_prep.curation.probability import inclusion_chances, systematic
from medal_judges.data_prep.curation.weights import cell_weights
from medal_judges.errors import ConfigError
from medal_judges.stats.correlation import weighted_spearman
from medal_judges.stats.intervals import CONFIDENCE

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
_SMALLEST = 10  # annotations; with fewer a correlation says nothing


@dataclass(frozen=True, slots=True)
class HumanSet:
    """An annotated set: ``human`` of shape (rows,), ``scores`` of shape (judges, rows), the judges
    as policies see them, and the rows as candidates with the labels that judges give them."""

    human: Floats
    scores: Floats
    table: JudgeTable
    candidates: tuple[Candidate, ...]
    categories: tuple[str, ...]
    best: int


@dataclass(frozen=True, slots=True)
class Setting:
    """Numbers of annotations, selections drawn for each, bootstrap resamples of each, the seed."""

    sizes: tuple[int, ...] = (25, 50, 100, 200)
    repetitions: int = 400
    resamples: int = 200
    seed: int = 0
    correlation: float = EXPECTED_CORRELATION
    policies: tuple[Policy, ...] = POLICIES

    def sizes_within(self, rows: int) -> list[int]:
        """The sizes that a set of ``rows`` allows."""
        return [n for n in self.sizes if _SMALLEST <= n <= rows]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One policy, estimator (weighted or not), judge and number of annotations.

    ``full`` is the judge's correlation on the whole set; ``bias`` the mean estimate minus that,
    ``rmse`` the root of its mean squared error; ``width`` the mean width of the interval and
    ``coverage`` the share of intervals that hold ``full``. ``undefined`` selections gave none.
    """

    policy: str
    weighted: bool
    judge: str
    n: int
    full: float
    bias: float
    rmse: float
    width: float
    coverage: float
    undefined: int


def simulate(people: HumanSet, setting: Setting) -> list[Outcome]:
    """Outcomes of every policy, size, estimator and judge. Sizes above the set are left out.

    Raises ConfigError where no size is left, and for a judge without a correlation.
    """
    sizes = setting.sizes_within(len(people.human))
    if not sizes:
        raise ConfigError(
            f"no number of annotations between {_SMALLEST} and {len(people.human)} in "
            f"{', '.join(map(str, setting.sizes))}"
        )
    full = [_spearman(people.human, s, np.ones(len(s))) for s in people.scores]
    for name, figure in zip(people.table.names, full, strict=True):
        if not np.isfinite(figure):
            raise ConfigError(
                f"judge {name} has no correlation with people on these {len(people.human)} "
                "dialogues: all its scores, or all their answers, are the same",
                hint="leave that file of judgements out",
            )
    found: list[Outcome] = []
    for policy in setting.policies:
        drawn = draw_selections(people, policy, sizes, setting)
        for n, selections in drawn.items():
            found += _outcomes(people, policy, n, selections, full, setting)
    return found


def draw_selections(
    people: HumanSet, policy: Policy, sizes: Sequence[int], setting: Setting
) -> dict[int, list[tuple[Rows, Floats]]]:
    """``repetitions`` selections of each size: rows and their weights."""
    if policy == "balanced":
        return _balanced(people, sizes, setting)
    wanted = sizes_of(policy, people.table, setting.correlation)
    rng = np.random.default_rng([setting.seed, *policy.encode()])
    drawn = {}
    for n in sizes:
        chances = inclusion_chances(wanted, n)
        picks = [_sample(chances, rng) for _ in range(setting.repetitions)]
        drawn[n] = [(rows, 1 / chances[rows]) for rows in picks]
    return drawn


def _sample(chances: Floats, rng: np.random.Generator) -> Rows:
    order = rng.permutation(len(chances))
    rows: Rows = order[systematic(chances[order], rng.random())]
    return rows


def _balanced(
    people: HumanSet, sizes: Sequence[int], setting: Setting
) -> dict[int, list[tuple[Rows, Floats]]]:
    """One selection of the largest size a repetition: smaller ones are its beginning."""
    place = {c.id: i for i, c in enumerate(people.candidates)}
    drawn: dict[int, list[tuple[Rows, Floats]]] = {n: [] for n in sizes}
    for repetition in range(setting.repetitions):
        selection = select_balanced(
            people.candidates,
            max(sizes),
            categories=people.categories,
            best=people.best,
            seed=setting.seed * 1_000_003 + repetition,
        )
        chosen = [pick.candidate for pick in selection.picks]
        for n in sizes:
            rows = np.array([place[c.id] for c in chosen[:n]], dtype=np.intp)
            weights = np.array(cell_weights(people.candidates, chosen[:n]))
            drawn[n].append((rows, weights))
    return drawn


def _outcomes(
    people: HumanSet,
    policy: str,
    n: int,
    selections: Sequence[tuple[Rows, Floats]],
    full: Sequence[float],
    setting: Setting,
) -> Iterator[Outcome]:
    rng = np.random.default_rng([setting.seed, n])
    counts = rng.multinomial(n, np.full(n, 1 / n), size=setting.resamples).astype(np.float64)
    for weighted in (True, False):
        for judge, (name, scores) in enumerate(zip(people.table.names, people.scores, strict=True)):
            figures = np.array(
                [
                    _estimate(people.human[rows], scores[rows], own if weighted else None, counts)
                    for rows, own in selections
                    if len(rows) == n
                ]
            ).reshape(-1, 3)
            yield _outcome(policy, weighted, name, n, full[judge], figures, len(selections))


def _estimate(
    human: Floats, scores: Floats, own: Floats | None, counts: Floats
) -> tuple[float, float, float]:
    """(estimate, low, high) of one selection; NaN where undefined."""
    weights = np.ones(len(human)) if own is None else own
    resampled = weighted_spearman(human, scores, counts * weights)
    kept = resampled[np.isfinite(resampled)]
    if not len(kept):
        return np.nan, np.nan, np.nan
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(kept, [tail, 100 - tail])
    return _spearman(human, scores, weights), float(low), float(high)


def _spearman(human: Floats, scores: Floats, weights: Floats) -> float:
    return float(weighted_spearman(human, scores, weights[None, :])[0])


def _outcome(
    policy: str,
    weighted: bool,
    judge: str,
    n: int,
    full: float,
    figures: Floats,
    drawn: int,
) -> Outcome:
    kept = figures[np.isfinite(figures).all(axis=1)]
    error = kept[:, 0] - full
    inside = (kept[:, 1] <= full) & (full <= kept[:, 2])
    if not len(kept):
        nothing = float("nan")
        return Outcome(policy, weighted, judge, n, full, nothing, nothing, nothing, nothing, drawn)
    return Outcome(
        policy=policy,
        weighted=weighted,
        judge=judge,
        n=n,
        full=full,
        bias=float(error.mean()),
        rmse=float(np.sqrt((error**2).mean())),
        width=float((kept[:, 2] - kept[:, 1]).mean()),
        coverage=float(inside.mean()),
        undefined=drawn - len(kept),
    )


def annotations_needed(figures: Mapping[int, float], target: float) -> float | None:
    """How many annotations bring a figure (width or error) down to ``target``, between the sizes
    tried on a double-logarithmic line; None where ``target`` lies outside what they reached."""
    sizes = sorted(n for n, value in figures.items() if np.isfinite(value) and value > 0)
    for small, large in pairwise(sizes):
        high, low = np.log(figures[small]), np.log(figures[large])
        if low <= np.log(target) <= high:
            share = 0.0 if high == low else (high - np.log(target)) / (high - low)
            return float(np.exp(np.log(small) + share * (np.log(large) - np.log(small))))
    return next((float(n) for n in sizes if figures[n] == target), None)  # a single size
