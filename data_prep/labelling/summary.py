"""What a labelling run found, counted: labels, malformed users, repeats, judge against library."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from medal_judges.data_prep.labelling.labels import Labelling, Values
from medal_judges.records.dialogue import Role
from medal_judges.records.dimension import Dimension
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.report.table import Cell, Row, Table

UNNAMED = "unnamed"
_CELLS = {(1, 1): "both", (1, 0): "judge_only", (0, 1): "library_only", (0, 0): "neither"}
_SHOWN = 10  # ids of each kind of difference that are printed


@dataclass(slots=True)
class LabelCounts:
    """The labels of the rows of one language or chatbot. ``values``: of each dimension, the mean
    over the repeats of each row that has the label."""

    rows: int = 0
    values: dict[str, list[float]] = field(default_factory=dict)

    def add(self, row: LabelledDialogue) -> None:
        """Count the labels of ``row``."""
        self.rows += 1
        for name, values in row.labels.items():
            if given := [v for v in values if v is not None]:
                self.values.setdefault(name, []).append(statistics.fmean(given))

    def figure(self, d: Dimension) -> float | None:
        """Rows with the issue, the mean of another dimension; None where no row has the label."""
        values = self.values.get(d.name)
        if not values:
            return None
        return sum(v >= 0.5 for v in values) if d.is_issue else statistics.fmean(values)


@dataclass(slots=True)
class UserCounts:
    """The dialogues of one user model in one language: ``checked`` and what was found."""

    rows: int = 0
    checked: int = 0
    malformed: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def share(self, count: int) -> float | None:
        """``count`` as a share of those checked, 0 to 1; None where none was."""
        return count / self.checked if self.checked else None


@dataclass(slots=True)
class Consistency:
    """How far a labelling judge agrees with itself (MEDAL, Table 3): per dimension, the mean over
    dialogues of each dialogue's standard deviation over its repeats.

    The deviation is the sample's (divided by n - 1; MEDAL does not say which), in units of the
    dimension's scale; a dialogue with fewer than two answers on a dimension is left out there.
    """

    deviations: dict[str, list[float]] = field(default_factory=dict)

    def add(self, labels: Mapping[str, Values]) -> None:
        """Take the repeats of one dialogue."""
        for name, values in labels.items():
            given = [v for v in values if v is not None]
            if len(given) > 1:
                self.deviations.setdefault(name, []).append(statistics.stdev(given))

    def mean(self, name: str) -> float | None:
        """Mean standard deviation of a dimension, None where no dialogue has two answers."""
        values = self.deviations.get(name)
        return statistics.fmean(values) if values else None

    def to_record(self) -> dict[str, Any]:
        """Dimension -> mean ``std`` and ``dialogues`` it is over, smallest first as in Table 3."""
        rows = {n: {"std": self.mean(n), "dialogues": len(v)} for n, v in self.deviations.items()}
        return dict(sorted(rows.items(), key=lambda row: row[1]["std"] or 0.0))


@dataclass(slots=True)
class Comparison:
    """Who finds a user in another language: a 2x2 table over the dialogues on which both the judge
    and the language-identification library have a verdict, with the ids of those on which they
    differ; ``no_verdict`` counts the rest, by who had none."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_CELLS.values(), 0))
    judge_only: list[str] = field(default_factory=list)
    library_only: list[str] = field(default_factory=list)
    no_verdict: dict[str, int] = field(default_factory=lambda: {"judge": 0, "library": 0})

    def add(self, id: str, judge: bool | None, library: bool | None) -> None:
        """Count one dialogue; None means no verdict."""
        if judge is None or library is None:
            self.no_verdict["judge"] += judge is None
            self.no_verdict["library"] += library is None
            return
        self.counts[_CELLS[int(judge), int(library)]] += 1
        if judge != library:
            (self.judge_only if judge else self.library_only).append(id)

    @property
    def total(self) -> int:
        """How many dialogues both have a verdict on."""
        return sum(self.counts.values())

    @property
    def agreement(self) -> float | None:
        """Share of dialogues with the same verdict; None for none."""
        same = self.counts["both"] + self.counts["neither"]
        return same / self.total if self.total else None

    @property
    def kappa(self) -> tuple[float | None, str | None]:
        """(Cohen's kappa, None), or (None, reason): undefined where chance alone agrees always."""
        if self.agreement is None:
            return None, "no dialogue on which both have a verdict"
        both, judge, library, _ = self.counts.values()
        p, q = (both + judge) / self.total, (both + library) / self.total
        chance = p * q + (1 - p) * (1 - q)
        if chance == 1:
            return None, "both give every dialogue the same verdict"
        return (self.agreement - chance) / (1 - chance), None

    def to_record(self) -> dict[str, Any]:
        """For report.json."""
        kappa, reason = self.kappa
        return {
            **self.counts,
            "agreement": self.agreement,
            "kappa": kappa,
            "kappa_reason": reason,
            "without_verdict": self.no_verdict,
            "judge_only_ids": self.judge_only,
            "library_only_ids": self.library_only,
        }

    def lines(self) -> list[str]:
        """The table in words, with the first ids of each kind of difference."""
        c = self.counts
        kappa, reason = self.kappa
        agreement = "–" if self.agreement is None else f"{self.agreement:.3f}"
        shown = f"{kappa:.3f}" if kappa is not None else f"undefined ({reason})"
        lines = [
            "users in another language          library: yes   library: no",
            f"  judge: yes                       {c['both']:>12}   {c['judge_only']:>11}",
            f"  judge: no                        {c['library_only']:>12}   {c['neither']:>11}",
            f"  agreement {agreement}, Cohen's kappa {shown}; no verdict: "
            f"judge {self.no_verdict['judge']}, library {self.no_verdict['library']}",
        ]
        for who, ids in (("judge only", self.judge_only), ("library only", self.library_only)):
            more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
            lines += [f"  {who}: {', '.join(ids[:_SHOWN])}{more}"] if ids else []
        return lines


