"""Curate: a labelled pool in, the selection, what was left out and a report out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from medal_judges import __version__
from medal_judges.data_prep.curation.balance import LanguageBalance, language_balance
from medal_judges.data_prep.curation.candidate import (
    Candidate,
    LabelReading,
    LeftOut,
    Policy,
    by_language,
)
from medal_judges.data_prep.curation.foreign import ForeignLanguage
from medal_judges.data_prep.curation.selection import LanguageSelection, select
from medal_judges.data_prep.sources.registry import load_spec, parse_spec
from medal_judges.errors import ConfigError, DataError
from medal_judges.reading.dialogues import labelled_of
from medal_judges.reading.options import DEFAULT_READING, ReadOptions
from medal_judges.reading.report import ReadingReport
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.signature import content_hash


@dataclass(frozen=True, slots=True)
class CurationPlan:
    """What is asked for: ``n`` dialogues a language by ``policy``, labels read as ``reading``.

    ``foreign`` None keeps dialogues whatever their comments say; ``per_context`` limits dialogues
    of one group in a language (``balanced`` only); no ``langs`` means all. Raises ConfigError for a
    plan that cannot be.
    """

    reading: LabelReading
    n: int = 100
    policy: Policy = "balanced"
    seed: int = 0
    foreign: ForeignLanguage | None = None
    per_context: int | None = None
    langs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ConfigError(f"at least one dialogue a language is selected, not {self.n}")
        if self.per_context is not None and self.policy != "balanced":
            raise ConfigError("--max-per-context goes with --policy balanced")


@dataclass(slots=True)
class LabelledPool:
    """Candidates and what was left out. ``silent`` counts rows called uninterpretable without a
    comment, which the filter cannot judge."""

    candidates: list[Candidate] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    silent: int = 0

    def add(self, row: LabelledDialogue, plan: CurationPlan) -> None:
        """Take a row in, or note why it is left out."""
        if plan.foreign is not None:
            if matched := plan.foreign.match(row):
                detail = "the judge's comment speaks of another language"
                self.left_out.append(
                    LeftOut(row.id, row.dialogue.lang, "foreign_language", detail, *matched)
                )
                return
            self.silent += plan.foreign.is_silent(row)
        reading = plan.reading
        read = reading.read(row) if plan.policy == "balanced" else reading.unchecked(row)
        if isinstance(read, LeftOut):
            self.left_out.append(read)
        else:
            self.candidates.append(read)


@dataclass(frozen=True, slots=True)
class Curation:
    """The selection of each language, the pool it came from, and what was asked for."""

    plan: CurationPlan
    pool: LabelledPool
    selections: Mapping[str, LanguageSelection]
    balances: tuple[LanguageBalance, ...]

    def facts(self) -> dict[str, Any]:
        """How the selection was made; no path in it."""
        plan = self.plan
        return {
            "policy": plan.policy,
            "per language": plan.n,
            "seed": plan.seed,
            "aggregation of several answers": plan.reading.aggregate,
            "dialogues of one context": plan.per_context or "no limit",
            "foreign-language filter": "off"
            if plan.foreign is None
            else content_hash(plan.foreign.keywords.model_dump()),
            "pool": content_hash(sorted(c.id for c in self.pool.candidates)),
            "version": __version__,
        }


def rows_of(
    spec: str, options: ReadOptions = DEFAULT_READING, reading: ReadingReport | None = None
) -> Iterator[LabelledDialogue]:
    """The rows of a file or source; a file is streamed."""
    parsed = parse_spec(spec)
    if not parsed.is_file:
        yield from load_spec(spec, reading=reading)
        return
    for row in labelled_of(parsed.name, options, reading):
        if parsed.split in (None, row.split) and parsed.level in (None, row.level):
            yield row


def read_pool(
    specs: Sequence[str],
    plan: CurationPlan,
    *,
    options: ReadOptions = DEFAULT_READING,
    reading: ReadingReport | None = None,
) -> LabelledPool:
    """Candidates of all rows in the languages of ``plan``.

    Raises DataError for an id that two files share and for a pool without a labelled row.
    """
    pool = LabelledPool()
    seen: set[str] = set()
    present: set[str] = set()
    for spec in specs:
        for row in rows_of(spec, options, reading):
            if row.id in seen:
                raise DataError(spec, None, f"two rows have the id {row.id!r}")
            seen.add(row.id)
            present.add(row.dialogue.lang)
            if not plan.langs or row.dialogue.lang in plan.langs:
                pool.add(row, plan)
    if not pool.candidates:
        raise _empty(specs, pool, plan.langs, present)
    pool.left_out.sort(key=lambda out: (out.lang, out.id))
    return pool


def _empty(
    specs: Sequence[str], pool: LabelledPool, langs: Sequence[str], present: Collection[str]
) -> DataError:
    where = ", ".join(specs)
    if pool.left_out:
        reason = Counter(f"{out.reason}: {out.detail}" for out in pool.left_out).most_common(1)[0]
        problem = f"all {len(pool.left_out)} dialogues left out ({reason[0]})"
        hint = "label the dialogues first (medal label), or choose a policy that needs no labels"
        return DataError(where, None, problem, hint=hint)
    if not present:
        return DataError(where, None, "no dialogue to select from")
    hint = f"languages there: {', '.join(sorted(present))}"
    return DataError(where, None, f"no dialogue in {', '.join(langs)}", hint=hint)


def curate(pool: LabelledPool, plan: CurationPlan) -> Curation:
    """The selection of each language with its balance."""
    selections, balances = {}, []
    for lang, candidates in by_language(pool.candidates).items():
        selections[lang] = selection = select(
            plan.policy,
            candidates,
            plan.n,
            plan.reading,
            seed=plan.seed,
            per_context=plan.per_context,
        )
        balances.append(
            language_balance(lang, candidates, selection, plan.n, plan.reading, seed=plan.seed)
        )
    return Curation(plan, pool, selections, tuple(balances))


def selected_rows(
    specs: Iterable[str], curation: Curation, *, options: ReadOptions = DEFAULT_READING
) -> list[LabelledDialogue]:
    """The selected rows, by language and then in the order chosen, each with ``curation`` in its
    extra fields: policy, rank, stage, category, chance, weight, and the size of its pool."""
    notes: dict[str, dict[str, Any]] = {}
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
            notes[chosen.candidate.id] = {k: v for k, v in note.items() if v is not None}
    rows = {
        row.id: replace(row, extra={**row.extra, "curation": notes[row.id]})
        for spec in specs
        for row in rows_of(spec, options)
        if row.id in notes
    }
    return [rows[id] for id in notes]
