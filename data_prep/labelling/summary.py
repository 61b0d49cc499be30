"""The counts of a labelling run: labels, malformed users, repeats, judge against library."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
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


class Comparison:
    """Users in another language by the judge and by the language-identification library: a 2x2
    table over the dialogues with both verdicts, and the ids on which they differ. ``no_verdict``
    counts the rest."""

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

    def to_record(self) -> dict[str, Any]:
        """For report.json. ``agreement`` is the share of dialogues with the same verdict, ``kappa``
        Cohen's, None with its reason if chance alone always agrees."""
        both, judge, library, neither = self.counts.values()
        total = sum(self.counts.values())
        agreement = kappa = reason = None
        if total:
            agreement = (both + neither) / total
            p, q = (both + judge) / total, (both + library) / total
            chance = p * q + (1 - p) * (1 - q)
            if chance == 1:
                reason = "both give every dialogue the same verdict"
            else:
                kappa = (agreement - chance) / (1 - chance)
        else:
            reason = "no dialogue on which both have a verdict"
        return {
            **self.counts,
            "agreement": agreement,
            "kappa": kappa,
            "kappa_reason": reason,
            "without_verdict": self.no_verdict,
            **{f"{name}_ids": ids for name, ids in self.ids.items()},
        }

    def lines(self) -> list[str]:
        """The table in words, with the first ids of each kind of difference."""
        c = self.to_record()
        agreement = "–" if c["agreement"] is None else f"{c['agreement']:.3f}"
        undefined = f"undefined ({c['kappa_reason']})"
        kappa = undefined if c["kappa"] is None else f"{c['kappa']:.3f}"
        lines = [
            "users in another language          library: yes   library: no",
            f"  judge: yes                       {c['both']:>12}   {c['judge_only']:>11}",
            f"  judge: no                        {c['library_only']:>12}   {c['neither']:>11}",
            f"  agreement {agreement}, Cohen's kappa {kappa}; no verdict: "
            f"judge {self.no_verdict['judge']}, library {self.no_verdict['library']}",
        ]
        for name, ids in self.ids.items():
            more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
            who = name.replace("_", " ")
            lines += [f"  {who}: {', '.join(ids[:_SHOWN])}{more}"] if ids else []
        return lines


class Summary:
    """All counts of a run with ``repeats`` answers on each of ``dimensions``.

    ``rows`` counts labelled rows by ("language" or "chatbot", its name); ``values`` holds, for each
    of these and each dimension, the mean over the repeats of each row. ``users`` counts by
    (language, user model) rows, those checked and those malformed; ``reasons`` why.
    """

    def __init__(self, dimensions: Sequence[Dimension], repeats: int = 1) -> None:
        self.dimensions, self.repeats = dimensions, repeats
        self.rows: Counter[tuple[str, str]] = Counter()
        self.values: dict[tuple[str, str, str], list[float]] = defaultdict(list)
        self.users: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self.reasons: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self.kinds: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.deviations: dict[str, list[float]] = defaultdict(list)
        self.comparison: Comparison | None = None
        self.mixed: dict[Role, Counter[str]] = {role: Counter() for role in ROLES}

    def add_labelled(self, row: LabelledDialogue) -> None:
        """Count a labelled row under its language and its chatbot."""
        chatbot = row.dialogue.chatbot or UNNAMED
        for what, group in (("language", row.dialogue.lang), ("chatbot", chatbot)):
            self.rows[what, group] += 1
            for name, values in row.labels.items():
                if given := [v for v in values if v is not None]:
                    self.values[what, group, name].append(statistics.fmean(given))
        if self.repeats > 1:
            self.add_repeats(row.labels)

    def add_repeats(self, labels: Mapping[str, Values]) -> None:
        """Add each dimension's sample standard deviation (n - 1; MEDAL does not say which) over the
        repeats of a dialogue; a dimension with fewer than two answers is left out."""
        for name, values in labels.items():
            given = [v for v in values if v is not None]
            if len(given) > 1:
                self.deviations[name].append(statistics.stdev(given))

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
        self.users[key].update(rows=1, checked=int(checked), malformed=int(bool(reasons)))
        self.reasons[key].update(reasons)

    def compare(self, id: str, judge: bool | None, library: bool | None) -> None:
        """Count both verdicts on a user's language."""
        self.comparison = self.comparison or Comparison()
        self.comparison.add(id, judge, library)

    def to_record(self) -> dict[str, Any]:
        """report.json."""
        record: dict[str, Any] = {
            "rows": dict(self.kinds),
            "failures": dict(self.failures),
            "repeats": self.repeats,
        }
        for what in ("language", "chatbot"):
            record[f"by_{what}"] = {
                name: {"rows": self.rows[what, name]}
                | {d.name: self._figure(what, name, d) for d in self.dimensions}
                for name in self._names(what)
            }
        record["users"] = [
            {
                **{"lang": lang, "user": user, **counts},
                "share": counts["malformed"] / counts["checked"] if counts["checked"] else None,
                "reasons": dict(self.reasons[lang, user]),
            }
            for (lang, user), counts in sorted(self.users.items())
        ]
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
        for what in ("language", "chatbot") if self.rows else ():
            names = self._names(what)
            rows: list[Row] = [("dialogues", *(self.rows[what, name] for name in names))]
            for d in self.dimensions:
                cells: list[Cell] = []
                for name in names:
                    value = self._figure(what, name, d)
                    if value is not None and d.is_issue:
                        share = value / len(self.values[what, name, d.name])
                        cells.append(f"{value:g} ({share:.1%})")
                    else:
                        cells.append(value)
                rows.append((d.name if d.is_issue else f"{d.name} (mean)", *cells))
            yield Table(f"rows with the issue, by {what}", ("", *names), rows)
        if deviations := self.consistency():
            title = (
                f"standard deviation over {self.repeats} repeats (n - 1) of each dialogue, mean "
                "over dialogues"
            )
            rows = [
                (name, f"{row['std']:.4f}", row["dialogues"]) for name, row in deviations.items()
            ]
            yield Table(title, ("dimension", "std", "dialogues"), rows)
        if self.users:
            reasons = list(dict.fromkeys(r for c in self.reasons.values() for r in sorted(c)))
            rows = []
            for key, counts in sorted(self.users.items()):
                checked = counts["checked"]
                found = [*(self.reasons[key][name] for name in reasons), counts["malformed"]]
                shares = (f"{n} ({n / checked:.1%})" if checked else None for n in found)
                rows.append((*key, checked, *shares))
            columns = ("language", "user", "checked", *reasons, "any")
            yield Table("malformed users, of those checked", columns, rows)

    def _names(self, what: str) -> list[str]:
        return sorted(name for group, name in self.rows if group == what)

    def _figure(self, what: str, name: str, d: Dimension) -> float | None:
        """Rows with the issue (a mean of 0.5 or more), or the mean of another dimension; None if no
        row has the label."""
        values = self.values.get((what, name, d.name))
        if not values:
            return None
        return sum(v >= 0.5 for v in values) if d.is_issue else statistics.fmean(values)
