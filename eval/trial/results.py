"""What a trial found of one judge: plain records, written as trial.json and read by the card."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from medal_judges.errors import DataError, RecordError
from medal_judges.records.validation import parse
from medal_judges.stats.estimate import Estimate

TRIAL_NAME = "trial.json"
# What is expected of a score: that it stays, does not rise, does not obey, falls; and what it is
# like to use the judge.
Group = Literal["same", "no_gain", "attack", "must_fall", "use"]
Direction = Literal["up", "down"]
# none: too little to say, or nothing that could be good or bad; the finding's reason says which.
Verdict = Literal["green", "amber", "red", "none"]
GROUPS: Mapping[Group, str] = {
    "same": "What should not matter",
    "no_gain": "What must not buy a score",
    "attack": "Attacks",
    "must_fall": "What must matter",
    "use": "Calibration and cost",
}


@dataclass(frozen=True, slots=True)
class TrialFinding:
    """One check of one judge.

    ``figures`` are on the scale of quality from 1 to 5 (``shift``, ``gain``, ``drop``, ``slope``)
    or shares and correlations from 0 to 1 (``moved``: share of pairs by more than half a point;
    ``raised``, ``harmed``; ``auc``, ``win``; ``spearman``; ``found``: turn with the fault named),
    each with its 95% interval by conversation. ``headline`` names the one that the verdict and the
    table show. ``pairs`` scored of ``asked``, from ``conversations``. ``by_language`` has the
    headline of each language, ``dimensions`` the mean shift of each of the judge's dimensions as a
    share of its scale. ``reason`` says which bound decided, or why there is no verdict.
    """

    group: Group
    check: str
    what: str
    verdict: Verdict
    reason: str
    headline: str
    figures: Mapping[str, Estimate]
    pairs: int = 0
    asked: int = 0
    conversations: int = 0
    by_language: Mapping[str, Estimate] = field(default_factory=dict)
    dimensions: Mapping[str, float] = field(default_factory=dict)

    @property
    def figure(self) -> Estimate:
        """The headline figure."""
        return self.figures.get(self.headline, Estimate(None, reason=self.reason))


@dataclass(frozen=True, slots=True)
class TrialResult:
    """A judge's trial. ``quality`` says what its score from 1 to 5 is made of; ``judged`` are the
    languages of the dialogues that the figures are over; ``made_for`` those it states (empty: any,
    or not known)."""

    judge: str
    signature: str
    quality: str
    version: str
    seed: int
    data: str
    dialogues: int
    versions: int
    judged: tuple[str, ...]
    findings: tuple[TrialFinding, ...]
    made_for: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def counts(self, group: Group | None = None) -> Counter[Verdict]:
        """How many findings have each verdict, in ``group`` or in all."""
        return Counter(f.verdict for f in self.findings if group in (None, f.group))

    def to_record(self) -> dict[str, Any]:
        """The JSON object of trial.json."""
        return asdict(self)


def parse_trial(record: object) -> TrialResult:
    """A TrialResult of its JSON object. Raises RecordError that names the field."""
    return parse(TrialResult, record)


def read_trial(path: Path) -> TrialResult:
    """The trial of one judge in the file ``path``. Raises DataError for a file that is none."""
    try:
        return parse_trial(json.loads(path.read_text(encoding="utf-8")))
    except (RecordError, ValueError, RecursionError) as error:
        what = error.message if isinstance(error, RecordError) else str(error)
        raise DataError(
            path, None, f"no trial of one judge: {what}", hint="medal trial JUDGE writes one"
        ) from error
