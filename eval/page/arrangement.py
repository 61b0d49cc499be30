"""Arrangement: the rows of a benchmark by judge, set and dimension, in order of appearance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from medal_judges.errors import MedalError
from medal_judges.eval.metaeval.results import CascadeCurve, Disagreement, ResultRow
from medal_judges.eval.metaeval.system_level import SystemAgreement
from medal_judges.records.signature import Signature, require_comparable
from medal_judges.report.numbers import checked
from medal_judges.report.table import Table, unique_slugs
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import MIN_ROWS

HEADLINE = "overall"


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Everything on the page. ``facts`` are (label, value) pairs on how it was made."""

    title: str
    rows: Sequence[ResultRow]
    disagreements: Sequence[Disagreement] = ()
    facts: Sequence[tuple[str, str]] = ()
    tables: Sequence[Table] = ()
    cascades: Sequence[CascadeCurve] = ()
    systems: Sequence[SystemAgreement] = ()


@dataclass(frozen=True, slots=True)
class SetKey:
    """One set at one level (dialogue or turn): what a table may hold together."""

    name: str
    level: str

    @property
    def label(self) -> str:
        return self.name if self.level == "dialogue" else f"{self.name} ({self.level} level)"


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
        rows = (self._rows.get((judge, key, dimension)) for judge in self.judges)
        return [row for row in rows if row is not None]

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
        ceilings = [r.ceiling[metric] for r in self.rows(key, dimension) if metric in r.ceiling]
        if not ceilings:
            return Estimate(None, reason="no human ceiling: the set has no second annotator")
        return checked(_first_defined(ceilings))

    def ceiling_rows(self, key: SetKey, dimension: str) -> int:
        """Rows with two answers or more; those of the judge that scored most of them."""
        return max(row.ceiling_rows for row in self.rows(key, dimension))

    def slice_ceiling(self, key: SetKey, dimension: str, name: str, metric: str) -> Estimate:
        """The ceiling of a slice such as ``lang:de``; the first judge's that has one."""
        parts = [row.slice_ceilings.get(name, {}).get(metric) for row in self.rows(key, dimension)]
        return checked(_first_defined([part for part in parts if part is not None]))


def _first_defined(estimates: Sequence[Estimate]) -> Estimate | None:
    """The first with a value, else the first; None where there are none."""
    known = (estimate for estimate in estimates if estimate.value is not None)
    return next(known, estimates[0] if estimates else None)


def _key(row: ResultRow) -> SetKey:
    return SetKey(row.set_name, row.level)


def _require_comparable(rows: Sequence[ResultRow]) -> None:
    # A signature that names no data (a bare baseline) cannot contradict the others.
    signatures = [Signature.parse(row.signature) for row in rows]
    require_comparable([s for s in signatures if s.data is not None])


def primary_metric(kind: str) -> str:
    """The one figure of a dimension: F1 for issue present where binary, else Spearman."""
    return "f1_present" if kind == "binary" else "spearman"


def like_for_like(row: ResultRow | None, metric: str) -> Estimate:
    """The judge in an annotator's place, as ``shown``: beside the human ceiling."""
    whole = shown(row, metric)
    if row is None or row.under_floor:
        return whole
    return checked(row.like_for_like.get(metric))


def shown(row: ResultRow | None, metric: str) -> Estimate:
    """What the page prints for ``metric``: no number where coverage is under the floor."""
    if row is None:
        return Estimate(None, reason="this judge was not run here")
    if row.under_floor:
        percent = f"{100 * (row.coverage or 0):.1f}%"
        return Estimate(
            None,
            reason=f"coverage {percent} is under the floor of {100 * row.min_coverage:g}%: "
            "no headline number",
        )
    return checked(row.metrics.get(metric))


def ranking(row: ResultRow | None, metric: str) -> Estimate:
    """What orders the judges: as ``shown``, but nothing of fewer than 10 rows."""
    if row is not None and row.scored < MIN_ROWS:
        return Estimate(None, reason=f"{row.scored} rows, fewer than {MIN_ROWS}: no rank")
    return shown(row, metric)
