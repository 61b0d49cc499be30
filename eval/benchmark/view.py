"""View: the rows of a benchmark by judge, set and dimension, and the figures to show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from medal_judges.errors import MedalError
from medal_judges.eval.benchmark.figures import Benchmark
from medal_judges.eval.metaeval.metaeval import ResultRow
from medal_judges.records.signature import Signature, require_comparable
from medal_judges.report.numbers import checked
from medal_judges.report.table import unique_slugs
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import MIN_ROWS

HEADLINE = "overall"


@dataclass(frozen=True, slots=True)
class SetKey:
    """One set at one level (dialogue or turn)."""

    name: str
    level: str

    @property
    def label(self) -> str:
        return self.name if self.level == "dialogue" else f"{self.name} ({self.level} level)"


class View:
    """The benchmark's rows by judge, set and dimension, in order of appearance.

    Raises MedalError if a judge has two rows for the same figure, or if signatures of one table
    differ in data or dimension.
    """

    def __init__(self, benchmark: Benchmark) -> None:
        self.benchmark = benchmark
        self.judges = list(dict.fromkeys(row.judge for row in benchmark.rows))
        self.sets = list(dict.fromkeys(SetKey(r.set_name, r.level) for r in benchmark.rows))
        slugs = unique_slugs([key.label for key in self.sets])
        self.set_slugs = dict(zip(self.sets, slugs, strict=True))
        self._rows: dict[tuple[SetKey, str], dict[str, ResultRow]] = {}
        for row in benchmark.rows:
            key = SetKey(row.set_name, row.level)
            by_judge = self._rows.setdefault((key, row.dimension), {})
            if row.judge in by_judge:
                raise MedalError(
                    f"judge {row.judge!r} has two rows for {key.label}, {row.dimension}",
                    hint="give each judge its own name",
                )
            by_judge[row.judge] = row
        for by_judge in self._rows.values():
            # A signature without data (a bare baseline) cannot contradict the others.
            signatures = [Signature.parse(row.signature) for row in by_judge.values()]
            require_comparable([s for s in signatures if s.data is not None])

    def dimensions(self, key: SetKey) -> list[str]:
        """Returns the dimensions of a set, the headline one first."""
        return sorted((d for k, d in self._rows if k == key), key=lambda name: name != HEADLINE)

    def rows(self, key: SetKey, dimension: str) -> list[ResultRow]:
        """Returns one row a judge, in the judges' order."""
        by_judge = self._rows[key, dimension]
        return [by_judge[judge] for judge in self.judges if judge in by_judge]

    def row(self, judge: str, key: SetKey, dimension: str) -> ResultRow | None:
        return self._rows[key, dimension].get(judge)

    def graded(self, key: SetKey) -> list[str]:
        """Returns dimensions with more than two answers, the headline one first."""
        return [d for d in self.dimensions(key) if self.rows(key, d)[0].kind != "binary"]

    def binary(self, key: SetKey) -> list[str]:
        return [d for d in self.dimensions(key) if self.rows(key, d)[0].kind == "binary"]

    def headlines(self) -> list[tuple[SetKey, str]]:
        """Returns each set with ``overall``, or its first graded dimension."""
        return [(key, graded[0]) for key in self.sets if (graded := self.graded(key))]

    def ceiling(self, key: SetKey, dimension: str, metric: str, part: str = "") -> Estimate:
        """Returns the human ceiling, of a slice such as ``lang:de`` if ``part`` names one."""
        rows = self.rows(key, dimension)
        if part:
            found = [row.slice_ceilings.get(part, {}).get(metric) for row in rows]
        else:
            found = [row.ceiling.get(metric) for row in rows]
        known = [estimate for estimate in found if estimate is not None]
        if not known and not part:
            return Estimate(None, reason="no human ceiling: the set has no second annotator")
        defined = [estimate for estimate in known if estimate.value is not None]
        return checked(next(iter([*defined, *known]), None))


def primary_metric(kind: str) -> str:
    """Returns the headline metric of a dimension: F1+ if binary, else Spearman."""
    return "f1_present" if kind == "binary" else "spearman"


def shown(row: ResultRow | None, metric: str) -> Estimate:
    """Returns what the page prints for ``metric``: no figure if coverage is below the minimum."""
    if row is None:
        return Estimate(None, reason="this judge was not run here")
    if row.under_floor:
        percent = f"{100 * (row.coverage or 0):.1f}%"
        floor = f"{100 * row.min_coverage:g}%"
        reason = f"coverage {percent} is below the minimum of {floor}: no headline figure"
        return Estimate(None, reason=reason)
    return checked(row.metrics.get(metric))


def like_for_like(row: ResultRow, metric: str) -> Estimate:
    """Returns the judge in an annotator's place, beside the human ceiling."""
    return shown(row, metric) if row.under_floor else checked(row.like_for_like.get(metric))


def ranking(row: ResultRow | None, metric: str) -> Estimate:
    """Returns the figure that orders the judges: as ``shown``, but none for fewer than 10 rows."""
    if row is not None and row.scored < MIN_ROWS:
        return Estimate(None, reason=f"{row.scored} rows, fewer than {MIN_ROWS}: no rank")
    return shown(row, metric)


def best(figures: Sequence[Estimate]) -> float | None:
    return max((e.value for e in figures if e.value is not None), default=None)
