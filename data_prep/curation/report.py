"""A curation: the selection of each language, how even it is beside its pool and beside random
samples of the same size, and its report (terminal, curation.json, counts.csv, page)."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from medal_judges import __version__
from medal_judges.data_prep.curation.pool import (
    Candidate,
    CurateOptions,
    LabelledPool,
    LabelRules,
    shuffled,
)
from medal_judges.data_prep.curation.selection import LanguageSelection, covered_share, select
from medal_judges.data_prep.sources.registry import stream_spec
from medal_judges.reading.report import ReadingReport
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.signature import content_hash
from medal_judges.report.console import print_tables
from medal_judges.report.numbers import number
from medal_judges.report.page import Block, Fold, Section, facts_section, write_page
from medal_judges.report.table import Cell, Heat, Table, write_csv
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.weights import effective_size
from medal_judges.storage.files import atomic_write

Floats = npt.NDArray[np.float64]
RANDOM_SAMPLES = 200  # their mean stands beside the selection
_MET = 0.9  # of an even share counts as reached
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


@dataclass(frozen=True, slots=True)
class Curation:
    """The selection of each language and its balance (see ``language_balance``)."""

    options: CurateOptions
    pool: LabelledPool
    selections: Mapping[str, LanguageSelection]
    balances: Sequence[dict[str, Any]]

    def facts(self) -> dict[str, Any]:
        """How the selection was made; without paths."""
        options, foreign = self.options, "off"
        if options.foreign is not None:
            foreign = content_hash(options.foreign.keywords.model_dump())
        return {
            "policy": options.policy,
            "per language": options.n,
            "seed": options.seed,
            "aggregation of several answers": options.aggregate,
            "dialogues of one context": options.max_per_context or "no limit",
            "foreign-language filter": foreign,
            "pool": content_hash(sorted(c.id for c in self.pool.candidates)),
            "version": __version__,
        }


def curate(pool: LabelledPool, options: CurateOptions) -> Curation:
    """The selection of each language, languages in alphabetical order."""
    selections, balances = {}, []
    for lang in sorted({c.lang for c in pool.candidates}):
        candidates = [c for c in pool.candidates if c.lang == lang]
        selections[lang] = select(
            options.policy,
            candidates,
            options.n,
            options.rules,
            seed=options.seed,
            per_context=options.max_per_context,
        )
        balances.append(language_balance(lang, candidates, selections[lang], options))
    return Curation(options, pool, selections, balances)


def selected_rows(curation: Curation) -> list[LabelledDialogue]:
    """The selected rows, by language and then in the order chosen, each with ``curation`` in its
    extra fields: policy, rank, stage, category, chance, weight, and the size of its pool."""
    options, notes = curation.options, {}
    for balance in curation.balances:
        for rank, chosen in enumerate(curation.selections[balance["lang"]].chosen, 1):
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


def language_balance(
    lang: str, pool: Sequence[Candidate], selection: LanguageSelection, options: CurateOptions
) -> dict[str, Any]:
    """The balance of one language as in curation.json: sizes, ``contexts`` (different groups),
    ``factors`` (see ``factor_balances``), and wishes without a candidate (``skipped``: category,
    factor, value, times). ``effective``: that many equally weighted dialogues say as much about the
    pool; ``covered``: share of the pool whose labels, chatbot and user a chosen dialogue has."""
    chosen = [c.candidate for c in selection.chosen]
    balanced = selection.policy == "balanced"
    skipped = sorted(selection.skipped.items(), key=lambda item: (-item[1], item[0]))
    factors = factor_balances(
        lang, pool, chosen, options.n, options.rules, seed=options.seed, aimed=balanced
    )
    return {
        "lang": lang,
        "pool": len(pool),
        "wanted": options.n,
        "selected": len(chosen),
        "contexts": len({c.group for c in chosen}),
        "factors": factors,
        "seeds": sum(c.stage == "seed" for c in selection.chosen),
        "unseeded": selection.unseeded,
        "skipped": [(*wish, times) for wish, times in skipped],
        "covered": covered_share(pool, chosen) if balanced else None,
        "effective": effective_size([c.weight for c in selection.chosen]),
    }


def factor_balances(
    lang: str,
    pool: Sequence[Candidate],
    chosen: Sequence[Candidate],
    wanted: int,
    rules: LabelRules,
    *,
    seed: int = 0,
    aimed: bool = True,
) -> dict[str, dict[str, Any]]:
    """For categories, overall levels, chatbots and users: for each value the dialogues in the
    ``pool``, ``selected``, ``at_random`` (mean of random samples) and an even share (``target``),
    with the reason if it was clearly missed (``unmet``, only if ``wanted`` was ``aimed`` at); the
    ``evenness`` (see there) and the ``ratio`` of the smallest count to the largest."""
    ordered = shuffled(pool, seed)
    ids = {c.id for c in chosen}
    mine = np.array([c.id in ids for c in ordered], dtype=np.bool_)
    rng = np.random.default_rng([seed, *lang.encode()])
    random = np.zeros((RANDOM_SAMPLES, len(ordered)), dtype=np.bool_)
    for sample in random:
        sample[rng.permutation(len(ordered))[: len(chosen)]] = True
    faulty = np.array([any(name in rules.issues for name in c.categories) for c in ordered])
    values: dict[str, tuple[Sequence[str], list[tuple[str, ...]]]] = {
        "category": (rules.categories, [c.categories for c in ordered]),
        "level": (
            [str(level) for level in rules.levels],
            [() if c.level is None else (str(c.level),) for c in ordered],
        ),
        "chatbot": (sorted({c.chatbot for c in pool}), [(c.chatbot,) for c in ordered]),
        "user": (sorted({c.user for c in pool}), [(c.user,) for c in ordered]),
    }
    balances = {}
    for factor, (names, own) in values.items():
        has = np.array([[v in its for v in names] for its in own], dtype=np.float64)
        table = has.reshape(-1, len(names))  # which candidate has which value
        counts, drawn, total = mine @ table, random @ table, table.sum(axis=0)
        spare, target, there = (faulty & ~mine) @ table, wanted / len(names), total > 0
        rows = []
        for i, name in enumerate(names):
            unmet = None
            if aimed and counts[i] < _MET * target:
                unmet = "other wishes weighed more" if spare[i] else "no more of it with an issue"
                unmet = "all there are" if counts[i] == total[i] else unmet
                unmet = unmet if total[i] else "none in the pool"
            rows.append(
                {
                    "value": name,
                    "pool": int(total[i]),
                    "selected": int(counts[i]),
                    "at_random": float(drawn.mean(axis=0)[i]),
                    "target": target,
                    "unmet": unmet,
                }
            )
        balances[factor] = {
            "values": rows,
            "evenness": evenness(counts[there]),
            "evenness_at_random": _mean(evenness(row[there]) for row in drawn),
            "evenness_of_pool": evenness(total[there]),
            "ratio": _ratio(counts[there]),
            "ratio_at_random": _mean(_ratio(row[there]) for row in drawn),
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


def _ratio(counts: Floats) -> float | None:
    if len(counts) < 2 or counts.max() <= 0:
        return None
    return float(counts.min() / counts.max())


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


# -- report ----------------------------------------------------------------------------------------


def write_report(curation: Curation, folder: Path) -> None:
    """Write curation.json (facts, left-out counts, balances), counts.csv and curation.html."""
    balances = curation.balances
    record = {
        "facts": curation.facts(),
        "left_out": [
            {"lang": lang, "reason": reason, "dialogues": count}
            for (lang, reason), count in _left_out_counts(curation)
        ],
        "uninterpretable_without_comment": curation.pool.silent,
        "languages": balances,
    }
    text = json.dumps(record, ensure_ascii=False, indent=1) + "\n"
    atomic_write(folder / "curation.json", text)
    columns = ("lang", "factor", "value", "pool", "selected", "target", "at_random")
    lines = (
        (
            *(b["lang"], name, v["value"], v["pool"], v["selected"]),
            *(round(v["target"], 2), round(v["at_random"], 2)),
        )
        for b in balances
        for name, factor in b["factors"].items()
        for v in factor["values"]
    )
    write_csv(folder / "counts.csv", columns, lines)
    total, pool = (sum(b[key] for b in balances) for key in ("selected", "pool"))
    subtitle = f"{total:,} dialogues of {pool:,} · {len(balances)} languages · policy "
    effective = ", ".join(f"{b['lang']} {b['effective']:.0f}" for b in balances)
    covered = [f"{b['lang']} {number(b['covered'])}" for b in balances if b["covered"] is not None]
    facts = {name: str(value) for name, value in curation.facts().items()}
    facts["effective size by the weights"] = f"{effective}: {_EFFECTIVE}"
    if covered:
        facts["share of the pool in cells with a selected dialogue"] = ", ".join(covered)
    counts = [_counts(balances, name) for name in FACTORS]
    sections = (
        Section("evenness", "Evenness", _evenness(balances), _EVENNESS),
        Section("counts", "Counts", counts, _COUNTS),
        Section("unmet", "Targets not met", _unmet(balances)),
        Section("left-out", "Left out", _left_out(curation), _LEFT_OUT),
        facts_section(facts.items()),
    )
    page = folder / "curation.html"
    write_page(page, "Curation", subtitle + curation.options.policy, sections)


def print_report(curation: Curation) -> None:
    """Print evenness by language, counts by factor, and what was not met."""
    balances = curation.balances
    keys = ("lang", "pool", "selected", "contexts")
    rows = [(*(b[key] for key in keys), round(b["effective"])) for b in balances]
    columns = ("Language", "Pool", "Selected", "Contexts", "Effective")
    counts = [t for t in (_counts(balances, name) for name in FACTORS) if len(t.rows) > 1]
    tables = [Table("Dialogues", columns, rows), *_evenness(balances), *counts]
    print_tables(tables, [f"effective: {_EFFECTIVE}, by the weights", *_notes(curation)])


def _evenness(balances: Sequence[dict[str, Any]]) -> list[Table]:
    """A table for each factor of which a pool has several values."""
    figures = ("evenness", "evenness_at_random", "evenness_of_pool", "ratio", "ratio_at_random")
    columns = ("Language", "Selection", "At random", "Pool", "Least / most", "… at random")
    none = Estimate(None, reason="nothing of it was selected")
    tables = []
    for name, title in FACTORS.items():
        factors = [(b["lang"], b["factors"][name]) for b in balances]
        rows = [
            (lang, *(none if factor[f] is None else factor[f] for f in figures))
            for lang, factor in factors
            if factor["evenness_of_pool"] is not None
        ]
        tables += [Table(f"Evenness: {title.lower()}", columns, rows)] if rows else []
    return tables


def _counts(balances: Sequence[dict[str, Any]], name: str) -> Table:
    """A table of a factor: values by language; a deeper blue means more of it."""
    counts = {(b["lang"], v["value"]): v for b in balances for v in b["factors"][name]["values"]}
    most = max((v["selected"] for v in counts.values()), default=0) or 1

    def cell(lang: str, value: str) -> Cell:
        v = counts.get((lang, value))
        if v is None:
            return ""
        shown = Markup('{} <span class="ci">of {:,}</span>').format(v["selected"], v["pool"])
        return Heat(shown, v["selected"] / most, value=v["selected"])

    langs = [b["lang"] for b in balances]
    values = dict.fromkeys(value for _, value in counts)
    rows = [(v or "(not named)", *(cell(lang, v) for lang in langs)) for v in values]
    return Table(FACTORS[name], ("", *langs), rows, style="heat")


def _misses(balance: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The targets that were missed, with their factor."""
    factors = balance["factors"].items()
    return [(name, v) for name, factor in factors for v in factor["values"] if v["unmet"]]


