"""What a labelling run found, counted: labels per language and chatbot, malformed users."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from medal_judges.data_prep.labelling.comparison import Comparison
from medal_judges.data_prep.labelling.consistency import Consistency
from medal_judges.data_prep.labelling.labels import Labelling
from medal_judges.dialogue import Role
from medal_judges.dimension import Dimension
from medal_judges.labelled import LabelledDialogue

UNNAMED = "unnamed"


@dataclass(slots=True)
class Group:
    """The labels of the rows of one language or chatbot. ``values``: of each dimension, the mean
    over the repeats of each row that has the label; ``issues``: in how many of these rows the
    issue counts."""

    rows: int = 0
    issues: Counter[str] = field(default_factory=Counter)
    values: dict[str, list[float]] = field(default_factory=dict)

    def add(self, row: LabelledDialogue, dimensions: Sequence[Dimension]) -> None:
        """Count the labels of ``row`` on ``dimensions``."""
        self.rows += 1
        for d in dimensions:
            given = [v for v in row.labels.get(d.name, ()) if v is not None]
            if given:
                mean = statistics.fmean(given)
                self.values.setdefault(d.name, []).append(mean)
                self.issues[d.name] += d.is_issue and mean >= 0.5

    def told(self, d: Dimension) -> float | None:
        """Rows with the issue, the mean of another dimension; None where no row has the label."""
        values = self.values.get(d.name)
        if not values:
            return None
        return self.issues[d.name] if d.is_issue else statistics.fmean(values)


@dataclass(slots=True)
class Users:
    """The dialogues of one user model in one language: ``checked`` and what was found."""

    rows: int = 0
    checked: int = 0
    malformed: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def share(self, count: int) -> float | None:
        """``count`` as a share of those checked, 0 to 1; None where none was."""
        return count / self.checked if self.checked else None


@dataclass(slots=True)
class Summary:
    """All counts of a run. An issue counts where the mean over a row's repeats is 0.5 or more."""

    asked: Labelling
    langs: dict[str, Group] = field(default_factory=dict)
    chatbots: dict[str, Group] = field(default_factory=dict)
    users: dict[tuple[str, str], Users] = field(default_factory=dict)
    kinds: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    consistency: Consistency = field(default_factory=Consistency)
    comparison: Comparison | None = None
    mixed: dict[Role, Counter[str]] = field(
        default_factory=lambda: {"user": Counter(), "assistant": Counter()}
    )

    def add_labelled(self, row: LabelledDialogue) -> None:
        """Count a labelled row under its language and its chatbot."""
        for groups, name in (
            (self.langs, row.dialogue.lang),
            (self.chatbots, row.dialogue.chatbot or UNNAMED),
        ):
            groups.setdefault(name, Group()).add(row, self.asked.dimensions)
        if self.asked.repeats > 1:
            self.consistency.add(row.labels)

    def add_user(self, row: LabelledDialogue, reasons: Sequence[str], *, checked: bool) -> None:
        """Count the user of ``row``: ``reasons`` why it is malformed, none where it is in order;
        ``checked`` is whether the user judge gave a verdict."""
        key = (row.dialogue.lang, row.dialogue.models.get("user") or UNNAMED)
        users = self.users.setdefault(key, Users())
        users.rows += 1
        users.checked += checked
        users.malformed += bool(reasons)
        users.reasons.update(reasons)

    def to_record(self) -> dict[str, Any]:
        """report.json."""
        dimensions = self.asked.dimensions
        record: dict[str, Any] = {
            "rows": dict(self.kinds),
            "failures": dict(self.failures),
            "repeats": self.asked.repeats,
            "by_language": _groups(self.langs, dimensions),
            "by_chatbot": _groups(self.chatbots, dimensions),
            "users": [_user_record(key, users) for key, users in sorted(self.users.items())],
        }
        if self.asked.repeats > 1:
            record["std_over_repeats"] = self.consistency.to_record()
        if any(self.mixed.values()):
            record["language_library"] = {role: dict(c) for role, c in self.mixed.items()}
        if self.comparison is not None:
            record["judge_and_library"] = self.comparison.to_record()
        return record


def _groups(groups: dict[str, Group], dimensions: Sequence[Dimension]) -> dict[str, Any]:
    return {
        name: {"rows": group.rows} | {d.name: group.told(d) for d in dimensions}
        for name, group in sorted(groups.items())
    }


def _user_record(key: tuple[str, str], users: Users) -> dict[str, Any]:
    return {
        "lang": key[0],
        "user": key[1],
        "rows": users.rows,
        "checked": users.checked,
        "malformed": users.malformed,
        "share": users.share(users.malformed),
        "reasons": dict(users.reasons),
    }
