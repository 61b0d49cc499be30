"""Page: a benchmark as one self-contained HTML file, with its figures and tables beside it."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from markupsafe import Markup

from medal_judges.eval.metaeval.results import Disagreement
from medal_judges.eval.page.arrangement import Arrangement, Benchmark
from medal_judges.eval.page.csv_tables import sheets
from medal_judges.eval.page.leaderboard import (
    dimension_map,
    dimension_table,
    dimensions,
    leaderboard,
    slices,
)
from medal_judges.eval.page.plots import (
    calibration,
    calibration_figure,
    cascade_figure,
    cascades,
    scatter,
    scatter_figure,
)
from medal_judges.eval.page.systems import systems
from medal_judges.report.chat import TURN_KEY, account, chat_html
from medal_judges.report.figure import Figure
from medal_judges.report.page import (
    Block,
    Fold,
    Section,
    counted,
    facts_section,
    fragment,
    write_page,
)
from medal_judges.report.svg import rank_svg

_LONG = 40  # rows from which on a further table is folded


def write_report(benchmark: Benchmark, output_dir: Path) -> Path:
    """Writes report.html, tables/*.csv and figures/* under ``output_dir``; returns the page's path.

    The same benchmark gives the same bytes. Raises MedalError for rows that do not fit one table.
    """
    view = Arrangement(benchmark)
    sections = (
        leaderboard(view),
        systems(view.benchmark.systems),
        scatter(view),
        dimensions(view),
        calibration(view),
        slices(view, "lang"),
        slices(view, "chatbot"),
        _further_tables(view),
        cascades(view),
        disagreements(view),
        facts_section(view.benchmark.facts),
    )
    rows = view.benchmark.rows
    counts = [
        (len(view.judges), "judge"),
        (len({row.set_name for row in rows}), "set"),
        (len({row.dimension for row in rows}), "dimension"),
        (len({point.lang for row in rows for point in row.points}), "language"),
    ]
    subtitle = counted((n, name) for n, name in counts if n)
    return write_page(
        output_dir / "report.html",
        view.benchmark.title,
        subtitle,
        sections,
        foot=_signatures(view),
        leads=__package__,
        tables=sheets(view),
        figures=_figures(view),
    )


def _further_tables(view: Arrangement) -> Section:
    """Whatever tables the benchmark brings along, the long ones folded."""
    blocks: list[Block] = [
        table
        if len(table.rows) <= _LONG
        else Fold(f"{table.title}: {len(table.rows)} lines", [table])
        for table in view.benchmark.tables
    ]
    return Section("tables", "Further tables", blocks)


def _signatures(view: Arrangement) -> Section:
    """The distinct signatures by judge: what all of a judge share in sight, the full ones in a
    fold where they differ."""
    blocks: list[Block] = []
    for judge in view.judges:
        rows = [row for row in view.benchmark.rows if row.judge == judge]
        signatures = list(dict.fromkeys(row.signature for row in rows))
        parts = [signature.split("|") for signature in signatures]
        shared = "|".join(p for p in parts[0] if all(p in other for other in parts))
        head = Markup('<h3 dir="auto">{}</h3><p><code>{}</code></p>')
        blocks.append(head.format(judge, shared))
        if len(signatures) > 1:
            items = Markup("").join(
                Markup("<li><code>{}</code></li>").format(signature) for signature in signatures
            )
            listed = Markup('<ul class="signatures">{}</ul>').format(items)
            blocks.append(Fold(f"{len(signatures)} signatures in full", [listed]))
    return Section("signatures", "Signatures", blocks)


def _figures(view: Arrangement) -> dict[str, Figure | None]:
    """The figures of the page by file name."""
    figures: dict[str, Figure | None] = {"cascades": cascade_figure(view.benchmark.cascades)}
    for key in view.sets:
        slug, headline = view.set_slugs[key], view.headline(key)
        if headline is not None:
            table = dimension_table(view, key, [headline])
            figures[f"leaderboard-{slug}"] = Figure(table.title, [table])
        figures[f"scatter-{slug}"] = scatter_figure(view, key)
        heat_map = dimension_map(view, key)
        if heat_map is not None:
            figures[f"heatmap-{slug}"] = Figure(heat_map.title, [heat_map])
        figures[f"calibration-{slug}"] = calibration_figure(view, key)
    return figures


def disagreements(view: Arrangement) -> Section:
    """One fold a judge, the first open."""
    places = {judge: i for i, judge in enumerate(view.judges)}
    ordered = sorted(  # stable within a judge
        view.benchmark.disagreements, key=lambda d: places.get(d.judge, len(places))
    )
    blocks: list[Block] = [TURN_KEY] if ordered else []
    for judge, group in groupby(ordered, key=lambda d: d.judge):
        cards = [_card(item) for item in group]
        body = Markup('<div class="cards">{}</div>').format(Markup("").join(cards))
        blocks.append(Fold(f"{judge}: {len(cards)} dialogues", [body], is_open=len(blocks) == 1))
    heading = "Where judge and people differ most"
    return Section("disagreements", heading, blocks, link="Disagreements")


def _card(item: Disagreement) -> Markup:
    ranks = (item.human_rank, item.score_rank)
    return fragment(
        "medal_judges.eval.page",
        "disagreement.html",
        item=item,
        track=rank_svg(*ranks) if all(0 <= rank <= 1 for rank in ranks) else "",
        account=account(item.contributions, len(item.turns)),
        chat=chat_html(item.turns, item.contributions),
    )
