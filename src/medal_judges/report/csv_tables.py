"""The figures of the page as CSV, in full precision and straight from the records."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from medal_judges.cells import plain_cell
from medal_judges.eval.metaeval.cascade import COSTS
from medal_judges.eval.page.arrangement import Arrangement, unique_slugs
from medal_judges.eval.page.calibration import bins
from medal_judges.report.numbers import primary_metric, under_floor
from medal_judges.stats.results import CascadeCurve, Cell, Estimate, PValue, ResultRow

Line = Sequence[object]
_ROW = ("judge", "set", "level", "dimension", "kind")
_ESTIMATE = ("value", "low", "high", "p_value", "reason")


def write_csv(view: Arrangement, folder: Path) -> list[Path]:
    """Write every table; paths in the order written. Undefined is an empty cell with a reason.

    Rows under the coverage floor keep their figures here, marked in ``under_floor``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rows, curves = view.benchmark.rows, view.benchmark.cascades
    tables: list[tuple[str, Line, Iterable[Line]]] = [
        ("figures", (*_ROW, *_COVERAGE, "metric", *_ESTIMATE), _figures(rows)),
        ("ceilings", (*_ROW, "slice", "n", "who", "metric", *_ESTIMATE), _ceilings(rows)),
        ("slices", (*_ROW, "slice", "n", "metric", *_ESTIMATE), _slices(rows)),
        ("counts", (*_ROW, "count", "n"), _counts(rows)),
        ("points", (*_ROW, *_POINT), _points(rows)),
        ("calibration", (*_ROW, *_BIN), _calibration(rows)),
        ("disagreements", _DISAGREEMENT, _disagreements(view)),
        (
            "cascades",
            (*_CURVE, *_ESTIMATE, "at_random", *COSTS),
            _cascades(curves),
        ),
        ("signatures", (*_ROW, "signature"), ((*_at(row), row.signature) for row in rows)),
        ("facts", ("fact", "value"), view.benchmark.facts),
    ]
    written = [write_table(folder / f"{name}.csv", head, lines) for name, head, lines in tables]
    further = view.benchmark.tables
    for name, table in zip(unique_slugs([t.title for t in further]), further, strict=True):
        lines = [[_cell(cell) for cell in row] for row in table.rows]
        written.append(write_table(folder / f"table-{name}.csv", table.columns, lines))
    return written


_BIN = ("mean_score_on_human_scale", "mean_human", "n")
_COVERAGE = ("n", "scored", "coverage", "under_floor")
_CURVE = ("cheap", "dear", "set", "level", "dimension", "n", "share", "deferred")
_POINT = ("id", "turn", "human", "score", "lang", "chatbot", "group", "weight")
_TURN = ("turn", "role", "content", "contribution", "baseline", "unit")
_RANKED = ("id", "human", "score", "human_rank", "score_rank")
_DISAGREEMENT = ("judge", "set", "dimension", *_RANKED, *_TURN)


def write_table(path: Path, head: Line, lines: Iterable[Line]) -> Path:
    """Write one table and return its path; None is an empty cell. A text that a spreadsheet would
    take for a formula gets an apostrophe before it."""
    # Half surrogate pairs (legal in JSON, not in UTF-8) are written as \udXXX.
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        for line in chain((head,), lines):
            writer.writerow([plain_cell(cell) for cell in line])
    return path


def _at(row: ResultRow) -> tuple[object, ...]:
    return row.judge, row.set_name, row.level, row.dimension, row.kind


def _estimate(found: Estimate) -> tuple[object, ...]:
    return found.value, found.low, found.high, found.p_value, found.reason


def _cell(cell: Cell) -> object:
    """An Estimate as one cell: value, then the interval in brackets, in full precision."""
    if isinstance(cell, PValue):
        return cell.value
    if not isinstance(cell, Estimate):
        return cell
    if cell.value is None:
        return f"undefined: {cell.reason}" if cell.reason else None
    if cell.low is None or cell.high is None:
        return cell.value
    return f"{cell.value!r} [{cell.low!r}, {cell.high!r}]"


def _figures(rows: Sequence[ResultRow]) -> Iterator[Line]:
    for row in rows:
        covered = (row.n, row.scored, row.coverage, under_floor(row))
        for metric, found in row.metrics.items():
            yield *_at(row), *covered, metric, *_estimate(found)


def _ceilings(rows: Sequence[ResultRow]) -> Iterator[Line]:
    """One annotator against the others, the judge against the same others, and what lies between;
    ``slice`` is empty for the whole set."""
    for row in rows:
        whole = (*_at(row), None, row.ceiling_rows)
        sides = (("annotator", row.ceiling), ("judge", row.like_for_like))
        for who, figures in sides:
            for metric, found in figures.items():
                yield *whole, who, metric, *_estimate(found)
        if row.ceiling_difference is not None:
            metric = primary_metric(row.kind)
            yield *whole, "judge minus annotator", metric, *_estimate(row.ceiling_difference)
        sliced = (("annotator", row.slice_ceilings), ("judge", row.slice_like_for_like))
        for who, slices in sliced:
            for name, figures in slices.items():
                for metric, found in figures.items():
                    yield *_at(row), name, row.slice_sizes.get(name), who, metric, *_estimate(found)


def _slices(rows: Sequence[ResultRow]) -> Iterator[Line]:
    for row in rows:
        for name, metrics in row.slices.items():
            for metric, found in metrics.items():
                yield *_at(row), name, row.slice_sizes.get(name), metric, *_estimate(found)


def _counts(rows: Sequence[ResultRow]) -> Iterator[Line]:
    for row in rows:
        for name, count in row.counts.items():
            yield *_at(row), name, count


def _points(rows: Sequence[ResultRow]) -> Iterator[Line]:
    for row in rows:
        for p in row.points:
            yield *_at(row), p.id, p.turn, p.human, p.score, p.lang, p.chatbot, p.group, p.weight


def _calibration(rows: Sequence[ResultRow]) -> Iterator[Line]:
    for row in rows:
        for found in bins(row) if row.points else ():
            yield *_at(row), found.score, found.human, found.n


def _cascades(curves: Sequence[CascadeCurve]) -> Iterator[Line]:
    for c in curves:
        about = (c.cheap, c.dear, c.set_name, c.level, c.dimension, c.n)
        for p in c.points:
            costs = (p.cost.get(key) for key in COSTS)
            yield *about, p.share, p.deferred, *_estimate(p.spearman), p.at_random, *costs


def _disagreements(view: Arrangement) -> Iterator[Line]:
    for d in view.benchmark.disagreements:
        about = (d.judge, d.set_name, d.dimension, d.id)
        figures = (d.human, d.score, d.human_rank, d.score_rank)
        c = d.contributions
        if c is not None and len(c.turns) != len(d.turns):  # as on the page
            c = None
        for i, (role, text) in enumerate(d.turns):
            told = (None, None, None) if c is None else (c.turns[i], c.baseline, c.unit)
            yield *about, *figures, i, role, text, *told
