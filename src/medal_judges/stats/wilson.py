"""Interval of a share of independent trials, also where the share is 0 or 1."""

from __future__ import annotations

import math


def wilson(successes: float, n: float) -> tuple[float, float]:
    """Wilson's 95% score interval of ``successes / n`` (1927, "Probable inference").

    ``successes`` may be a fraction: a share of groups whose rows do not all agree.
    ``n`` is at least 1, and may be a fraction too (an effective size); both ends lie in [0, 1].
    """
    z2 = 1.959963984540054**2
    share = successes / n
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = math.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    return max(0.0, middle - half), min(1.0, middle + half)
