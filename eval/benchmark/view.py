"""What a page of a benchmark may show of its result rows: by set, dimension and judge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from medal_judges.eval.metaeval.metaeval import ResultRow
from medal_judges.records.signature import Signature, require_comparable
from medal_judges.report.table import checked, unique_slugs
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import MIN_ROWS


class View:
    """Result rows by set, dimension and judge, in order of appearance.

    ``sets`` and ``slugs`` map the names of sets and dimensions to those in file names;
    ``headlines`` maps each set to its ``overall`` or first graded dimension. Raises MedalError if
    signatures of one table differ in data or dimension.
    """

    def __init__(self, rows: Sequence[ResultRow]) -> None:
        self.judges = list(dict.fromkeys(row.judge for row in rows))
        self.sets = _slugs_by_name(row.set_name for row in rows)
        self.slugs = _slugs_by_name(row.dimension for row in rows)
        self._rows: dict[tuple[str, str], dict[str, ResultRow]] = {}
        for row in rows:
            self._rows.setdefault((row.set_name, row.dimension), {})[row.judge] = row
        for rows_by_judge in self._rows.values():
            # A signature without data (a bare baseline) cannot contradict the others.
            signatures = [
                Signature.parse(row.signature) for row in rows_by_judge.values()
            ]
            require_comparable([s for s in signatures if s.data is not None])
        self.headlines: dict[str, str] = {}
        for name in self.sets:
            graded = self.dimensions(name, binary=False)
            if graded:
                self.headlines[name] = graded[0]

    def dimensions(self, name: str, *, binary: bool | None = None) -> list[str]:
        """Returns the dimensions of a set, ``overall`` first; only issues, or only others."""
        dimensions = []
        for set_name, dimension in self._rows:
            if set_name == name:
                is_issue = self.rows(name, dimension)[0].kind == "binary"
                if binary in (None, is_issue):
                    dimensions.append(dimension)
        return sorted(dimensions, key=lambda dimension: dimension != "overall")

    def tables(self, *, binary: bool | None = None) -> Iterator[tuple[str, str]]:
        """Yields (set, dimension), only of issues, or only of others."""
        for name in self.sets:
            for dimension in self.dimensions(name, binary=binary):
                yield name, dimension

    def rows(self, name: str, dimension: str) -> list[ResultRow]:
        """Returns one row a judge, in the judges' order."""
        rows_by_judge = self._rows[name, dimension]
        return [rows_by_judge[judge] for judge in self.judges if judge in rows_by_judge]

    def row(self, judge: str, name: str, dimension: str) -> ResultRow | None:
        return self._rows[name, dimension].get(judge)


def _slugs_by_name(names: Iterable[str]) -> dict[str, str]:
    distinct_names = list(dict.fromkeys(names))
    return dict(zip(distinct_names, unique_slugs(distinct_names), strict=True))


def shown(row: ResultRow | None, metric: str, source: str = "metrics") -> Estimate:
    """Returns what the page prints for ``metric`` of a field of the row (``like_for_like``): no
    number if coverage is below the minimum."""
    if row is None:
        return Estimate(None, reason="this judge was not run here")
    if row.under_floor:
        coverage = f"{100 * (row.coverage or 0):.1f}%"
        floor = f"{100 * row.min_coverage:g}%"
        reason = (
            f"coverage {coverage} is below the minimum of {floor}: no headline figure"
        )
        return Estimate(None, reason=reason)
    return checked(getattr(row, source).get(metric))


def ranking(row: ResultRow | None, metric: str) -> Estimate:
    """Returns the number that ranks the judges: ``shown``, or None if fewer than 10 rows are
    scored."""
    if row is not None and row.scored < MIN_ROWS:
        return Estimate(
            None, reason=f"{row.scored} rows, fewer than {MIN_ROWS}: no rank"
        )
    return shown(row, metric)


def human_ceiling(rows: Sequence[ResultRow], metric: str, part: str = "") -> Estimate:
    """Returns the human ceiling of a set, or of a slice such as ``lang:de``."""
    ceilings = []
    for row in rows:
        ceiling = row.ceiling
        if part:
            ceiling = row.slice_ceilings.get(part, {})
        if metric in ceiling:
            ceilings.append(ceiling[metric])
    for estimate in ceilings:
        if estimate.value is not None:
            return checked(estimate)
    if ceilings:
        return checked(ceilings[0])
    if part:
        return checked(None)
    return Estimate(None, reason="no human ceiling: the set has no second annotator")
