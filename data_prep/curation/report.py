"""A curation: the selection of each language, how even it is beside its pool, and its report
(terminal, curation.json, page)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from medal_judges import __version__
from medal_judges.data_prep.curation.pool import (
    Candidate,
    CurateOptions,
    LabelRules,
    label_rules,
    load_foreign,
    read_pool,
)
from medal_judges.data_prep.curation.selection import Selected, select
from medal_judges.data_prep.sources.registry import stream_spec
from medal_judges.reading.dialogues import ReadingReport
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.signature import content_hash
from medal_judges.report.console import Printout
from medal_judges.report.page import Page, Section, facts_section
from medal_judges.report.table import Cell, Heat, Row, Table

_REACHED = 0.9  # of an even share
_FACTORS = {
    "category": "Issues",
    "level": "Overall score",
    "chatbot": "Chatbots",
    "user": "Users",
}
_EVENNESS = (
    "Entropy of the counts over that of equal counts, over the values that the pool has: 1 is "
    "even, 0 is one value alone. A random sample is about as even as the pool."
)
_COUNTS = (
    "Selected, of how many in the pool. Issues overlap: a dialogue can have several."
)
_EFFECTIVE = "as many equally weighted dialogues say as much about the pool"


@dataclass(frozen=True, slots=True)
class Curation:
    """The selection of each language and its balance: sizes, ``contexts`` (different groups),
    ``factors`` (see ``factor_balances``), and the effective sample size after weighting
    (``effective``). ``facts`` say how the selection was made, ``left_out`` has the lines
    of left_out.jsonl."""

    options: CurateOptions
    facts: Mapping[str, str]
    left_out: Sequence[Mapping[str, Any]]
    selections: Mapping[str, Sequence[Selected]]
    balances: Sequence[dict[str, Any]]


def curate(options: CurateOptions, reading: ReadingReport) -> Curation:
    """The selection of each language, languages in alphabetical order.

    Raises ConfigError, and DataError for a bad row and for a pool without a candidate.
    """
    rules = label_rules(options.rubric)
    foreign = None if options.keep_foreign else load_foreign(options.keywords)
    pool, left_out = read_pool(options, rules, foreign, reading)
    selections = {}
    balances = []
    for lang in sorted({candidate.lang for candidate in pool}):
        candidates = [candidate for candidate in pool if candidate.lang == lang]
        selection = select(
            options.policy, candidates, options.n, rules, seed=options.seed
        )
        selections[lang] = selection
        chosen = [selected.candidate for selected in selection]
        weights = [selected.weight for selected in selection]
        squares = sum(weight * weight for weight in weights)
        balances.append(
            {
                "lang": lang,
                "pool": len(candidates),
                "wanted": options.n,
                "selected": len(chosen),
                "contexts": len({candidate.group for candidate in chosen}),
                "factors": factor_balances(candidates, chosen, options.n, rules),
                "effective": sum(weights) ** 2 / (squares or 1),
            }
        )
    facts = {
        "policy": options.policy,
        "per language": str(options.n),
        "seed": str(options.seed),
        "foreign-language filter": foreign.hash if foreign else "off",
        "pool": content_hash(sorted(candidate.id for candidate in pool)),
        "version": __version__,
    }
    return Curation(options, facts, left_out, selections, balances)


def factor_balances(
    pool: Sequence[Candidate],
    chosen: Sequence[Candidate],
    per_language: int,
    rules: LabelRules,
) -> dict[str, dict[str, Any]]:
    """For categories, overall levels, chatbots and users: for each value the dialogues in the
    ``pool``, ``selected``, and an even share (``target``); and the ``evenness`` of both."""
    names_of_factor: dict[str, Sequence[str]] = {
        "category": rules.categories,
        "level": list(map(str, rules.levels)),
    }
    balances: dict[str, dict[str, Any]] = {}
    for factor in _FACTORS:
        in_pool = _value_counts(pool, factor)
        # Chatbots and users are those of the pool.
        names = names_of_factor.get(factor) or sorted(in_pool)
        selected = _value_counts(chosen, factor)
        values = []
        for name in names:
            values.append(
                {
                    "value": name,
                    "pool": in_pool[name],
                    "selected": selected[name],
                    "target": per_language / len(names),
                }
            )
        present = [name for name in names if in_pool[name]]
        balances[factor] = {
            "values": values,
            "evenness": evenness([selected[name] for name in present]),
            "evenness_of_pool": evenness([in_pool[name] for name in present]),
        }
    return balances


def _value_counts(candidates: Iterable[Candidate], factor: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for candidate in candidates:
        if factor == "category":
            counts.update(candidate.categories)
        else:
            counts[str(getattr(candidate, factor))] += 1
    return counts


def evenness(counts: Sequence[int]) -> float | None:
    """Entropy of ``counts`` over that of equal counts (Pielou's J), from 0 to 1; None for fewer
    than two counts and for nothing counted."""
    shares = [count / sum(counts) for count in counts if count]
    if len(counts) < 2 or not shares:
        return None
    entropy = -sum(share * math.log(share) for share in shares)
    return max(0.0, entropy) / math.log(len(counts))


def selected_rows(curation: Curation) -> list[LabelledDialogue]:
    """The selected rows, by language and then in the order chosen, each with ``curation`` in its
    extra fields: policy, rank, stage, category, chance, weight, and the size of its pool."""
    options = curation.options
    notes: dict[str, dict[str, Any]] = {}
    for balance in curation.balances:
        for rank, selected in enumerate(curation.selections[balance["lang"]], 1):
            note: dict[str, Any] = {"policy": options.policy, "rank": rank}
            for name in ("stage", "category", "chance", "weight"):
                if (value := getattr(selected, name)) is not None:
                    note[name] = value
            notes[selected.candidate.id] = note | {"pool": balance["pool"]}
    rows = {}
    for spec in options.files:
        for row in stream_spec(spec, reading=ReadingReport(), options=options.reading):
            if row.id in notes:
                rows[row.id] = replace(
                    row, extra={**row.extra, "curation": notes[row.id]}
                )
    return [rows[id] for id in notes]


def curation_page(curation: Curation) -> Page:
    """Returns the page curation.html with its record (facts, number of dialogues left out,
    balances), and what the terminal shows: sizes and evenness by language, and what was not met."""
    balances = curation.balances
    left_out = _left_out(curation)
    evenness = _evenness(balances)
    rows: list[Row] = []
    notes = [f"effective: {_EFFECTIVE}, by the weights", *left_out]
    sizes = []
    total = pool = 0
    for balance in balances:
        lang = balance["lang"]
        selected = balance["selected"]
        effective = round(balance["effective"])
        rows.append((lang, balance["pool"], selected, balance["contexts"], effective))
        sizes.append(f"{lang} {effective}")
        total += selected
        pool += balance["pool"]
        if selected < balance["wanted"]:
            notes.append(
                f"{lang}: {selected} of {balance['wanted']}, the pool has no more"
            )
        if short := _misses(curation, balance):
            notes.append(f"{lang}: short of an even share: {', '.join(short)}")
    columns = ("Language", "Pool", "Selected", "Contexts", "Effective")
    facts = {
        **curation.facts,
        "effective size by the weights": f"{', '.join(sizes)}: {_EFFECTIVE}",
    }
    return Page(
        "curation",
        "Curation",
        f"{total:,} dialogues of {pool:,} · {len(balances)} languages · "
        f"policy {curation.options.policy}",
        (
            Section("evenness", "Evenness", [evenness], _EVENNESS),
            Section(
                "counts",
                "Counts",
                [_counts(balances, name) for name in _FACTORS],
                _COUNTS,
            ),
            Section("left-out", "Left out", left_out),
            facts_section(facts.items()),
        ),
        record={
            "facts": dict(curation.facts),
            "left_out": len(curation.left_out),
            "languages": balances,
        },
        printout=Printout([Table("Dialogues", columns, rows), evenness], notes),
    )


def _evenness(balances: Sequence[dict[str, Any]]) -> Table:
    rows: list[Row] = []
    for name, title in _FACTORS.items():
        for balance in balances:
            factor = balance["factors"][name]
            if factor["evenness_of_pool"] is not None:
                figures = (factor["evenness"], factor["evenness_of_pool"])
                rows.append((balance["lang"], title, *figures))
    return Table("Evenness", ("Language", "Of", "Selection", "Pool"), rows)


def _counts(balances: Sequence[dict[str, Any]], factor: str) -> Table:
    """A table of a factor: values by language; a deeper blue means more of it."""
    # Name of the value -> language -> its counts.
    counts: dict[str, dict[str, dict[str, Any]]] = {}
    highest = 1
    for balance in balances:
        for value in balance["factors"][factor]["values"]:
            counts.setdefault(_name(value), {})[balance["lang"]] = value
            highest = max(highest, value["selected"])
    langs = [balance["lang"] for balance in balances]
    rows: list[Row] = []
    for name, by_lang in counts.items():
        cells: list[Cell] = []
        for lang in langs:
            if lang not in by_lang:
                cells.append("")
                continue
            value = by_lang[lang]
            selected = value["selected"]
            text = Markup('{selected} <span class="ci">of {pool:,}</span>')
            cell = Heat(text.format(**value), selected / highest, value=selected)
            cells.append(cell)
        rows.append((name, *cells))
    return Table(_FACTORS[factor], ("", *langs), rows, style="heat")


def _name(value: Mapping[str, Any]) -> str:
    return value["value"] or "(not named)"


def _misses(curation: Curation, balance: dict[str, Any]) -> list[str]:
    """The values of which a balanced selection has clearly less than an even share."""
    misses: list[str] = []
    if curation.options.policy != "balanced":
        return misses
    for factor, counts in balance["factors"].items():
        for value in counts["values"]:
            if value["selected"] < _REACHED * value["target"]:
                name = f"{'score ' * (factor == 'level')}{_name(value)}"
                misses.append(f"{name} {value['selected']} of {value['target']:.0f}")
    return misses


def _left_out(curation: Curation) -> list[str]:
    """How many dialogues were no candidates, and why."""
    counts: Counter[tuple[str, str]] = Counter()
    for line in curation.left_out:
        counts[line["lang"], line["reason"].replace("_", " ")] += 1
    lines = []
    for (lang, reason), count in sorted(counts.items()):
        lines.append(f"left out: {count} in {lang}, {reason} (left_out.jsonl)")
    return lines
