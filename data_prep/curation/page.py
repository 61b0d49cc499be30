"""The report of a curation as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence

from medal_judges.data_prep.curation.balance import FactorBalance, LanguageBalance
from medal_judges.data_prep.curation.job import Curation
from medal_judges.report.heat import heat_cell, heat_table
from medal_judges.report.markup import (
    Column,
    Group,
    details,
    escape,
    html_cell,
    number_cell,
    row_head,
    section,
    sortable,
    text_cell,
)
from medal_judges.report.numbers import number
from medal_judges.report.provenance import fact_section
from medal_judges.report.shell import whole_page

_ANCHORS = (
    ("evenness", "Evenness"),
    ("counts", "Counts"),
    ("unmet", "Targets not met"),
    ("left-out", "Left out"),
    ("facts", "How it was made"),
)
FACTORS = {"category": "Issues", "level": "Overall score", "chatbot": "Chatbots", "user": "Users"}
_LISTED = 300  # left-out rows on the page; left_out.jsonl has all
_EVENNESS = (
    "Entropy of the counts over that of equal counts, over the values that the pool has: 1 is "
    "even, 0 is one value alone. Beside it the same for a random sample of the same size (mean of "
    "200) and for the pool."
)
_COUNTS = "Selected, of how many in the pool. Issues overlap: a dialogue can have several."
_LEFT_OUT = "Dialogues that were no candidates. left_out.jsonl has all of them."


def curation_page(curation: Curation) -> str:
    """The page as text; nothing is asked of the network."""
    total = sum(b.selected for b in curation.balances)
    said = f"{total:,} dialogues of {sum(b.pool for b in curation.balances):,}"
    said += f" · {len(curation.balances)} languages · policy {curation.plan.policy}"
    sections = (
        section("evenness", "Evenness", _evenness(curation.balances), _EVENNESS)
        + section("counts", "Counts", _all_counts(curation.balances), _COUNTS)
        + section("unmet", "Targets not met", _unmet(curation.balances))
        + section("left-out", "Left out", _left_out(curation), _LEFT_OUT)
        + _facts(curation)
    )
    return whole_page("Curation", said, _ANCHORS, sections)


def _evenness(balances: Sequence[LanguageBalance]) -> str:
    tables = []
    for name, title in FACTORS.items():
        rows = [
            row_head(b.lang) + _evenness_cells(b.factor(name))
            for b in balances
            if b.factor(name).evenness_of_pool is not None
        ]
        columns = ["Language", "Selection", "At random", "Pool", "Least / most", "… at random"]
        if rows:
            tables.append(sortable(title, [_words(columns[0]), *columns[1:]], [Group(rows)]))
    return "".join(tables)


def _evenness_cells(factor: FactorBalance) -> str:
    figures = (
        factor.evenness,
        factor.evenness_at_random,
        factor.evenness_of_pool,
        factor.ratio,
        factor.ratio_at_random,
    )
    return "".join(number_cell(value, "nothing of it was selected") for value in figures)


def _all_counts(balances: Sequence[LanguageBalance]) -> str:
    return "".join(_counts(balances, name, title) for name, title in FACTORS.items())


def _counts(balances: Sequence[LanguageBalance], name: str, title: str) -> str:
    """A table of a factor: values by language; the deeper the blue, the more of it."""
    values = dict.fromkeys(v.value for b in balances for v in b.factor(name).values)
    found = {(b.lang, v.value): v for b in balances for v in b.factor(name).values}
    most = max((v.selected for v in found.values()), default=0) or 1
    rows = []
    for value in values:
        cells = ""
        for b in balances:
            v = found.get((b.lang, value))
            cells += "<td></td>" if v is None else _count_cell(v.selected, v.pool, most)
        rows.append(row_head(value or "(not named)") + cells)
    return heat_table(title, "", [b.lang for b in balances], rows)


def _count_cell(selected: int, pool: int, most: int) -> str:
    return heat_cell(f'{selected} <span class="ci">of {pool:,}</span>', selected / most, "pos")


def _unmet(balances: Sequence[LanguageBalance]) -> str:
    rows = [
        row_head(b.lang) + text_cell(FACTORS[u.factor]) + text_cell(u.value or "(not named)")
        + number_cell(u.reached) + number_cell(u.target) + text_cell(u.reason)
        for b in balances
        for u in b.unmet
    ]  # fmt: skip
    columns = [_words("Language"), _words("Of"), _words("Value"), "Reached", "Target",
               _words("Why")]  # fmt: skip
    table = sortable("Less than an even share", columns, [Group(rows)]) if rows else ""
    return table + "".join(_skipped(b) for b in balances)


def _skipped(b: LanguageBalance) -> str:
    if not b.skipped:
        return ""
    rows = [
        row_head(category) + text_cell("any" if factor == "category" else f"{factor} {value}")
        + number_cell(times)
        for category, factor, value, times in b.skipped
    ]  # fmt: skip
    columns = [_words("Issue in turn"), _words("Wished for"), "Times passed over"]
    table = sortable(f"{b.lang}: no dialogue of the issue suited", columns, [Group(rows)])
    return details(f"{b.lang}: {sum(s[3] for s in b.skipped)} wishes without a candidate", table)


def _left_out(curation: Curation) -> str:
    listed = curation.left_out[:_LISTED]
    rows = [
        row_head(out.id) + text_cell(out.lang) + text_cell(out.detail)
        + html_cell(f"<code>{escape(out.keyword or '')}</code>", "words")
        + text_cell(out.comment or "")
        for out in listed
    ]  # fmt: skip
    columns = [_words(name) for name in ("Dialogue", "Language", "Why", "Keyword", "Comment")]
    if not rows:
        return ""
    title = f"{len(listed)} of {len(curation.left_out)}"
    return details(f"{len(curation.left_out)} dialogues", sortable(title, columns, [Group(rows)]))


def _facts(curation: Curation) -> str:
    facts = [(name, str(value)) for name, value in curation.facts().items()]
    effective = ", ".join(f"{b.lang} {b.effective:.0f}" for b in curation.balances)
    said = f"{effective}: as many equally weighted dialogues say as much about the pool"
    facts.append(("effective size by the weights", said))
    covered = [f"{b.lang} {number(b.covered)}" for b in curation.balances if b.covered is not None]
    if covered:
        facts.append(("share of the pool in cells with a selected dialogue", ", ".join(covered)))
    return fact_section(facts)


def _words(name: str) -> Column | str:
    return Column(name, "words")
