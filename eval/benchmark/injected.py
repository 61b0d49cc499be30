"""How well a judge finds injected issues, from its judgements and the injected rows.

The rows are those of ``medal data plant``: injected (label 1), the matched control (a harmless edit
in the same turns, label 0) and clean (untouched); files call the first two ``planted`` and
``innocent``. Clean rows show whether the judge finds the issue, control rows whether it finds the
issue and not the edit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from medal_judges.eval.benchmark.config import BenchmarkConfig
from medal_judges.eval.benchmark.run import Answers
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.report.table import Cell, Table
from medal_judges.stats.correlation import weighted_auc
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import Clusters, estimated, too_few, wilson

Floats = npt.NDArray[np.float64]
Value = Callable[[dict[str, Any]], float]
THRESHOLD = 0.5
_SHOWN = {"planted": "injected", "innocent": "control", "clean": "clean"}  # of a kind in files
_NO_TURN = "the judge gives no contributions by turn"
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


@dataclass(frozen=True, slots=True)
class InjectedResult:
    """One judge on one injected issue.

    ``figures``: ``f1_clean``, ``auc_clean`` (injected against clean), ``f1_control``,
    ``auc_control`` (injected against matched controls), ``win_rate`` (injected scored above its own
    control, ties half), ``false_alarms`` and ``control_alarms`` (share at or above the threshold),
    ``recall``, ``localisation`` (the assistant turn with the largest contribution has the issue,
    ties shared) and ``localisation_chance`` (a random turn has it). ``rows`` and ``scored`` count
    the rows of each kind.
    """

    issue: str
    figures: Mapping[str, Estimate]
    rows: Mapping[str, int] = field(default_factory=dict)
    scored: Mapping[str, int] = field(default_factory=dict)


def injected_results(
    rows: Iterable[LabelledDialogue],
    judgements: Iterable[Judgement],
    *,
    names: Mapping[str, str] | None = None,
) -> list[InjectedResult]:
    """Returns one result for each issue injected into ``rows``, in order of appearance.

    ``names`` maps an issue to the judge's name for it. Unscored rows are left out and show in
    ``scored``. Intervals leave out each ``group``; a share of 0 or 1 has Wilson's interval, one
    trial a group.
    """
    known = {j.id: j for j in judgements if j.turn is None}
    listed = [row for row in rows if "planted" in row.extra]
    results = []
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
        results.append(
            InjectedResult(
                issue=issue,
                figures=_figures(scored),
                rows={k: sum(r.extra["planted"]["kind"] == k for r in mine) for k in _SHOWN},
                scored={k: sum(r["kind"] == k for r in scored) for k in _SHOWN},
            )
        )
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
    of_kind = {kind: [row for row in rows if row["kind"] == kind] for kind in _SHOWN}
    controls = {row["pair"]: row["score"] for row in of_kind["innocent"]}
    paired = [row for row in of_kind["planted"] if row["pair"] in controls]
    located = [row for row in of_kind["planted"] if "hit" in row]

    def alarms(kind: str) -> Estimate:
        none = f"no scored {_SHOWN[kind]} rows"
        return _mean(of_kind[kind], lambda row: float(row["score"] >= THRESHOLD), none)

    def win(row: dict[str, Any]) -> float:
        return 0.5 + 0.5 * float(np.sign(row["score"] - controls[row["pair"]]))

    def versus(kind: str, statistic: Callable[[Floats, Floats, Floats], float]) -> Estimate:
        both = [row for row in rows if row["kind"] in ("planted", kind)]
        labels = np.array([row["kind"] == "planted" for row in both], dtype=np.float64)
        if not labels.any() or labels.all():
            missing = _SHOWN["planted" if not labels.any() else kind]
            return Estimate(None, reason=f"no scored {missing} rows")
        scores = np.array([row["score"] for row in both])
        order = np.argsort(scores, kind="stable")
        scores, labels = scores[order], labels[order]
        groups = Clusters("conversation", tuple(both[i]["group"] for i in order))
        return _estimate(lambda w: statistic(scores, labels, w), groups)

    return {
        "recall": alarms("planted"),
        "auc_clean": versus("clean", area),
        "win_rate": _mean(paired, win, "no injected row scored together with its control"),
        "f1_clean": versus("clean", weighted_f1),
        "f1_control": versus("innocent", weighted_f1),
        "auc_control": versus("innocent", area),
        "false_alarms": alarms("clean"),
        "control_alarms": alarms("innocent"),
        "localisation": _mean(located, lambda row: row["hit"], _NO_TURN),
        "localisation_chance": _mean(located, lambda row: row["chance"], _NO_TURN),
    }


def _mean(rows: Sequence[dict[str, Any]], value: Value, reason: str) -> Estimate:
    if not rows:
        return Estimate(None, reason=reason)
    values = np.array([value(row) for row in rows])
    groups = Clusters("conversation", tuple(row["group"] for row in rows))
    share = float(values.mean())
    if share in (0, 1) and not too_few(groups):
        low, high = wilson(share * groups.count, groups.count)
        return Estimate(share, low, high)
    return _estimate(lambda w: float(w @ values / w.sum()), groups)


def _estimate(statistic: Callable[[Floats], float], groups: Clusters) -> Estimate:
    shares = estimated(
        lambda weights: {"share": np.array([statistic(one) for one in weights])},
        groups,
        "undefined",
    )
    return shares["share"]


def area(scores: Floats, labels: Floats, weights: Floats) -> float:
    """Returns the probability that an injected row scores above another, ties half; NaN if the
    weights leave rows of one label only."""
    return float(weighted_auc(labels, scores, weights[None])[0])


def weighted_f1(scores: Floats, labels: Floats, weights: Floats) -> float:
    """Returns F1 of label 1 at the threshold 0.5; NaN if the weights leave neither injected rows
    nor alarms."""
    alarmed = scores >= THRESHOLD
    hits = float(weights @ (labels * alarmed))
    total = float(weights @ labels + weights @ alarmed)
    return 2 * hits / total if total else float("nan")


def injected_table(
    name: str,
    rows: Sequence[LabelledDialogue],
    answers: Sequence[Answers],
    config: BenchmarkConfig,
) -> Table:
    """Returns one row for each issue and judge; no rows if nothing was judged."""
    found: list[tuple[str, InjectedResult]] = [
        (one.judge, result)
        for one in answers
        for result in injected_results(rows, one.judgements, names=one.names)
        if one.names[result.issue] in one.dimensions
    ]
    issues = list(dict.fromkeys(result.issue for _, result in found))
    found.sort(key=lambda each: issues.index(each[1].issue))
    cells: list[tuple[Cell, ...]] = []
    for judge, result in found:
        coverage = sum(result.scored.values()) / sum(result.rows.values())
        figures = [result.figures[key] for key in _COLUMNS]
        if coverage < config.min_coverage:
            floor = f"{100 * config.min_coverage:g}%"
            reason = f"coverage {coverage:.1%} is below the minimum of {floor}"
            figures = [Estimate(None, reason=reason)] * len(_COLUMNS)
        cells.append((result.issue, judge, *figures, result.rows["planted"], coverage))
    columns = ("Issue", "Judge", *_COLUMNS.values(), "Injected rows", "Coverage")
    return Table(f"Injected issues: {name}", columns, cells, _NOTE)
