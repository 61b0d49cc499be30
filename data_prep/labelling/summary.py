"""What a labelling run found, counted: labels, malformed users, repeats, judge against library."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from medal_judges.data_prep.labelling.labels import Values
from medal_judges.records.dialogue import ROLES, Role
from medal_judges.records.dimension import Dimension
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.report.table import Cell, Row, Table

UNNAMED = "unnamed"
_CELLS = {(1, 1): "both", (1, 0): "judge_only", (0, 1): "library_only", (0, 0): "neither"}
_SHOWN = 10  # ids of each kind of difference that are printed


class LabelCounts:
    """The labels of the rows of one language or chatbot. ``values``: for each dimension, the mean
    over the repeats of each row."""

    def __init__(self) -> None:
        self.rows = 0
        self.values: dict[str, list[float]] = {}

    def figure(self, d: Dimension) -> float | None:
        """Rows with the issue (a mean of 0.5 or more), or the mean of another dimension; None if no
        row has the label."""
        values = self.values.get(d.name)
        if not values:
            return None
        return sum(v >= 0.5 for v in values) if d.is_issue else statistics.fmean(values)


class UserCounts:
    """The dialogues of one user model in one language."""

    def __init__(self) -> None:
        self.rows = self.checked = self.malformed = 0
        self.reasons: Counter[str] = Counter()

    def share(self, count: int) -> float | None:
        """``count`` as a share of those checked; None if none was."""
        return count / self.checked if self.checked else None


class Comparison:
    """Who finds a user in another language: a 2x2 table over the dialogues on which both the judge
    and the language-identification library have a verdict, with the ids on which they differ;
    ``no_verdict`` counts the rest."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(_CELLS.values(), 0)
        self.ids: dict[str, list[str]] = {"judge_only": [], "library_only": []}
        self.no_verdict = {"judge": 0, "library": 0}

    def add(self, id: str, judge: bool | None, library: bool | None) -> None:
        """Count one dialogue; None means no verdict."""
        if judge is None or library is None:
            self.no_verdict["judge"] += judge is None
            self.no_verdict["library"] += library is None
            return
        cell = _CELLS[int(judge), int(library)]
        self.counts[cell] += 1
        if cell in self.ids:
            self.ids[cell].append(id)

    @property
    def agreement(self) -> float | None:
        """Share of dialogues with the same verdict; None if there are none."""
        total = sum(self.counts.values())
        return (self.counts["both"] + self.counts["neither"]) / total if total else None

    @property
    def kappa(self) -> tuple[float | None, str | None]:
        """(Cohen's kappa, None), or (None, reason): undefined if chance alone always agrees."""
        if self.agreement is None:
            return None, "no dialogue on which both have a verdict"
        both, judge, library, _ = self.counts.values()
        total = sum(self.counts.values())
        p, q = (both + judge) / total, (both + library) / total
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
            **{f"{name}_ids": ids for name, ids in self.ids.items()},
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
        for name, ids in self.ids.items():
            more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
            who = name.replace("_", " ")
            lines += [f"  {who}: {', '.join(ids[:_SHOWN])}{more}"] if ids else []
        return lines


