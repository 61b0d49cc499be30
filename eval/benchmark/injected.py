"""How well judges notice issues that were injected into dialogues by ``medal data plant``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from medal_judges.eval.benchmark.sets import SetJudgements
from medal_judges.eval.metaeval.alignment import join_rows
from medal_judges.records.dimension import EQUAL
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.report.table import Cell, Row, Share, Table
from medal_judges.stats.correlation import Floats, ratio, weighted_auc
from medal_judges.stats.equal import Values, is_issue_present
from medal_judges.stats.intervals import (
    Clusters,
    Estimate,
    estimate_metrics,
    undefined_estimates,
)
from medal_judges.stats.means import Sample, estimate_share

INJECTED_COLUMNS = (
    "F1+ vs clean",
    "F1+ vs matched controls",
    "AUC vs clean",
    "AUC vs matched controls",
    "False alarms, clean",
    "False alarms, matched controls",
)
_NOTE = (
    "Clean rows are untouched; matched controls have harmless edits in the same turns, so noticing "
    "an edit is not enough. The threshold is 0.5; AUC needs none (0.5 is chance)."
)
# Columns of the rows with a score of an issue. ``kind``: planted, innocent (a matched control) or
# clean.
_FIELDS = ("kind", "group", "score")


def injected_table(
    name: str,
    rows: Sequence[LabelledDialogue],
    set_judgements: Iterable[SetJudgements],
    min_coverage: float,
) -> Table:
    """Returns a table of how well judges detect issues that were injected into dialogues.

    Args:
        name: The name of the set.
        rows: Dialogues with and without issues, made by ``medal data plant``.
        set_judgements: The judgements of ``rows``, one entry for each judge.
        min_coverage: The share of ``rows`` that a judge must score to get metrics, on [0, 1].

    Returns:
        A table with a row for each issue and judge. Its columns are F1, AUC, false alarms and
        counts.
    """
    lines: list[Row] = []
    for of_judge in set_judgements:
        joined = join_rows(rows, of_judge.judgements)
        for issue, dimension in of_judge.names.items():
            scored = []
            count = 0
            for row, judgement in zip(joined.rows, joined.judgements, strict=True):
                # The clean rows have no issue: they belong to every one.
                planted = row.extra["planted"]
                if planted["issue"] not in (issue, None):
                    continue
                count += 1
                score = None
                if judgement is not None:
                    score = judgement.scores.get(dimension)
                if score is not None:
                    scored.append((planted["kind"], row.group, score))
            table = pd.DataFrame(scored, columns=_FIELDS)
            coverage = len(table) / count
            cells = _issue_metrics(table)
            if coverage < min_coverage:
                reason = f"coverage {coverage:.1%} is below {min_coverage:.1%}"
                cells = [Estimate(None, reason=reason)] * len(cells)
            injected = int((table.kind == "planted").sum())
            line: list[Cell] = [issue, of_judge.judge, *cells]
            lines.append([*line, injected, Share(Estimate(coverage))])
    lines.sort(key=lambda line: str(line[0]))
    columns = ("Issue", "Judge", *INJECTED_COLUMNS, "Injected rows", "Coverage")
    return Table(f"Injected issues: {name}", columns, lines, _NOTE)


def _issue_metrics(rows: pd.DataFrame) -> list[Estimate]:
    """Returns one judge's metrics on one issue: F1, AUC and false alarms, each against unchanged
    dialogues and against dialogues with harmless edits.

    Args:
        rows: A table with the columns kind (``planted``: issue injected, ``innocent``: harmless
            edits, ``clean``: unchanged), group (the conversation) and score.

    Returns:
        Six estimates, in the order of INJECTED_COLUMNS.
    """
    clean, controls = rows[rows.kind == "clean"], rows[rows.kind == "innocent"]
    planted = rows[rows.kind == "planted"]
    against = [_f1_and_auc(planted, contrasts) for contrasts in (clean, controls)]
    false_alarms = [
        share_clustered_by_conversation(part, is_issue_present(part.score))
        for part in (clean, controls)
    ]
    return [
        *(estimates["f1_present"] for estimates in against),
        *(estimates["auc"] for estimates in against),
        *false_alarms,
    ]


def share_clustered_by_conversation(rows: pd.DataFrame, values: pd.Series) -> Estimate:
    """Returns the share of ones in ``values``, with an interval that treats each
    conversation as one cluster.

    Args:
        rows: A table with one row for each of ``values``. Its column ``group`` names the
            conversation.
        values: [rows] 0 or 1.
    """
    numbers = values.to_numpy(float)
    return estimate_share(Sample(Values(numbers, EQUAL), rows.group.to_numpy(str)))


def _f1_and_auc(planted: pd.DataFrame, contrasts: pd.DataFrame) -> dict[str, Estimate]:
    """Returns F1 and AUC for telling dialogues with an issue from dialogues without, as
    ``f1_present`` and ``auc`` -> estimate.

    Args:
        planted: A table of the dialogues with the issue: the columns score and group (the
            conversation).
        contrasts: A table of the dialogues without the issue, with the same columns.
    """
    rows = pd.concat([planted, contrasts])
    labels = np.repeat([1.0, 0.0], [len(planted), len(contrasts)])
    scores = Values(rows.score.to_numpy(float), EQUAL)
    alarms = is_issue_present(scores.numbers)

    def statistic(weights: Floats) -> dict[str, Floats]:
        right = 2 * (weights @ (labels * alarms))
        return {
            "f1_present": ratio(right, weights @ labels + weights @ alarms),
            "auc": weighted_auc(labels, scores, weights),
        }

    clusters = Clusters("conversation", tuple(rows.group))
    reason = "no scored rows of both kinds"
    if not (len(planted) and len(contrasts)):
        return undefined_estimates(("f1_present", "auc"), reason)
    return estimate_metrics(statistic, clusters, reason)
