"""Page: a body of scored chats as one self-contained HTML file, figures and tables beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from medal_judges.eval.traffic.conversations import (
    LONGEST,
    Conversation,
    Packed,
    pack,
    reasons_of,
)
from medal_judges.eval.traffic.figures import TrafficFigures
from medal_judges.eval.traffic.findings import findings
from medal_judges.eval.traffic.gate import GateResult
from medal_judges.eval.traffic.plots import distribution_figure, timeline_figure
from medal_judges.eval.traffic.selection import Reason, Selection, told_unusual
from medal_judges.eval.traffic.tables import (
    change_table,
    column_name,
    group_map,
    group_table,
    is_share,
    summary_table,
    write_tables,
)
from medal_judges.eval.traffic.times import moment_text
from medal_judges.eval.traffic.traffic import THRESHOLD, Traffic
from medal_judges.report.chat import TURN_KEY, account, chat_html
from medal_judges.report.figure import Figure
from medal_judges.report.figure_files import write_figures
from medal_judges.report.numbers import interval, number, percent, percent_interval
from medal_judges.report.page import (
    Block,
    Facts,
    Fold,
    Section,
    counted,
    fragment,
    render_page,
)
from medal_judges.report.table import Table, unique_slugs
from medal_judges.stats.estimate import Estimate
from medal_judges.storage.files import atomic_write

_PACKAGE = "medal_judges.eval.traffic"
_IN_SIGHT = 20  # groups; the rest of a long table is folded
_KINDS: tuple[tuple[Reason, str], ...] = (
    ("worst", "Worst"),
    ("least certain", "Least certain"),
    ("most unusual", "Most unusual"),
)


@dataclass(frozen=True, slots=True)
class TrafficReport:
    """Everything on the page. ``people``: the judge held against people's labels."""

    title: str
    traffic: Traffic
    figures: TrafficFigures
    selection: Selection
    found: Mapping[int, Conversation]
    gates: Sequence[GateResult] = ()
    facts: Sequence[tuple[str, str]] = ()
    people: Section | None = None


def write_traffic_report(report: TrafficReport, folder: Path) -> tuple[Path, str]:
    """Write report.html, tables/*.csv and figures/*.png under ``folder``: path of the page, and
    why there are no figures where matplotlib is not installed."""
    path = atomic_write(folder / "report.html", render(report))
    write_tables(report.traffic, report.figures, report.selection, report.found, folder / "tables")
    write_figures(_figures(report), folder / "figures")
    return path, ""


def render(report: TrafficReport) -> str:
    """The whole page as text."""
    traffic = report.traffic
    packed = pack(traffic, report.selection, report.found)
    sections = [
        _summary(report),
        *([report.people] if report.people else []),
        _time(report),
        *(_group(report, column) for column in report.figures.groups),
        _read_first(report),
        _conversations(report, packed),
        _distribution(report),
        Section("facts", "How it was made", [Facts(report.facts)] if report.facts else []),
    ]
    counts = [(traffic.dialogues, "conversation")]
    if traffic.unit == "judged turn":
        counts.append((traffic.rows, traffic.unit))
    counts.append((len(traffic.dimensions), "dimension"))
    lang = traffic.columns.get("lang")
    if lang is not None:
        counts.append((len(lang.names), "language"))
    return render_page(
        report.title, counted(counts), sections, foot=_signatures(traffic), leads=_PACKAGE,
        scripts=("conversations.js",),
    )  # fmt: skip


def _summary(report: TrafficReport) -> Section:
    traffic, figures = report.traffic, report.figures
    if not traffic.rows:
        return Section("summary", "In short", ["The file has no judgements: nothing to report on."])
    body = fragment(
        _PACKAGE,
        "summary.html",
        tiles=_tiles(traffic, figures),
        gates=report.gates,
        findings=findings(traffic, figures),
    )
    return Section("summary", "In short", [body, summary_table(traffic, figures)])