@dataclass(slots=True)
class Summary:
    """All counts of a run. An issue counts where the mean over a row's repeats is 0.5 or more."""

    asked: Labelling
    langs: dict[str, LabelCounts] = field(default_factory=dict)
    chatbots: dict[str, LabelCounts] = field(default_factory=dict)
    users: dict[tuple[str, str], UserCounts] = field(default_factory=dict)
    kinds: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    consistency: Consistency = field(default_factory=Consistency)
    comparison: Comparison | None = None
    mixed: dict[Role, Counter[str]] = field(
        default_factory=lambda: {"user": Counter(), "assistant": Counter()}
    )

    def add_labelled(self, row: LabelledDialogue) -> None:
        """Count a labelled row under its language and its chatbot."""
        for counts, name in (
            (self.langs, row.dialogue.lang),
            (self.chatbots, row.dialogue.chatbot or UNNAMED),
        ):
            counts.setdefault(name, LabelCounts()).add(row)
        if self.asked.repeats > 1:
            self.consistency.add(row.labels)

    def add_user(self, row: LabelledDialogue, reasons: Sequence[str], *, checked: bool) -> None:
        """Count the user of ``row``: ``reasons`` why it is malformed, none where it is in order;
        ``checked`` is whether the user judge gave a verdict."""
        key = (row.dialogue.lang, row.dialogue.models.get("user") or UNNAMED)
        users = self.users.setdefault(key, UserCounts())
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
            "by_language": _records(self.langs, dimensions),
            "by_chatbot": _records(self.chatbots, dimensions),
            "users": [
                {
                    "lang": lang,
                    "user": user,
                    "rows": users.rows,
                    "checked": users.checked,
                    "malformed": users.malformed,
                    "share": users.share(users.malformed),
                    "reasons": dict(users.reasons),
                }
                for (lang, user), users in sorted(self.users.items())
            ],
        }
        if self.asked.repeats > 1:
            record["std_over_repeats"] = self.consistency.to_record()
        if any(self.mixed.values()):
            record["language_library"] = {role: dict(c) for role, c in self.mixed.items()}
        if self.comparison is not None:
            record["judge_and_library"] = self.comparison.to_record()
        return record


def _records(counts: dict[str, LabelCounts], dimensions: Sequence[Dimension]) -> dict[str, Any]:
    return {
        name: {"rows": one.rows} | {d.name: one.figure(d) for d in dimensions}
        for name, one in sorted(counts.items())
    }


def tables(summary: Summary) -> Iterator[Table]:
    """Labels per language and chatbot, deviations over repeats (MEDAL, Table 3), and shares of
    malformed dialogues per language and user model (Figure 7); what does not apply is left out."""
    if summary.langs:
        yield _labels("rows with the issue, by language", summary.langs, summary)
        yield _labels("rows with the issue, by chatbot", summary.chatbots, summary)
    if summary.consistency.deviations:
        title = (
            f"standard deviation over {summary.asked.repeats} repeats (n - 1) of each dialogue, "
            "mean over dialogues"
        )
        deviations = summary.consistency.to_record().items()
        rows: list[Row] = [
            (name, f"{row['std']:.4f}", row["dialogues"]) for name, row in deviations
        ]
        yield Table(title, ("dimension", "std", "dialogues"), rows)
    if summary.users:
        yield _users(summary)


def _labels(title: str, counts: Mapping[str, LabelCounts], summary: Summary) -> Table:
    names = sorted(counts)
    rows: list[Row] = [("dialogues", *(counts[name].rows for name in names))]
    for d in summary.asked.dimensions:
        label = d.name if d.is_issue else f"{d.name} (mean)"
        rows.append((label, *(_cell(counts[name], d) for name in names)))
    return Table(title, ("", *names), rows)


def _cell(counts: LabelCounts, dimension: Dimension) -> Cell:
    value = counts.figure(dimension)
    if value is None or not dimension.is_issue:
        return value
    return f"{value:g} ({value / len(counts.values[dimension.name]):.1%})"


def _users(summary: Summary) -> Table:
    names = list(dict.fromkeys(r for u in summary.users.values() for r in sorted(u.reasons)))
    rows: list[Row] = []
    for (lang, user), users in sorted(summary.users.items()):
        counts = [*(users.reasons[name] for name in names), users.malformed]
        shares = [(count, users.share(count)) for count in counts]
        cells = (None if share is None else f"{count} ({share:.1%})" for count, share in shares)
        rows.append((lang, user, users.checked, *cells))
    columns = ("language", "user", "checked", *names, "any")
    return Table("malformed users, of those checked", columns, rows)
