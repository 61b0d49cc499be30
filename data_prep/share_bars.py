"""A panel of bars for shares by name, with their intervals."""

from __future__ import annotations

from collections.abc import Mapping

from medal_judges.report.figure import Bar, Bars, BarSegment
from medal_judges.report.table import DASH, number
from medal_judges.stats.estimate import Estimate


def share_bars(title: str, shares: Mapping[str, Estimate], description: str) -> Bars:
    """Returns one bar for each name in ``shares`` (0 to 1), in percent. A share without a value has
    no bar, and its reason as a tooltip. ``description`` is for screen readers."""
    bars = []
    longest = 0.0
    for name, share in shares.items():
        if share.value is None:
            bars.append(Bar(name, (), text=DASH, tooltip=f"{name}: {share.reason}"))
            continue
        percent = 100 * share.value
        interval = None
        if share.low is not None and share.high is not None:
            interval = (100 * share.low, 100 * share.high)
        longest = max(longest, share.value, share.high or 0.0)
        bars.append(Bar(name, [BarSegment(percent, 1)], interval, number(percent, 1)))
    return Bars(title, bars, 100 * longest or 1.0, description)
