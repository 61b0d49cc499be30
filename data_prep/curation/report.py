"""The report of a curation: tables in the terminal, curation.json, counts.csv and a page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from medal_judges.data_prep.curation.balance import LanguageBalance
from medal_judges.data_prep.curation.job import Curation
from medal_judges.report.console import print_tables
from medal_judges.report.numbers import number
from medal_judges.report.page import Block, Fold, Section, facts_section, write_page
from medal_judges.report.table import Cell, Heat, Table, write_csv
from medal_judges.stats.estimate import Estimate
from medal_judges.storage.files import atomic_write

FACTORS = {"category": "Issues", "level": "Overall score", "chatbot": "Chatbots", "user": "Users"}
_LISTED = 300  # left-out rows on the page; left_out.jsonl has all
_EVENNESS = (
    "Entropy of the counts over that of equal counts, over the values that the pool has: 1 is "
    "even, 0 is one value alone. Beside it the same for a random sample of the same size (mean of "
    "200) and for the pool."
)
_COUNTS = "Selected, of how many in the pool. Issues overlap: a dialogue can have several."
_LEFT_OUT = "Dialogues that were no candidates. left_out.jsonl has all of them."
_EFFECTIVE = "as many equally weighted dialogues say as much about the pool"


def write_report(curation: Curation, folder: Path) -> None:
    """Write curation.json (how it was made, what was left out, the balances), counts.csv and
    curation.html into ``folder``."""
    record = {
        "facts": curation.facts(),
        "left_out": [
            {"lang": lang, "reason": reason, "dialogues": count}
            for (lang, reason), count in _left_out_counts(curation)
        ],
        "uninterpretable_without_comment": curation.pool.silent,
        "languages": [balance.to_record() for balance in curation.balances],
    }
    text = json.dumps(record, ensure_ascii=False, indent=1) + "\n"
    atomic_write(folder / "curation.json", text)
    columns = ("lang", "factor", "value", "pool", "selected", "target", "at_random")
    lines = (
        (b.lang, name, v.value, v.pool, v.selected, round(v.target, 2), round(v.at_random, 2))
        for b in curation.balances
        for name, factor in b.factors.items()
        for v in factor.values
    )
    write_csv(folder / "counts.csv", columns, lines)
    _write_page(curation, folder)


def print_report(curation: Curation) -> None:
    """Print evenness by language, counts by factor, and what could not be met."""
    balances = curation.balances
    rows = [(b.lang, b.pool, b.selected, b.contexts, round(b.effective)) for b in balances]
    columns = ("Language", "Pool", "Selected", "Contexts", "Effective")
    counts = [t for t in map(_counts, [balances] * len(FACTORS), FACTORS) if len(t.rows) > 1]
    tables = [Table("Dialogues", columns, rows), *_evenness(balances), *counts]
    print_tables(tables, [f"effective: {_EFFECTIVE}, by the weights", *_notes(curation)])


def _write_page(curation: Curation, folder: Path) -> None:
    balances = curation.balances
    total = sum(b.selected for b in balances)
    subtitle = f"{total:,} dialogues of {sum(b.pool for b in balances):,}"
    subtitle += f" · {len(balances)} languages · policy {curation.plan.policy}"
    effective = ", ".join(f"{b.lang} {b.effective:.0f}" for b in balances)
    covered = [f"{b.lang} {number(b.covered)}" for b in balances if b.covered is not None]
    facts = {name: str(value) for name, value in curation.facts().items()}
    facts["effective size by the weights"] = f"{effective}: {_EFFECTIVE}"
    if covered:
        facts["share of the pool in cells with a selected dialogue"] = ", ".join(covered)
    sections = (
        Section("evenness", "Evenness", _evenness(balances), _EVENNESS),
        Section("counts", "Counts", [_counts(balances, name) for name in FACTORS], _COUNTS),
        Section("unmet", "Targets not met", _unmet(balances)),
        Section("left-out", "Left out", _left_out(curation), _LEFT_OUT),
        facts_section(facts.items()),
    )
    write_page(folder / "curation.html", "Curation", subtitle, sections)


def _evenness(balances: Sequence[LanguageBalance]) -> list[Table]:
    """A table for each factor of which a pool has several values."""
    figures = ("evenness", "evenness_at_random", "evenness_of_pool", "ratio", "ratio_at_random")
    columns = ("Language", "Selection", "At random", "Pool", "Least / most", "… at random")
    none = Estimate(None, reason="nothing of it was selected")
    tables = []
    for name, title in FACTORS.items():
        factors = [(b.lang, b.factors[name]) for b in balances]
        rows = [
            (lang, *(none if (v := getattr(factor, f)) is None else v for f in figures))
            for lang, factor in factors
            if factor.evenness_of_pool is not None
        ]
        tables += [Table(f"Evenness: {title.lower()}", columns, rows)] if rows else []
    return tables


def _counts(balances: Sequence[LanguageBalance], name: str) -> Table:
    """A table of a factor: values by language; the deeper the blue, the more of it."""
    counts = {(b.lang, v.value): v for b in balances for v in b.factors[name].values}
    most = max((v.selected for v in counts.values()), default=0) or 1

    def cell(lang: str, value: str) -> Cell:
        v = counts.get((lang, value))
        if v is None:
            return ""
        shown = Markup('{} <span class="ci">of {:,}</span>').format(v.selected, v.pool)
        return Heat(shown, v.selected / most, value=v.selected)

    values = dict.fromkeys(v.value for b in balances for v in b.factors[name].values)
    rows = [(v or "(not named)", *(cell(b.lang, v) for b in balances)) for v in values]
    return Table(FACTORS[name], ("", *(b.lang for b in balances)), rows, style="heat")


def _unmet(balances: Sequence[LanguageBalance]) -> list[Block]:
    rows = [
        (b.lang, FACTORS[name], v.value or "(not named)", v.selected, v.target, v.unmet)
        for b in balances
        for name, v in b.unmet
    ]
    columns = ("Language", "Of", "Value", "Reached", "Target", "Why")
    blocks: list[Block] = [Table("Less than an even share", columns, rows)] if rows else []
    for b in balances:
        skipped = [
            (category, "any" if factor == "category" else f"{factor} {value}", times)
            for category, factor, value, times in b.skipped
        ]
        if skipped:
            heads = ("Issue in turn", "Wish", "Times skipped")
            table = Table(f"{b.lang}: no dialogue of the issue fitted", heads, skipped)
            times = sum(row[-1] for row in skipped)
            blocks.append(Fold(f"{b.lang}: {times} wishes without a candidate", [table]))
    return blocks


def _left_out(curation: Curation) -> list[Block]:
    rows = [
        (
            out.id,
            out.lang,
            out.detail,
            Markup("<code>{}</code>").format(out.keyword or ""),
            out.comment or "",
        )
        for out in curation.pool.left_out[:_LISTED]
    ]
    columns = ("Dialogue", "Language", "Why", "Keyword", "Comment")
    table = Table(f"{len(rows)} of {len(curation.pool.left_out)}", columns, rows)
    return [Fold(f"{len(curation.pool.left_out)} dialogues", [table])] if rows else []


def _left_out_counts(curation: Curation) -> list[tuple[tuple[str, str], int]]:
    """((language, reason), dialogues), sorted."""
    return sorted(Counter((out.lang, str(out.reason)) for out in curation.pool.left_out).items())


def _notes(curation: Curation) -> list[str]:
    """What could not be met, and what was left out, as sentences."""
    lines = [
        f"left out: {count} in {lang}, {reason.replace('_', ' ')}"
        for (lang, reason), count in _left_out_counts(curation)
    ]
    if silent := curation.pool.silent:
        lines.append(
            f"{silent} uninterpretable dialogues have no comment: the foreign-language filter "
            "cannot judge them, they stay"
        )
    for b in curation.balances:
        if b.selected < b.wanted:
            lines.append(f"{b.lang}: {b.selected} of {b.wanted}, the pool has no more")
        for reason in dict.fromkeys(v.unmet for _, v in b.unmet):
            values = ", ".join(
                f"{'score ' * (name == 'level')}{v.value or '(not named)'} "
                f"{v.selected} of {v.target:.0f}"
                for name, v in b.unmet
                if v.unmet == reason
            )
            lines.append(f"{b.lang}: short of an even share, {reason}: {values}")
        for user, chatbot in b.unseeded:
            lines.append(f"{b.lang}: no clean best-scored dialogue of {user} with {chatbot}")
        if b.skipped:
            times = sum(count for *_, count in b.skipped)
            lines.append(f"{b.lang}: {times} wishes skipped for lack of a dialogue (curation.json)")
    return lines
