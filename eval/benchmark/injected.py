"""How well a judge finds injected issues, from its judgements and the injected rows.

The rows are those of ``medal data plant``: injected (label 1), the matched control (a harmless edit
in the same turns, label 0) and clean (untouched); files call the first two ``planted`` and
``innocent``. Clean rows show whether the judge finds the issue, control rows whether it finds the
issue and not the edit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from medal_judges.eval.benchmark.run import Answers
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.report.table import Cell, Table
from medal_judges.stats.correlation import Floats, ratio, weighted_auc
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import Clusters, estimated, too_few, wilson

THRESHOLD = 0.5
KINDS = {"planted": "injected", "innocent": "control", "clean": "clean"}  # files' word: ours
_COLUMNS = {
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
_NOTE = (
    "Clean rows are untouched; matched controls have harmless edits in the same turns, so noticing "
    "an edit is not enough. The threshold is 0.5; AUC and the share of injected rows above their "
    "own control need none (0.5 is chance)."
)
# Of one issue: the figures by the names of _COLUMNS, and the number of rows, and of scored rows, of
# each kind.
Result = tuple[dict[str, Estimate], Counter[str], Counter[str]]


def injected_results(
    rows: Iterable[LabelledDialogue],
    judgements: Iterable[Judgement],
    *,
    names: Mapping[str, str] | None = None,
) -> dict[str, Result]:
    """Returns the figures of each issue injected into ``rows``; ``names`` maps an issue to the
    judge's name for it. Intervals leave out each ``group``; a share of 0 or 1 has Wilson's
    interval, one trial a group."""
    known = {j.id: j for j in judgements if j.turn is None}
    listed = [row for row in rows if "planted" in row.extra]
    results = {}
    for issue in dict.fromkeys(row.extra["planted"]["issue"] for row in listed):
        if issue is None:  # the clean rows, which belong to every issue
            continue
        judged = (names or {}).get(issue, issue)
        mine = [row for row in listed if row.extra["planted"]["issue"] in (issue, None)]
        scored = []
        for row in mine:
            judgement = known.get(row.id)
            if judgement is None or (score := judgement.scores.get(judged)) is None:
                continue
            about = row.extra["planted"]
            given = judgement.contributions.get(judged)
            one = {"kind": about["kind"], "pair": about["pair"]}
            one |= {"score": float(score), "group": row.group}
            if about["kind"] == "planted" and given:
                answers = row.dialogue.assistant_turns
                one["hit"], one["chance"] = localisation(given.turns, answers, about["turns"])
            scored.append(one)
        there = Counter(row.extra["planted"]["kind"] for row in mine)
        results[issue] = _figures(scored), there, Counter(one["kind"] for one in scored)
    return results


def localisation(
    contributions: Sequence[float], assistant: Sequence[int], injected: Sequence[int]
) -> tuple[float, float]:
    """Returns (hit, chance) of one dialogue: the share of the assistant turns with the largest
    contribution that have the issue (1 or 0 unless tied), and the share of all assistant turns."""
    most = max(contributions[i] for i in assistant)
    top = [i for i in assistant if contributions[i] == most]
    marked = set(injected)
    return len(marked.intersection(top)) / len(top), len(marked) / len(assistant)


def _figures(rows: Sequence[dict[str, Any]]) -> dict[str, Estimate]:
    """Returns ``f1_*`` and ``auc_*`` (injected against clean or matched controls), ``win_rate``
    (injected scored above its own control, ties half), ``false_alarms`` and ``control_alarms``
    (share at or above the threshold), ``recall``, and means of ``localisation``."""
    of_kind = {kind: [row for row in rows if row["kind"] == kind] for kind in KINDS}
    controls = {row["pair"]: row["score"] for row in of_kind["innocent"]}
    paired = [row for row in of_kind["planted"] if row["pair"] in controls]
    located = [row for row in of_kind["planted"] if "hit" in row]
    unlocated = "the judge gives no contributions by turn"

    def estimate(of: Iterable[dict[str, Any]], statistic: Callable[[Floats], Floats]) -> Estimate:
        groups = Clusters("conversation", tuple(row["group"] for row in of))
        return estimated(lambda weights: {"share": statistic(weights)}, groups, "undefined")[
            "share"
        ]

    def mean(
        of: Sequence[dict[str, Any]], value: Callable[[dict[str, Any]], float], reason: str
    ) -> Estimate:
        if not of:
            return Estimate(None, reason=reason)
        values = np.array([value(row) for row in of])
        groups = Clusters("conversation", tuple(row["group"] for row in of))
        share = float(values.mean())
        if share in (0, 1) and not too_few(groups):
            return Estimate(share, *wilson(share * groups.count, groups.count))
        return estimate(of, lambda weights: weights @ values / weights.sum(axis=1))

    def alarms(kind: str) -> Estimate:
        none = f"no scored {KINDS[kind]} rows"
        return mean(of_kind[kind], lambda row: float(row["score"] >= THRESHOLD), none)

    def versus(kind: str, statistic: Callable[[Floats, Floats, Floats], Floats]) -> Estimate:
        for needed in ("planted", kind):
            if not of_kind[needed]:
                return Estimate(None, reason=f"no scored {KINDS[needed]} rows")
        both = [row for row in rows if row["kind"] in ("planted", kind)]
        labels = np.array([row["kind"] == "planted" for row in both], dtype=np.float64)
        scores = np.array([row["score"] for row in both])
        return estimate(both, lambda weights: statistic(labels, scores, weights))

    return {
        "recall": alarms("planted"),
        "auc_clean": versus("clean", weighted_auc),
        "win_rate": mean(
            paired,
            lambda row: 0.5 + 0.5 * float(np.sign(row["score"] - controls[row["pair"]])),
            "no injected row scored together with its control",
        ),
        "f1_clean": versus("clean", weighted_f1),
        "f1_control": versus("innocent", weighted_f1),
        "auc_control": versus("innocent", weighted_auc),
        "false_alarms": alarms("clean"),
        "control_alarms": alarms("innocent"),
        "localisation": mean(located, lambda row: row["hit"], unlocated),
        "localisation_chance": mean(located, lambda row: row["chance"], unlocated),
    }


def weighted_f1(labels: Floats, scores: Floats, weights: Floats) -> Floats:
    """Returns F1 of label 1 at the threshold 0.5 of each weighted sample, as ``weighted_auc``."""
    alarmed = scores >= THRESHOLD
    return ratio(2 * (weights @ (labels * alarmed)), weights @ labels + weights @ alarmed)


def injected_table(
    name: str, rows: Sequence[LabelledDialogue], answers: Sequence[Answers], min_coverage: float
) -> Table:
    """Returns one row for each issue and judge; no rows if nothing was judged."""
    by_issue: dict[str, list[tuple[Cell, ...]]] = {}
    for one in answers:
        found = injected_results(rows, one.judgements, names=one.names)
        for issue, (estimates, there, scored) in found.items():
            if one.names[issue] not in one.dimensions:
                continue
            coverage = scored.total() / there.total()
            figures = [estimates[key] for key in _COLUMNS]
            if coverage < min_coverage:
                floor = f"{100 * min_coverage:g}%"
                reason = f"coverage {coverage:.1%} is below the minimum of {floor}"
                figures = [Estimate(None, reason=reason)] * len(_COLUMNS)
            line: tuple[Cell, ...] = (issue, one.judge, *figures, there["planted"], coverage)
            by_issue.setdefault(issue, []).append(line)
    cells = [line for lines in by_issue.values() for line in lines]
    columns = ("Issue", "Judge", *_COLUMNS.values(), "Injected rows", "Coverage")
    return Table(f"Injected issues: {name}", columns, cells, _NOTE)