def _tiles(traffic: Traffic, figures: TrafficFigures) -> list[tuple[str, str, str, str]]:
    """(Name, figure, interval, what it is) of the few figures that come first."""
    tiles = []

    def who(name: str) -> str:
        return "corrected by people's labels" if figures.is_corrected(name) else "as judged"

    if (head := traffic.headline) is not None:
        dimension = traffic.dimensions[head]
        scale = "" if head in traffic.assumed else f"of {dimension.low:g} to {dimension.high:g}, "
        tiles.append(_tile(head, figures.lead(head), f"mean, {scale}{who(head)}"))
    if figures.any_issue is not None:
        what = f"{traffic.unit}s with an issue or more, as judged"
        tiles.append(_tile("any issue", figures.any_issue, what, True))
    shares = [name for name in traffic.issues if traffic.dimensions[name].good == "low"]
    if shares:
        most = max(shares, key=lambda name: figures.lead(name).value or 0.0)
        what = f"the most frequent issue, {who(most)}"
        tiles.append(_tile(most, figures.lead(most), what, True))
    coverage = traffic.coverage
    if coverage is not None:
        missing = traffic.rows - traffic.scored
        told = f"{missing:,} are not scored in full" if missing else "none is missing"
        tiles.append(("scored", f"{100 * coverage:.1f}%", "",
                      f"of {traffic.rows:,} {traffic.unit}s; {told}"))  # fmt: skip
    return tiles


def _tile(
    name: str, estimate: Estimate, what: str, share: bool = False
) -> tuple[str, str, str, str]:
    if estimate.value is None:
        return name, "–", "", estimate.reason or ""
    if share:
        return name, percent(estimate.value), percent_interval(estimate), what
    return name, number(estimate.value), interval(estimate), what


def _time(report: TrafficReport) -> Section:
    timeline = report.figures.timeline
    blocks: list[Block] = []
    if timeline is not None:
        figure = timeline_figure(report.traffic, report.figures)
        blocks = [*([figure] if figure else []), change_table(report.traffic, timeline)]
    return Section("time", "Over time", blocks)


def _group(report: TrafficReport, column: str) -> Section:
    traffic, figures = report.traffic, report.figures
    groups = figures.groups[column]
    blocks: list[Block] = []
    for table in (
        group_table(traffic, figures, column, groups),
        group_map(traffic, figures, column, groups),
    ):
        if len(table.columns) < 2:
            continue
        top = Table(
            table.title, table.columns, table.rows[:_IN_SIGHT], table.note, style=table.style
        )
        blocks.append(top)
        if len(table.rows) > _IN_SIGHT:
            rest = Table(f"{table.title}: the smaller ones", table.columns,
                         table.rows[_IN_SIGHT:], style=table.style)  # fmt: skip
            blocks.append(Fold(f"{len(rest.rows)} more, smaller ones", [rest]))
    if len(groups) == 1:
        blocks.insert(0, f"All rows have one {column}: there is nothing to compare.")
    name = column_name(column)
    slug = unique_slugs(list(report.figures.groups))[list(report.figures.groups).index(column)]
    lead = fragment(_PACKAGE, "group_lead.html", column=column, unit=traffic.cluster_name)
    return Section(f"by-{slug}", f"By {name.lower()}", blocks, lead=lead, link=name)


def _read_first(report: TrafficReport) -> Section:
    traffic, selection = report.traffic, report.selection
    blocks: list[Block] = []
    has_texts = any(c.turns for c in report.found.values())
    if (
        selection.first
        and has_texts
        and any(c.judgement.contributions for c in report.found.values())
    ):
        blocks.append(TURN_KEY)
    if selection.first and not has_texts:
        blocks.append("The texts are not here: give the chats that were scored with --chats.")
    for reason, name in _KINDS:
        rows = [row for row, why in selection.first if why == reason]
        if not rows:
            continue
        cards = [_card(report, row, reason) for row in rows]
        body = Markup('<div class="cards">{}</div>').format(Markup("").join(cards))
        blocks.append(Fold(f"{name}: {len(rows)}", [body], is_open=reason == "worst"))
    if traffic.rows and not selection.first:
        blocks.append("Nothing is scored, so no conversation comes first.")
    return Section("first", "Read these first", blocks, link="Read first")


