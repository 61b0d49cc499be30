"""Page: a benchmark as one self-contained HTML file, with its figures and tables beside it.

Functions that draw add their figures, by file name, to ``figures``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from markupsafe import Markup

from medal_judges.eval.benchmark.figures import FOLLOW_UPS, LEFT_OUT, Benchmark
from medal_judges.eval.metaeval.alignment import METRICS, label
from medal_judges.eval.metaeval.metaeval import ResultRow, SystemAgreement
from medal_judges.eval.scores.trust import trust_section
from medal_judges.records.dimension import EQUAL, Dimension
from medal_judges.records.labelled import rescale
from medal_judges.records.signature import Signature, require_comparable
from medal_judges.report.drawing import rank_svg
from medal_judges.report.figure import (
    MAX_DRAWN,
    OTHER_INDEX,
    Axis,
    Bar,
    Bars,
    BarSegment,
    Dot,
    Figure,
    Line,
    Plot,
    padded,
    thinned,
)
from medal_judges.report.page import (
    TURN_KEY,
    Block,
    Choice,
    Fold,
    Section,
    Sheet,
    Strip,
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
    checked,
    number,
    percent,
    percent_interval,
    slug,
    unique_slugs,
)
from medal_judges.stats.equal import tolerance_of
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import BESIDE, MIN_ROWS, WHOM, leading

UNKNOWN = "unknown chatbot"
_GRADED_BINS, _BINARY_BINS = 8, 10
# Rows with similar scores: mean score and mean label on the labels' scale, and their number.
Bin = tuple[float, float, int]
Figures = dict[str, Figure]


class View:
    """Result rows by set, dimension and judge, in order of appearance; ``sets`` and ``slugs`` are
    the names of sets and dimensions with those in file names, ``headlines`` each set's ``overall``
    or first graded dimension. Raises MedalError if signatures of one table differ in data or
    dimension."""

    def __init__(self, rows: Sequence[ResultRow]) -> None:
        self.judges = list(dict.fromkeys(row.judge for row in rows))
        names = list(dict.fromkeys(row.set_name for row in rows))
        self.sets = dict(zip(names, unique_slugs(names), strict=True))
        self._rows: dict[tuple[str, str], dict[str, ResultRow]] = {}
        for row in rows:
            self._rows.setdefault((row.set_name, row.dimension), {})[row.judge] = row
        for by_judge in self._rows.values():
            # A signature without data (a bare baseline) cannot contradict the others.
            signatures = [Signature.parse(row.signature) for row in by_judge.values()]
            require_comparable([s for s in signatures if s.data is not None])
        dimensions = list(dict.fromkeys(row.dimension for row in rows))
        self.slugs = dict(zip(dimensions, unique_slugs(dimensions), strict=True))
        graded = {name: self.dimensions(name, binary=False) for name in self.sets}
        self.headlines = {name: found[0] for name, found in graded.items() if found}

    def dimensions(self, name: str, *, binary: bool | None = None) -> list[str]:
        """Returns the dimensions of a set, ``overall`` first; only issues, or only others."""
        found = sorted((d for one, d in self._rows if one == name), key=lambda d: d != "overall")
        kinds = {d: self.rows(name, d)[0].kind == "binary" for d in found}
        return [d for d in found if binary in (None, kinds[d])]

    def rows(self, name: str, dimension: str) -> list[ResultRow]:
        """Returns one row a judge, in the judges' order."""
        by_judge = self._rows[name, dimension]
        return [by_judge[judge] for judge in self.judges if judge in by_judge]

    def row(self, judge: str, name: str, dimension: str) -> ResultRow | None:
        return self._rows[name, dimension].get(judge)


