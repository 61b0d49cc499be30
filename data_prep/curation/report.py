"""A curation: the selection of each language, how even it is beside its pool, and its report
(terminal, curation.json, page)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
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
from medal_judges.report.console import print_tables
from medal_judges.report.page import Section, facts_section, write_page
from medal_judges.report.table import Cell, Heat, Row, Table
from medal_judges.storage.files import write_json

_REACHED = 0.9  # of an even share
_FACTORS = {"category": "Issues", "level": "Overall score", "chatbot": "Chatbots", "user": "Users"}
_EVENNESS = (
    "Entropy of the counts over that of equal counts, over the values that the pool has: 1 is "
    "even, 0 is one value alone. A random sample is about as even as the pool."
)
_COUNTS = "Selected, of how many in the pool. Issues overlap: a dialogue can have several."
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
    selections, balances = {}, []
    for lang in sorted({c.lang for c in pool}):
        candidates = [c for c in pool if c.lang == lang]
        selections[lang] = select(options.policy, candidates, options.n, rules, seed=options.seed)
        chosen = [c.candidate for c in selections[lang]]
        weights = [c.weight for c in selections[lang]]
        balances.append(
            {
                "lang": lang,
                "pool": len(candidates),
                "wanted": options.n,
                "selected": len(chosen),
                "contexts": len({c.group for c in chosen}),
                "factors": factor_balances(candidates, chosen, options.n, rules),
                "effective": sum(weights) ** 2 / (sum(w * w for w in weights) or 1),
            }
        )
    facts = {
        "policy": options.policy,
        "per language": str(options.n),
        "seed": str(options.seed),
        "foreign-language filter": foreign.hash if foreign else "off",
        "pool": content_hash(sorted(c.id for c in pool)),
        "version": __version__,
    }
    return Curation(options, facts, left_out, selections, balances)


def factor_balances(
    pool: Sequence[Candidate], chosen: Sequence[Candidate], wanted: int, rules: LabelRules
) -> dict[str, dict[str, Any]]:
    """For categories, overall levels, chatbots and users: for each value the dialogues in the
    ``pool``, ``selected``, and an even share (``target``); and the ``evenness`` of both."""
    values: dict[str, Sequence[str]] = {
        "category": rules.categories,
        "level": [str(level) for level in rules.levels],
        "chatbot": sorted({c.chatbot for c in pool}),
        "user": sorted({c.user for c in pool}),
    }
    balances: dict[str, dict[str, Any]] = {}
    for factor, names in values.items():
        total, counts = (
            Counter(
                value
                for c in some
                for value in (c.categories if factor == "category" else [str(getattr(c, factor))])
            )
            for some in (pool, chosen)
        )
        there = [name for name in names if total[name]]
        balances[factor] = {
            "values": [
                {
                    "value": name,
                    "pool": total[name],
                    "selected": counts[name],
                    "target": wanted / len(names),
                }
                for name in names
            ],
            "evenness": evenness([counts[name] for name in there]),
            "evenness_of_pool": evenness([total[name] for name in there]),
        }
    return balances


def evenness(counts: Sequence[int]) -> float | None:
    """Entropy of ``counts`` over that of equal counts (Pielou's J), from 0 to 1; None for fewer
    than two counts and for nothing counted."""
    total = sum(counts)
    if len(counts) < 2 or not total:
        return None
    entropy = -sum(n / total * math.log(n / total) for n in counts if n)
    return max(0.0, entropy) / math.log(len(counts))


def selected_rows(curation: Curation) -> list[LabelledDialogue]:
    """The selected rows, by language and then in the order chosen, each with ``curation`` in its
    extra fields: policy, rank, stage, category, chance, weight, and the size of its pool."""
    options, notes = curation.options, {}
    for balance in curation.balances:
        for rank, chosen in enumerate(curation.selections[balance["lang"]], 1):
            own = {k: getattr(chosen, k) for k in ("stage", "category", "chance", "weight")}
            note = {"policy": options.policy, "rank": rank, **own, "pool": balance["pool"]}
            notes[chosen.candidate.id] = {k: v for k, v in note.items() if v is not None}
    rows = {
        row.id: replace(row, extra={**row.extra, "curation": notes[row.id]})
        for spec in options.files
        for row in stream_spec(spec, reading=ReadingReport(), options=options.reading)
        if row.id in notes
    }
    return [rows[id] for id in notes]


def write_report(curation: Curation, folder: Path) -> None:
    """Write curation.json (facts, left-out counts, balances) and curation.html."""
    balances = curation.balances
    record = {
        "facts": dict(curation.facts),
        "left_out": len(curation.left_out),
        "languages": balances,
    }
    write_json(folder / "curation.json", record)
    unmet = Table(
        "Less than an even share",
        ("Language", "Of", "Value", "Selected", "Pool", "Target"),
        [
            (b["lang"], _FACTORS[name], _named(v), v["selected"], v["pool"], v["target"])
            for b in balances
            for name, v in _misses(curation, b)
        ],
    )
    effective = ", ".join(f"{b['lang']} {b['effective']:.0f}" for b in balances)
    facts = {**curation.facts, "effective size by the weights": f"{effective}: {_EFFECTIVE}"}
    total, pool = (sum(b[key] for b in balances) for key in ("selected", "pool"))
    write_page(
        folder / "curation.html",
        "Curation",
        f"{total:,} dialogues of {pool:,} · {len(balances)} languages · "
        f"policy {curation.options.policy}",
        (
            Section("evenness", "Evenness", [_evenness(balances)], _EVENNESS),
            Section("counts", "Counts", [_counts(balances, name) for name in _FACTORS], _COUNTS),
            Section("unmet", "Targets not met", [unmet] if unmet.rows else []),
            Section("left-out", "Left out", _left_out(curation)),
            facts_section(facts.items()),
        ),
    )


def print_report(curation: Curation) -> None:
    """Print sizes and evenness by language, and what was not met."""
    balances = curation.balances
    keys = ("lang", "pool", "selected", "contexts")
    rows = [(*(b[key] for key in keys), round(b["effective"])) for b in balances]
    columns = ("Language", "Pool", "Selected", "Contexts", "Effective")
    notes = [f"effective: {_EFFECTIVE}, by the weights"]
    notes += _left_out(curation)
    for b in balances:
        if b["selected"] < b["wanted"]:
            notes.append(f"{b['lang']}: {b['selected']} of {b['wanted']}, the pool has no more")
        short = [
            f"{'score ' * (name == 'level')}{_named(v)} {v['selected']} of {v['target']:.0f}"
            for name, v in _misses(curation, b)
        ]
        notes += [f"{b['lang']}: short of an even share: {', '.join(short)}"] if short else []
    print_tables([Table("Dialogues", columns, rows), _evenness(balances)], notes)


def _evenness(balances: Sequence[dict[str, Any]]) -> Table:
    rows: list[Row] = [
        (b["lang"], title, factor["evenness"], factor["evenness_of_pool"])
        for name, title in _FACTORS.items()
        for b in balances
        if (factor := b["factors"][name])["evenness_of_pool"] is not None
    ]
    return Table("Evenness", ("Language", "Of", "Selection", "Pool"), rows)


def _counts(balances: Sequence[dict[str, Any]], name: str) -> Table:
    """A table of a factor: values by language; a deeper blue means more of it."""
    counts = {(b["lang"], _named(v)): v for b in balances for v in b["factors"][name]["values"]}
    most = max((v["selected"] for v in counts.values()), default=0) or 1

    def cell(lang: str, value: str) -> Cell:
        v = counts.get((lang, value))
        if v is None:
            return ""
        shown = Markup('{} <span class="ci">of {:,}</span>').format(v["selected"], v["pool"])
        return Heat(shown, v["selected"] / most, value=v["selected"])

    langs = [b["lang"] for b in balances]
    values = dict.fromkeys(value for _, value in counts)
    rows = [(value, *(cell(lang, value) for lang in langs)) for value in values]
    return Table(_FACTORS[name], ("", *langs), rows, style="heat")


def _named(value: Mapping[str, Any]) -> str:
    return value["value"] or "(not named)"


def _misses(curation: Curation, balance: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The values of which a balanced selection has clearly less than an even share, with their
    factor."""
    factors = balance["factors"].items() if curation.options.policy == "balanced" else ()
    return [
        (name, v)
        for name, factor in factors
        for v in factor["values"]
        if v["selected"] < _REACHED * v["target"]
    ]


def _left_out(curation: Curation) -> list[str]:
    """How many dialogues were no candidates, and why."""
    counts = Counter((out["lang"], out["reason"]) for out in curation.left_out)
    return [
        f"left out: {count} in {lang}, {reason.replace('_', ' ')} (left_out.jsonl)"
        for (lang, reason), count in sorted(counts.items())
    ]
