"""Arrangement: the rows of a benchmark by judge, set and dimension, in order of appearance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from medal_judges.errors import MedalError
from medal_judges.report.numbers import checked
from medal_judges.signature import Signature, require_comparable
from medal_judges.stats.results import Benchmark, Estimate, ResultRow

HEADLINE = "overall"


@dataclass(frozen=True, slots=True)
class SetKey:
    """One set at one level (dialogue or turn): what a table may hold together."""

    name: str
    level: str

    @property
    def label(self) -> str:
        return self.name if self.level == "dialogue" else f"{self.name} ({self.level} level)"

    @property
    def slug(self) -> str:
        """For file names and anchors: letters, digits and dashes; see ``unique_slugs``."""
        return slug(self.label)


def slug(text: str) -> str:
    """``text`` in lower case with everything but letters and digits as single dashes."""
    kept = "".join(c if c.isascii() and c.isalnum() else "-" for c in text.lower())
    return "-".join(part for part in kept.split("-") if part) or "unnamed"


def unique_slugs(texts: Sequence[str]) -> list[str]:
    """One slug per text; a slug that is taken gets a number, so that no file is overwritten."""
    taken: set[str] = set()
    found = []
    for text in texts:
        base, name, count = slug(text), slug(text), 1
        while name in taken:
            count += 1
            name = f"{base}-{count}"
        taken.add(name)
        found.append(name)
    return found


class Arrangement:
    """The benchmark's rows, looked up by judge, set and dimension.

    Raises MedalError when a judge has two rows for the same figure, or when rows of one table
    carry signatures of different data or dimension.
    """

    def __init__(self, benchmark: Benchmark) -> None:
        self.benchmark = benchmark
        self.judges = list(dict.fromkeys(row.judge for row in benchmark.rows))
        self.sets = list(dict.fromkeys(_key(row) for row in benchmark.rows))
        slugs = unique_slugs([key.label for key in self.sets])
        self.set_slugs = dict(zip(self.sets, slugs, strict=True))
        self._rows: dict[tuple[str, SetKey, str], ResultRow] = {}
        for row in benchmark.rows:
            at = (row.judge, _key(row), row.dimension)
            if at in self._rows:
                raise MedalError(
                    f"judge {row.judge!r} has two rows for {_key(row).label}, {row.dimension}",
                    hint="give each judge its own name",
                )
            self._rows[at] = row
        for key in self.sets:
            for dimension in self.dimensions(key):
                _require_comparable(self.rows(key, dimension))

    def dimensions(self, key: SetKey) -> list[str]:
        """Dimensions of a set, the headline one first."""
        names = dict.fromkeys(r.dimension for r in self.benchmark.rows if _key(r) == key)
        return sorted(names, key=lambda name: name != HEADLINE)

    def rows(self, key: SetKey, dimension: str) -> list[ResultRow]:
        """One row per judge that was run, in the judges' order."""
        found = (self._rows.get((judge, key, dimension)) for judge in self.judges)
        return [row for row in found if row is not None]

    def row(self, judge: str, key: SetKey, dimension: str) -> ResultRow | None:
        return self._rows.get((judge, key, dimension))

    def kind(self, key: SetKey, dimension: str) -> str:
        return self.rows(key, dimension)[0].kind

    def graded(self, key: SetKey) -> list[str]:
        """Dimensions with more than two answers, the headline one first."""
        return [d for d in self.dimensions(key) if self.kind(key, d) != "binary"]

    def binary(self, key: SetKey) -> list[str]:
        return [d for d in self.dimensions(key) if self.kind(key, d) == "binary"]

    def headline(self, key: SetKey) -> str | None:
        """``overall`` where the set has it, else its first graded dimension, else None."""
        graded = self.graded(key)
        return graded[0] if graded else None

    def ceiling(self, key: SetKey, dimension: str, metric: str) -> Estimate:
        """One annotator against the others; the first judge's rows that have it."""
        for row in self.rows(key, dimension):
            found = row.ceiling.get(metric)
            if found is not None and found.value is not None:
                return checked(found)
        reasons = [r.ceiling[metric] for r in self.rows(key, dimension) if metric in r.ceiling]
        if reasons:
            return checked(reasons[0])
        return Estimate(None, reason="no human ceiling: the set has no second annotator")

    def ceiling_rows(self, key: SetKey, dimension: str) -> int:
        """Rows with two answers or more; those of the judge that scored most of them."""
        return max(row.ceiling_rows for row in self.rows(key, dimension))

    def slice_ceiling(self, key: SetKey, dimension: str, name: str, metric: str) -> Estimate:
        """The ceiling of a slice such as ``lang:de``; the first judge's that has one."""
        parts = [row.slice_ceilings.get(name, {}).get(metric) for row in self.rows(key, dimension)]
        known = [part for part in parts if part is not None]
        return checked(next((e for e in known if e.value is not None), next(iter(known), None)))


def _key(row: ResultRow) -> SetKey:
    return SetKey(row.set_name, row.level)


def _require_comparable(rows: Sequence[ResultRow]) -> None:
    # A signature that names no data (a bare baseline) cannot contradict the others.
    signatures = [Signature.parse(row.signature) for row in rows]
    require_comparable([s for s in signatures if s.data is not None])
