"""Colours shared by the page and the PNG figures, told apart with every common colour vision.

The categorical colours are after Okabe and Ito (2008), darkened where they would be too pale on
white; the diverging pair is blue (positive) and orange (negative), never red and green.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

CATEGORICAL = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#B3589A",
    "#4BA3DB",
    "#C98B00",
    "#6F4FA0",
    "#806A3A",
)
OTHER = "#8A8F94"
OTHER_INDEX = len(CATEGORICAL)
POSITIVE = "#4A98C9"
NEGATIVE = "#E8873A"


def colour_of(index: int) -> str:
    """Hex colour of category ``index``; everything past the palette is the grey of 'other'."""
    return CATEGORICAL[index] if index < len(CATEGORICAL) else OTHER


def index_by_frequency(names: Iterable[str]) -> Mapping[str, int]:
    """Colour index of each name, the most frequent first, ties by name.

    Names past the palette share the index of 'other': a ninth hue could not be told apart.
    """
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    ranked = sorted(counts, key=lambda name: (-counts[name], name))
    return {name: min(i, OTHER_INDEX) for i, name in enumerate(ranked)}
