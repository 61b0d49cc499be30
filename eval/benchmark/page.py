"""Page: a benchmark as one self-contained HTML file, with its figures and tables beside it.

Functions that draw add their figures, by file name, to ``figures``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from markupsafe import Markup

from medal_judges.eval.benchmark.figures import Benchmark
from medal_judges.eval.benchmark.plots import (
    Figures,
    View,
    calibration,
    cascades,
    primary_metric,
    scatter,
    shown,
)
from medal_judges.eval.metaeval.classification import METRICS
from medal_judges.eval.metaeval.metaeval import ResultRow, SystemAgreement
from medal_judges.report.figure import Figure, rank_svg
from medal_judges.report.page import (
    TURN_KEY,
    Block,
    Facts,
    Fold,
    Section,
    Sheet,
    account,
    chat_html,
    counted,
    facts_section,
    folded,
    fragment,
    write_page,
)
from medal_judges.report.table import (
    Cell,
    Figured,
    IntervalBar,
    Percent,
    Pin,
    Row,
    Table,
    checked,
    label,
    unique_slugs,
)
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import MIN_ROWS

GRADED = ("spearman", "within_system", "pearson", "kendall")
_BRIEF = ("precision", "recall", "accuracy")  # their intervals are tooltips
_LIKE_FOR_LIKE = (
    "○: like for like, the judge against the same annotators as the human ceiling, on the same "
    "rows; only ○ and the ceiling are comparable."
)
_ORDERS = {
    "pairwise_accuracy": "Pairwise accuracy",
    "soft_pairwise_accuracy": "Soft pairwise accuracy",
}
_ROW = ("judge", "set", "level", "dimension", "kind")
_ESTIMATE = ("value", "low", "high", "p_value", "reason")


def write_report(benchmark: Benchmark, output_dir: Path) -> Path:
    """Writes report.html, tables/*.csv and figures/* under ``output_dir``; returns the page's path.

    The same benchmark gives the same bytes. Raises MedalError for rows that do not fit one table.
    """
    rows = benchmark.rows
    view = View(rows)
    cards: list[Block] = [TURN_KEY] if benchmark.disagreements else []
    for judge in dict.fromkeys([*view.judges, *(d.judge for d in benchmark.disagreements)]):
        drawn = [
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
        if drawn:
            body = Markup('<div class="cards">{}</div>').format(Markup("").join(drawn))
            cards.append(Fold(f"{judge}: {len(drawn)} dialogues", [body], is_open=len(cards) == 1))
    signed = list(dict.fromkeys((row.judge, row.signature) for row in rows))
    signatures: list[Block] = []
    if signed:
        signatures = [Fold(counted([(len(signed), "signature")]), [Facts(signed)])]
    figures: Figures = {}
    heading = "Where judge and people differ most"
    sections = [
        leaderboard(view, figures),
        systems(benchmark.systems),
        scatter(view, figures),
        calibration(view, figures),
        slices(view, "lang", "Language"),
        slices(view, "chatbot", "Chatbot"),
        Section("tables", "Further tables", folded(benchmark.tables, 3)),
        cascades(benchmark.cascades, figures),
        Section("disagreements", heading, cards, link="Disagreements"),
        facts_section(benchmark.facts),
    ]
    # CSV files have full precision; rows below the minimum coverage keep their figures there.
    whole: list[list[object]] = []
    sliced: list[list[object]] = []
    for r in rows:
        at = [r.judge, r.set_name, r.level, r.dimension, r.kind]
        about = [*at, r.n, r.scored, r.coverage, r.under_floor]
        whole += ([*about, metric, *_values(e)] for metric, e in r.metrics.items())
        for name, part in r.slices.items():
            size = r.slice_sizes.get(name)
            sliced += ([*at, name, size, metric, *_values(e)] for metric, e in part.items())
    columns = (*_ROW, "n", "scored", "coverage", "under_floor", "metric", *_ESTIMATE)
    slugs = unique_slugs([table.title for table in benchmark.tables])
    tables: dict[str, Table | Sheet] = {
        "figures": (columns, whole),
        "slices": ((*_ROW, "slice", "n", "metric", *_ESTIMATE), sliced),
        **{f"table-{slug}": one for slug, one in zip(slugs, benchmark.tables, strict=True)},
    }
    return write_page(
        output_dir / "report.html",
        benchmark.title,
        counted([(len(view.judges), "judge"), (len(view.sets), "set")]),
        sections,
        foot=Section("signatures", "Signatures", signatures),
        leads=__package__,
        tables=tables,
        figures=figures,
    )


def _values(estimate: Estimate) -> list[object]:
    return [getattr(estimate, name) for name in _ESTIMATE]


def ranking(row: ResultRow | None, metric: str) -> Estimate:
    """Returns the figure that orders the judges: as ``shown``, but none for fewer than 10 rows."""
    if row is not None and row.scored < MIN_ROWS:
        return Estimate(None, reason=f"{row.scored} rows, fewer than {MIN_ROWS}: no rank")
    return shown(row, metric)


def human_ceiling(rows: Sequence[ResultRow], metric: str, part: str = "") -> Estimate:
    """Returns the ceiling of a set, or of a slice such as ``lang:de``: the first defined one."""
    each = [row.slice_ceilings.get(part, {}) if part else row.ceiling for row in rows]
    known = sorted((c[metric] for c in each if metric in c), key=lambda e: e.value is None)
    none = Estimate(None, reason="no human ceiling: the set has no second annotator")
    return checked(known[0] if known else None if part else none)


def _best(figures: Iterable[Estimate]) -> float | None:
    return max((e.value for e in figures if e.value is not None), default=None)


def _marked(estimate: Estimate, top: float | None) -> Figured:
    return Figured(estimate, best=top is not None and estimate.value == top)


def _order(estimate: Estimate) -> tuple[bool, float]:
    return estimate.value is None, -(estimate.value or 0.0)


def leaderboard(view: View, figures: Figures) -> Section:
    """Judges by sets, graded dimensions of each set, then the issues of each set."""
    blocks: list[Block] = [_matrix(view)] if view.headlines else []
    for name, headline in view.headlines.items():
        table = dimension_table(view, name, [headline])
        figures[f"leaderboard-{view.sets[name]}"] = Figure(table.title, [table])
        blocks.append(table)
        if others := view.dimensions(name, binary=False)[1:]:
            table = dimension_table(view, name, others)
            text = f"{name}: {len(others)} more graded dimensions"
            blocks.append(Fold(text, [table]))
    with_issues = {name: d for name in view.sets if (d := view.dimensions(name, binary=True))}
    if with_issues:
        blocks.append(Markup("<h3>Issues: present or absent</h3>"))
    for i, (name, issues) in enumerate(with_issues.items()):
        text = f"{name}: {len(issues)} issues"
        blocks.append(Fold(text, [dimension_table(view, name, issues)], is_open=i == 0))
    return Section("leaderboard", "Leaderboard", blocks)


def _matrix(view: View) -> Table:
    """Judges by sets with the headline correlation, ordered by each judge's worst set."""
    places = list(view.headlines.items())
    large = [at for at in places if any(row.scored >= MIN_ROWS for row in view.rows(*at))]
    ranks = {
        judge: {at: ranking(view.row(judge, *at), "spearman") for at in places}
        for judge in view.judges
    }
    worst: dict[str, Estimate] = {}
    for judge, of_judge in ranks.items():
        missing = [at[0] for at in large if of_judge[at].value is None]
        none = f"no number on {', '.join(missing)}"
        none = none if large else f"every set has fewer than {MIN_ROWS} rows"
        worst[judge] = Estimate(None, reason=none)
        if large and not missing:
            worst[judge] = min((of_judge[at] for at in large), key=lambda e: e.value or 0.0)
    tops = {at: _best(of_judge[at] for of_judge in ranks.values()) for at in places}
    top = _best(worst.values())
    rows: list[Row] = []
    for judge in sorted(view.judges, key=lambda judge: _order(worst[judge])):
        cells = [_marked(shown(view.row(judge, *at), "spearman"), tops[at]) for at in places]
        rows.append((judge, _marked(worst[judge], top), *cells))
    no_worst = Estimate(None, reason="a ceiling belongs to one set")
    ceilings = [human_ceiling(view.rows(*at), "spearman") for at in places]
    rows.append(("human ceiling (beside ○ below)", no_worst, *ceilings))
    columns = ("Judge", "Worst set", *(f"{name}: {d}" for name, d in places))
    title = "Spearman ρ with people on every set, best worst set first"
    return Table(title, columns, rows, pinned={-1: "ceiling"})


def dimension_table(view: View, name: str, dimensions: Sequence[str]) -> Table:
    """Judges of one set on dimensions that are all graded or all issues, a group of rows each; the
    headline figure as text and as a bar."""
    binary = view.rows(name, dimensions[0])[0].kind == "binary"
    metrics = METRICS if binary else GRADED
    main = metrics[0]
    rows: list[Row] = []
    headings: dict[int, str] = {}
    pinned: dict[int, Pin] = {}
    for dimension in dimensions:
        if binary or len(dimensions) > 1:
            headings[len(rows)] = dimension
        judged = sorted(view.rows(name, dimension), key=lambda row: _order(ranking(row, main)))
        ceilings = [human_ceiling(judged, metric) for metric in metrics]
        top = _best(ranking(row, main) for row in judged)
        each = [shown(r, main, source) for r in judged for source in ("metrics", "like_for_like")]
        span = (min(v for e in each for v in (0.0, e.low, e.value) if v is not None), 1.0)
        for row in judged:
            headline, like = shown(row, main), shown(row, main, "like_for_like")
            coverage: Cell = Estimate(None, reason="no rows with a human answer")
            if row.coverage is not None:
                badge = "under floor" if row.under_floor else ""
                coverage = Percent(row.coverage, f"{row.scored:,} of {row.n:,} scored", badge)
            rows.append((
                row.judge,
                _marked(headline, top),
                IntervalBar(headline, span, ceilings[0].value, like.value),
                like,
                Figured(like if like.value is None else row.ceiling_difference),
                Figured(headline if row.under_floor else row.noise_free.get(main)),
                *(Figured(shown(row, metric), brief=metric in _BRIEF) for metric in metrics[1:]),
                row.n,
                coverage,
            ))  # fmt: skip
        pinned[len(rows)] = "ceiling"
        # The ceiling's headline figure is in the column of the judges like for like.
        bar = IntervalBar(Estimate(None), span, ceilings[0].value)
        others = [Figured(ceiling, brief=binary) for ceiling in ceilings]
        answered = max(row.ceiling_rows for row in judged) or ""
        rows.append(("human ceiling", "", bar, others[0], "", "", *others[1:], answered, ""))
    heads = [label(metric) for metric in metrics]
    columns = ("Judge", heads[0], "", "Like for like", "minus ceiling", "Noise-free", *heads[1:],
               "n", "Coverage")  # fmt: skip
    title = name
    if binary or len(dimensions) == 1:
        title += f": {'issues' if binary else dimensions[0]}"
    return Table(title, columns, rows, headings=headings, pinned=pinned)


def slices(view: View, part: str, title: str) -> Section:
    """Each set by ``part`` (lang or chatbot), judges side by side, if it has several."""
    blocks: list[Block] = []
    for name in view.sets:
        tables = []
        for dimension in view.dimensions(name):
            judged = view.rows(name, dimension)
            metric = primary_metric(judged[0].kind)
            parts = sorted({p for r in judged for p in r.slices if p.startswith(f"{part}:")})
            if len(parts) < 2:  # a table would only repeat the leaderboard
                continue
            rows: list[Row] = []
            for one in (*parts, ""):  # the whole set at the end
                ceiling = human_ceiling(judged, metric, one)
                cells = []
                for row in judged:
                    figure = row.slices.get(one, {}) if one else row.metrics
                    like = row.slice_like_for_like.get(one, {}) if one else row.like_for_like
                    below = like.get(metric)
                    if ceiling.value is None or below is None or below.value is None:
                        below = None  # nothing to compare with
                    whole = Figured(shown(row, metric))
                    cells.append(
                        whole if row.under_floor else Figured(figure.get(metric), like=below)
                    )
                sizes = [r.slice_sizes[one] for r in judged if one in r.slice_sizes]
                size = next(iter(sizes), None) if one else judged[0].n
                rows.append((one.split(":", 1)[1] if one else "all", size, *cells, ceiling))
            columns = (title, "n", *(row.judge for row in judged), "human ceiling")
            heading = f"{name}: {dimension}, {label(metric)} by {title.lower()}"
            tables.append(Table(heading, columns, rows, _LIKE_FOR_LIKE, pinned={-1: "total"}))
        blocks += tables[:1]
        if more := tables[1:]:
            blocks.append(Fold(f"{name}: {len(more)} more dimensions", more))
    return Section(f"by-{part}", f"{title}s", blocks)


def systems(agreements: Sequence[SystemAgreement]) -> Section:
    """Judges about chatbots as wholes, a table for each set and dimension: best judge first,
    people's split half at the end."""
    groups: dict[tuple[str, str], list[SystemAgreement]] = {}
    for one in agreements:
        groups.setdefault((one.set_name, one.dimension), []).append(one)
    tables = []
    for (set_name, dimension), listed in groups.items():
        listed.sort(key=lambda one: -(one.figures["soft_pairwise_accuracy"].value or 0))
        rows: list[Row] = [
            (one.judge, *(one.figures[metric] for metric in _ORDERS), one.systems, one.rows)
            for one in listed
        ]
        people = [listed[0].split_half.get(metric) for metric in _ORDERS]
        rows.append(("people, split half", *people, None, None))
        columns = ("Judge", *_ORDERS.values(), "Chatbots", "Rows")
        title = f"{set_name}: {dimension}, order of chatbots"
        tables.append(Table(title, columns, rows, pinned={-1: "ceiling"}))
    return Section("systems", "Chatbots in order", folded(tables, 3), link="Chatbots")