class Summary:
    """All counts of a run with ``repeats`` answers on each of ``dimensions``."""

    def __init__(self, dimensions: Sequence[Dimension], repeats: int = 1) -> None:
        self.dimensions, self.repeats = dimensions, repeats
        self.langs: dict[str, LabelCounts] = {}
        self.chatbots: dict[str, LabelCounts] = {}
        self.users: dict[tuple[str, str], UserCounts] = {}
        self.kinds: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.deviations: dict[str, list[float]] = {}
        self.comparison: Comparison | None = None
        self.mixed: dict[Role, Counter[str]] = {role: Counter() for role in ROLES}

    def add_labelled(self, row: LabelledDialogue) -> None:
        """Count a labelled row under its language and its chatbot."""
        given = {n: [v for v in values if v is not None] for n, values in row.labels.items()}
        for counts, name in (
            (self.langs, row.dialogue.lang),
            (self.chatbots, row.dialogue.chatbot or UNNAMED),
        ):
            one = counts.setdefault(name, LabelCounts())
            one.rows += 1
            for dimension, values in given.items():
                if values:
                    one.values.setdefault(dimension, []).append(statistics.fmean(values))
        if self.repeats > 1:
            self.add_repeats(row.labels)

    def add_repeats(self, labels: Mapping[str, Values]) -> None:
        """Add each dimension's sample standard deviation (n - 1; MEDAL does not say which) over the
        repeats of a dialogue; a dimension with fewer than two answers is left out."""
        for name, values in labels.items():
            given = [v for v in values if v is not None]
            if len(given) > 1:
                self.deviations.setdefault(name, []).append(statistics.stdev(given))

    def consistency(self) -> dict[str, dict[str, Any]]:
        """How far the judge agrees with itself (MEDAL, Table 3): dimension -> mean ``std`` over
        ``dialogues``, smallest first."""
        rows = {
            name: {"std": statistics.fmean(values), "dialogues": len(values)}
            for name, values in self.deviations.items()
        }
        return dict(sorted(rows.items(), key=lambda row: row[1]["std"]))

    def add_user(self, row: LabelledDialogue, reasons: Sequence[str], *, checked: bool) -> None:
        """Count the user of ``row``: the ``reasons`` why it is malformed, and whether the user
        judge gave a verdict."""
        key = (row.dialogue.lang, row.dialogue.models.get("user") or UNNAMED)
        users = self.users.setdefault(key, UserCounts())
        users.rows += 1
        users.checked += checked
        users.malformed += bool(reasons)
        users.reasons.update(reasons)

    def compare(self, id: str, judge: bool | None, library: bool | None) -> None:
        """Count both verdicts on a user's language."""
        self.comparison = self.comparison or Comparison()
        self.comparison.add(id, judge, library)

    def to_record(self) -> dict[str, Any]:
        """report.json."""
        by_language, by_chatbot = (
            {
                name: {"rows": one.rows} | {d.name: one.figure(d) for d in self.dimensions}
                for name, one in sorted(counts.items())
            }
            for counts in (self.langs, self.chatbots)
        )
        record: dict[str, Any] = {
            "rows": dict(self.kinds),
            "failures": dict(self.failures),
            "repeats": self.repeats,
            "by_language": by_language,
            "by_chatbot": by_chatbot,
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
        if self.repeats > 1:
            record["std_over_repeats"] = self.consistency()
        if any(self.mixed.values()):
            record["language_library"] = {role: dict(c) for role, c in self.mixed.items()}
        if self.comparison is not None:
            record["judge_and_library"] = self.comparison.to_record()
        return record

    def tables(self) -> Iterator[Table]:
        """Labels per language and chatbot, deviations over repeats (MEDAL, Table 3), and shares of
        malformed dialogues per language and user model (Figure 7), as far as there are any."""
        for what, counts in (("language", self.langs), ("chatbot", self.chatbots)):
            if counts:
                yield self._labels(f"rows with the issue, by {what}", counts)
        if deviations := self.consistency():
            title = (
                f"standard deviation over {self.repeats} repeats (n - 1) of each dialogue, mean "
                "over dialogues"
            )
            rows: list[Row] = [
                (name, f"{row['std']:.4f}", row["dialogues"]) for name, row in deviations.items()
            ]
            yield Table(title, ("dimension", "std", "dialogues"), rows)
        if self.users:
            names = list(dict.fromkeys(r for u in self.users.values() for r in sorted(u.reasons)))
            rows = []
            for (lang, user), users in sorted(self.users.items()):
                found = [*(users.reasons[name] for name in names), users.malformed]
                shares = [(count, users.share(count)) for count in found]
                cells = (None if s is None else f"{count} ({s:.1%})" for count, s in shares)
                rows.append((lang, user, users.checked, *cells))
            columns = ("language", "user", "checked", *names, "any")
            yield Table("malformed users, of those checked", columns, rows)

    def _labels(self, title: str, counts: Mapping[str, LabelCounts]) -> Table:
        def cell(one: LabelCounts, d: Dimension) -> Cell:
            value = one.figure(d)
            if value is None or not d.is_issue:
                return value
            return f"{value:g} ({value / len(one.values[d.name]):.1%})"

        names = sorted(counts)
        rows: list[Row] = [("dialogues", *(counts[name].rows for name in names))]
        for d in self.dimensions:
            label = d.name if d.is_issue else f"{d.name} (mean)"
            rows.append((label, *(cell(counts[name], d) for name in names)))
        return Table(title, ("", *names), rows)
