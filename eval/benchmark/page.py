"""Page: a benchmark as one self-contained HTML file, with its figures and tables beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from markupsafe import Markup

from medal_judges.eval.benchmark.charts import (
    Figures,
    calibration,
    papers_figures,
    scatter,
)
from medal_judges.eval.benchmark.results import LEFT_OUT, Benchmark
from medal_judges.eval.benchmark.view import View, human_ceiling, ranking, shown
from medal_judges.eval.metaeval.alignment import METRICS, label
from medal_judges.eval.metaeval.metaeval import Disagreement, ResultRow, SystemAgreement
from medal_judges.eval.scores.trust import trust_section
from medal_judges.records.dimension import Dimension
from medal_judges.report.drawing import rank_svg
from medal_judges.report.figure import Figure
from medal_judges.report.page import (
    TURN_KEY,
    Block,
    Choice,
    Fold,
    Section,
    Sheet,
    account_of,
    chat_block,
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
    number,
    percent,
    percent_interval,
    slug,
    unique_slugs,
)
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import BESIDE, MIN_ROWS, WHOM, leading

GRADED = ("spearman", "pairwise", "within_system", "pearson", "kendall")
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
_ESTIMATE = ("value", "low", "high", "p_value", "reason")  # fields of Estimate
_BESIDE = ("beside_low", "beside_high")


def write_report(benchmark: Benchmark, output_dir: Path) -> Path:
    """Writes report.html, tables/* and figures/* into ``output_dir``; returns the page's path.

    The same benchmark gives the same bytes. Raises MedalError if a table would mix rows of
    different data or dimensions.
    """
    view = View(benchmark.rows)
    figures: Figures = {}
    boards: dict[str, Table] = {}
    cards = _disagreement_cards(view, benchmark.disagreements)
    sections = [leaderboard(view, boards)]
    if benchmark.rows:
        sections.append(_trust(benchmark))
    sections += [
        systems(benchmark.systems),
        scatter(view, figures),
        calibration(view, figures),
        slices(view, "lang", "Language"),
        slices(view, "chatbot", "Chatbot"),
        Section("tables", "Further tables", folded(benchmark.tables, 3)),
        Section(
            "disagreements",
            "Where judge and labels differ most",
            cards,
            link="Disagreements",
        ),
        facts_section(benchmark.facts),
    ]
    board_figures: Figures = {}
    for name, table in boards.items():
        if "bar" in table.column_kinds():
            board_figures[name] = Figure(table.title, [table])
    figures |= papers_figures(view, benchmark.tables)
    signed_judges = list(
        dict.fromkeys((row.judge, row.signature) for row in benchmark.rows)
    )
    signatures: list[Block] = []
    if signed_judges:
        signatures.append(
            Fold(counted([(len(signed_judges), "signature")]), [signed_judges])
        )
    tables = _sheets(benchmark.rows)
    slugs = unique_slugs([table.title for table in benchmark.tables])
    for name, table in zip(slugs, benchmark.tables, strict=True):
        tables[f"table-{name}"] = table
    return write_page(
        output_dir / "report.html",
        benchmark.title,
        counted([(len(view.judges), "judge"), (len(view.sets), "set")]),
        sections,
        foot=Section("signatures", "Signatures", signatures),
        leads=__package__,
        tables=tables | boards,
        figures=board_figures | figures,
    )


# -- cards, trust, signatures and CSV files --------------------------------------------------------


def _disagreement_cards(
    view: View, disagreements: Sequence[Disagreement]
) -> list[Block]:
    """Returns a fold of dialogues for each judge, the first one open."""
    if not disagreements:
        return []
    cards: list[Block] = [TURN_KEY]
    for judge in dict.fromkeys([*view.judges, *(item.judge for item in disagreements)]):
        of_judge = [_card(item) for item in disagreements if item.judge == judge]
        if of_judge:
            body = Markup('<div class="cards">{}</div>').format(
                Markup("").join(of_judge)
            )
            summary = f"{judge}: {len(of_judge)} dialogues"
            cards.append(Fold(summary, [body], is_open=len(cards) == 1))
    return cards


def _card(item: Disagreement) -> Markup:
    """Returns a dialogue with its contributions, and how they add up to the score."""
    moves: Sequence[float] = ()
    account = "This judge gives no contributions."
    contributions = item.contributions
    if contributions is not None and len(contributions.turns) == len(item.turns):
        moves = contributions.turns
        account = account_of(contributions, item.score)
    elif contributions is not None:
        counts = f"{len(contributions.turns)} contributions for {len(item.turns)} turns"
        account = f"{counts}: not shown."
    return fragment(
        __package__,
        "disagreement.html",
        item=item,
        track=rank_svg(item.human_rank, item.score_rank),
        account=account,
        chat=chat_block(item.turns, moves),
    )


def _trust(benchmark: Benchmark) -> Section:
    """Returns what judges do not see, what the middle of the scale means, and which rows are
    missing."""
    scales: list[Dimension] = []
    for row in benchmark.rows:
        if row.kind != "binary" and row.judge_scale and not scales:
            scales.append(Dimension(row.dimension, "continuous", *row.judge_scale))
    missing = [value for name, value in benchmark.facts if name == LEFT_OUT]
    unscored = {}
    for row in benchmark.rows:
        if row.scored < row.n:
            judge_on_set = f"{row.judge} on {row.set_name}"
            unscored[judge_on_set] = (
                f"{judge_on_set}: {row.n - row.scored:,} of {row.n:,} unscored"
            )
    missing += unscored.values()
    text = "No row is left out."
    if missing:
        text = f"Rows that no figure counts: {'; '.join(missing)}."
    section = trust_section((), scales)
    return replace(section, blocks=[*section.blocks, text])


def _sheets(rows: Sequence[ResultRow]) -> dict[str, Table | Sheet]:
    """Returns the CSV files of all metrics, in full precision; rows below the minimum coverage keep
    their metrics there."""
    metric_lines: list[list[object]] = []
    slice_lines: list[list[object]] = []
    for row in rows:
        names = [row.judge, row.set_name, row.level, row.dimension, row.kind]
        coverage = [row.n, row.scored, row.coverage, row.under_floor]
        for metric, estimate in row.metrics.items():
            metric_lines.append([*names, *coverage, metric, *_fields(estimate)])
        for part, metrics in row.slices.items():
            size = row.slice_sizes.get(part)
            for metric, estimate in metrics.items():
                slice_lines.append([*names, part, size, metric, *_fields(estimate)])
    estimate_columns = (*_ESTIMATE, *_BESIDE)
    coverage_columns = ("n", "scored", "coverage", "under_floor")
    return {
        "figures": (
            (*_ROW, *coverage_columns, "metric", *estimate_columns),
            metric_lines,
        ),
        "slices": ((*_ROW, "slice", "n", "metric", *estimate_columns), slice_lines),
    }


def _fields(estimate: Estimate) -> list[object]:
    beside = estimate.beside or Estimate(None)
    return [*(getattr(estimate, name) for name in _ESTIMATE), beside.low, beside.high]


# -- leaderboard -----------------------------------------------------------------------------------


def _best(estimates: Iterable[Estimate]) -> float | None:
    return max((e.value for e in estimates if e.value is not None), default=None)


def _marked(estimate: Estimate, best: float | None) -> Figured:
    return Figured(estimate, best=best is not None and estimate.value == best)


def _order(estimate: Estimate) -> tuple[bool, float]:
    return estimate.value is None, -(estimate.value or 0.0)


def leaderboard(view: View, boards: dict[str, Table]) -> Section:
    """The judges on every set, by the dimension that the reader chooses: a table of all sets, then
    the tables of each. Issues have the tables of each set below. Adds the tables to ``boards``."""
    options: dict[str, list[Block]] = {}
    for option, dimension_by_set in _dimension_choices(view).items():
        matrix = _matrix(view, dimension_by_set)
        boards[f"leaderboard-{slug(option)}"] = matrix
        blocks = [*in_use(view, dimension_by_set), matrix]
        for name, dimension in dimension_by_set.items():
            table = dimension_table(view, name, [dimension])
            boards[f"leaderboard-{view.sets[name]}-{view.slugs[dimension]}"] = table
            if not option.startswith("issue: "):
                blocks.append(table)
        options[option] = blocks
    blocks = []
    if options:
        blocks.append(Choice("Dimension", options))
    issue_folds: list[Block] = []
    for name in view.sets:
        issues = view.dimensions(name, binary=True)
        if issues:
            table = dimension_table(view, name, issues)
            summary = f"{name}: {len(issues)} issues"
            issue_folds.append(Fold(summary, [table], is_open=not issue_folds))
    if issue_folds:
        blocks += [Markup("<h3>Issues: present or absent</h3>"), *issue_folds]
    return Section("leaderboard", "Leaderboard", blocks)


def _dimension_choices(view: View) -> dict[str, dict[str, str]]:
    """Returns what a reader may choose -> the dimension of each set: the headlines first, then each
    further dimension on the sets that have it."""
    choices: dict[str, dict[str, str]] = {}
    if view.headlines:
        choices[", ".join(dict.fromkeys(view.headlines.values()))] = view.headlines
    for are_issues in (False, True):
        sets_by_dimension: dict[str, dict[str, str]] = {}
        for name, dimension in view.tables(binary=are_issues):
            sets_by_dimension.setdefault(dimension, {})[name] = dimension
        for dimension, dimension_by_set in sets_by_dimension.items():
            option = dimension
            if are_issues:
                option = f"issue: {dimension}"
            if not dimension_by_set.items() <= view.headlines.items():
                choices[option] = dimension_by_set
    return choices


def in_use(view: View, dimension_by_set: Mapping[str, str]) -> list[Block]:
    """Says how often the best judge of each set picks the chat that people prefer."""
    shares = []
    for name, dimension in dimension_by_set.items():
        rows = view.rows(name, dimension)
        best = min(rows, key=lambda row: _order(ranking(row, row.headline)))
        preferred = ranking(best, "preferred")
        if best.kind != "binary" and preferred.value is not None:
            rho = number(shown(best, "spearman").value or 0.0)
            share = f"{percent(preferred.value)} of pairs {percent_interval(preferred)}"
            shares.append(f"in {share} on {name} ({best.judge}, ρ {rho})")
    if not shares:
        return []
    text = "When people prefer one of two chats, the best judge picks it too (a guess: 50%)"
    return [f"{text}: {'; '.join(shares)}."]


def _matrix(view: View, dimension_by_set: Mapping[str, str]) -> Table:
    """The headline metric of every judge on a dimension of each set, the best worst set first."""
    columns = list(dimension_by_set.items())
    metric = view.rows(*columns[0])[0].headline
    large_columns = []
    for column in columns:
        if any(row.scored >= MIN_ROWS for row in view.rows(*column)):
            large_columns.append(column)
    ranks = {
        judge: {p: ranking(view.row(judge, *p), metric) for p in columns}
        for judge in view.judges
    }
    worst = {judge: _worst_set(ranks[judge], large_columns) for judge in view.judges}
    best_by_column = {
        p: _best(ranks[judge][p] for judge in view.judges) for p in columns
    }
    best_worst = _best(worst.values())
    rows: list[Row] = []
    for judge in sorted(view.judges, key=lambda judge: _order(worst[judge])):
        cells = []
        for column in columns:
            cells.append(
                _marked(shown(view.row(judge, *column), metric), best_by_column[column])
            )
        rows.append((judge, _marked(worst[judge], best_worst), *cells))
    ceilings = [human_ceiling(view.rows(*column), metric) for column in columns]
    no_worst = Estimate(None, reason="a ceiling belongs to one set")
    rows.append(("human ceiling (beside ○ below)", no_worst, *ceilings))
    clusters = [row.clusters for column in columns for row in view.rows(*column)]
    return Table(
        f"{label(metric)} with the labels on every set, best worst set first",
        (
            "Judge",
            "Worst set",
            *(f"{name}: {dimension}" for name, dimension in columns),
        ),
        rows,
        f"95% intervals are for {WHOM[leading(clusters)]}.",
        pinned={-1: "ceiling"},
    )


def _worst_set(
    ranks: Mapping[tuple[str, str], Estimate], large_columns: Sequence[tuple[str, str]]
) -> Estimate:
    """Returns a judge's smallest number on sets that are large enough; None if one lacks a
    number."""
    if not large_columns:
        return Estimate(None, reason=f"every set has fewer than {MIN_ROWS} rows")
    missing = [column[0] for column in large_columns if ranks[column].value is None]
    if missing:
        return Estimate(None, reason=f"no number on {', '.join(missing)}")
    return min(
        (ranks[column] for column in large_columns), key=lambda e: e.value or 0.0
    )


def dimension_table(view: View, name: str, dimensions: Sequence[str]) -> Table:
    """The judges on dimensions of one set, either all graded or all issues: a group of rows for
    each dimension, with the headline metric as text and as a bar."""
    all_rows = [row for dimension in dimensions for row in view.rows(name, dimension)]
    are_issues = all_rows[0].kind == "binary"
    headline = all_rows[0].headline
    metrics = METRICS
    if not are_issues:
        metrics = (headline, *(metric for metric in GRADED if metric != headline))
    lead = leading(row.clusters for row in all_rows)
    has_beside = any(shown(row, headline).beside for row in all_rows)
    beside_columns = []
    if has_beside:
        beside_columns.append(BESIDE[lead])
    rows: list[Row] = []
    headings: dict[int, str] = {}
    pinned: dict[int, Pin] = {}
    for dimension in dimensions:
        if len(dimensions) > 1:
            headings[len(rows)] = dimension
        rows += _dimension_rows(view.rows(name, dimension), metrics, has_beside)
        pinned[len(rows) - 1] = "ceiling"
    names = [label(metric) for metric in metrics]
    columns = (
        "Judge",
        names[0],
        *beside_columns,
        "",
        "Like for like",
        "minus ceiling",
        *names[1:],
        "n",
        "Coverage",
    )
    title = name
    if len(dimensions) == 1:
        title = f"{name}: {dimensions[0]}"
    elif are_issues:
        title = f"{name}: issues"
    note = f"95% intervals are for {WHOM[lead]}."
    return Table(title, columns, rows, note, headings=headings, pinned=pinned)


def _dimension_rows(
    rows: Sequence[ResultRow], metrics: Sequence[str], has_beside: bool
) -> list[Row]:
    """Returns a row for each judge, the best first, and that of the human ceiling."""
    headline, *further_metrics = metrics
    ceilings = [human_ceiling(rows, metric) for metric in metrics]
    best = _best(ranking(row, headline) for row in rows)
    span = (_lowest(rows, headline), 1.0)
    cells: list[Row] = []
    for row in sorted(rows, key=lambda row: _order(ranking(row, headline))):
        estimate, like = shown(row, headline), shown(row, headline, "like_for_like")
        beside: list[Cell] = []
        if has_beside:
            beside.append(Figured(estimate.beside, bare=True))
        like_minus_ceiling = row.ceiling_difference
        if like.value is None:
            like_minus_ceiling = like
        further: list[Cell] = []
        for metric in further_metrics:
            further.append(Figured(shown(row, metric), brief=metric in _BRIEF))
        cells.append(
            (
                row.judge,
                _marked(estimate, best),
                *beside,
                IntervalBar(estimate, span, ceilings[0].value, like.value),
                like,
                Figured(like_minus_ceiling),
                *further,
                row.n,
                _coverage(row),
            )
        )
    # The ceiling's headline metric is in the column of the judges like for like.
    bar = IntervalBar(Estimate(None), span, ceilings[0].value)
    are_issues = rows[0].kind == "binary"
    styled = [Figured(ceiling, brief=are_issues) for ceiling in ceilings]
    blank = [""] * (1 + has_beside)
    answered = max(row.ceiling_rows for row in rows) or ""
    cells.append(
        ("human ceiling", *blank, bar, styled[0], "", *styled[1:], answered, "")
    )
    return cells


def _lowest(rows: Sequence[ResultRow], metric: str) -> float:
    """Returns the lowest end of the axis of a metric: 0, or below all intervals."""
    lowest = 0.0
    for row in rows:
        for source in ("metrics", "like_for_like"):
            estimate = shown(row, metric, source)
            for value in (estimate.low, estimate.value):
                if value is not None:
                    lowest = min(lowest, value)
    return lowest


def _coverage(row: ResultRow) -> Cell:
    if row.coverage is None:
        return Estimate(None, reason="no rows with a label")
    badge = ""
    if row.under_floor:
        badge = "under floor"
    return Percent(row.coverage, f"{row.scored:,} of {row.n:,} scored", badge)


# -- parts of a set, and the order of chatbots -----------------------------------------------------


def slices(view: View, part: str, title: str) -> Section:
    """For each set the metrics by ``part`` (lang or chatbot), one column for each judge. A set with
    one part only is left out."""
    blocks: list[Block] = []
    for name in view.sets:
        tables = []
        for dimension in view.dimensions(name):
            rows = view.rows(name, dimension)
            parts = sorted(
                {p for row in rows for p in row.slices if p.startswith(f"{part}:")}
            )
            if len(parts) > 1:  # a table of one part would only repeat the leaderboard
                tables.append(_slice_table(f"{name}: {dimension}", rows, parts, title))
        blocks += tables[:1]
        if len(tables) > 1:
            summary = f"{name}: {len(tables) - 1} more dimensions"
            blocks.append(Fold(summary, tables[1:]))
    return Section(f"by-{part}", f"{title}s", blocks)


def _slice_table(
    table_name: str, rows: Sequence[ResultRow], parts: Sequence[str], title: str
) -> Table:
    """Returns a row for each part (``lang:de``), and at the end one for the whole set."""
    metric = rows[0].headline
    lines: list[Row] = []
    for part in parts:
        ceiling = human_ceiling(rows, metric, part)
        cells = []
        for row in rows:
            like = row.slice_like_for_like.get(part, {}).get(metric)
            cells.append(
                _slice_cell(row, row.slices.get(part, {}).get(metric), like, ceiling)
            )
        sizes = [row.slice_sizes[part] for row in rows if part in row.slice_sizes]
        size = next(iter(sizes), None)
        lines.append((part.split(":", 1)[1], size, *cells, ceiling))
    ceiling = human_ceiling(rows, metric)
    cells = []
    for row in rows:
        like = row.like_for_like.get(metric)
        cells.append(_slice_cell(row, row.metrics.get(metric), like, ceiling))
    lines.append(("all", rows[0].n, *cells, ceiling))
    columns = (title, "n", *(row.judge for row in rows), "human ceiling")
    heading = f"{table_name}, {label(metric)} by {title.lower()}"
    return Table(heading, columns, lines, _LIKE_FOR_LIKE, pinned={-1: "total"})


def _slice_cell(
    row: ResultRow, estimate: Estimate | None, like: Estimate | None, ceiling: Estimate
) -> Figured:
    if row.under_floor:
        return Figured(shown(row, row.headline))
    if ceiling.value is None or like is None or like.value is None:
        return Figured(estimate)  # nothing to compare with
    return Figured(estimate, like=like)


def systems(agreements: Sequence[SystemAgreement]) -> Section:
    """How well judges order the chatbots: a table for each set and dimension, best judge first, and
    the split half of people at the end."""
    groups: dict[tuple[str, str], list[SystemAgreement]] = {}
    for agreement in agreements:
        groups.setdefault((agreement.set_name, agreement.dimension), []).append(
            agreement
        )
    tables = []
    for (set_name, dimension), group in groups.items():
        group.sort(
            key=lambda agreement: (
                -(agreement.figures["soft_pairwise_accuracy"].value or 0)
            )
        )
        rows: list[Row] = []
        for agreement in group:
            orders = [agreement.figures[metric] for metric in _ORDERS]
            rows.append((agreement.judge, *orders, agreement.systems, agreement.rows))
        split_half = [group[0].split_half.get(metric) for metric in _ORDERS]
        rows.append(("labels, split half", *split_half, None, None))
        columns = ("Judge", *_ORDERS.values(), "Chatbots", "Rows")
        title = f"{set_name}: {dimension}, order of chatbots"
        tables.append(Table(title, columns, rows, pinned={-1: "ceiling"}))
    return Section("systems", "Chatbots in order", folded(tables, 3))
