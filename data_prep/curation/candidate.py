"""Candidate: what the selection needs to know of a labelled dialogue, without its text."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from medal_judges.errors import ConfigError
from medal_judges.records.dimension import Dimension, load_rubric
from medal_judges.records.labelled import LabelledDialogue

Policy = Literal["balanced", "random"]
Aggregate = Literal["majority", "any", "all"]
Reason = Literal["foreign_language", "missing_label"]
CLEAN = "clean"  # the category of dialogues without an issue
UNNAMED = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A dialogue that may be selected.

    ``categories`` holds the issues it has, in the rubric's order, or ``clean`` alone; it is empty
    where the only issue is one that nobody selects by (``other``), and where the row has no labels.
    ``level`` is the overall score as a level of its scale, None where the row has none.
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
        return self.categories == (CLEAN,)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A dialogue that is not a candidate, and why; ``keyword`` is what matched in ``comment``."""

    id: str
    lang: str
    reason: Reason
    detail: str
    keyword: str | None = None
    comment: str | None = None

    def to_record(self) -> dict[str, Any]:
        """One line of left_out.jsonl."""
        record = {"id": self.id, "lang": self.lang, "reason": self.reason, "detail": self.detail}
        match = {"keyword": self.keyword, "comment": self.comment}
        return record | {key: value for key, value in match.items() if value is not None}


@dataclass(frozen=True, slots=True)
class LabelReading:
    """How labels become a candidate's categories and level.

    ``issues`` are selected by; ``faults`` (``other``) only stop a dialogue from being clean.
    ``aggregate`` says when an issue with several answers counts as present: at least half of them
    (``majority``; a tie counts, since issues are what is rare), one (``any``) or ``all``. Several
    overall scores become the level nearest to their mean, the lower of two equally near.
    """

    issues: tuple[str, ...]
    faults: tuple[str, ...]
    overall: Dimension
    aggregate: Aggregate = "majority"

    @property
    def categories(self) -> tuple[str, ...]:
        return (CLEAN, *self.issues)

    @property
    def levels(self) -> tuple[int, ...]:
        """The whole numbers of the overall scale, also where it is continuous."""
        return tuple(range(math.ceil(self.overall.low), math.floor(self.overall.high) + 1))

    def read(self, row: LabelledDialogue) -> Candidate | LeftOut:
        """The row as a candidate; left out where it has no answer to a question."""
        asked = (*self.issues, self.overall.name)
        if missing := [name for name in asked if not _given(row.labels.get(name, ()))]:
            detail = f"no answer for {', '.join(missing)}"
            return LeftOut(row.id, row.dialogue.lang, "missing_label", detail)
        return self.unchecked(row)

    def unchecked(self, row: LabelledDialogue) -> Candidate:
        """The row as a candidate with the labels it has, for policies that need none."""
        answers = {name: _given(row.labels.get(name, ())) for name in (*self.issues, *self.faults)}
        present = [name for name, given in answers.items() if given and self._is_present(given)]
        categories = [name for name in present if name in self.issues]
        if not present and all(answers[name] for name in self.issues):
            categories = [CLEAN]
        overall = _given(row.labels.get(self.overall.name, ()))
        return Candidate(
            id=row.id,
            lang=row.dialogue.lang,
            group=row.group,
            user=row.dialogue.models.get("user") or UNNAMED,
            chatbot=row.dialogue.chatbot or UNNAMED,
            categories=tuple(categories),
            level=math.ceil(sum(overall) / len(overall) - 0.5) if overall else None,
        )

    def _is_present(self, values: Sequence[float]) -> bool:
        share = sum(value >= 0.5 for value in values) / len(values)
        return {"majority": share >= 0.5, "any": share > 0, "all": share == 1}[self.aggregate]


def label_reading(rubric: str = "medal", aggregate: Aggregate = "majority") -> LabelReading:
    """The LabelReading of a rubric's issues and its ``overall``. Raises ConfigError."""
    dimensions = {d.name: d for d in load_rubric(rubric)}
    overall = dimensions.get("overall")
    if overall is None:
        raise ConfigError(f"rubric {rubric}: curation needs a dimension 'overall'")
    issues = {name for name, d in dimensions.items() if d.is_issue}
    selected_by = tuple(name for name in dimensions if name in issues - {"other"})
    return LabelReading(selected_by, tuple(issues & {"other"}), overall, aggregate)


def shuffled(candidates: Iterable[Candidate], seed: int) -> list[Candidate]:
    """The candidates in a random order that depends on ``seed`` and their ids alone, so that
    neither the order of the file nor other rows of it change who comes before whom."""
    return sorted(candidates, key=lambda c: (draw(seed, c.id), c.id))


def draw(seed: int, key: str) -> float:
    """A number in [0, 1) for ``key``, uniform over keys and over seeds."""
    digest = hashlib.sha256(f"curate:{seed}:{key}".encode()).digest()
    return int.from_bytes(digest[:7], "big") / 2**56


def by_language(candidates: Iterable[Candidate]) -> Mapping[str, list[Candidate]]:
    """Candidates of each language, languages in alphabetical order."""
    groups: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        groups.setdefault(candidate.lang, []).append(candidate)
    return dict(sorted(groups.items()))


def _given(values: Iterable[float | None]) -> tuple[float, ...]:
    return tuple(value for value in values if value is not None)