def _card(report: TrafficReport, row: int, reason: Reason) -> Markup:
    traffic, found = report.traffic, report.found[row]
    judgement, head = found.judgement, traffic.headline
    given = judgement.contributions.get(head) if head is not None else None
    if given is None and judgement.contributions:
        head = next(iter(judgement.contributions))
        given = judgement.contributions[head]
    scores = [
        (name, percent(value) if is_share(traffic, name) else number(value),
         name in traffic.issues and _is_fault(traffic, name, value))
        for name in traffic.scores
        if (value := judgement.scores.get(name)) is not None
    ]  # fmt: skip
    chips = [c.names[code] for c in traffic.columns.values() if (code := c.codes[row]) >= 0]
    if traffic.times is not None and (moment := moment_text(traffic.times[row])):
        chips.append(moment)
    return fragment(
        _PACKAGE,
        "card.html",
        id=judgement.id,
        turn=judgement.turn,
        chips=chips,
        scores=sorted(scores, key=lambda each: (each[0] != traffic.headline, not each[2])),
        why=told_unusual(report.selection, traffic, row) if reason == "most unusual" else "",
        reasons=reasons_of(judgement),
        account=f"{head}: {account(given, len(found.turns))}" if given and found.turns else "",
        cut=found.cut,
        chat=chat_html(found.turns, given, judgement.turn) if found.turns else "",
    )


def _is_fault(traffic: Traffic, name: str, value: float) -> bool:
    return (value >= THRESHOLD) == (traffic.dimensions[name].good == "low")


def _conversations(report: TrafficReport, packed: Packed) -> Section:
    traffic, selection = report.traffic, report.selection
    if not traffic.rows:
        return Section("conversations", "All conversations", [])
    here, total = len(selection.rows), traffic.rows
    told = []
    if here < total:
        told.append(
            f"{here:,} of {total:,} {traffic.unit}s are on this page: the "
            f"{selection.worst_kept:,} worst of all, the least certain and the most unusual, "
            "and a random sample of the others. The figures above are of all."
        )
    if packed.longest < LONGEST:
        told.append(
            f"Texts are cut at {packed.longest:,} characters a conversation, so that the page "
            "stays under 20 MB."
        )
    body = Markup(
        '<div id="conversation-list"><noscript><p class="note">The list needs JavaScript; '
        "tables/conversations.csv has it too.</p></noscript></div>"
    )
    heading = "All conversations" if here == total else "Conversations"
    return Section("conversations", heading, [*told, body, packed.data], link="Conversations")


def _distribution(report: TrafficReport) -> Section:
    figure = distribution_figure(report.traffic)
    return Section("distribution", "Distribution", [figure] if figure else [])


def _signatures(traffic: Traffic) -> Section:
    items = Markup("").join(
        Markup("<p><code>{}</code> <span class='ci'>{} {}s</span></p>").format(
            text, f"{n:,}", traffic.unit
        )
        for text, n in traffic.signatures.items()
    )
    return Section("signatures", "Signature of the judge", [items] if items else [])


def _figures(report: TrafficReport) -> dict[str, Figure]:
    traffic, figures = report.traffic, report.figures
    drawn: dict[str, Figure | None] = {
        "distribution": distribution_figure(traffic),
        "time": timeline_figure(traffic, figures),
    }
    if any(e.value is not None for e in figures.overall.values()):
        table = summary_table(traffic, figures)
        graded = [row for row in table.rows if str(row[0]) in traffic.graded]
        issues = [row for row in table.rows if str(row[0]) in traffic.issues]
        for name, rows in (("graded", graded), ("issues", issues)):
            if rows:
                drawn[name] = Figure(report.title, [Table(table.title, table.columns, rows)])
    for slug, column in zip(unique_slugs(list(figures.groups)), figures.groups, strict=True):
        groups = figures.groups[column][:_IN_SIGHT]
        table = group_table(traffic, figures, column, groups)
        if "95%" in table.columns:
            drawn[f"by-{slug}"] = Figure(table.title, [table])
    return {name: figure for name, figure in drawn.items() if figure is not None}
