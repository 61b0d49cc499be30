"""Curate: a labelled pool in, the selection, what was left out and a report out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from medal_judges import __version__
from medal_judges.data_prep.curation.balance import (
    LanguageBalance,
    balance_of,
    skipped_wishes,
    unmet_targets,
)
from medal_judges.data_prep.curation.candidate import (
    Candidate,
    LabelReading,
    LeftOut,
    by_language,
)
from medal_judges.data_prep.curation.foreign import ForeignLanguage
from medal_judges.data_prep.curation.policy import Judges, LanguageSelection, Policy, select
from medal_judges.data_prep.curation.weights import covered_share
from medal_judges.data_prep.sources.registry import load_spec, parse_spec
from medal_judges.errors import ConfigError, DataError
from medal_judges.jsonl import Skipped, read_labelled
from medal_judges.labelled import LabelledDialogue
from medal_judges.signature import content_hash
from medal_judges.stats.weights import effective_size


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked for: ``n`` dialogues a language by ``policy``, labels read as ``reading``.

    ``foreign`` None keeps dialogues whatever their comments say; ``per_context`` limits dialogues
    of one group in a language (``balanced`` only).
    """

    reading: LabelReading
    n: int = 100
    policy: Policy = "balanced"
    seed: int = 0
    foreign: ForeignLanguage | None = None
    judges: Judges = field(default_factory=Judges)
    per_context: int | None = None


@dataclass(slots=True)
class Pool:
    """Candidates and what was left out. ``silent`` counts rows called uninterpretable without a
    comment, which the filter cannot see through."""

    candidates: list[Candidate] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    silent: int = 0


@dataclass(frozen=True, slots=True)
class Curation:
    """The outcome by language, the pool it came from, and what was asked for."""

    plan: Plan
    selections: Mapping[str, LanguageSelection]
    balances: tuple[LanguageBalance, ...]
    left_out: tuple[LeftOut, ...]
    silent: int
    data: str

    def facts(self) -> dict[str, Any]:
        """How the selection was made; no path in it."""
        plan = self.plan
        found = {
            "policy": plan.policy,
            "per language": plan.n,
            "seed": plan.seed,
            "aggregation of several answers": plan.reading.aggregate,
            "dialogues of one context": plan.per_context or "no limit",
            "foreign-language filter": "off"
            if plan.foreign is None
            else content_hash(plan.foreign.keywords.model_dump()),
            "pool": self.data,
            "version": __version__,
        }
        if plan.judges.views:
            found["judges"] = ", ".join(view.name for view in plan.judges.views)
            found["scores brought together by"] = plan.judges.rescale
        return found


def rows_of(spec: str, *, skipped: Skipped | None = None) -> Iterator[LabelledDialogue]:
    """The rows of a file or source; a file is streamed."""
    parsed = parse_spec(spec)
    if not parsed.is_file:
        yield from load_spec(spec, skipped=skipped)
        return
    for row in read_labelled(parsed.name, skipped=skipped):
        if parsed.split in (None, row.split) and parsed.level in (None, row.level):
            yield row


def read_pool(
    specs: Sequence[str], plan: Plan, *, langs: Sequence[str] = (), skipped: Skipped | None = None
) -> Pool:
    """Candidates of all rows (of ``langs``, if any are named).

    Raises DataError for an id that two files share and for a pool without a labelled row.
    """
    pool = Pool()
    seen: set[str] = set()
    there: set[str] = set()
    for spec in specs:
        for row in rows_of(spec, skipped=skipped):
            if row.id in seen:
                raise DataError(spec, None, f"two rows have the id {row.id!r}")
            seen.add(row.id)
            there.add(row.dialogue.lang)
            if not langs or row.dialogue.lang in langs:
                _add(pool, row, plan)
    if not pool.candidates:
        raise _empty(specs, pool, langs, there)
    return pool