def shown(row: ResultRow | None, metric: str, source: str = "metrics") -> Estimate:
    """Returns what the page prints for ``metric`` of a field of the row (``like_for_like``): no
    figure if coverage is below the minimum."""
    if row is None:
        return Estimate(None, reason="this judge was not run here")
    if row.under_floor:
        percent = f"{100 * (row.coverage or 0):.1f}%"
        floor = f"{100 * row.min_coverage:g}%"
        reason = f"coverage {percent} is below the minimum of {floor}: no headline figure"
        return Estimate(None, reason=reason)
    return checked(getattr(row, source).get(metric))


def scatter(view: View, figures: Figures) -> Section:
    """For each set a plot of every judge against labels on the headline dimension, and as files on
    each graded one. The judges' plots share their colours."""
    blocks = []
    for name, dimension in ((n, d) for n in view.sets for d in view.dimensions(n, binary=False)):
        rows = [row for row in view.rows(name, dimension) if row.points]
        if not rows:
            continue
        counts = Counter(p.chatbot or UNKNOWN for row in rows for p in row.points)
        ranked = sorted(counts, key=lambda bot: (-counts[bot], bot))
        colours = {bot: min(i, OTHER_INDEX) for i, bot in enumerate(ranked)}
        span = padded([p.human for row in rows for p in row.points])
        legend = [(bot, index) for bot, index in colours.items() if index < OTHER_INDEX]
        if len(legend) < len(colours):
            legend.append((f"{len(colours) - len(legend)} others", OTHER_INDEX))
        panels = []
        for row in rows:
            dots = []
            for p in row.points:
                chatbot, turn = p.chatbot or UNKNOWN, "" if p.turn is None else f", turn {p.turn}"
                tooltip = (
                    f"{p.id}{turn} · label {number(p.human)} · judge {number(p.score)} · "
                    f"{chatbot} · {p.lang}"
                )
                dots.append(Dot(p.human, p.score, colours[chatbot], tooltip))
            people, score = _columns(row)
            ends = []
            if np.ptp(people) > 0:
                slope, start = np.polyfit(people, score, 1)
                ends = [(float(x), float(start + slope * x)) for x in (people.min(), people.max())]
            drawn = f", {len(thinned(dots)):,} drawn" if len(dots) > MAX_DRAWN else ""
            panels.append(
                Plot(
                    title=row.judge,
                    x=Axis("label", span),
                    y=Axis("judge", padded(score.tolist())),
                    marks=[dots, Line(ends)],
                    description=f"{row.judge} against labels on {row.set_name}, {len(dots)} rows",
                    figure=("ρ", shown(row, "spearman")),
                    count=f"{len(dots):,} rows{drawn}",
                )
            )
        title = f"{name}: {dimension}"
        figure = Figure(title, panels, title, legend, "Chatbots")
        figures[f"scatter-{view.sets[name]}-{view.slugs[dimension]}"] = figure
        blocks += [figure] if dimension == view.headlines[name] else []
    return Section("scatter", "Judge against labels", blocks, link="Scatter")


def _columns(row: ResultRow) -> list[np.ndarray]:
    """Human answers and scores of the row's points."""
    return [np.array([getattr(p, n) for p in row.points]) for n in ("human", "score")]


