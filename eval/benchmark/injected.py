"""How well judges notice issues that were injected into dialogues by ``medal data plant``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from medal_judges.eval.metaeval.alignment import own_judgements
from medal_judges.records.dimension import EQUAL
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.report.table import Cell
from medal_judges.stats.correlation import Floats, ratio, weighted_auc
from medal_judges.stats.equal import Values, present, signs
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import Clusters, estimated, too_few, wilson

# Kind of a row in the file -> its name in tables.
KINDS = {"planted": "injected", "innocent": "control", "clean": "clean"}
INJECTED_COLUMNS = {
    "f1_clean": "F1+ vs clean",
    "f1_control": "F1+ vs matched controls",
    "auc_clean": "AUC vs clean",
    "auc_control": "AUC vs matched controls",
    "win_rate": "Above its control",
    "recall": "Recall",
    "false_alarms": "False alarms, clean",
    "control_alarms": "False alarms, matched controls",
    "localisation": "Turn found",
    "localisation_chance": "Turn found by chance",
}
_UNLOCATED = "the judge gives no contributions by turn"
# (labels [n] 0 or 1, scores [n], weights [m, n]) -> values [m]
Statistic = Callable[[Floats, Values, Floats], Floats]
# Of one issue: the metrics by the names of INJECTED_COLUMNS, and the rows and the scored rows of
# each kind.
Result = tuple[dict[str, Estimate], Counter[str], Counter[str]]


@dataclass(frozen=True, slots=True)
class ScoredRow:
    """A row with the judge's score of an issue. ``pair`` is equal for an injected row and its
    control. ``hit`` and ``chance``: see ``localisation``; None without contributions."""

    kind: str
    pair: object
    group: str
    score: float
    hit: float | None = None
    chance: float | None = None


def injected_results(
    rows: Iterable[LabelledDialogue],
    judgements: Iterable[Judgement],
    *,
    names: Mapping[str, str] | None = None,
) -> dict[str, Result]:
    """Returns the metrics of each issue injected into ``rows``; ``names`` maps an issue to the
    judge's name for it. Intervals come from leaving out one ``group`` at a time; a share of 0 or 1
    has Wilson's interval, with each group as one trial."""
    planted_rows = [row for row in rows if "planted" in row.extra]
    judgements_of_rows, _ = own_judgements(planted_rows, list(judgements))
    judgement_by_id = {j.id: j for j in judgements_of_rows if j.turn is None}
    results = {}
    for issue in dict.fromkeys(row.extra["planted"]["issue"] for row in planted_rows):
        if issue is None:  # the clean rows, which belong to every issue
            continue
        dimension = (names or {}).get(issue, issue)
        issue_rows = [
            row
            for row in planted_rows
            if row.extra["planted"]["issue"] in (issue, None)
        ]
        scored_rows = _scored_rows(issue_rows, judgement_by_id, dimension)
        row_counts = Counter(row.extra["planted"]["kind"] for row in issue_rows)
        scored_counts = Counter(row.kind for row in scored_rows)
        results[issue] = _IssueMetrics(scored_rows).all(), row_counts, scored_counts
    return results


def _scored_rows(
    rows: Iterable[LabelledDialogue],
    judgement_by_id: Mapping[str, Judgement],
    dimension: str,
) -> list[ScoredRow]:
    scored_rows = []
    for row in rows:
        judgement = judgement_by_id.get(row.id)
        if judgement is not None and judgement.scores.get(dimension) is not None:
            scored_rows.append(_scored_row(row, judgement, dimension))
    return scored_rows


def _scored_row(
    row: LabelledDialogue, judgement: Judgement, dimension: str
) -> ScoredRow:
    planted = row.extra["planted"]
    hit, chance = None, None
    contributions = judgement.contributions.get(dimension)
    if planted["kind"] == "planted" and contributions:
        answers = row.dialogue.assistant_turns
        hit, chance = localisation(contributions.turns, answers, planted["turns"])
    score = float(judgement.scores[dimension] or 0.0)
    return ScoredRow(planted["kind"], planted["pair"], row.group, score, hit, chance)


def localisation(
    contributions: Sequence[float], assistant: Sequence[int], injected: Sequence[int]
) -> tuple[float, float]:
    """Returns (hit, chance) of one dialogue. Hit: whether the assistant turn with the largest
    contribution has the issue; if several turns tie, the share of them that has it. Chance: the
    share of all assistant turns that has the issue."""
    largest = max(contributions[turn] for turn in assistant)
    top_turns = [turn for turn in assistant if contributions[turn] >= largest - EQUAL]
    injected_turns = set(injected)
    hit = len(injected_turns.intersection(top_turns)) / len(top_turns)
    return hit, len(injected_turns) / len(assistant)


