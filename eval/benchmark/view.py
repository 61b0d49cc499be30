"""What a page of a benchmark may show of its result rows: by set, dimension and judge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from medal_judges.eval.metaeval.metaeval import Figures, ResultRow
from medal_judges.records.signature import Signature, require_comparable
from medal_judges.report.table import checked, unique_slugs
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import MIN_ROWS

# Field of a ResultRow -> the field with the same figures of its slices.
_OF_SLICES = {
    "metrics": "slices",
    "like_for_like": "slice_like_for_like",
    "ceiling": "slice_ceilings",
}


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
        self._rows: dict[tuple[str, str], list[ResultRow]] = {}
        for row in rows:
            self._rows.setdefault((row.set_name, row.dimension), []).append(row)
        for rows_of_table in self._rows.values():
            rows_of_table.sort(key=lambda row: self.judges.index(row.judge))
            _require_comparable(rows_of_table)
        self.headlines: dict[str, str] = {}
        for name, dimension in self.tables(binary=False):
            self.headlines.setdefault(name, dimension)

    def dimensions(self, name: str, *, binary: bool | None = None) -> list[str]:
        """Returns the dimensions of a set, ``overall`` first; only issues, or only others."""
        dimensions = []
        for (set_name, dimension), rows in self._rows.items():
            is_issue = rows[0].kind == "binary"
            if set_name == name and binary in (None, is_issue):
                dimensions.append(dimension)
        return sorted(dimensions, key=lambda dimension: dimension != "overall")

    def tables(self, *, binary: bool) -> Iterator[tuple[str, str]]:
        """Yields (set, dimension), only of issues, or only of others."""
        for name in self.sets:
            for dimension in self.dimensions(name, binary=binary):
                yield name, dimension

    def rows(self, name: str, dimension: str) -> list[ResultRow]:
        """Returns one row a judge, in the judges' order."""
        return self._rows[name, dimension]

    def row(self, judge: str, name: str, dimension: str) -> ResultRow | None:
        """Returns the row of a judge; None if it was not run there."""
        for row in self._rows[name, dimension]:
            if row.judge == judge:
                return row
        return None


def _slugs_by_name(names: Iterable[str]) -> dict[str, str]:
    distinct_names = list(dict.fromkeys(names))
    return dict(zip(distinct_names, unique_slugs(distinct_names), strict=True))


def _require_comparable(rows: Sequence[ResultRow]) -> None:
    signatures = []
    for row in rows:
        signature = Signature.parse(row.signature)
        # A signature without data (a bare baseline) cannot contradict the others.
        if signature.data is not None:
            signatures.append(signature)
    require_comparable(signatures)


def slice_names(rows: Sequence[ResultRow], part: str) -> list[str]:
    """Returns the slices by ``part`` (lang or chatbot) that any of the rows has, sorted."""
    names = set().union(*(row.slices for row in rows))
    return sorted(name for name in names if name.startswith(f"{part}:"))


def _figures(row: ResultRow, source: str, part: str) -> Figures:
    """Returns the figures in the field ``source`` of a row, or those of its slice ``part``."""
    figures: Figures = getattr(row, source)
    if part:
        figures = getattr(row, _OF_SLICES[source]).get(part, {})
    return figures


def shown(
    row: ResultRow | None, metric: str, source: str = "metrics", part: str = ""
) -> Estimate:
    """Returns what the page prints for ``metric`` of a field of the row (``like_for_like``), or of
    a slice such as ``lang:de``: no number if coverage is below the minimum."""
    if row is None:
        return Estimate(None, reason="this judge was not run here")
    if row.under_floor:
        coverage = f"{100 * (row.coverage or 0):.1f}%"
        floor = f"{100 * row.min_coverage:g}%"
        reason = (
            f"coverage {coverage} is below the minimum of {floor}: no headline figure"
        )
        return Estimate(None, reason=reason)
    return checked(_figures(row, source, part).get(metric))


def ranking(row: ResultRow | None, metric: str) -> Estimate:
    """Returns the number that ranks the judges: ``shown``, or None if fewer than 10 rows are
    scored."""
    if row is not None and row.scored < MIN_ROWS:
        return Estimate(
            None, reason=f"{row.scored} rows, fewer than {MIN_ROWS}: no rank"
        )
    return shown(row, metric)


def human_ceiling(rows: Sequence[ResultRow], metric: str, part: str = "") -> Estimate:
    """Returns the human ceiling of a set, or of a slice such as ``lang:de``: that of the
    first row whose ceiling has a value."""
    reason = "no human ceiling: the set has no second annotator"
    if part:
        reason = "not computed"
    ceilings = []
    for row in rows:
        estimate = _figures(row, "ceiling", part).get(metric)
        if estimate is not None:
            ceilings.append(checked(estimate))
    missing = Estimate(None, reason=reason)
    return min(ceilings, key=lambda ceiling: ceiling.value is None, default=missing)
