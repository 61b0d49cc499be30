"""Chatbots, people and judges with known truth, for interval_coverage.py.

What people and a judge think of a dialogue is normal: a part of the chatbot (``share`` of the
variance; people and judge correlate at ``between`` in it) and a part of the dialogue (``within``).
The two are then bivariate normal over infinitely many chatbots, and a mixture of as many normals as
there are chatbots over the dialogues of some of them: the true figures are known. Shares of 0.08 to
0.65 are what people's overall shows in the rated sets that name chatbots (DSTC9 0.08, ConTurE 0.23,
dialogue_eval 0.40, FED 0.59, USR 0.65).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from medal_judges.stats.correlation import Floats

LEVELS = (-1.2, -0.4, 0.4, 1.2)  # where an answer from 1 to 5 goes up


@dataclass(frozen=True)
class Population:
    name: str
    share: float = 0.0
    between: float = 0.0
    within: float = 0.5


NONE = Population("none")
SOME = Population("some", 0.15, 0.8)
STRONG = Population("strong", 0.4, 0.9)
OPPOSED = Population("opposed", 0.3, 0.0)


@dataclass(frozen=True)
class Rows:
    """Draws: ``human`` and the two ``judges``, shape (draws, rows), with their chatbots, which are
    the same in every draw. ``of_bots``: what people and judges think of each chatbot, shape (2,
    sets, chatbots), where chatbots are held."""

    human: Floats
    judges: tuple[Floats, Floats]
    chatbots: list[str]
    of_bots: Floats | None

    @property
    def groups(self) -> list[str]:
        return [f"c{i:04}" for i in range(len(self.chatbots))]


def draw(
    what: Population,
    sizes: tuple[int, ...],
    rng: np.random.Generator,
    draws: int,
    sets: int | None = None,
) -> Rows:
    """``sizes``: dialogues of each chatbot. The two judges are equally good, and know nothing of
    each other beyond the dialogue. With ``sets``, chatbots are drawn that many times, and then
    held; equally good judges think the same of these chatbots."""
    bot = np.repeat(np.arange(len(sizes)), sizes)
    a, b = (
        rng.normal(size=(sets or draws, len(sizes))),
        rng.normal(size=(draws, len(bot))),
    )
    held = _like(a, what.between, rng) if sets else None

    def parts(of_bot: Floats, of_row: Floats) -> Floats:
        every = np.repeat(of_bot, draws // len(of_bot), axis=0)[:, bot]
        return np.asarray(
            np.sqrt(what.share) * every + np.sqrt(1 - what.share) * of_row
        )

    def judge() -> Floats:
        of_bot = _like(a, what.between, rng) if held is None else held
        return parts(of_bot, _like(b, what.within, rng))

    of_bots = None if held is None else np.sqrt(what.share) * np.stack([a, held])
    return Rows(parts(a, b), (judge(), judge()), [f"b{i:02}" for i in bot], of_bots)


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


def truths(
    what: Population,
    sizes: tuple[int, ...],
    shares: tuple[float, ...],
    of_bots: Floats | None,
) -> dict[str, Floats]:
    """The figures over infinitely many dialogues of the chatbots of each set, or without
    ``of_bots`` of infinitely many chatbots, by integration of the normal; shape (sets,) or (1,)."""
    from scipy.special import ndtr
    from scipy.stats import multivariate_normal, norm

    left, r, weight = 1 - what.share, what.within, np.array(sizes) / sum(sizes)
    if of_bots is None:
        r = what.share * what.between + left * r
        left, weight, of_bots = 1.0, np.ones(1), np.zeros((2, 1, 1))
    of_bots = of_bots / np.sqrt(left)  # a dialogue's part has variance 1
    x, y = of_bots
    normal = multivariate_normal([0, 0], [[1, r], [r, 1]])

    def below(points: Floats) -> Floats:
        """Shape (2, ...) -> (...)."""
        return np.asarray(normal.cdf(np.moveaxis(points, 0, -1))).reshape(
            points.shape[1:]
        )

    mean, square = of_bots @ weight, of_bots**2 @ weight
    sds = np.sqrt(1 + square - mean**2)
    found = {"pearson": (r + x * y @ weight - mean[0] * mean[1]) / (sds[0] * sds[1])}
    pairs = below((of_bots[:, :, None] - of_bots[:, :, :, None]) / np.sqrt(2))
    found["kendall"] = 4 * pairs @ weight @ weight - 1
    nodes, by = np.polynomial.hermite_e.hermegauss(30)
    by /= by.sum()
    one, two = nodes[:, None], r * nodes[:, None] + np.sqrt(1 - r * r) * nodes
    ranks = []
    for bots in zip(x, y, strict=True):
        # How many rows of all chatbots lie below those of one, people's and the judge's
        f, g = (
            np.array([ndtr(side[..., None] + m - bot) @ weight for m in bot])
            for side, bot in zip((one, two), bots, strict=True)
        )
        ranks.append(12 * weight @ ((f * g) @ by @ by) - 3)
    found["spearman"] = np.array(ranks)
    found["within_system"] = np.full(len(x), 6 / np.pi * np.arcsin(what.within / 2))
    for share in shares:
        cut = norm.isf(share) / np.sqrt(left)
        both, (people, judge) = (
            below(of_bots - cut) @ weight,
            ndtr(of_bots - cut) @ weight,
        )
        found[f"f1_present {share}"] = 2 * both / (people + judge)
        found[f"f1_absent {share}"] = (
            2 * (1 - people - judge + both) / (2 - people - judge)
        )
        of_all = (people + judge) / 2
        found[f"alpha {share}"] = 1 - (of_all - both) / (of_all * (1 - of_all))
    edges = np.array([-20.0, *LEVELS, 20.0]) / np.sqrt(left)
    points = np.stack(np.meshgrid(edges, edges, indexing="ij"))
    grid = below(points[:, None, None] - of_bots[..., None, None])
    joint = np.diff(np.diff(grid, axis=-1), axis=-2)
    found["alpha 1-5"] = np.array(
        [_ordinal_alpha(np.tensordot(weight, table, 1)) for table in joint]
    )
    return found


def _ordinal_alpha(joint: Floats) -> float:
    """Krippendorff's ordinal alpha of a table of two annotators' answers, shares of all rows."""
    joint = (joint + joint.T) / 2
    share = joint.sum(axis=0)
    middle = np.cumsum(share) - share / 2
    delta = (middle[:, None] - middle) ** 2
    return float(1 - (joint * delta).sum() / (np.outer(share, share) * delta).sum())
