"""A curation: the selection of each language, how even it is beside its pool and beside random
samples of the same size, and its report (terminal, curation.json, page)."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from medal_judges import __version__
from medal_judges.data_prep.curation.foreign import load_foreign
from medal_judges.data_prep.curation.pool import (
    Candidate,
    CurateOptions,
    LabelRules,
    label_rules,
    read_pool,
    shuffled,
)
from medal_judges.data_prep.curation.selection import Selected, select
from medal_judges.data_prep.sources.registry import stream_spec
from medal_judges.reading.report import ReadingReport
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.signature import content_hash
from medal_judges.report.console import print_tables
from medal_judges.report.page import Block, Fold, Section, facts_section, write_page
from medal_judges.report.table import Cell, Heat, Table
from medal_judges.stats.correlation import Floats
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.weights import effective_size
from medal_judges.storage.files import atomic_write

RANDOM_SAMPLES = 200  # their mean is shown beside the selection
_REACHED = 0.9  # of an even share
_FACTORS = {"category": "Issues", "level": "Overall score", "chatbot": "Chatbots", "user": "Users"}
_LISTED = 300  # left-out rows on the page; left_out.jsonl has all
_EVENNESS = (
    "Entropy of the counts over that of equal counts, over the values that the pool has: 1 is "
    "even, 0 is one value alone. Beside it the same for a random sample of the same size (mean of "
    "200) and for the pool."
)
_COUNTS = "Selected, of how many in the pool. Issues overlap: a dialogue can have several."
_LEFT_OUT = "Dialogues that were no candidates. left_out.jsonl has all of them."
_EFFECTIVE = "as many equally weighted dialogues say as much about the pool"


@dataclass(frozen=True, slots=True)
class Curation:
    """The selection of each language and its balance: sizes, ``contexts`` (different groups),
    ``factors`` (see ``factor_balances``), and how many equally weighted dialogues say as much about
    the pool (``effective``). ``facts`` say how the selection was made, ``left_out`` has the lines
    of left_out.jsonl, and ``silent`` counts uninterpretable rows without a comment."""

    options: CurateOptions
    facts: Mapping[str, str]
    left_out: Sequence[Mapping[str, Any]]
    silent: int
    selections: Mapping[str, Sequence[Selected]]
    balances: Sequence[dict[str, Any]]


def curate(options: CurateOptions, reading: ReadingReport) -> Curation:
    """The selection of each language, languages in alphabetical order.

    Raises ConfigError, and DataError for a bad row and for a pool without a candidate.
    """
    rules = label_rules(options.rubric)
    foreign = None if options.keep_foreign else load_foreign(options.keywords)
    pool, left_out, silent = read_pool(options, rules, foreign, reading)
    selections, balances = {}, []
    for lang in sorted({c.lang for c in pool}):
        candidates = [c for c in pool if c.lang == lang]
        selections[lang] = select(options.policy, candidates, options.n, rules, seed=options.seed)
        chosen = [c.candidate for c in selections[lang]]
        balances.append(
            {
                "lang": lang,
                "pool": len(candidates),
                "wanted": options.n,
                "selected": len(chosen),
                "contexts": len({c.group for c in chosen}),
                "factors": factor_balances(
                    lang, candidates, chosen, options.n, rules, seed=options.seed
                ),
                "effective": effective_size([c.weight for c in selections[lang]]),
            }
        )
    facts = {
        "policy": options.policy,
        "per language": str(options.n),
        "seed": str(options.seed),
        "foreign-language filter": content_hash(foreign.keywords.model_dump())
        if foreign
        else "off",
        "pool": content_hash(sorted(c.id for c in pool)),
        "version": __version__,
    }
    return Curation(options, facts, left_out, silent, selections, balances)


def selected_rows(curation: Curation) -> list[LabelledDialogue]:
    """The selected rows, by language and then in the order chosen, each with ``curation`` in its
    extra fields: policy, rank, stage, category, chance, weight, and the size of its pool."""
    options, notes = curation.options, {}
    for balance in curation.balances:
        for rank, chosen in enumerate(curation.selections[balance["lang"]], 1):
            note = {
                "policy": options.policy,
                "rank": rank,
                "stage": chosen.stage,
                "category": chosen.category,
                "chance": chosen.chance,
                "weight": chosen.weight,
                "pool": balance["pool"],
            }
            notes[chosen.candidate.id] = {k: v for k, v in note.items() if v is not None}
    rows = {
        row.id: replace(row, extra={**row.extra, "curation": notes[row.id]})
        for spec in options.files
        for row in stream_spec(spec, reading=ReadingReport(), options=options.reading)
        if row.id in notes
    }
    return [rows[id] for id in notes]


# -- balance ---------------------------------------------------------------------------------------


def factor_balances(
    lang: str,
    pool: Sequence[Candidate],
    chosen: Sequence[Candidate],
    wanted: int,
    rules: LabelRules,
    *,
    seed: int = 0,
) -> dict[str, dict[str, Any]]:
    """For categories, overall levels, chatbots and users: for each value the dialogues in the
    ``pool``, ``selected``, ``at_random`` (mean of random samples) and an even share (``target``);
    and the ``evenness`` (see there)."""
    ordered = shuffled(pool, seed)
    ids = {c.id for c in chosen}
    mine = np.array([c.id in ids for c in ordered], dtype=np.bool_)
    rng = np.random.default_rng([seed, *lang.encode()])
    random = np.zeros((RANDOM_SAMPLES, len(ordered)), dtype=np.bool_)
    for sample in random:
        sample[rng.permutation(len(ordered))[: len(chosen)]] = True
    values: dict[str, tuple[Sequence[str], list[tuple[str, ...]]]] = {
        "category": (rules.categories, [c.categories for c in ordered]),
        "level": ([str(level) for level in rules.levels], [(str(c.level),) for c in ordered]),
        "chatbot": (sorted({c.chatbot for c in pool}), [(c.chatbot,) for c in ordered]),
        "user": (sorted({c.user for c in pool}), [(c.user,) for c in ordered]),
    }
    balances = {}
    for factor, (names, own) in values.items():
        has = np.array([[v in its for v in names] for its in own], dtype=np.float64)
        table = has.reshape(-1, len(names))  # which candidate has which value
        counts, drawn, total = mine @ table, random @ table, table.sum(axis=0)
        there = total > 0
        rows = [
            {
                "value": name,
                "pool": int(total[i]),
                "selected": int(counts[i]),
                "at_random": float(drawn.mean(axis=0)[i]),
                "target": wanted / len(names),
            }
            for i, name in enumerate(names)
        ]
        of_random = [e for row in drawn if (e := evenness(row[there])) is not None]
        balances[factor] = {
            "values": rows,
            "evenness": evenness(counts[there]),
            "evenness_at_random": sum(of_random) / len(of_random) if of_random else None,
            "evenness_of_pool": evenness(total[there]),
        }
    return balances


def evenness(counts: Floats) -> float | None:
    """Entropy of ``counts`` over that of equal counts (Pielou's J), from 0 to 1; None for fewer
    than two counts and for nothing counted."""
    total = float(counts.sum())
    if len(counts) < 2 or total <= 0:
        return None
    shares = counts[counts > 0] / total
    return max(0.0, float(-(shares * np.log(shares)).sum())) / math.log(len(counts))


# -- report ----------------------------------------------------------------------------------------


def write_report(curation: Curation, folder: Path) -> None:
    """Write curation.json (facts, left-out counts, balances) and curation.html."""
    balances, listed = curation.balances, curation.left_out
    record = {
        "facts": dict(curation.facts),
        "left_out": [
            {"lang": lang, "reason": reason, "dialogues": count}
            for (lang, reason), count in _left_out_counts(curation)
        ],
        "uninterpretable_without_comment": curation.silent,
        "languages": balances,
    }
    text = json.dumps(record, ensure_ascii=False, indent=1) + "\n"
    atomic_write(folder / "curation.json", text)
    rows = [
        (
            *(out["id"], out["lang"], out["detail"]),
            Markup("<code>{}</code>").format(out.get("keyword", "")),
            out.get("comment", ""),
        )
        for out in listed[:_LISTED]
    ]
    heads = ("Dialogue", "Language", "Why", "Keyword", "Comment")
    left = Table(f"{len(rows)} of {len(listed)}", heads, rows)
    missed = [
        (b["lang"], _FACTORS[name], _named(v), v["selected"], v["pool"], v["target"])
        for b in balances
        for name, v in _misses(curation, b)
    ]
    columns = ("Language", "Of", "Value", "Selected", "Pool", "Target")
    unmet: list[Block] = [Table("Less than an even share", columns, missed)] if missed else []
    effective = ", ".join(f"{b['lang']} {b['effective']:.0f}" for b in balances)
    facts = {**curation.facts, "effective size by the weights": f"{effective}: {_EFFECTIVE}"}
    total, pool = (sum(b[key] for b in balances) for key in ("selected", "pool"))
    write_page(
        folder / "curation.html",
        "Curation",
        f"{total:,} dialogues of {pool:,} · {len(balances)} languages · "
        f"policy {curation.options.policy}",
        (
            Section("evenness", "Evenness", _evenness(balances), _EVENNESS),
            Section("counts", "Counts", [_counts(balances, name) for name in _FACTORS], _COUNTS),
            Section("unmet", "Targets not met", [*unmet, *_shortfalls(curation)]),
            Section(
                "left-out",
                "Left out",
                [Fold(f"{len(listed)} dialogues", [left])] if listed else [],
                _LEFT_OUT,
            ),
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
    notes += [
        f"left out: {count} in {lang}, {reason.replace('_', ' ')}"
        for (lang, reason), count in _left_out_counts(curation)
    ]
    for b in balances:
        if values := [
            f"{'score ' * (name == 'level')}{_named(v)} {v['selected']} of {v['target']:.0f}"
            for name, v in _misses(curation, b)
        ]:
            notes.append(f"{b['lang']}: short of an even share: {', '.join(values)}")
    tables = [Table("Dialogues", columns, rows), *_evenness(balances)]
    print_tables(tables, [*notes, *_shortfalls(curation)])


def _evenness(balances: Sequence[dict[str, Any]]) -> list[Table]:
    """A table for each factor of which a pool has several values."""
    figures = ("evenness", "evenness_at_random", "evenness_of_pool")
    columns = ("Language", "Selection", "At random", "Pool")
    none = Estimate(None, reason="nothing of it was selected")
    tables = []
    for name, title in _FACTORS.items():
        rows = [
            (b["lang"], *(none if (f := b["factors"][name][key]) is None else f for key in figures))
            for b in balances
            if b["factors"][name]["evenness_of_pool"] is not None
        ]
        tables += [Table(f"Evenness: {title.lower()}", columns, rows)] if rows else []
    return tables


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


def _left_out_counts(curation: Curation) -> list[tuple[tuple[str, str], int]]:
    """((language, reason), dialogues), sorted."""
    return sorted(Counter((out["lang"], out["reason"]) for out in curation.left_out).items())


def _shortfalls(curation: Curation) -> Iterable[str]:
    """What the selection and the filter could not do, as sentences."""
    if curation.silent:
        yield (
            f"{curation.silent} uninterpretable dialogues have no comment: the foreign-language "
            "filter cannot judge them, they stay"
        )
    for b in curation.balances:
        if b["selected"] < b["wanted"]:
            yield f"{b['lang']}: {b['selected']} of {b['wanted']}, the pool has no more"
