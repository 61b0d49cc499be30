"""The report of a curation: tables in the terminal, curation.json, counts.csv and a page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from medal_judges.data_prep.curation.balance import FactorBalance, LanguageBalance, Unmet
from medal_judges.data_prep.curation.job import Curation
from medal_judges.data_prep.curation.page import FACTORS, curation_page
from medal_judges.report.console import wide_console
from medal_judges.report.table import write_csv

_NONE = "–"


def write_report(curation: Curation, folder: Path) -> None:
    """Write curation.json, counts.csv and curation.html into ``folder``, which exists."""
    record = as_record(curation)
    text = json.dumps(record, ensure_ascii=False, indent=1) + "\n"
    (folder / "curation.json").write_text(text, encoding="utf-8")
    _write_counts(curation.balances, folder / "counts.csv")
    page = curation_page(curation)
    (folder / "curation.html").write_text(page, encoding="utf-8", newline="\n")


def as_record(curation: Curation) -> dict[str, Any]:
    """What curation.json holds: how it was made, what was left out, and the balances."""
    return {
        "facts": curation.facts(),
        "left_out": [
            {"lang": lang, "reason": reason, "dialogues": count}
            for (lang, reason), count in left_out_counts(curation)
        ],
        "uninterpretable_without_comment": curation.silent,
        "languages": [balance.to_record() for balance in curation.balances],
    }


def left_out_counts(curation: Curation) -> list[tuple[tuple[str, str], int]]:
    """((language, reason), dialogues), sorted."""
    return sorted(Counter((out.lang, str(out.reason)) for out in curation.left_out).items())


def _write_counts(balances: Sequence[LanguageBalance], path: Path) -> None:
    head = ("lang", "factor", "value", "pool", "selected", "target", "at_random")
    lines = (
        (
            b.lang,
            factor.name,
            v.value,
            v.pool,
            v.selected,
            round(v.target, 2),
            round(v.at_random, 2),
        )
        for b in balances
        for factor in b.factors
        for v in factor.values
    )
    write_csv(path, head, lines)


def print_report(curation: Curation) -> None:
    """Print evenness by language, counts by factor, and what could not be met."""
    console = wide_console()
    console.print(_summary(curation.balances))
    for name, title in FACTORS.items():
        if any(_is_shown(balance.factor(name)) for balance in curation.balances):
            console.print(_counts(name, title, curation.balances))
    for line in notes(curation):
        console.print(line, style="dim", markup=False, highlight=False)


def _is_shown(factor: FactorBalance) -> bool:
    return len(factor.values) > 1 and any(value.pool for value in factor.values)


def _summary(balances: Sequence[LanguageBalance]) -> Table:
    heads = ("language", "pool", "selected", "contexts", "effective", *FACTORS.values())
    table = Table(*heads, box=box.SIMPLE, title="Evenness (0 to 1), of a random sample in brackets")
    for b in balances:
        even = (_evenness(b.factor(name)) for name in FACTORS)
        table.add_row(
            b.lang,
            f"{b.pool:,}",
            f"{b.selected} of {b.wanted}",
            str(b.contexts),
            f"{b.effective:.0f}",
            *even,
        )
    return table


def _evenness(factor: FactorBalance) -> str:
    if factor.evenness is None:
        return _NONE
    beside = _NONE if factor.evenness_at_random is None else f"{factor.evenness_at_random:.2f}"
    return f"{factor.evenness:.2f} ({beside})"


def _counts(name: str, title: str, balances: Sequence[LanguageBalance]) -> Table:
    langs = [b.lang for b in balances]
    table = Table(title.lower(), *langs, box=box.SIMPLE, title=f"{title}: selected (in the pool)")
    found = {
        (b.lang, v.value): f"{v.selected} ({v.pool:,})"
        for b in balances
        for v in b.factor(name).values
    }
    for value in dict.fromkeys(v.value for b in balances for v in b.factor(name).values):
        table.add_row(value or "(not named)", *(found.get((lang, value), _NONE) for lang in langs))
    return table


def notes(curation: Curation) -> list[str]:
    """What could not be met, and what was left out, as sentences."""
    lines = [
        "effective: as many equally weighted dialogues say as much about the pool, by the weights"
    ]
    lines += [
        f"left out: {count} in {lang}, {reason.replace('_', ' ')}"
        for (lang, reason), count in left_out_counts(curation)
    ]
    if curation.silent:
        lines.append(
            f"{curation.silent} uninterpretable dialogues have no comment: the foreign-language "
            "filter cannot judge them, they stay"
        )
    for b in curation.balances:
        lines += _language_notes(b)
    return lines


def _language_notes(b: LanguageBalance) -> list[str]:
    lines = []
    if b.selected < b.wanted:
        lines.append(f"{b.lang}: {b.selected} of {b.wanted}, the pool has no more")
    for reason in dict.fromkeys(u.reason for u in b.unmet):
        short = (u for u in b.unmet if u.reason == reason)
        values = ", ".join(f"{_named(u)} {u.reached} of {u.target:.0f}" for u in short)
        lines.append(f"{b.lang}: short of an even share, {reason}: {values}")
    for user, chatbot in b.unseeded:
        lines.append(f"{b.lang}: no clean best-scored dialogue of {user} with {chatbot}")
    if b.skipped:
        times = sum(count for *_, count in b.skipped)
        lines.append(f"{b.lang}: {times} wishes skipped for lack of a dialogue (curation.json)")
    return lines


def _named(unmet: Unmet) -> str:
    value = unmet.value or "(not named)"
    return f"score {value}" if unmet.factor == "level" else value
