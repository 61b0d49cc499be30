"""From labelled rows to candidates of a selection, and what is left out."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import model_validator

from medal_judges.config import Config, option
from medal_judges.data_prep.curation.foreign import ForeignLanguage, load_foreign
from medal_judges.data_prep.sources.registry import stream_spec
from medal_judges.errors import ConfigError, DataError
from medal_judges.reading.options import ReadOptions
from medal_judges.reading.report import ReadingReport
from medal_judges.records.dimension import Dimension, load_rubric
from medal_judges.records.labelled import LabelledDialogue

Policy = Literal["balanced", "random"]
Aggregate = Literal["majority", "any", "all"]
CLEAN = "clean"  # the category of dialogues without an issue


@dataclass(frozen=True, slots=True)
class Candidate:
    """A dialogue that may be selected, without its text.

    ``categories``: its issues in the rubric's order, or ``clean`` alone; empty if the only issue is
    one that nobody selects by (``other``), and if the row has no labels. ``level``: the overall
    score as a level of its scale.
    """

    id: str
    lang: str
    group: str
    user: str
    chatbot: str
    categories: tuple[str, ...]
    level: int | None

    @property
    def clean(self) -> bool:
        """Whether it has no issue."""
        return self.categories == (CLEAN,)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A dialogue that is no candidate; ``keyword`` is what matched in ``comment``."""

    id: str
    lang: str
    reason: Literal["foreign_language", "missing_label"]
    detail: str
    keyword: str | None = None
    comment: str | None = None

    def to_record(self) -> dict[str, Any]:
        """One line of left_out.jsonl."""
        return {key: value for key, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True)
class LabelRules:
    """How labels become a candidate's categories and level.

    ``issues`` are selected by; ``faults`` (``other``) only stop a dialogue from being clean.
    ``aggregate`` says when an issue with several answers is present: at least half of them
    (``majority``; a tie counts, since issues are rare), one (``any``) or ``all``. Several overall
    scores become the level nearest to their mean, the lower of two equally near.
    """

    issues: tuple[str, ...]
    faults: tuple[str, ...]
    overall: Dimension
    aggregate: Aggregate = "majority"

    @property
    def categories(self) -> tuple[str, ...]:
        """Clean and the issues."""
        return (CLEAN, *self.issues)

    @property
    def levels(self) -> tuple[int, ...]:
        """The whole numbers of the overall scale, even if it is continuous."""
        return tuple(range(math.ceil(self.overall.low), math.floor(self.overall.high) + 1))

    def read(self, row: LabelledDialogue) -> Candidate | LeftOut:
        """The row as a candidate; left out if a label is missing."""
        asked = (*self.issues, self.overall.name)
        if missing := [name for name in asked if not _given(row, name)]:
            detail = f"no answer for {', '.join(missing)}"
            return LeftOut(row.id, row.dialogue.lang, "missing_label", detail)
        return self.unchecked(row)

    def unchecked(self, row: LabelledDialogue) -> Candidate:
        """The row as a candidate with the labels it has, for policies that need none."""
        present = []
        for name in (*self.issues, *self.faults):
            values = _given(row, name)
            share = sum(value >= 0.5 for value in values) / max(1, len(values))
            least = {"majority": 0.5, "any": 1e-9, "all": 1.0}[self.aggregate]
            present += [name] if values and share >= least else []
        categories = [name for name in present if name in self.issues]
        if not present and all(_given(row, name) for name in self.issues):
            categories = [CLEAN]
        overall = _given(row, self.overall.name)
        return Candidate(
            id=row.id,
            lang=row.dialogue.lang,
            group=row.group,
            user=row.dialogue.models.get("user") or "",
            chatbot=row.dialogue.chatbot or "",
            categories=tuple(categories),
            level=math.ceil(sum(overall) / len(overall) - 0.5) if overall else None,
        )


def _given(row: LabelledDialogue, name: str) -> list[float]:
    return [value for value in row.labels.get(name, ()) if value is not None]


def label_rules(rubric: str = "medal", aggregate: Aggregate = "majority") -> LabelRules:
    """The rules of a rubric's issues and its ``overall``. Raises ConfigError."""
    dimensions = {d.name: d for d in load_rubric(rubric)}
    overall = dimensions.get("overall")
    if overall is None:
        raise ConfigError(f"rubric {rubric}: curation needs a dimension 'overall'")
    issues = [name for name, d in dimensions.items() if d.is_issue]
    selected_by = tuple(name for name in issues if name != "other")
    return LabelRules(selected_by, tuple({*issues} & {"other"}), overall, aggregate)