def _add(pool: Pool, row: LabelledDialogue, plan: Plan) -> None:
    if plan.foreign is not None:
        found = plan.foreign.match(row)
        if found is not None:
            keyword, comment = found
            detail = "the judge's comment speaks of another language"
            pool.left_out.append(
                LeftOut(row.id, row.dialogue.lang, "foreign_language", detail, keyword, comment)
            )
            return
        pool.silent += plan.foreign.is_silent(row)
    reading = plan.reading
    read = reading.read(row) if plan.policy == "balanced" else reading.unchecked(row)
    if isinstance(read, LeftOut):
        pool.left_out.append(read)
    else:
        pool.candidates.append(read)


def _empty(
    specs: Sequence[str], pool: Pool, langs: Sequence[str], there: Collection[str]
) -> DataError:
    reasons = Counter(f"{out.reason}: {out.detail}" for out in pool.left_out).most_common(1)
    where = ", ".join(specs)
    if not reasons:
        if not there:
            return DataError(where, None, "no dialogue to select from")
        hint = f"languages there: {', '.join(sorted(there))}"
        return DataError(where, None, f"no dialogue in {', '.join(langs)}", hint=hint)
    hint = "label the dialogues first (medal label), or choose a policy that needs no labels"
    return DataError(
        where, None, f"all {len(pool.left_out)} dialogues left out ({reasons[0][0]})", hint=hint
    )


def curate(pool: Pool, plan: Plan) -> Curation:
    """The selection of each language with its balance. Raises ConfigError as ``select`` does."""
    if plan.n < 1:
        raise ConfigError(f"at least one dialogue a language is selected, not {plan.n}")
    selections, balances = {}, []
    for lang, candidates in by_language(pool.candidates).items():
        found = select(
            plan.policy,
            candidates,
            plan.n,
            plan.reading,
            seed=plan.seed,
            judges=plan.judges,
            per_context=plan.per_context,
        )
        selections[lang] = found
        balances.append(_balance(lang, candidates, found, plan))
    data = content_hash(sorted(c.id for c in pool.candidates))
    left_out = tuple(sorted(pool.left_out, key=lambda out: (out.lang, out.id)))
    return Curation(plan, selections, tuple(balances), left_out, pool.silent, data)


def _balance(
    lang: str, pool: Sequence[Candidate], found: LanguageSelection, plan: Plan
) -> LanguageBalance:
    chosen = [c.candidate for c in found.chosen]
    factors = balance_of(lang, pool, chosen, plan.n, plan.reading, seed=plan.seed)
    return LanguageBalance(
        lang=lang,
        pool=len(pool),
        wanted=plan.n,
        selected=len(chosen),
        contexts=len({c.group for c in chosen}),
        factors=factors,
        unmet=unmet_targets(factors) if plan.policy == "balanced" else (),
        seeds=sum(c.stage == "seed" for c in found.chosen),
        unseeded=found.balanced.unseeded if found.balanced else (),
        skipped=skipped_wishes(found.balanced),
        notes=found.notes,
        covered=covered_share(pool, chosen) if plan.policy == "balanced" else None,
        effective=effective_size([c.weight for c in found.chosen]),
    )


def selected_rows(
    specs: Iterable[str], curation: Curation, *, skipped: Skipped | None = None
) -> list[LabelledDialogue]:
    """The selected rows, by language and then in the order chosen, each with ``curation`` in its
    extra fields: policy, rank, stage, category, chance, weight, and the size of its pool."""
    notes: dict[str, tuple[int, dict[str, Any]]] = {}
    for balance in curation.balances:
        for rank, chosen in enumerate(curation.selections[balance.lang].chosen, 1):
            note = {
                "policy": curation.plan.policy,
                "rank": rank,
                "stage": chosen.stage,
                "category": chosen.category,
                "chance": chosen.chance,
                "weight": chosen.weight,
                "pool": balance.pool,
            }
            told = {key: value for key, value in note.items() if value is not None}
            notes[chosen.candidate.id] = len(notes), told
    rows: list[LabelledDialogue | None] = [None] * len(notes)
    for spec in specs:
        for row in rows_of(spec, skipped=skipped):
            if row.id in notes:
                place, note = notes[row.id]
                rows[place] = replace(row, extra={**row.extra, "curation": note})
    return [row for row in rows if row is not None]
