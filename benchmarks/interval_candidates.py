"""What was tried for intervals of few chatbots: coverage beside that of what is used.

python benchmarks/interval_candidates.py [--simulations 500] > table.md

Pearson and F1+ (30% present), because both come from sums over each chatbot, so that a thousand
resamples of a thousand draws are a few products. Fisher's z and the logit throughout.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from interval_population import NONE, SOME, STRONG, Population, draw, present, truths
from into_docs import keep
from scipy.stats import norm, t

from medal_judges.stats.correlation import Floats
from medal_judges.stats.intervals import FIGURE, degrees, t_quantile, variance

SIZES = ((5, 20), (5, 75), (8, 12), (8, 75), (12, 50))
COMMON, RESAMPLES = 0.3, 300
Figure = Callable[[Floats], Floats]  # sums, shape (..., sums) -> figure on its scale, shape (...)


def pearson(sums: Floats) -> Floats:
    n, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    with np.errstate(all="ignore"):
        r = (xy - x * y / n) / np.sqrt((xx - x * x / n) * (yy - y * y / n))
        return np.asarray(np.arctanh(r))


def f1(sums: Floats) -> Floats:
    both, either = np.moveaxis(sums, -1, 0)
    with np.errstate(all="ignore"):
        return np.asarray(np.log(2 * both) - np.log(either - 2 * both))


def without(sums: Floats) -> Floats:
    """The sums without each chatbot in turn, shape (..., chatbots, sums)."""
    return np.asarray(sums.sum(axis=-2, keepdims=True) - sums)


def ends(sums: Floats, figure: Figure, rng: np.random.Generator) -> dict[str, tuple[float, float]]:
    """The interval of one draw by each method; ``sums``: shape (chatbots, sums)."""
    count = len(sums)
    whole, left = figure(sums.sum(axis=0)), figure(without(sums))
    if not np.isfinite(whole) or not np.isfinite(left).all():
        return {}
    error = float(np.sqrt(variance(left, whole)))
    weights = rng.multinomial(count, np.full(count, 1 / count), size=RESAMPLES).astype(float)
    drawn = figure(weights @ sums)
    kept = drawn[np.isfinite(drawn)]

    def around(half: float) -> tuple[float, float]:
        return float(whole - half), float(whole + half)

    return {
        "percentile": tuple(np.percentile(kept, [2.5, 97.5])),
        "BCa": _bca(kept, left, float(whole)),
        "bootstrap-t": _studentised(sums, weights, figure, drawn, float(whole), error),
        "wild (Webb)": around(error * _wild(left, rng)),
        "t, chatbots - 1": around(error * float(t.ppf(0.975, count - 1))),
        "used": around(error * float(t_quantile(degrees(left, FIGURE)))),
    }


def _bca(drawn: Floats, left: Floats, whole: float) -> tuple[float, float]:
    """Efron 1987."""
    shift = norm.ppf(np.clip((drawn < whole).mean(), 0.005, 0.995))
    apart = left.mean() - left
    bend = (apart**3).sum() / (6 * (apart**2).sum() ** 1.5)
    z = shift + norm.ppf([0.025, 0.975])
    low, high = np.quantile(drawn, norm.cdf(shift + z / (1 - bend * z)))
    return float(low), float(high)


def _studentised(
    sums: Floats, weights: Floats, figure: Figure, drawn: Floats, whole: float, error: float
) -> tuple[float, float]:
    """Each resample's own jackknife, over the chatbots it drew."""
    left = figure((weights @ sums)[:, None] - sums)
    apart = np.where(weights > 0, (left - drawn[:, None]) ** 2, 0.0)
    errors = np.sqrt((len(sums) - 1) / len(sums) * (weights * apart).sum(axis=1))
    with np.errstate(all="ignore"):
        ratio = (drawn - whole) / errors
    low, high = np.quantile(ratio[np.isfinite(ratio)], [0.025, 0.975])
    return whole - high * error, whole - low * error


def _wild(left: Floats, rng: np.random.Generator) -> float:
    """The 95% point of the size of t with Webb's six weights on the chatbots' parts."""
    steps = np.sqrt([0.5, 1.0, 1.5])
    signs = rng.choice(np.r_[-steps, steps], size=(2000, len(left)))
    parts = signs * (left.mean() - left)
    spread = parts.std(axis=1, ddof=1) * np.sqrt(len(left))
    with np.errstate(all="ignore"):
        return float(np.nanquantile(np.abs(parts.sum(axis=1) / spread), 0.95))


def coverage(what: Population, size: tuple[int, int], draws: int) -> dict[str, dict[str, float]]:
    rng = np.random.default_rng(size[0] * 1000 + size[1])
    bots, each = size
    rows = draw(what, (each,) * bots, rng, draws)
    shape = (draws, bots, each)
    x, y = rows.human.reshape(shape), rows.judges[0].reshape(shape)
    ones = (np.ones(shape), x, y, x * x, y * y, x * y)
    moments = np.stack([part.sum(axis=2) for part in ones], axis=-1)
    a, b = present(x, COMMON), present(y, COMMON)
    marks = np.stack([(a * b).sum(axis=2), (a + b).sum(axis=2)], axis=-1)
    true = truths(what, (COMMON,))
    score = true[f"f1_present {COMMON}"]
    asked = (
        ("r", moments, pearson, np.arctanh(true["pearson"])),
        ("F1+", marks, f1, np.log(score / (1 - score))),
    )
    found: dict[str, dict[str, float]] = {}
    for name, sums, figure, truth in asked:
        made = [ends(one, figure, rng) for one in sums]
        made = [one for one in made if one]
        for method in made[0]:
            held = np.mean([low <= truth <= high for low, high in (one[method] for one in made)])
            found.setdefault(method, {})[name] = float(held)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=500)
    parser.add_argument("--keep", action="store_true", help="write the document's table")
    asked = parser.parse_args()
    heads: list[str] = []
    lines: list[str] = []
    for what in (NONE, SOME, STRONG):
        for size in SIZES:
            found = coverage(what, size, asked.simulations)
            if not heads:
                heads = list(found)
                lines.append("| chatbots differ | rows | figure | " + " | ".join(heads) + " |")
            for name in ("r", "F1+"):
                shown = " | ".join(f"{found[head][name]:.3f}" for head in heads)
                lines.append(f"| {what.name} | {size[0]} x {size[1]} | {name} | {shown} |")
    keep("interval_candidates" if asked.keep else None, "\n".join(lines))


if __name__ == "__main__":
    main()
