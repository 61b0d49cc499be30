"""How far a labelling judge agrees with itself over repeats (MEDAL, Table 3)."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from medal_judges.data_prep.labelling.labels import Values


@dataclass(slots=True)
class Consistency:
    """Per dimension, the mean over dialogues of each dialogue's standard deviation over its
    repeats.

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
        found = self.deviations.get(name)
        return statistics.fmean(found) if found else None

    def to_record(self) -> dict[str, Any]:
        """Dimension -> mean ``std`` and ``dialogues`` it is over, smallest first as in Table 3."""
        rows = {n: {"std": self.mean(n), "dialogues": len(v)} for n, v in self.deviations.items()}
        return dict(sorted(rows.items(), key=lambda row: row[1]["std"] or 0.0))
