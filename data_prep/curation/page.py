"""The report of a curation as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from medal_judges.data_prep.curation.balance import LanguageBalance
from medal_judges.data_prep.curation.job import Curation
from medal_judges.report.numbers import number
from medal_judges.report.page import Block, Fold, Section, facts_section, render_page
from medal_judges.report.table import Cell, Heat, Table
from medal_judges.stats.results import Estimate

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
    balances = curation.balances
    total = sum(b.selected for b in balances)
    said = f"{total:,} dialogues of {sum(b.pool for b in balances):,}"
    said += f" · {len(balances)} languages · policy {curation.plan.policy}"
    tables = [_evenness(balances, name, title) for name, title in FACTORS.items()]
    counts = [_counts(balances, name, title) for name, title in FACTORS.items()]
    sections = (
        Section("evenness", "Evenness", [t for t in tables if t.rows], _EVENNESS),
        Section("counts", "Counts", counts, _COUNTS),
        Section("unmet", "Targets not met", _unmet(balances)),
        Section("left-out", "Left out", _left_out(curation), _LEFT_OUT),
        facts_section(_facts(curation)),
    )
    return render_page("Curation", said, sections)


def _evenness(balances: Sequence[LanguageBalance], name: str, title: str) -> Table:
    figures = ("evenness", "evenness_at_random", "evenness_of_pool", "ratio", "ratio_at_random")
    none = Estimate(None, reason="nothing of it was selected")
    factors = [(b.lang, b.factor(name)) for b in balances]
    rows = [
        (lang, *(none if (v := getattr(factor, f)) is None else v for f in figures))
        for lang, factor in factors
        if factor.evenness_of_pool is not None
    ]
    columns = ("Language", "Selection", "At random", "Pool", "Least / most", "… at random")
    return Table(title, columns, rows)


def _counts(balances: Sequence[LanguageBalance], name: str, title: str) -> Table:
    """A table of a factor: values by language; the deeper the blue, the more of it."""
    counts = {(b.lang, v.value): v for b in balances for v in b.factor(name).values}
    most = max((v.selected for v in counts.values()), default=0) or 1

    def cell(lang: str, value: str) -> Cell:
        v = counts.get((lang, value))
        if v is None:
            return ""
        shown = Markup('{} <span class="ci">of {:,}</span>').format(v.selected, v.pool)
        return Heat(shown, v.selected / most, value=v.selected)

    values = dict.fromkeys(v.value for b in balances for v in b.factor(name).values)
    rows = [(v or "(not named)", *(cell(b.lang, v) for b in balances)) for v in values]
    return Table(title, ("", *(b.lang for b in balances)), rows, style="heat")


def _unmet(balances: Sequence[LanguageBalance]) -> list[Block]:
    rows = [
        (b.lang, FACTORS[u.factor], u.value or "(not named)", u.reached, u.target, u.reason)
        for b in balances
        for u in b.unmet
    ]
    columns = ("Language", "Of", "Value", "Reached", "Target", "Why")
    blocks: list[Block] = [Table("Less than an even share", columns, rows)] if rows else []
    for b in balances:
        if b.skipped:
            skipped = [
                (category, "any" if factor == "category" else f"{factor} {value}", times)
                for category, factor, value, times in b.skipped
            ]
            heads = ("Issue in turn", "Wished for", "Times passed over")
            table = Table(f"{b.lang}: no dialogue of the issue suited", heads, skipped)
            wishes = sum(times for _, _, times in skipped)
            blocks.append(Fold(f"{b.lang}: {wishes} wishes without a candidate", [table]))
    return blocks


def _left_out(curation: Curation) -> list[Block]:
    listed = curation.left_out[:_LISTED]
    rows = [
        (
            out.id,
            out.lang,
            out.detail,
            Markup("<code>{}</code>").format(out.keyword or ""),
            out.comment or "",
        )
        for out in listed
    ]
    columns = ("Dialogue", "Language", "Why", "Keyword", "Comment")
    table = Table(f"{len(listed)} of {len(curation.left_out)}", columns, rows)
    return [Fold(f"{len(curation.left_out)} dialogues", [table])] if rows else []


def _facts(curation: Curation) -> list[tuple[str, str]]:
    facts = [(name, str(value)) for name, value in curation.facts().items()]
    effective = ", ".join(f"{b.lang} {b.effective:.0f}" for b in curation.balances)
    said = f"{effective}: as many equally weighted dialogues say as much about the pool"
    facts.append(("effective size by the weights", said))
    covered = [f"{b.lang} {number(b.covered)}" for b in curation.balances if b.covered is not None]
    if covered:
        facts.append(("share of the pool in cells with a selected dialogue", ", ".join(covered)))
    return facts
