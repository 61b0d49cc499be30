"""A panel of shares by name, in percent."""

from __future__ import annotations

from collections.abc import Mapping

from medal_judges.report.figure import Intervals
from medal_judges.report.table import in_percent
from medal_judges.stats.intervals import Estimate


def share_panel(title: str, shares: Mapping[str, Estimate]) -> Intervals:
    """Returns a panel of a figure, with one bar in percent for each of ``shares``.

    Args:
        title: The heading of the panel.
        shares: Label of the bar -> proportion on [0, 1] with its interval.
    """
    estimates = [in_percent(share) for share in shares.values()]
    highest = [
        max(estimate.high or 0.0, estimate.value or 0.0) for estimate in estimates
    ]
    return Intervals(title, list(shares), estimates, (0.0, max(highest, default=1.0)))
