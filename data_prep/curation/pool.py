"""From labelled rows to candidates of a selection, and what is left out."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from medal_judges.data_prep.curation.foreign import ForeignLanguage
from medal_judges.data_prep.sources.registry import load_spec, parse_spec
from medal_judges.errors import ConfigError, DataError
from medal_judges.reading.dialogues import labelled_of
from medal_judges.reading.options import DEFAULT_READING, ReadOptions
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


@dataclass(frozen=True, slots=True)
class CurationPlan:
    """``n`` dialogues a language by ``policy``. ``foreign`` None keeps dialogues whatever their
    comments say; ``per_context`` limits dialogues of one group in a language (``balanced`` only);
    no ``langs`` means all. Raises ConfigError for an impossible plan."""

    rules: LabelRules
    n: int = 100
    policy: Policy = "balanced"
    seed: int = 0
    foreign: ForeignLanguage | None = None
    per_context: int | None = None
    langs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.per_context is not None and self.policy != "balanced":
            raise ConfigError("--max-per-context needs --policy balanced")


@dataclass(slots=True)
class LabelledPool:
    """Candidates, and what was left out. ``silent`` counts rows called uninterpretable without a
    comment, which the filter cannot judge."""

    candidates: list[Candidate] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    silent: int = 0

    def add(self, row: LabelledDialogue, plan: CurationPlan) -> None:
        """Add a row, or note why it is left out."""
        if plan.foreign is not None:
            if matched := plan.foreign.match(row):
                detail = "the judge's comment speaks of another language"
                lang = row.dialogue.lang
                self.left_out.append(LeftOut(row.id, lang, "foreign_language", detail, *matched))
                return
            self.silent += plan.foreign.is_silent(row)
        rules = plan.rules
        found = rules.read(row) if plan.policy == "balanced" else rules.unchecked(row)
        if isinstance(found, LeftOut):
            self.left_out.append(found)
        else:
            self.candidates.append(found)


def rows_of(
    spec: str, options: ReadOptions = DEFAULT_READING, report: ReadingReport | None = None
) -> Iterator[LabelledDialogue]:
    """The rows of a file or source; a file is streamed."""
    parsed = parse_spec(spec)
    if not parsed.is_file:
        yield from load_spec(spec, reading=report)
        return
    for row in labelled_of(parsed.name, options, report):
        if parsed.split in (None, row.split) and parsed.level in (None, row.level):
            yield row


def read_pool(
    specs: Sequence[str],
    plan: CurationPlan,
    *,
    options: ReadOptions = DEFAULT_READING,
    report: ReadingReport | None = None,
) -> LabelledPool:
    """Candidates of all rows in the languages of ``plan``.

    Raises DataError for an id that occurs twice and for a pool without a candidate.
    """
    pool, where = LabelledPool(), ", ".join(specs)
    seen: set[str] = set()
    present: set[str] = set()
    for spec in specs:
        for row in rows_of(spec, options, report):
            if row.id in seen:
                raise DataError(spec, None, f"two rows have the id {row.id!r}")
            seen.add(row.id)
            present.add(row.dialogue.lang)
            if not plan.langs or row.dialogue.lang in plan.langs:
                pool.add(row, plan)
    pool.left_out.sort(key=lambda out: (out.lang, out.id))
    if pool.candidates:
        return pool
    if pool.left_out:
        reason = Counter(f"{out.reason}: {out.detail}" for out in pool.left_out).most_common(1)[0]
        problem = f"all {len(pool.left_out)} dialogues left out ({reason[0]})"
        hint = "label the dialogues first (medal label), or choose a policy that needs no labels"
        raise DataError(where, None, problem, hint=hint)
    if not present:
        raise DataError(where, None, "no dialogue to select from")
    hint = f"languages there: {', '.join(sorted(present))}"
    raise DataError(where, None, f"no dialogue in {', '.join(plan.langs)}", hint=hint)
