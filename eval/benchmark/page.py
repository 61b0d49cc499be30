"""Page: a benchmark as one self-contained HTML file, with its figures and tables beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from markupsafe import Markup

from medal_judges.eval.benchmark.charts import (
    Figures,
    calibration,
    papers_figures,
    scatter,
)
from medal_judges.eval.benchmark.published import DIFFERS, OURS, PUBLISHED
from medal_judges.eval.benchmark.results import FOLLOW_UPS, LEFT_OUT, NOTE, Benchmark
from medal_judges.eval.benchmark.view import (
    View,
    human_ceiling,
    ranking,
    shown,
    slice_names,
)
from medal_judges.eval.metaeval.alignment import METRICS, label
from medal_judges.eval.metaeval.comparison import (
    ANNOTATORS,
    GRADED,
    ISSUES,
    MCNEMAR,
    MEANS,
)
from medal_judges.eval.metaeval.metaeval import Disagreement, ResultRow, SystemAgreement
from medal_judges.report.console import Printout, rich_table
from medal_judges.report.drawing import rank_svg
from medal_judges.report.figure import Figure
from medal_judges.report.page import (
    TURN_KEY,
    Block,
    Choice,
    Fold,
    Page,
    Section,
    Sheet,
    account_of,
    chat_block,
    counted,
    facts_section,
    folded,
    fragment,
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

GRADED_METRICS = ("spearman", "pairwise", "within_system", "pearson", "kendall")
_BRIEF = ("precision", "recall", "accuracy")  # their intervals are tooltips
_LIKE_FOR_LIKE = (
    "○: like for like, the judge against the same annotators as the human ceiling, on the same "
    "rows; only ○ and the ceiling are comparable."
)
_ORDERS = {
    "pairwise_accuracy": "Pairwise accuracy",
    "soft_pairwise_accuracy": "Soft pairwise accuracy",
}
_INJECTED = (
    "Issue",
    "Judge",
    "F1+ vs clean",
    "F1+ vs matched controls",
    "AUC vs clean",
    "AUC vs matched controls",
    "False alarms, clean",
)
_WHO = ("Set", "Dimension", "Better", "Other")
# Columns of further tables in the terminal; tables by language are on the page only.
_PRINTED: dict[str, Sequence[str]] = {
    MEANS: (),
    FOLLOW_UPS: (),
    PUBLISHED: (),
    GRADED: (*_WHO, "Difference in ρ", "Difference in pairs right", "p", "n"),
    ISSUES: (*_WHO, "Difference in F1+", "p", "n"),
    MCNEMAR: (*_WHO, "Right alone: better", "Right alone: other", "p, Holm", "n"),
    ANNOTATORS: (
        *_WHO[:2],
        "Judge",
        "Annotator",
        "F1+ judge",
        "F1+ annotator",
        "McNemar p, Holm",
    ),
}
_LINES = 30  # of a long table; the page and the CSV files have all
_ROW = ("judge", "set", "level", "dimension", "kind")
_ESTIMATE = ("value", "low", "high", "p_value", "reason")  # fields of Estimate
_BESIDE = ("beside_low", "beside_high")


def benchmark_page(benchmark: Benchmark) -> Page:
    """Returns report.html with its tables and figures, and what the terminal shows.

    Raises MedalError if a table would mix rows of different data or dimensions.
    """
    view = View(benchmark.rows)
    figures: Figures = {}
    boards: dict[str, Table] = {}
    sections = [leaderboard(view, boards)]
    if benchmark.rows:
        sections.append(_missing(benchmark))
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
            _disagreement_cards(view, benchmark.disagreements),
            link="Disagreements",
        ),
        facts_section(benchmark.facts),
    ]
    board_figures: Figures = {}
    for name, board in boards.items():
        if "bar" in board.column_kinds():
            board_figures[name] = Figure(board.title, [board])
    tables = _sheets(benchmark.rows)
    slugs = unique_slugs([table.title for table in benchmark.tables])
    for name, table in zip(slugs, benchmark.tables, strict=True):
        tables[f"table-{name}"] = table
    return Page(
        name="report",
        title=benchmark.title,
        subtitle=counted([(len(view.judges), "judge"), (len(view.sets), "set")]),
        sections=sections,
        foot=Section("signatures", "Signatures", _signatures(benchmark.rows)),
        leads=__package__,
        tables=tables | boards,
        figures=board_figures | figures | papers_figures(view, benchmark.tables),
        printout=_printout(benchmark, view),
    )


def _signatures(rows: Sequence[ResultRow]) -> list[Block]:
    signatures = list(dict.fromkeys((row.judge, row.signature) for row in rows))
    if not signatures:
        return []
    return [Fold(counted([(len(signatures), "signature")]), [signatures])]


# -- in the terminal -------------------------------------------------------------------------------


def _printout(benchmark: Benchmark, view: View) -> Printout:
    """Returns the leaderboards of each set, further tables, then notes on what was skipped."""
    printed = []
    for name in view.sets:
        for are_issues in (False, True):
            dimensions = view.dimensions(name, binary=are_issues)
            if dimensions:
                table = dimension_table(view, name, dimensions)
                hidden = {"minus ceiling", label("pairwise")} - {table.columns[1]}
                columns = [column for column in table.columns if column not in hidden]
                printed.append(rich_table(table, columns, intervals=columns[:2]))
    for table in benchmark.tables:
        columns_of_table = _PRINTED.get(table.title)
        if table.columns[0] == "Issue":
            columns_of_table = _INJECTED
        if columns_of_table is not None:
            table = _printed_lines(table)
            if table.rows:
                printed.append(rich_table(table, columns_of_table, intervals=()))
                if DIFFERS in table.columns:
                    printed[-1].caption = table.note.partition("\n\n")[0]
    return Printout(printed, [text for name, text in benchmark.facts if name == NOTE])


def _printed_lines(table: Table) -> Table:
    """Returns the first lines of a table, of the published figures only those that this run also
    measured."""
    rows = table.rows
    if table.title == PUBLISHED:
        column = table.columns.index(OURS)
        rows = [row for row in rows if row[column] is not None]
    if len(rows) <= _LINES:
        return replace(table, rows=rows)
    title = f"{table.title} (the first {_LINES} of {len(rows)} lines)"
    return replace(table, title=title, rows=rows[:_LINES])


# -- cards, trust, signatures and CSV files --------------------------------------------------------


def _disagreement_cards(
    view: View, disagreements: Sequence[Disagreement]
) -> list[Block]:
    """Returns a fold of dialogues for each judge, the first one open."""
    cards_by_judge: dict[str, list[Markup]] = {judge: [] for judge in view.judges}
    for item in disagreements:
        cards_by_judge.setdefault(item.judge, []).append(_card(item))
    folds: list[Block] = []
    for judge, cards in cards_by_judge.items():
        if cards:
            body = Markup('<div class="cards">{}</div>').format(Markup("").join(cards))
            summary = f"{judge}: {len(cards)} dialogues"
            folds.append(Fold(summary, [body], is_open=not folds))
    if folds:
        folds.insert(0, TURN_KEY)
    return folds


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


def _missing(benchmark: Benchmark) -> Section:
    """Returns which rows are missing."""
    missing = [value for name, value in benchmark.facts if name == LEFT_OUT]
    unscored: dict[str, str] = {}
    for row in benchmark.rows:
        if row.scored < row.n:
            count = f"{row.n - row.scored:,} of {row.n:,} unscored"
            unscored[f"{row.judge} on {row.set_name}"] = count
    missing += [f"{name}: {count}" for name, count in unscored.items()]
    text = "No row is left out."
    if missing:
        text = f"Rows that no figure counts: {'; '.join(missing)}."
    return Section("missing", "Rows left out", [text], lead="")


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
    values = [estimate.value for estimate in estimates]
    return max((value for value in values if value is not None), default=None)


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
    metric = view.rows(*next(iter(dimension_by_set.items())))[0].headline
    large_sets = []
    best_by_set = {}
    ceilings = []
    clusters = []
    for name, dimension in dimension_by_set.items():
        rows = view.rows(name, dimension)
        if max(row.scored for row in rows) >= MIN_ROWS:
            large_sets.append(name)
        best_by_set[name] = _best(ranking(row, metric) for row in rows)
        ceilings.append(human_ceiling(rows, metric))
        clusters += [row.clusters for row in rows]
    worst_by_judge = {}
    for judge in view.judges:
        ranks = {}
        for name in large_sets:
            row = view.row(judge, name, dimension_by_set[name])
            ranks[name] = ranking(row, metric)
        worst_by_judge[judge] = _worst_set(ranks)
    best_worst = _best(worst_by_judge.values())
    lines: list[Row] = []
    for judge in sorted(view.judges, key=lambda judge: _order(worst_by_judge[judge])):
        cells = [_marked(worst_by_judge[judge], best_worst)]
        for name, dimension in dimension_by_set.items():
            estimate = shown(view.row(judge, name, dimension), metric)
            cells.append(_marked(estimate, best_by_set[name]))
        lines.append((judge, *cells))
    no_worst = Estimate(None, reason="a ceiling belongs to one set")
    lines.append(("human ceiling (beside ○ below)", no_worst, *ceilings))
    columns = [f"{name}: {dimension}" for name, dimension in dimension_by_set.items()]
    return Table(
        f"{label(metric)} with the labels on every set, best worst set first",
        ("Judge", "Worst set", *columns),
        lines,
        f"95% intervals are for {WHOM[leading(clusters)]}.",
        pinned={-1: "ceiling"},
    )


def _worst_set(ranks: Mapping[str, Estimate]) -> Estimate:
    """Returns a judge's smallest number on the sets that are large enough, ``ranks``; None if one
    lacks a number."""
    if not ranks:
        return Estimate(None, reason=f"every set has fewer than {MIN_ROWS} rows")
    missing = [name for name, rank in ranks.items() if rank.value is None]
    if missing:
        return Estimate(None, reason=f"no number on {', '.join(missing)}")
    return min(ranks.values(), key=lambda rank: rank.value or 0.0)


def dimension_table(view: View, name: str, dimensions: Sequence[str]) -> Table:
    """The judges on dimensions of one set, either all graded or all issues: a group of rows for
    each dimension, with the headline metric as text and as a bar."""
    all_rows: list[ResultRow] = []
    for dimension in dimensions:
        all_rows += view.rows(name, dimension)
    headline = all_rows[0].headline
    title = name
    metrics = METRICS
    if all_rows[0].kind != "binary":
        metrics = tuple(dict.fromkeys((headline, *GRADED_METRICS)))
    elif len(dimensions) > 1:
        title = f"{name}: issues"
    if len(dimensions) == 1:
        title = f"{name}: {dimensions[0]}"
    lead = leading(row.clusters for row in all_rows)
    has_beside = any(shown(row, headline).beside for row in all_rows)
    lines: list[Row] = []
    headings: dict[int, str] = {}
    pinned: dict[int, Pin] = {}
    for dimension in dimensions:
        if len(dimensions) > 1:
            headings[len(lines)] = dimension
        lines += _dimension_rows(view.rows(name, dimension), metrics, has_beside)
        pinned[len(lines) - 1] = "ceiling"
    columns = ["Judge", label(headline)]
    if has_beside:
        columns.append(BESIDE[lead])
    columns += ["", "Like for like", "minus ceiling", *map(label, metrics[1:])]
    note = f"95% intervals are for {WHOM[lead]}."
    return Table(
        title,
        [*columns, "n", "Coverage"],
        lines,
        note,
        headings=headings,
        pinned=pinned,
    )


def _dimension_rows(
    rows: Sequence[ResultRow], metrics: Sequence[str], has_beside: bool
) -> list[Row]:
    """Returns a row for each judge, the best first, and that of the human ceiling."""
    headline, *further_metrics = metrics
    best = _best(ranking(row, headline) for row in rows)
    ceiling = human_ceiling(rows, headline)
    span = (_lowest(rows, headline), 1.0)
    lines: list[Row] = []
    for row in sorted(rows, key=lambda row: _order(ranking(row, headline))):
        estimate, like = shown(row, headline), shown(row, headline, "like_for_like")
        cells: list[Cell] = [row.judge, _marked(estimate, best)]
        if has_beside:
            cells.append(Figured(estimate.beside, bare=True))
        cells += [IntervalBar(estimate, span, ceiling.value, like.value), like]
        like_minus_ceiling = row.ceiling_difference
        if like.value is None:
            like_minus_ceiling = like
        cells.append(Figured(like_minus_ceiling))
        for metric in further_metrics:
            cells.append(Figured(shown(row, metric), brief=metric in _BRIEF))
        lines.append([*cells, row.n, _coverage(row)])
    # The ceiling's headline metric is in the column of the judges like for like.
    cells = ["human ceiling", *[""] * (1 + has_beside)]
    cells.append(IntervalBar(Estimate(None), span, ceiling.value))
    are_issues = rows[0].kind == "binary"
    cells += [Figured(ceiling, brief=are_issues), ""]
    for metric in further_metrics:
        cells.append(Figured(human_ceiling(rows, metric), brief=are_issues))
    answered = max(row.ceiling_rows for row in rows)
    lines.append([*cells, answered or "", ""])
    return lines


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
            parts = slice_names(rows, part)
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
    sizes: dict[str, int] = {}
    for row in reversed(rows):
        sizes |= row.slice_sizes
    lines: list[Row] = []
    for part in parts:
        part_name = part.partition(":")[2]
        lines.append((part_name, sizes.get(part), *_slice_cells(rows, metric, part)))
    lines.append(("all", rows[0].n, *_slice_cells(rows, metric, "")))
    columns = (title, "n", *(row.judge for row in rows), "human ceiling")
    heading = f"{table_name}, {label(metric)} by {title.lower()}"
    return Table(heading, columns, lines, _LIKE_FOR_LIKE, pinned={-1: "total"})


def _slice_cells(rows: Sequence[ResultRow], metric: str, part: str) -> list[Cell]:
    """Returns the metric of each judge on a part, with that like for like if there is a ceiling to
    compare it with, and the ceiling."""
    ceiling = human_ceiling(rows, metric, part)
    cells: list[Cell] = []
    for row in rows:
        figure = Figured(shown(row, metric, part=part))
        like = shown(row, metric, "like_for_like", part)
        if ceiling.value is not None and like.value is not None:
            figure = replace(figure, like=like)
        cells.append(figure)
    return [*cells, ceiling]


def systems(agreements: Sequence[SystemAgreement]) -> Section:
    """How well judges order the chatbots: a table for each set and dimension, best judge first, and
    the split half of people at the end."""
    groups: dict[tuple[str, str], list[SystemAgreement]] = {}
    for agreement in agreements:
        key = (agreement.set_name, agreement.dimension)
        groups.setdefault(key, []).append(agreement)
    tables = []
    for (set_name, dimension), group in groups.items():
        group.sort(
            key=lambda item: -(item.figures["soft_pairwise_accuracy"].value or 0)
        )
        rows: list[Row] = []
        for agreement in group:
            orders = map(agreement.figures.get, _ORDERS)
            rows.append((agreement.judge, *orders, agreement.systems, agreement.rows))
        split_half = map(group[0].split_half.get, _ORDERS)
        rows.append(("labels, split half", *split_half, None, None))
        columns = ("Judge", *_ORDERS.values(), "Chatbots", "Rows")
        title = f"{set_name}: {dimension}, order of chatbots"
        tables.append(Table(title, columns, rows, pinned={-1: "ceiling"}))
    return Section("systems", "Chatbots in order", folded(tables, 3))