def calibration(view: View, figures: Figures) -> Section:
    """For each set a calibration plot of every dimension, the first set unfolded: the mean label by
    the mean score of each bin, one line for each judge."""
    colours = {judge: min(i, OTHER_INDEX) for i, judge in enumerate(view.judges)}
    legend = list(colours.items())
    folds: list[Block] = []
    panels: dict[str, list[Plot]] = {}
    for name, dimension in ((n, d) for n in view.sets for d in view.dimensions(n)):
        rows = [row for row in view.rows(name, dimension) if row.points]
        if not rows:
            continue
        binned = {row.judge: bins(row) for row in rows}
        values = [v for parts in binned.values() for part in parts for v in part[:2]]
        span = (-0.04, 1.04) if rows[0].kind == "binary" else padded(values or [0.0])
        marks: list[Line | list[Dot]] = [Line([(span[0], span[0]), (span[1], span[1])], "ideal")]
        gaps = []
        for row in rows:
            judge, parts, colour = row.judge, binned[row.judge], colours[row.judge]
            text = off_scale(row) or number(gap(parts))
            if parts:
                largest = max(n for *_, n in parts)
                marks.append(Line([(score, human) for score, human, *_ in parts], colour=colour))
                dots = []
                for score, human, n in parts:
                    tooltip = f"{judge}: score {number(score)}, labels {number(human)}, {n:,} rows"
                    radius = 1.5 + 3 * (n / largest) ** 0.5
                    dots.append(Dot(score, human, colour, tooltip, radius, "bin"))
                marks.append(dots)
                scale = row.judge_scale
                if row.kind != "binary" and scale is not None and scale != row.human_scale:
                    text += f" (from {scale[0]:g}–{scale[1]:g})"
            gaps.append((judge, colour, text))
        plot = Plot(
            title=f"{name}: {dimension}",
            x=Axis("mean score of the judge", span),
            y=Axis("mean label", span),
            marks=marks,
            description=f"Calibration on {name}: {dimension}",
            gaps=gaps,
            missing="" if any(binned.values()) else "No judge answers on this scale.",
        )
        panels.setdefault(name, []).append(plot)
    for name, plots in panels.items():
        title = f"{name}: calibration"
        figures[f"calibration-{view.sets[name]}"] = Figure(title, plots, legend=legend)
        folds.append(Fold(name, [Figure(title, plots)], is_open=not folds))
    blocks = [Strip(legend, "Judges", folds)] if folds else []
    return Section("calibration", "Calibration", blocks)


