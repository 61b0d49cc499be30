"""Several answers to one question: one score, and how far the judge agrees with itself."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import combinations
from typing import Literal

Pool = Literal["mean", "majority", "first"]


def pooled(values: Sequence[float | None], how: Pool) -> tuple[float | None, str | None]:
    """(score, None), or (None, reason). Repeats without a score are left out of mean and majority;
    a tied majority is no score. ``first`` is the first answer, scored or not."""
    given = [v for v in values if v is not None]
    if how == "first":
        return values[0], None if values[0] is not None else "the first answer has no score"
    if not given:
        return None, "no answer has a score"
    if how == "mean":
        return statistics.fmean(given), None
    modes = statistics.multimode(given)
    if len(modes) > 1:
        told = ", ".join(f"{mode:g}" for mode in sorted(modes))
        return None, f"the answers are tied between {told}"
    return modes[0], None


def self_agreement(values: Sequence[float | None]) -> dict[str, float]:
    """``std``: standard deviation over the repeats (n - 1), as in MEDAL, Table 3. ``agreement``:
    share of pairs of repeats that give the same score. Empty with fewer than two scores."""
    given = [v for v in values if v is not None]
    if len(given) < 2:
        return {}
    pairs = [a == b for a, b in combinations(given, 2)]
    return {"std": statistics.stdev(given), "agreement": sum(pairs) / len(pairs)}
