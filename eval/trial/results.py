"""The result of a trial of one judge, as trial.json holds it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from medal_judges.stats.estimate import Estimate

TRIAL_NAME = "trial.json"
# The score should stay, not rise, not obey an instruction, fall; or a figure about daily use.
Group = Literal["same", "no_gain", "attack", "must_fall", "use"]
Direction = Literal["up", "down"]
Verdict = Literal["green", "amber", "red", "none"]  # none: too few pairs, or nothing to judge
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

    ``figures`` are points of quality from 1 to 5 (``shift``, ``gain``, ``drop``, ``slope``), or
    shares and correlations (``moved``: share of pairs by more than half a point; ``raised``,
    ``harmed``; ``auc``, ``win``; ``spearman``; ``found``), with intervals by conversation.
    ``headline`` is the figure that decided the verdict. ``pairs`` of ``asked`` are scored.
    ``by_language``: the mean shift in each language; ``dimensions``: the mean shift of each
    dimension as a share of its scale.
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
    """The trial of one judge. ``quality``: the dimensions behind its score from 1 to 5; ``judged``:
    the languages of the figures; ``made_for``: the judge's supported languages (empty: any)."""

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

    def counts(self, group: Group) -> Counter[Verdict]:
        """Returns the number of findings in ``group`` by verdict."""
        return Counter(f.verdict for f in self.findings if f.group == group)

    def finding(self, group: Group, check: str) -> TrialFinding | None:
        """Returns the finding of a check, None if the judge has none."""
        found = (f for f in self.findings if f.group == group and f.check == check)
        return next(found, None)
