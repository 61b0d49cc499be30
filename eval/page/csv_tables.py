"""The figures of the page as CSV, in full precision and straight from the records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from medal_judges.eval.metaeval.cascade import COSTS
from medal_judges.eval.metaeval.results import CascadeCurve, Disagreement, ResultRow
from medal_judges.eval.metaeval.system_level import SystemAgreement
from medal_judges.eval.page.arrangement import Arrangement, primary_metric
from medal_judges.eval.page.plots import bins
from medal_judges.report.page import Sheet
from medal_judges.report.table import Table, unique_slugs
from medal_judges.stats.estimate import Estimate

Line = Sequence[object]
_ROW = ("judge", "set", "level", "dimension", "kind")
_ESTIMATE = ("value", "low", "high", "p_value", "reason")
_COVERAGE = ("n", "scored", "coverage", "under_floor")
_CURVE = ("weak", "strong", "set", "level", "dimension", "n", "share", "deferred")
_POINT = ("id", "turn", "human", "score", "lang", "chatbot", "group", "weight")
_TURN = ("turn", "role", "content", "contribution", "baseline", "unit")
_ORDER = ("judge", "set", "level", "dimension", "systems", "rows", "metric")
_SYSTEMS = (*_ORDER, *_ESTIMATE, "people_split_half")
_RANKED = ("id", "human", "score", "human_rank", "score_rank")
_DISAGREEMENT = ("judge", "set", "dimension", *_RANKED, *_TURN)


def sheets(view: Arrangement) -> dict[str, Table | Sheet]:
    """Every table by file name. Undefined is an empty cell with a reason.

    Rows under the coverage floor keep their figures here, marked in ``under_floor``.
    """
    rows = view.benchmark.rows
    tables: list[tuple[str, Sequence[str], Iterable[Line]]] = [
        ("figures", (*_ROW, *_COVERAGE, "metric", *_ESTIMATE), _figures(rows)),
        ("ceilings", (*_ROW, "slice", "n", "who", "metric", *_ESTIMATE), _ceilings(rows)),
        ("slices", (*_ROW, "slice", "n", "metric", *_ESTIMATE), _slices(rows)),
        (
            "counts",
            (*_ROW, "count", "n"),
            ((*_at(row), name, count) for row in rows for name, count in row.counts.items()),
        ),
        (
            "points",
            (*_ROW, *_POINT),
            ((*_at(row), *(getattr(p, n) for n in _POINT)) for row in rows for p in row.points),
        ),
        (
            "calibration",
            (*_ROW, "mean_score_on_human_scale", "mean_human", "n"),
            (
                (*_at(row), part.score, part.human, part.n)
                for row in rows
                for part in (bins(row) if row.points else ())
            ),
        ),
        ("disagreements", _DISAGREEMENT, _disagreements(view.benchmark.disagreements)),
        (
            "cascades",
            (*_CURVE, *_ESTIMATE, "at_random", *COSTS),
            _cascades(view.benchmark.cascades),
        ),
        ("systems", _SYSTEMS, _systems(view.benchmark.systems)),
        ("signatures", (*_ROW, "signature"), ((*_at(row), row.signature) for row in rows)),
        ("facts", ("fact", "value"), view.benchmark.facts),
    ]
    further = view.benchmark.tables
    names = [f"table-{slug}" for slug in unique_slugs([table.title for table in further])]
    found: dict[str, Table | Sheet] = {name: (head, lines) for name, head, lines in tables}
    return found | dict(zip(names, further, strict=True))


def _at(row: ResultRow) -> tuple[object, ...]:
    return row.judge, row.set_name, row.level, row.dimension, row.kind


def _estimate(estimate: Estimate) -> tuple[object, ...]:
    return tuple(getattr(estimate, name) for name in _ESTIMATE)


def _lines(at: Line, figures: Mapping[str, Estimate]) -> Iterator[Line]:
    """A line for each metric."""
    for metric, estimate in figures.items():
        yield *at, metric, *_estimate(estimate)


def _figures(rows: Sequence[ResultRow]) -> Iterator[Line]:
    for row in rows:
        yield from _lines(
            (*_at(row), row.n, row.scored, row.coverage, row.under_floor), row.metrics
        )


def _ceilings(rows: Sequence[ResultRow]) -> Iterator[Line]:
    """One annotator against the others, the judge against the same others and against what
    annotators share, and what lies between;
    ``slice`` is empty for the whole set."""
    for row in rows:
        whole = (*_at(row), None, row.ceiling_rows)
        yield from _lines((*whole, "annotator"), row.ceiling)
        yield from _lines((*whole, "judge"), row.like_for_like)
        yield from _lines((*whole, "judge, noise-free"), row.noise_free)
        if row.ceiling_difference is not None:
            difference = {primary_metric(row.kind): row.ceiling_difference}
            yield from _lines((*whole, "judge minus annotator"), difference)
        sliced = (("annotator", row.slice_ceilings), ("judge", row.slice_like_for_like))
        for who, slices in sliced:
            for name, figures in slices.items():
                yield from _lines((*_at(row), name, row.slice_sizes.get(name), who), figures)


def _slices(rows: Sequence[ResultRow]) -> Iterator[Line]:
    for row in rows:
        for name, figures in row.slices.items():
            yield from _lines((*_at(row), name, row.slice_sizes.get(name)), figures)


def _cascades(curves: Sequence[CascadeCurve]) -> Iterator[Line]:
    for c in curves:
        about = (c.weak, c.strong, c.set_name, c.level, c.dimension, c.n)
        for p in c.points:
            costs = (p.cost.get(key) for key in COSTS)
            yield *about, p.share, p.deferred, *_estimate(p.spearman), p.at_random, *costs


def _systems(agreements: Sequence[SystemAgreement]) -> Iterator[Line]:
    for one in agreements:
        about = (one.judge, one.set_name, one.level, one.dimension, one.systems, one.rows)
        for metric, estimate in one.figures.items():
            yield *about, metric, *_estimate(estimate), one.split_half.get(metric)


def _disagreements(disagreements: Sequence[Disagreement]) -> Iterator[Line]:
    for d in disagreements:
        about = (d.judge, d.set_name, d.dimension, *(getattr(d, name) for name in _RANKED))
        given = d.matched_contributions
        for i, (role, text) in enumerate(d.turns):
            moved = (given.turns[i], given.baseline, given.unit) if given else (None, None, None)
            yield *about, i, role, text, *moved