def bins(row: ResultRow) -> list[Bin]:
    """Returns the row's bins by rising score, on the labels' scale. Equal scores share
    a bin. Empty if the scores cannot be converted to that scale (``off_scale``)."""
    if off_scale(row) is not None:
        return []
    human, score = _columns(row)
    judge, people = row.judge_scale, row.human_scale
    if row.kind == "binary":
        member = np.clip((score * _BINARY_BINS).astype(int), 0, _BINARY_BINS - 1)
    else:
        if judge is not None and people is not None and judge != people:
            score = np.array([rescale(value, judge, people) for value in score])
        order = np.argsort(score, kind="stable")
        score, human = score[order], human[order]
        same = np.cumsum(np.diff(score, prepend=score[:1]) > tolerance_of(people, score))
        counts = np.bincount(same)
        size = len(score) / min(_GRADED_BINS, max(1, len(score) // 5))
        parts, filled = [0], 0
        for count in counts:
            full = filled >= size - 1e-9
            parts.append(parts[-1] + full)
            filled = count if full else filled + count
        member = np.array(parts[1:])[same]
    places = (member == place for place in np.unique(member))
    return [(float(score[p].mean()), float(human[p].mean()), int(p.sum())) for p in places]


def gap(parts: Sequence[Bin]) -> float:
    """Returns the mean distance between score and label, weighted by the rows of each bin
    (expected calibration error)."""
    return sum(n * abs(score - human) for score, human, n in parts) / sum(n for *_, n in parts)


def off_scale(row: ResultRow) -> str | None:
    """Returns why the scores cannot be compared with the labels, or None. They can if both
    scales are stated and 95% of the scores are on the judge's scale, with 10% leeway."""
    if row.kind == "binary":
        inside = all(-EQUAL <= p.score <= 1 + EQUAL for p in row.points)
        return None if inside else "its scores are not probabilities"
    if row.human_scale is None or row.judge_scale is None:
        return "its scale is not stated" if row.human_scale else "the labels' scale is not stated"
    low, high = padded(row.judge_scale, 0.1)
    inside = sum(low <= p.score <= high for p in row.points) >= 0.95 * len(row.points)
    return None if inside else "its scores leave its own scale"


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
    rows = benchmark.rows
    view = View(rows)
    cards: list[Block] = [TURN_KEY] if benchmark.disagreements else []
    for judge in dict.fromkeys([*view.judges, *(d.judge for d in benchmark.disagreements)]):
        drawn = []  # dialogues with the contributions, and how they add up to the score
        for item in (item for item in benchmark.disagreements if item.judge == judge):
            given, account = item.contributions, "This judge gives no contributions."
            if given is not None and (count := len(given.turns)) != len(item.turns):
                account = f"{count} contributions for {len(item.turns)} turns: not shown."
                given = None
            elif given is not None:
                account = account_of(given, item.score)
            track = rank_svg(item.human_rank, item.score_rank)
            chat = chat_block(item.turns, () if given is None else given.turns)
            card = {"item": item, "track": track, "account": account, "chat": chat}
            drawn.append(fragment(__package__, "disagreement.html", **card))
        if drawn:
            body = Markup('<div class="cards">{}</div>').format(Markup("").join(drawn))
            cards.append(Fold(f"{judge}: {len(drawn)} dialogues", [body], is_open=len(cards) == 1))
    signed = list(dict.fromkeys((row.judge, row.signature) for row in rows))
    signatures: list[Block] = []
    if signed:
        signatures = [Fold(counted([(len(signed), "signature")]), [signed])]
    # What judges do not see, what the middle of the scale means, and which rows are missing.
    graded = [row for row in rows if row.kind != "binary" and row.judge_scale]
    scales = [Dimension(r.dimension, "continuous", *(r.judge_scale or ())) for r in graded[:1]]
    missing = [value for name, value in benchmark.facts if name == LEFT_OUT]
    lost = {(r.judge, r.set_name): r for r in rows if r.scored < r.n}
    missing += [f"{j} on {s}: {r.n - r.scored:,} of {r.n:,} unscored" for (j, s), r in lost.items()]
    listed, trust = "; ".join(missing), trust_section((), scales)
    text = f"Rows that no figure counts: {listed}." if missing else "No row is left out."
    figures: Figures = {}
    boards: dict[str, Table] = {}
    heading = "Where judge and labels differ most"
    sections = [
        leaderboard(view, boards),
        *([replace(trust, blocks=[*trust.blocks, text])] if rows else []),
        systems(benchmark.systems),
        scatter(view, figures),
        calibration(view, figures),
        slices(view, "lang", "Language"),
        slices(view, "chatbot", "Chatbot"),
        Section("tables", "Further tables", folded(benchmark.tables, 3)),
        Section("disagreements", heading, cards, link="Disagreements"),
        facts_section(benchmark.facts),
    ]
    # CSV files have full precision; rows below the minimum coverage keep their figures there.
    whole: list[list[object]] = []
    sliced: list[list[object]] = []
    for r in rows:
        at = [r.judge, r.set_name, r.level, r.dimension, r.kind]
        about = [*at, r.n, r.scored, r.coverage, r.under_floor]
        whole += ([*about, metric, *_fields(e)] for metric, e in r.metrics.items())
        for name, part in r.slices.items():
            size = r.slice_sizes.get(name)
            sliced += ([*at, name, size, metric, *_fields(e)] for metric, e in part.items())
    columns = (*_ROW, "n", "scored", "coverage", "under_floor", "metric", *_ESTIMATE, *_BESIDE)
    figures |= papers_figures(view, benchmark.tables)
    slugs = unique_slugs([table.title for table in benchmark.tables])
    tables: dict[str, Table | Sheet] = {
        "figures": (columns, whole),
        "slices": ((*_ROW, "slice", "n", "metric", *_ESTIMATE, *_BESIDE), sliced),
        **{f"table-{slug}": one for slug, one in zip(slugs, benchmark.tables, strict=True)},
        **boards,
    }
    bars = {k: t for k, t in boards.items() if "bar" in t.column_kinds()}
    return write_page(
        output_dir / "report.html",
        benchmark.title,
        counted([(len(view.judges), "judge"), (len(view.sets), "set")]),
        sections,
        foot=Section("signatures", "Signatures", signatures),
        leads=__package__,
        tables=tables,
        figures={name: Figure(table.title, [table]) for name, table in bars.items()} | figures,
    )


def _fields(estimate: Estimate) -> list[object]:
    beside = estimate.beside or Estimate(None)
    return [*(getattr(estimate, name) for name in _ESTIMATE), beside.low, beside.high]


def ranking(row: ResultRow | None, metric: str) -> Estimate:
    """Returns the figure that ranks the judges: ``shown``, or None if fewer than 10 rows are
    scored."""
    if row is not None and row.scored < MIN_ROWS:
        return Estimate(None, reason=f"{row.scored} rows, fewer than {MIN_ROWS}: no rank")
    return shown(row, metric)


def human_ceiling(rows: Sequence[ResultRow], metric: str, part: str = "") -> Estimate:
    """Returns the human ceiling of a set, or of a slice such as ``lang:de``."""
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


def in_use(view: View, chosen: Mapping[str, str]) -> list[Block]:
    """Says how often the best judge of each set picks the chat that people prefer."""
    found = []
    for at in chosen.items():
        rows = view.rows(*at)
        best = min(rows, key=lambda row: _order(ranking(row, row.headline)))
        picked = ranking(best, "preferred")
        if best.kind != "binary" and picked.value is not None:
            rho = number(shown(best, "spearman").value or 0.0)
            share = f"{percent(picked.value)} of pairs {percent_interval(picked)}"
            found.append(f"in {share} on {at[0]} ({best.judge}, ρ {rho})")
    text = "When people prefer one of two chats, the best judge picks it too (a guess: 50%)"
    return [f"{text}: {'; '.join(found)}."] if found else []


def leaderboard(view: View, boards: dict[str, Table]) -> Section:
    """The judges on every set, by the dimension that the reader chooses: a table of all sets, then
    the tables of each. Issues have the tables of each set below. Adds the tables to ``boards``."""
    first = ", ".join(dict.fromkeys(view.headlines.values()))
    places = {first: view.headlines} if first else {}
    for binary in (False, True):
        of_set = {name: view.dimensions(name, binary=binary) for name in view.sets}
        for each in dict.fromkeys(d for found in of_set.values() for d in found):
            having = {name: each for name, found in of_set.items() if each in found}
            if not having.items() <= view.headlines.items():
                places[f"issue: {each}" if binary else each] = having
    options: dict[str, list[Block]] = {}
    for option, chosen in places.items():
        boards[f"leaderboard-{slug(option)}"] = matrix = _matrix(view, chosen)
        tables = {at: dimension_table(view, at[0], [at[1]]) for at in chosen.items()}
        boards |= {f"leaderboard-{view.sets[s]}-{view.slugs[d]}": t for (s, d), t in tables.items()}
        of_sets = [] if option.startswith("issue: ") else list(tables.values())
        options[option] = [*in_use(view, chosen), matrix, *of_sets]
    blocks: list[Block] = [Choice("Dimension", options)] if options else []
    with_issues = {name: d for name in view.sets if (d := view.dimensions(name, binary=True))}
    if with_issues:
        blocks.append(Markup("<h3>Issues: present or absent</h3>"))
    for i, (name, issues) in enumerate(with_issues.items()):
        text = f"{name}: {len(issues)} issues"
        blocks.append(Fold(text, [dimension_table(view, name, issues)], is_open=i == 0))
    return Section("leaderboard", "Leaderboard", blocks)


def _matrix(view: View, chosen: Mapping[str, str]) -> Table:
    """The headline figure of every judge on the dimension ``chosen`` for each set. The order is by
    worst set."""
    places = list(chosen.items())
    metric = view.rows(*places[0])[0].headline
    large = [at for at in places if any(row.scored >= MIN_ROWS for row in view.rows(*at))]
    ranks = {
        judge: {at: ranking(view.row(judge, *at), metric) for at in places} for judge in view.judges
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
        cells = [_marked(shown(view.row(judge, *at), metric), tops[at]) for at in places]
        rows.append((judge, _marked(worst[judge], top), *cells))
    no_worst = Estimate(None, reason="a ceiling belongs to one set")
    ceilings = [human_ceiling(view.rows(*at), metric) for at in places]
    rows.append(("human ceiling (beside ○ below)", no_worst, *ceilings))
    columns = ("Judge", "Worst set", *(f"{name}: {d}" for name, d in places))
    title = f"{label(metric)} with the labels on every set, best worst set first"
    lead = leading(row.clusters for at in places for row in view.rows(*at))
    note = f"95% intervals are for {WHOM[lead]}."
    return Table(title, columns, rows, note, pinned={-1: "ceiling"})


def dimension_table(view: View, name: str, dimensions: Sequence[str]) -> Table:
    """The judges on dimensions of one set, either all graded or all issues: a group of rows for
    each dimension, with the headline figure as text and as a bar."""
    binary = view.rows(name, dimensions[0])[0].kind == "binary"
    main = view.rows(name, dimensions[0])[0].headline
    metrics = METRICS if binary else (main, *(metric for metric in GRADED if metric != main))
    everything = [row for dimension in dimensions for row in view.rows(name, dimension)]
    lead = leading(row.clusters for row in everything)
    beside = any(shown(row, main).beside for row in everything)
    other, note = [BESIDE[lead]] if beside else [], f"95% intervals are for {WHOM[lead]}."
    rows: list[Row] = []
    headings: dict[int, str] = {}
    pinned: dict[int, Pin] = {}
    for dimension in dimensions:
        if len(dimensions) > 1:
            headings[len(rows)] = dimension
        judged = sorted(view.rows(name, dimension), key=lambda row: _order(ranking(row, main)))
        ceilings = [human_ceiling(judged, metric) for metric in metrics]
        top = _best(ranking(row, main) for row in judged)
        each = [shown(r, main, source) for r in judged for source in ("metrics", "like_for_like")]
        span = (min(v for e in each for v in (0.0, e.low, e.value) if v is not None), 1.0)
        for row in judged:
            headline, like = shown(row, main), shown(row, main, "like_for_like")
            coverage: Cell = Estimate(None, reason="no rows with a label")
            if row.coverage is not None:
                badge = "under floor" if row.under_floor else ""
                coverage = Percent(row.coverage, f"{row.scored:,} of {row.n:,} scored", badge)
            rows.append((
                row.judge,
                _marked(headline, top),
                *[Figured(headline.beside, bare=True) for _ in other],
                IntervalBar(headline, span, ceilings[0].value, like.value),
                like,
                Figured(like if like.value is None else row.ceiling_difference),
                *(Figured(shown(row, metric), brief=metric in _BRIEF) for metric in metrics[1:]),
                row.n,
                coverage,
            ))  # fmt: skip
        pinned[len(rows)] = "ceiling"
        # The ceiling's headline figure is in the column of the judges like for like.
        bar = IntervalBar(Estimate(None), span, ceilings[0].value)
        others = [Figured(ceiling, brief=binary) for ceiling in ceilings]
        answered = max(row.ceiling_rows for row in judged) or ""
        blank = [""] * (1 + len(other))
        rows.append(("human ceiling", *blank, bar, others[0], "", *others[1:], answered, ""))
    heads = [label(metric) for metric in metrics]
    columns = ("Judge", heads[0], *other, "", "Like for like", "minus ceiling",
               *heads[1:], "n", "Coverage")  # fmt: skip
    one = dimensions[0] if len(dimensions) == 1 else "issues"
    title = name if len(dimensions) > 1 and not binary else f"{name}: {one}"
    return Table(title, columns, rows, note, headings=headings, pinned=pinned)


def slices(view: View, part: str, title: str) -> Section:
    """For each set the figures by ``part`` (lang or chatbot), one column for each judge. A set with
    one part only is left out."""
    blocks: list[Block] = []
    for name in view.sets:
        tables = []
        for dimension in view.dimensions(name):
            judged = view.rows(name, dimension)
            metric = judged[0].headline
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


def papers_figures(view: View, tables: Sequence[Table]) -> Figures:
    """Returns figures of the papers, for files: correlations and F1+ by language (MEDAL, Figures 4,
    11 and 14); F1+, F1-, precision, recall and accuracy of each issue (5, 12, 13) and the rows with
    it (13); and the follow-ups that were chosen (DIET, 3)."""
    figures: Figures = {}
    for name, at in view.sets.items():
        issues, counts = view.dimensions(name, binary=True), []
        for dimension in view.dimensions(name):
            rows, binary = view.rows(name, dimension), dimension in issues
            langs = sorted({p for row in rows for p in row.slices if p.startswith("lang:")})
            title = f"{name}: {dimension} by language"
            for metric in ("f1_present",) if binary else ("spearman", "pearson"):
                if len(langs) > 1:
                    panels = [_panel(rows, metric, part) for part in (*langs, "")]
                    figures[f"{metric}-{at}-{view.slugs[dimension]}"] = Figure(title, panels)
            if binary:  # people's number is the mean over annotators
                found = {row.judge: float(row.counts.get("judge_present", 0)) for row in rows}
                found["labels"] = sum(p.human for p in rows[0].points)
                bars = [Bar(who, [BarSegment(n, 0)], text=f"{n:g}") for who, n in found.items()]
                counts.append(Bars(dimension, bars, max(found.values()) or 1, dimension))
        if issues:
            figures[f"rows-{at}"] = Figure(f"{name}: rows with the issue", counts)
        for metric in METRICS if issues else ():
            panels = [_panel(view.rows(name, issue), metric, "", issue) for issue in issues]
            figures[f"{metric}-{at}"] = Figure(f"{name}: {label(metric)}", panels)
    chosen: dict[str, dict[str, list[Bar]]] = {}
    for row in (row for table in tables if table.title == FOLLOW_UPS for row in table.rows):
        if isinstance(share := row[-1], float):
            bar = Bar(str(row[3]), [BarSegment(share, 0)], text=number(share, 1))
            chosen.setdefault(str(row[0]), {}).setdefault(f"{row[1]}: {row[2]}", []).append(bar)
    for name, panes in chosen.items():
        end = max(bar.segments[0].length for bars in panes.values() for bar in bars)
        each = [Bars(who, bars, end, who, wide=True) for who, bars in panes.items()]
        figures[f"follow-ups-{view.sets.get(name, slug(name))}"] = Figure(
            f"{name}: follow-ups, % of choices", each
        )
    return figures


def _panel(rows: Sequence[ResultRow], metric: str, part: str, title: str = "") -> Table:
    """The figures of all judges on a set, or on a slice such as ``lang:de``, and the ceiling."""
    ceiling = human_ceiling(rows, metric, part).value
    cells: list[Row] = []
    for row in rows:
        sliced = part and not row.under_floor
        e = checked(row.slices.get(part, {}).get(metric)) if sliced else shown(row, metric)
        cells.append((row.judge, e, IntervalBar(e, (0.0, 1.0), ceiling)))
    return Table(title or part[5:] or "all", ("Judge", label(metric), ""), cells)


def systems(agreements: Sequence[SystemAgreement]) -> Section:
    """How well judges order the chatbots: a table for each set and dimension, best judge first, and
    the split half of people at the end."""
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
        rows.append(("labels, split half", *people, None, None))
        columns = ("Judge", *_ORDERS.values(), "Chatbots", "Rows")
        title = f"{set_name}: {dimension}, order of chatbots"
        tables.append(Table(title, columns, rows, pinned={-1: "ceiling"}))
    return Section("systems", "Chatbots in order", folded(tables, 3))
