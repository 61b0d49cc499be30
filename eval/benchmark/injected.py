"""How well judges notice issues that were injected into dialogues by ``medal data plant``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from medal_judges.eval.metaeval.alignment import own_judgements
from medal_judges.records.dimension import EQUAL
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.report.table import Cell
from medal_judges.stats.correlation import Floats, ratio, weighted_auc
from medal_judges.stats.equal import Values, present, signs
from medal_judges.stats.estimate import Estimate, undefined
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


# Columns of the rows with a score of an issue. ``pair`` is equal for an injected row and its
# control; ``hit`` and ``chance``: see ``localisation``, None without contributions.
_FIELDS = ("kind", "pair", "group", "score", "hit", "chance")


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
    issues = dict.fromkeys(row.extra["planted"]["issue"] for row in planted_rows)
    results = {}
    for issue in filter(None, issues):
        dimension = (names or {}).get(issue, issue)
        row_counts = Counter[str]()
        scored_rows = []
        for row in planted_rows:
            # The clean rows have no issue: they belong to every one.
            if row.extra["planted"]["issue"] in (issue, None):
                row_counts[row.extra["planted"]["kind"]] += 1
                judgement = judgement_by_id.get(row.id)
                if judgement and judgement.scores.get(dimension) is not None:
                    scored_rows.append(_scored_row(row, judgement, dimension))
        table = pd.DataFrame(scored_rows, columns=_FIELDS)
        results[issue] = _metrics(table), row_counts, Counter(table.kind)
    return results


def _scored_row(
    row: LabelledDialogue, judgement: Judgement, dimension: str
) -> tuple[object, ...]:
    """Returns a row of the table of _FIELDS."""
    planted = row.extra["planted"]
    hit, chance = None, None
    contributions = judgement.contributions.get(dimension)
    if planted["kind"] == "planted" and contributions:
        answers = row.dialogue.assistant_turns
        hit, chance = localisation(contributions.turns, answers, planted["turns"])
    score = judgement.scores[dimension]
    return planted["kind"], planted["pair"], row.group, score, hit, chance


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


def _metrics(rows: pd.DataFrame) -> dict[str, Estimate]:
    """Returns the metrics of one issue, with the names of INJECTED_COLUMNS.

    ``f1_*`` and ``auc_*`` are of injected rows against clean ones or matched controls; ``win_rate``
    is the share of injected rows scored above their own control, ties half; ``recall`` and
    ``*_alarms`` are the shares at or above the threshold.
    """
    planted = rows[rows.kind == "planted"]
    located = planted.dropna(subset="hit")
    controls = rows[rows.kind == "innocent"][["pair", "score"]]
    paired = planted.merge(controls, on="pair", suffixes=("", "_control"))
    gaps = (paired.score - paired.score_control).to_numpy(float)
    wins = 0.5 + 0.5 * signs(gaps, EQUAL)
    no_pair = "no injected row scored together with its control"
    return {
        "recall": _alarms(rows, "planted"),
        "auc_clean": _against(rows, "clean", weighted_auc),
        "win_rate": _mean(paired, wins, no_pair),
        "f1_clean": _against(rows, "clean", weighted_f1),
        "f1_control": _against(rows, "innocent", weighted_f1),
        "auc_control": _against(rows, "innocent", weighted_auc),
        "false_alarms": _alarms(rows, "clean"),
        "control_alarms": _alarms(rows, "innocent"),
        "localisation": _mean(located, located.hit, _UNLOCATED),
        "localisation_chance": _mean(located, located.chance, _UNLOCATED),
    }


def _alarms(rows: pd.DataFrame, kind: str) -> Estimate:
    rows = rows[rows.kind == kind]
    alarms = present(rows.score.to_numpy(float))
    return _mean(rows, alarms, f"no scored {KINDS[kind]} rows")


def _against(rows: pd.DataFrame, kind: str, statistic: Statistic) -> Estimate:
    """Returns a figure of the injected rows against the rows of ``kind``."""
    for needed_kind in ("planted", kind):
        if needed_kind not in rows.kind.array:
            return Estimate(None, reason=f"no scored {KINDS[needed_kind]} rows")
    rows = rows[rows.kind.isin(["planted", kind])]
    labels = (rows.kind == "planted").to_numpy(float)
    scores = Values(rows.score.to_numpy(float), EQUAL)
    return _estimate(rows, lambda weights: statistic(labels, scores, weights))


def _mean(rows: pd.DataFrame, row_values: npt.ArrayLike, reason: str) -> Estimate:
    """Returns the mean of ``row_values`` [n]; None with the ``reason`` for no rows."""
    if rows.empty:
        return Estimate(None, reason=reason)
    values = np.asarray(row_values, dtype=float)
    groups = Clusters("conversation", tuple(rows.group))
    share = float(values.mean())
    if share in (0, 1) and not too_few(groups):
        return Estimate(share, *wilson(share * groups.count, groups.count))
    return _estimate(rows, lambda weights: weights @ values / weights.sum(axis=1))


def _estimate(rows: pd.DataFrame, statistic: Callable[[Floats], Floats]) -> Estimate:
    groups = Clusters("conversation", tuple(rows.group))
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
    if coverage < min_coverage:
        floor = f"{100 * min_coverage:g}%"
        reason = f"coverage {coverage:.1%} is below the minimum of {floor}"
        estimates = undefined(INJECTED_COLUMNS, reason)
    metrics = [estimates[name] for name in INJECTED_COLUMNS]
    return [*metrics, row_counts["planted"], coverage]
