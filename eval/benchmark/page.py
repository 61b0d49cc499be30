"""Page: a benchmark as one self-contained HTML file, with its figures and tables beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from markupsafe import Markup

from medal_judges.eval.benchmark.figures import Benchmark
from medal_judges.eval.benchmark.leaderboard import (
    dimension_map,
    dimension_table,
    dimensions,
    leaderboard,
    slices,
    systems,
)
from medal_judges.eval.benchmark.plots import (
    bins,
    calibration,
    calibration_figure,
    cascade_figure,
    cascades,
    scatter,
    scatter_figure,
)
from medal_judges.eval.benchmark.view import View, primary_metric
from medal_judges.eval.metaeval.cascade import COSTS
from medal_judges.report.chat import TURN_KEY, account, chat_html
from medal_judges.report.figure import Figure
from medal_judges.report.page import (
    Block,
    Fold,
    Section,
    Sheet,
    counted,
    facts_section,
    fragment,
    write_page,
)
from medal_judges.report.svg import rank_svg
from medal_judges.report.table import Table, unique_slugs
from medal_judges.stats.estimate import Estimate

_LONG = 40  # longer further tables are folded
_ROW = ("judge", "set", "level", "dimension", "kind")
_ESTIMATE = ("value", "low", "high", "p_value", "reason")
_POINT = ("id", "turn", "human", "score", "lang", "chatbot", "group", "weight")
_RANKED = ("id", "human", "score", "human_rank", "score_rank")
Line = Sequence[object]


def write_report(benchmark: Benchmark, output_dir: Path) -> Path:
    """Writes report.html, tables/*.csv and figures/* under ``output_dir``; returns the page's path.

    The same benchmark gives the same bytes. Raises MedalError for rows that do not fit one table.
    """
    view = View(benchmark)
    further: list[Block] = [
        table
        if len(table.rows) <= _LONG
        else Fold(f"{table.title}: {len(table.rows)} lines", [table])
        for table in benchmark.tables
    ]
    sections = (
        leaderboard(view),
        systems(benchmark.systems),
        scatter(view),
        dimensions(view),
        calibration(view),
        slices(view, "lang"),
        slices(view, "chatbot"),
        Section("tables", "Further tables", further),
        cascades(benchmark.cascades),
        _disagreements(view),
        facts_section(benchmark.facts),
    )
    rows = benchmark.rows
    counts = [
        (len(view.judges), "judge"),
        (len({row.set_name for row in rows}), "set"),
        (len({row.dimension for row in rows}), "dimension"),
        (len({point.lang for row in rows for point in row.points}), "language"),
    ]
    figures: dict[str, Figure | None] = {"cascades": cascade_figure(benchmark.cascades)}
    headlines = dict(view.headlines())
    for key, slug in view.set_slugs.items():
        if key in headlines:
            table = dimension_table(view, key, [headlines[key]])
            figures[f"leaderboard-{slug}"] = Figure(table.title, [table])
        figures[f"scatter-{slug}"] = scatter_figure(view, key)
        heat_map = dimension_map(view, key)
        if heat_map is not None:
            figures[f"heatmap-{slug}"] = Figure(heat_map.title, [heat_map])
        figures[f"calibration-{slug}"] = calibration_figure(view, key)
    return write_page(
        output_dir / "report.html",
        benchmark.title,
        counted((n, name) for n, name in counts if n),
        sections,
        foot=_signatures(view),
        leads=__package__,
        tables=sheets(benchmark),
        figures=figures,
    )


def _signatures(view: View) -> Section:
    """The distinct signatures by judge: the common parts in sight, the full ones in a fold."""
    blocks: list[Block] = []
    for judge in view.judges:
        rows = [row for row in view.benchmark.rows if row.judge == judge]
        signatures = list(dict.fromkeys(row.signature for row in rows))
        parts = [signature.split("|") for signature in signatures]
        shared = "|".join(p for p in parts[0] if all(p in other for other in parts))
        head = Markup('<h3 dir="auto">{}</h3><p><code>{}</code></p>')
        blocks.append(head.format(judge, shared))
        if len(signatures) > 1:
            items = (Markup("<li><code>{}</code></li>").format(each) for each in signatures)
            listed = Markup('<ul class="signatures">{}</ul>').format(Markup("").join(items))
            blocks.append(Fold(f"{len(signatures)} signatures in full", [listed]))
    return Section("signatures", "Signatures", blocks)


def _disagreements(view: View) -> Section:
    """One fold a judge, the first open."""
    places = {judge: i for i, judge in enumerate(view.judges)}
    ordered = sorted(  # stable within a judge
        view.benchmark.disagreements, key=lambda d: places.get(d.judge, len(places))
    )
    blocks: list[Block] = [TURN_KEY] if ordered else []
    for judge, group in groupby(ordered, key=lambda d: d.judge):
        cards = [
            fragment(
                __package__,
                "disagreement.html",
                item=item,
                track=rank_svg(item.human_rank, item.score_rank),
                account=account(item.contributions, len(item.turns)),
                chat=chat_html(item.turns, item.contributions),
            )
            for item in group
        ]
        body = Markup('<div class="cards">{}</div>').format(Markup("").join(cards))
        blocks.append(Fold(f"{judge}: {len(cards)} dialogues", [body], is_open=len(blocks) == 1))
    heading = "Where judge and people differ most"
    return Section("disagreements", heading, blocks, link="Disagreements")


def sheets(benchmark: Benchmark) -> dict[str, Table | Sheet]:
    """Every CSV table by file name, in full precision; undefined is an empty cell with a reason.

    Rows below the minimum coverage keep their figures here, marked in ``under_floor``.
    """
    rows = [(r, (r.judge, r.set_name, r.level, r.dimension, r.kind)) for r in benchmark.rows]

    def estimated(at: Line, figures: Mapping[str, Estimate]) -> Iterator[Line]:
        for metric, estimate in figures.items():
            yield *at, metric, *(getattr(estimate, name) for name in _ESTIMATE)

    ceilings: list[Line] = []
    for r, at in rows:
        whole = (*at, None, r.ceiling_rows)
        ceilings += estimated((*whole, "annotator"), r.ceiling)
        ceilings += estimated((*whole, "judge"), r.like_for_like)
        ceilings += estimated((*whole, "judge, noise-free"), r.noise_free)
        if r.ceiling_difference is not None:
            difference = {primary_metric(r.kind): r.ceiling_difference}
            ceilings += estimated((*whole, "judge minus annotator"), difference)
        for who, by_part in (("annotator", r.slice_ceilings), ("judge", r.slice_like_for_like)):
            for name, figures in by_part.items():
                ceilings += estimated((*at, name, r.slice_sizes.get(name), who), figures)
    curves: list[Line] = []
    for c in benchmark.cascades:
        about = (c.weak, c.strong, c.set_name, c.level, c.dimension, c.n)
        for p in c.points:
            values = [getattr(p.spearman, name) for name in _ESTIMATE]
            costs = [p.cost.get(key) for key in COSTS]
            curves.append((*about, p.share, p.deferred, *values, p.at_random, *costs))
    orders: list[Line] = []
    for one in benchmark.systems:
        about_order = (one.judge, one.set_name, one.level, one.dimension, one.systems, one.rows)
        for metric, estimate in one.figures.items():
            values = [getattr(estimate, name) for name in _ESTIMATE]
            orders.append((*about_order, metric, *values, one.split_half.get(metric)))
    turns: list[Line] = []
    for d in benchmark.disagreements:
        about_turn = (d.judge, d.set_name, d.dimension, *(getattr(d, name) for name in _RANKED))
        given = d.contributions
        fits = given is not None and len(given.turns) == len(d.turns)
        for i, (role, text) in enumerate(d.turns):
            moved = (given.turns[i], given.baseline, given.unit) if given and fits else (None,) * 3
            turns.append((*about_turn, i, role, text, *moved))
    coverage = [(r, (*at, r.n, r.scored, r.coverage, r.under_floor)) for r, at in rows]
    sliced = [
        ((*at, name, r.slice_sizes.get(name)), figures)
        for r, at in rows
        for name, figures in r.slices.items()
    ]
    found: dict[str, Table | Sheet] = {
        "figures": (
            (*_ROW, "n", "scored", "coverage", "under_floor", "metric", *_ESTIMATE),
            [line for r, at in coverage for line in estimated(at, r.metrics)],
        ),
        "ceilings": ((*_ROW, "slice", "n", "who", "metric", *_ESTIMATE), ceilings),
        "slices": (
            (*_ROW, "slice", "n", "metric", *_ESTIMATE),
            [line for at, figures in sliced for line in estimated(at, figures)],
        ),
        "counts": (
            (*_ROW, "count", "n"),
            [(*at, name, count) for r, at in rows for name, count in r.counts.items()],
        ),
        "points": (
            (*_ROW, *_POINT),
            [(*at, *(getattr(p, n) for n in _POINT)) for r, at in rows for p in r.points],
        ),
        "calibration": (
            (*_ROW, "mean_score_on_human_scale", "mean_human", "n"),
            [(*at, b.score, b.human, b.n) for r, at in rows if r.points for b in bins(r)],
        ),
        "disagreements": (
            ("judge", "set", "dimension", *_RANKED, "turn", "role", "content", "contribution",
             "baseline", "unit"),
            turns,
        ),
        "cascades": (
            ("weak", "strong", "set", "level", "dimension", "n", "share", "deferred", *_ESTIMATE,
             "at_random", *COSTS),
            curves,
        ),
        "systems": (
            ("judge", "set", "level", "dimension", "systems", "rows", "metric", *_ESTIMATE,
             "people_split_half"),
            orders,
        ),
        "signatures": ((*_ROW, "signature"), [(*at, r.signature) for r, at in rows]),
        "facts": (("fact", "value"), benchmark.facts),
    }  # fmt: skip
    slugs = unique_slugs([table.title for table in benchmark.tables])
    named = (f"table-{slug}" for slug in slugs)
    return found | dict(zip(named, benchmark.tables, strict=True))