class _IssueMetrics:
    """The metrics of one issue, with the names of INJECTED_COLUMNS.

    ``f1_*`` and ``auc_*`` are of injected rows against clean ones or matched controls; ``win_rate``
    is the share of injected rows scored above their own control, ties half; ``recall`` and
    ``*_alarms`` are the shares at or above the threshold.
    """

    def __init__(self, rows: Sequence[ScoredRow]) -> None:
        self.rows_by_kind = {
            kind: [row for row in rows if row.kind == kind] for kind in KINDS
        }

    def all(self) -> dict[str, Estimate]:
        located = [row for row in self.rows_by_kind["planted"] if row.hit is not None]
        hits = np.array([row.hit for row in located], dtype=float)
        chances = np.array([row.chance for row in located], dtype=float)
        return {
            "recall": self._alarms("planted"),
            "auc_clean": self._against("clean", weighted_auc),
            "win_rate": self._win_rate(),
            "f1_clean": self._against("clean", weighted_f1),
            "f1_control": self._against("innocent", weighted_f1),
            "auc_control": self._against("innocent", weighted_auc),
            "false_alarms": self._alarms("clean"),
            "control_alarms": self._alarms("innocent"),
            "localisation": _mean(located, hits, _UNLOCATED),
            "localisation_chance": _mean(located, chances, _UNLOCATED),
        }

    def _alarms(self, kind: str) -> Estimate:
        rows = self.rows_by_kind[kind]
        alarms = present(np.array([row.score for row in rows])).astype(float)
        return _mean(rows, alarms, f"no scored {KINDS[kind]} rows")

    def _win_rate(self) -> Estimate:
        control_scores = {row.pair: row.score for row in self.rows_by_kind["innocent"]}
        paired = [
            row for row in self.rows_by_kind["planted"] if row.pair in control_scores
        ]
        gaps = np.array([row.score - control_scores[row.pair] for row in paired])
        wins = 0.5 + 0.5 * signs(gaps, EQUAL)
        return _mean(paired, wins, "no injected row scored together with its control")

    def _against(self, kind: str, statistic: Statistic) -> Estimate:
        for needed_kind in ("planted", kind):
            if not self.rows_by_kind[needed_kind]:
                return Estimate(None, reason=f"no scored {KINDS[needed_kind]} rows")
        rows = self.rows_by_kind["planted"] + self.rows_by_kind[kind]
        labels = np.array([row.kind == "planted" for row in rows], dtype=np.float64)
        scores = Values(np.array([row.score for row in rows]), EQUAL)
        return _estimate(rows, lambda weights: statistic(labels, scores, weights))


def _mean(rows: Sequence[ScoredRow], values: Floats, reason: str) -> Estimate:
    """Returns the mean of ``values``, one a row; None with the ``reason`` for no rows."""
    if not rows:
        return Estimate(None, reason=reason)
    groups = Clusters("conversation", tuple(row.group for row in rows))
    share = float(values.mean())
    if share in (0, 1) and not too_few(groups):
        return Estimate(share, *wilson(share * groups.count, groups.count))
    return _estimate(rows, lambda weights: weights @ values / weights.sum(axis=1))


def _estimate(
    rows: Iterable[ScoredRow], statistic: Callable[[Floats], Floats]
) -> Estimate:
    groups = Clusters("conversation", tuple(row.group for row in rows))
    estimates = estimated(
        lambda weights: {"share": statistic(weights)}, groups, "undefined"
    )
    return estimates["share"]


def weighted_f1(labels: Floats, scores: Values, weights: Floats) -> Floats:
    """Returns F1 of label 1 at a threshold of 0.5 for each row of ``weights``."""
    alarms = present(scores.numbers)
    return ratio(2 * (weights @ (labels * alarms)), weights @ labels + weights @ alarms)


def injected_cells(result: Result, min_coverage: float) -> list[Cell]:
    """Returns the cells of INJECTED_COLUMNS, the number of injected rows, and the coverage, below
    which there are no metrics."""
    estimates, row_counts, scored_counts = result
    coverage = scored_counts.total() / row_counts.total()
    if coverage >= min_coverage:
        metrics = [estimates[name] for name in INJECTED_COLUMNS]
    else:
        reason = (
            f"coverage {coverage:.1%} is below the minimum of {100 * min_coverage:g}%"
        )
        metrics = [Estimate(None, reason=reason)] * len(INJECTED_COLUMNS)
    return [*metrics, row_counts["planted"], coverage]
