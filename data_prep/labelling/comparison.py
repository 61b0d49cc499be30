"""The language-identification library against the judge: who finds a user in another language."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

CELLS = ("both", "judge_only", "library_only", "neither")


@dataclass(slots=True)
class Comparison:
    """A 2x2 table over the dialogues on which both have a verdict, with the ids of those on which
    they differ; ``untold`` counts the rest, by who had none."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CELLS, 0))
    judge_only: list[str] = field(default_factory=list)
    library_only: list[str] = field(default_factory=list)
    untold: dict[str, int] = field(default_factory=lambda: {"judge": 0, "library": 0})

    def add(self, id: str, judge: bool | None, library: bool | None) -> None:
        """Count one dialogue; None is no verdict."""
        if judge is None or library is None:
            self.untold["judge"] += judge is None
            self.untold["library"] += library is None
            return
        cell = {(1, 1): "both", (1, 0): "judge_only", (0, 1): "library_only", (0, 0): "neither"}
        name = cell[int(judge), int(library)]
        self.counts[name] += 1
        if name in ("judge_only", "library_only"):
            getattr(self, name).append(id)

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
        both, judge, library, _ = (self.counts[name] for name in CELLS)
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
            "without_verdict": dict(self.untold),
            "judge_only_ids": self.judge_only,
            "library_only_ids": self.library_only,
        }

    def lines(self, shown: int = 10) -> list[str]:
        """The table in words, the first ``shown`` ids of each kind of difference."""
        c = self.counts
        kappa, reason = self.kappa
        told = "–" if self.agreement is None else f"{self.agreement:.3f}"
        said = f"{kappa:.3f}" if kappa is not None else f"undefined ({reason})"
        return [
            "users in another language          library: yes   library: no",
            f"  judge: yes                       {c['both']:>12}   {c['judge_only']:>11}",
            f"  judge: no                        {c['library_only']:>12}   {c['neither']:>11}",
            f"  agreement {told}, Cohen's kappa {said}; no verdict: "
            f"judge {self.untold['judge']}, library {self.untold['library']}",
            *_ids("judge only", self.judge_only, shown),
            *_ids("library only", self.library_only, shown),
        ]


def _ids(what: str, ids: Sequence[str], shown: int) -> list[str]:
    if not ids:
        return []
    more = f" and {len(ids) - shown} more" if len(ids) > shown else ""
    return [f"  {what}: {', '.join(ids[:shown])}{more}"]
