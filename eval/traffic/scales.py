"""Scales: a judgement has numbers only; what they mean follows from the rubric of its judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from medal_judges.records.dimension import Dimension, load_rubric
from medal_judges.records.signature import Signature, content_hash

Range = tuple[float, float]


def scales_of(
    ranges: Mapping[str, Range], signatures: Sequence[str], rubric: str | None = None
) -> tuple[dict[str, Dimension], list[str]]:
    """The dimension of each name, and the names that no rubric knows.

    ``ranges``: the lowest and highest score of each. A stated ``rubric`` comes first, then the
    shipped one that the judge's signature names by its hash, then the smallest shipped one that
    has all names, then for each name the narrowest shipped scale that holds its scores. A name that
    no rubric knows is taken as graded over its own range, higher being better.
    """
    known = {} if rubric is None else {d.name: d for d in load_rubric(rubric)}
    shipped = _shipped()
    hashes = {Signature.parse(text).rubric for text in signatures}
    named = [each for each in shipped if content_hash([d.to_record() for d in each]) in hashes]
    covering = sorted(
        (each for each in shipped if _covers(each, ranges)), key=lambda each: len(each)
    )
    for dimensions in [*named, *covering[:1]]:
        known = {d.name: d for d in dimensions} | known
    found = {name: known.get(name) or _narrowest(name, ranges[name], shipped) for name in ranges}
    assumed = [name for name, dimension in found.items() if dimension is None]
    return {
        name: dimension or _own_range(name, ranges[name]) for name, dimension in found.items()
    }, assumed


@cache
def _shipped() -> tuple[tuple[Dimension, ...], ...]:
    folder = files("medal_judges.configs") / "rubrics"
    names = sorted(path.name.removesuffix(".yaml") for path in folder.iterdir())
    return tuple(load_rubric(name) for name in names)


def _holds(dimension: Dimension, span: Range) -> bool:
    return dimension.low - 1e-6 <= span[0] and span[1] <= dimension.high + 1e-6


def _covers(dimensions: Sequence[Dimension], ranges: Mapping[str, Range]) -> bool:
    by_name = {d.name: d for d in dimensions}
    return all(name in by_name and _holds(by_name[name], span) for name, span in ranges.items())


def _narrowest(name: str, span: Range, shipped: Sequence[Sequence[Dimension]]) -> Dimension | None:
    fitting = [d for each in shipped for d in each if d.name == name and _holds(d, span)]
    return min(fitting, key=lambda d: d.high - d.low, default=None)


def _own_range(name: str, span: Range) -> Dimension:
    low, high = span
    return Dimension(name, "continuous", low, high if high > low else low + 1)
