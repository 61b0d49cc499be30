"""Shares in percent, and a panel of bars for shares by name."""

from __future__ import annotations

from collections.abc import Mapping

from medal_judges.report.figure import Bar, Bars, BarSegment
from medal_judges.report.table import DASH, number
from medal_judges.stats.estimate import Estimate


def in_percent(share: Estimate) -> Estimate:
    """Returns a share (0 to 1) in percent, with its interval and reason."""
    # None stays None, and 0 stays 0.
    return Estimate(
        share.value and 100 * share.value,
        share.low and 100 * share.low,
        share.high and 100 * share.high,
        reason=share.reason,
    )


def share_bars(title: str, shares: Mapping[str, Estimate]) -> Bars:
    """Returns one bar for each name in ``shares`` (0 to 1), in percent, with its interval.

    A share without a value has no bar.
    """
    bars = []
    longest = 0.0
    for name, share in shares.items():
        percent = in_percent(share)
        if percent.value is None:
            bars.append(Bar(name, (), text=DASH))
            continue
        interval = None
        if percent.low is not None and percent.high is not None:
            interval = (percent.low, percent.high)
            longest = max(longest, percent.high)
        longest = max(longest, percent.value)
        segment = BarSegment(percent.value, 1)
        bars.append(Bar(name, [segment], interval, number(percent.value, 1)))
    return Bars(title, bars, longest or 1.0)