def _unmet(balances: Sequence[dict[str, Any]]) -> list[Block]:
    rows = [
        (
            *(b["lang"], FACTORS[name], v["value"] or "(not named)"),
            *(v[key] for key in ("selected", "target", "unmet")),
        )
        for b in balances
        for name, v in _misses(b)
    ]
    columns = ("Language", "Of", "Value", "Reached", "Target", "Why")
    blocks: list[Block] = [Table("Less than an even share", columns, rows)] if rows else []
    for b in balances:
        skipped = [
            (category, "any" if factor == "category" else f"{factor} {value}", times)
            for category, factor, value, times in b["skipped"]
        ]
        if skipped:
            heads = ("Issue in turn", "Wish", "Times skipped")
            table = Table(f"{b['lang']}: no dialogue of the issue fitted", heads, skipped)
            times = sum(row[-1] for row in skipped)
            blocks.append(Fold(f"{b['lang']}: {times} wishes without a candidate", [table]))
    return blocks


def _left_out(curation: Curation) -> list[Block]:
    listed = curation.pool.left_out
    rows = [
        (o.id, o.lang, o.detail, Markup("<code>{}</code>").format(o.keyword or ""), o.comment or "")
        for o in listed[:_LISTED]
    ]
    columns = ("Dialogue", "Language", "Why", "Keyword", "Comment")
    table = Table(f"{len(rows)} of {len(listed)}", columns, rows)
    return [Fold(f"{len(listed)} dialogues", [table])] if rows else []


def _left_out_counts(curation: Curation) -> list[tuple[tuple[str, str], int]]:
    """((language, reason), dialogues), sorted."""
    return sorted(Counter((out.lang, str(out.reason)) for out in curation.pool.left_out).items())


def _notes(curation: Curation) -> list[str]:
    """What was not met, and what was left out, as sentences."""
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
        lang, misses = b["lang"], _misses(b)
        if b["selected"] < b["wanted"]:
            lines.append(f"{lang}: {b['selected']} of {b['wanted']}, the pool has no more")
        for reason in dict.fromkeys(v["unmet"] for _, v in misses):
            values = ", ".join(
                f"{'score ' * (name == 'level')}{v['value'] or '(not named)'} "
                f"{v['selected']} of {v['target']:.0f}"
                for name, v in misses
                if v["unmet"] == reason
            )
            lines.append(f"{lang}: short of an even share, {reason}: {values}")
        for user, chatbot in b["unseeded"]:
            lines.append(f"{lang}: no clean best-scored dialogue of {user} with {chatbot}")
        if b["skipped"]:
            times = sum(count for *_, count in b["skipped"])
            lines.append(f"{lang}: {times} wishes skipped for lack of a dialogue (curation.json)")
    return lines