def shuffled(candidates: Iterable[Candidate], seed: int) -> list[Candidate]:
    """The candidates in a random order that depends on ``seed`` and their ids alone, whatever the
    order and the other rows of the file."""
    return sorted(candidates, key=lambda c: (draw(seed, c.id), c.id))


def draw(seed: int, key: str) -> float:
    """A number in [0, 1) for ``key``, uniform over keys and over seeds."""
    digest = hashlib.sha256(f"curate:{seed}:{key}".encode()).digest()
    return int.from_bytes(digest[:7], "big") / 2**56


class CurateOptions(Config):
    """The options of ``medal curate``. Raises ConfigError for options that do not fit."""

    files: tuple[str, ...] = option(
        argument=True, metavar="IN...", help="Labelled dialogues: files, or medal."
    )
    out: Path = option(help="Folder to write: the selection and its report.")
    n: int = option(100, ge=1, help="Dialogues per language.")
    policy: Policy = option("balanced", help="How dialogues are chosen.")
    lang: tuple[str, ...] = option((), help="ISO 639-1 code; may be repeated. Default: all.")
    aggregate: Aggregate = option(
        "majority", help="How many of several answers make an issue present."
    )
    keywords: str = option("curate/foreign_language", help="YAML of the foreign-language filter.")
    keep_foreign: bool = option(False, help="Do not filter by the judge's comments.")
    max_per_context: int | None = option(
        None, ge=1, help="With --policy balanced. Default: no limit."
    )
    rubric: str = option("medal", help="Shipped name or YAML file: issues and overall.")
    seed: int = option(0, ge=0, help="Seed of every random draw.")
    overwrite: bool = option(False, help="Start again from the beginning; replaces OUT.")
    reading: ReadOptions = ReadOptions()

    @model_validator(mode="after")
    def _fits(self) -> CurateOptions:
        if self.max_per_context is not None and self.policy != "balanced":
            raise ConfigError("--max-per-context needs --policy balanced")
        return self

    @cached_property
    def rules(self) -> LabelRules:
        """The rules of the rubric."""
        return label_rules(self.rubric, self.aggregate)

    @cached_property
    def foreign(self) -> ForeignLanguage | None:
        """The foreign-language filter, if it is used."""
        return None if self.keep_foreign else load_foreign(self.keywords)


@dataclass(slots=True)
class LabelledPool:
    """Candidates, and what was left out. ``silent`` counts rows called uninterpretable without a
    comment, which the filter cannot judge."""

    candidates: list[Candidate] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    silent: int = 0


def read_pool(options: CurateOptions, report: ReadingReport) -> LabelledPool:
    """Candidates of all rows in the languages of ``options``.

    Raises DataError for an id that occurs twice and for a pool without a candidate.
    """
    pool, where, foreign = LabelledPool(), ", ".join(options.files), options.foreign
    seen: set[str] = set()
    present: set[str] = set()
    for spec in options.files:
        for row in stream_spec(spec, reading=report, options=options.reading):
            lang = row.dialogue.lang
            if row.id in seen:
                raise DataError(spec, None, f"two rows have the id {row.id!r}")
            seen.add(row.id)
            present.add(lang)
            if options.lang and lang not in options.lang:
                continue
            if foreign is not None and (matched := foreign.match(row)):
                detail = "the judge's comment speaks of another language"
                pool.left_out.append(LeftOut(row.id, lang, "foreign_language", detail, *matched))
                continue
            pool.silent += foreign is not None and foreign.is_silent(row)
            balanced = options.policy == "balanced"
            found = options.rules.read(row) if balanced else options.rules.unchecked(row)
            if isinstance(found, LeftOut):
                pool.left_out.append(found)
            else:
                pool.candidates.append(found)
    pool.left_out.sort(key=lambda out: (out.lang, out.id))
    if pool.candidates:
        return pool
    hint = f"languages there: {', '.join(sorted(present))}" if present else None
    problem = (
        f"no dialogue in {', '.join(options.lang)}" if present else "no dialogue to select from"
    )
    if pool.left_out:
        reason = Counter(f"{out.reason}: {out.detail}" for out in pool.left_out).most_common(1)[0]
        problem = f"all {len(pool.left_out)} dialogues left out ({reason[0]})"
        hint = "label the dialogues first (medal label), or choose a policy that needs no labels"
    raise DataError(where, None, problem, hint=hint)
