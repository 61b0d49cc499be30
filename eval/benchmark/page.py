"""Page: a benchmark as one self-contained HTML file, with its figures and tables beside it."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup

from medal_judges.eval.benchmark.figures import Benchmark
from medal_judges.eval.benchmark.leaderboard import (
    Figures,
    View,
    heat_maps,
    leaderboard,
    slices,
    systems,
)
from medal_judges.eval.benchmark.plots import calibration, cascades, scatter
from medal_judges.eval.metaeval.cascade import COSTS
from medal_judges.report.chat import TURN_KEY, account, chat_html
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


def write_report(benchmark: Benchmark, output_dir: Path) -> Path:
    """Writes report.html, tables/*.csv and figures/* under ``output_dir``; returns the page's path.

    The same benchmark gives the same bytes. Raises MedalError for rows that do not fit one table.
    """
    view, rows = View(benchmark), benchmark.rows
    further: list[Block] = [
        table
        if len(table.rows) <= _LONG
        else Fold(f"{table.title}: {len(table.rows)} lines", [table])
        for table in benchmark.tables
    ]
    cards: list[Block] = [TURN_KEY] if benchmark.disagreements else []
    for judge in dict.fromkeys([*view.judges, *(d.judge for d in benchmark.disagreements)]):
        shown = [
            fragment(
                __package__,
                "disagreement.html",
                item=item,
                track=rank_svg(item.human_rank, item.score_rank),
                account=account(item.contributions, len(item.turns)),
                chat=chat_html(item.turns, item.contributions),
            )
            for item in benchmark.disagreements
            if item.judge == judge
        ]
        if shown:
            body = Markup('<div class="cards">{}</div>').format(Markup("").join(shown))
            cards.append(Fold(f"{judge}: {len(shown)} dialogues", [body], is_open=len(cards) == 1))
    heading = "Where judge and people differ most"
    figures: Figures = {}
    sections = [
        leaderboard(view, figures),
        systems(benchmark.systems),
        scatter(view, figures),
        heat_maps(view, figures),
        calibration(view, figures),
        slices(view, "lang", "Language"),
        slices(view, "chatbot", "Chatbot"),
        Section("tables", "Further tables", further),
        cascades(benchmark.cascades, figures),
        Section("disagreements", heading, cards, link="Disagreements"),
        facts_section(benchmark.facts),
    ]
    signatures: list[Block] = []
    for judge in view.judges:
        own = dict.fromkeys(row.signature for row in rows if row.judge == judge)
        items = Markup("").join(Markup("<li><code>{}</code></li>").format(each) for each in own)
        listed = Markup('<ul class="signatures">{}</ul>').format(items)
        signatures.append(Fold(f"{judge}: {counted([(len(own), 'signature')])}", [listed]))
    counts = [
        (len(view.judges), "judge"),
        (len(view.labels), "set"),
        (len({row.dimension for row in rows}), "dimension"),
        (len({point.lang for row in rows for point in row.points}), "language"),
    ]
    return write_page(
        output_dir / "report.html",
        benchmark.title,
        counted((n, name) for n, name in counts if n),
        sections,
        foot=Section("signatures", "Signatures", signatures),
        leads=__package__,
        tables=_sheets(benchmark),
        figures=figures,
    )


def _sheets(benchmark: Benchmark) -> dict[str, Table | Sheet]:
    """The CSV tables by file name, in full precision; undefined is an empty cell with a reason.

    Rows below the minimum coverage keep their figures here, marked in ``under_floor``.
    """

    def values(estimate: Estimate) -> list[object]:
        return [getattr(estimate, name) for name in _ESTIMATE]

    figures, slices, curves, orders = [], [], [], []
    for r in benchmark.rows:
        at = (r.judge, r.set_name, r.level, r.dimension, r.kind)
        whole = (*at, r.n, r.scored, r.coverage, r.under_floor)
        figures += [(*whole, metric, *values(e)) for metric, e in r.metrics.items()]
        for name, part in r.slices.items():
            size = r.slice_sizes.get(name)
            slices += [(*at, name, size, metric, *values(e)) for metric, e in part.items()]
    for c in benchmark.cascades:
        about = (c.weak, c.strong, c.set_name, c.level, c.dimension, c.n)
        for p in c.points:
            costs = [p.cost.get(key) for key in COSTS]
            curves.append((*about, p.share, p.deferred, *values(p.spearman), p.at_random, *costs))
    for s in benchmark.systems:
        place = (s.judge, s.set_name, s.level, s.dimension, s.systems, s.rows)
        orders += [
            (*place, metric, *values(e), s.split_half.get(metric))
            for metric, e in s.figures.items()
        ]
    found: dict[str, Table | Sheet] = {
        "figures": (
            (*_ROW, "n", "scored", "coverage", "under_floor", "metric", *_ESTIMATE),
            figures,
        ),
        "slices": ((*_ROW, "slice", "n", "metric", *_ESTIMATE), slices),
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
    }  # fmt: skip
    slugs = unique_slugs([table.title for table in benchmark.tables])
    named = (f"table-{slug}" for slug in slugs)
    return found | dict(zip(named, benchmark.tables, strict=True))
