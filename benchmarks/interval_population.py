"""Chatbots, people and judges with known truth, for interval_coverage.py.

What people and a judge think of a dialogue is normal: a part of the chatbot (``share`` of the
variance; people and judge correlate at ``between`` in it) and a part of the dialogue (``within``).
Over all chatbots the two are then bivariate normal, so that the true figures are known. Shares of
0.08 to 0.65 are what people's overall shows in the rated sets that name chatbots (DSTC9 0.08,
ConTurE 0.23, dialogue_eval 0.40, FED 0.59, USR 0.65).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from medal_judges.stats.correlation import Floats

LEVELS = (-1.2, -0.4, 0.4, 1.2)  # where an answer from 1 to 5 goes up


@dataclass(frozen=True)
class Population:
    """``contexts``: share of the variance that a context has, which all chatbots then meet."""

    name: str
    share: float = 0.0
    between: float = 0.0
    within: float = 0.5
    contexts: float = 0.0

    @property
    def r(self) -> float:
        """Pearson over all chatbots; a context is taken in alike by people and judge."""
        rest = 1 - self.share - self.contexts
        return self.share * self.between + self.contexts + rest * self.within


NONE = Population("none")
SOME = Population("some", 0.15, 0.8)
STRONG = Population("strong", 0.4, 0.9)
OPPOSED = Population("opposed", 0.3, 0.0)
UNRELATED = Population("no relation", 0.3, 0.0, 0.0)
SHARED = Population("contexts", 0.15, 0.8, 0.5, 0.15)


@dataclass(frozen=True)
class Rows:
    """Draws: ``human`` and the two ``judges``, shape (draws, rows), with their chatbots and
    contexts, which are the same in every draw."""

    human: Floats
    judges: tuple[Floats, Floats]
    chatbots: list[str]
    groups: list[str]


def draw(what: Population, sizes: tuple[int, ...], rng: np.random.Generator, draws: int) -> Rows:
    """``sizes``: dialogues of each chatbot. The two judges are equally good, and know nothing of
    each other beyond the dialogue."""
    bot = np.repeat(np.arange(len(sizes)), sizes)
    number = np.concatenate([np.arange(size) for size in sizes])
    place = number if what.contexts else np.arange(len(bot))
    seen = rng.normal(size=(draws, place.max() + 1))[:, place]
    a, b = rng.normal(size=(draws, len(sizes))), rng.normal(size=(draws, len(bot)))

    def parts(of_bot: Floats, of_row: Floats) -> Floats:
        rest = 1 - what.share - what.contexts
        mixed = np.sqrt(what.share) * of_bot[:, bot] + np.sqrt(what.contexts) * seen
        return np.asarray(mixed + np.sqrt(rest) * of_row)

    def judge() -> Floats:
        return parts(_like(a, what.between, rng), _like(b, what.within, rng))

    groups = [f"c{i}" for i in place]
    return Rows(parts(a, b), (judge(), judge()), [f"b{i:02}" for i in bot], groups)


def _like(values: Floats, r: float, rng: np.random.Generator) -> Floats:
    """Standard normal values that correlate at ``r`` with ``values``."""
    return np.asarray(r * values + np.sqrt(1 - r * r) * rng.normal(size=values.shape))


def present(values: Floats, share: float) -> Floats:
    """1 where the issue is there, which it is in ``share`` of all rows."""
    from scipy.stats import norm

    return (values > norm.isf(share)).astype(np.float64)


def graded(values: Floats) -> Floats:
    """Answers from 1 to 5."""
    return 1.0 + np.searchsorted(LEVELS, values)


def truths(what: Population, shares: tuple[float, ...]) -> dict[str, float]:
    """The figures over infinitely many chatbots and dialogues, by integration of the normal."""
    from scipy.stats import multivariate_normal, norm

    r = what.r
    rank = 6 / np.pi * np.arcsin(r / 2)
    found = {"pearson": r, "spearman": rank, "kendall": 2 / np.pi * np.arcsin(r)}
    found["within_system"] = float(6 / np.pi * np.arcsin(what.within / 2))
    normal = multivariate_normal([0, 0], [[1, r], [r, 1]])
    for share in shares:
        cut = norm.isf(share)
        both = float(normal.cdf([-cut, -cut]))
        found[f"f1_present {share}"] = both / share
        found[f"f1_absent {share}"] = (1 - 2 * share + both) / (1 - share)
        found[f"alpha {share}"] = 1 - (share - both) / (share * (1 - share))
    edges = [-8.0, *LEVELS, 8.0]
    grid = np.array([[normal.cdf([x, y]) for y in edges] for x in edges])
    joint = np.diff(np.diff(grid, axis=0), axis=1)
    found["alpha 1-5"] = _ordinal_alpha(joint)
    return {name: float(value) for name, value in found.items()}


def _ordinal_alpha(joint: Floats) -> float:
    """Krippendorff's ordinal alpha of a table of two annotators' answers, shares of all rows."""
    joint = (joint + joint.T) / 2
    share = joint.sum(axis=0)
    middle = np.cumsum(share) - share / 2
    delta = (middle[:, None] - middle) ** 2
    return float(1 - (joint * delta).sum() / (np.outer(share, share) * delta).sum())
