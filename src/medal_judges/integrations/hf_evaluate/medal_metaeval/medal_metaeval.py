"""Meta-evaluation as a metric of Hugging Face Evaluate, which runs a copy of this file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import datasets
import evaluate

from medal_judges.integrations.metaeval import agreement

_INPUTS = """
Args:
    predictions: the judge's scores; None for a row without a score.
    references: people's answers: a number for each row, or a list with one for each annotator
        (None if the annotator gave none).
    systems: the name of each row's chatbot; None if it is not known.
    groups: the conversation or context of each row, if rows share one.
    scale: lowest and highest allowed answer. (0, 1) with whole answers is an issue: the result then
        has F1, precision and recall too (predictions are probabilities).
Returns:
    pearson, spearman, kendall, within_system (and others): {value, low, high, p_value, reason};
        95% intervals are over systems if there are several, else over rows.
    ceiling: the same for one annotator against the others, if rows have several.
    coverage, n, scored, clusters: the share of scored rows, the numbers of rows and scored rows,
        and the number of clusters that intervals leave out one at a time.
"""


class MedalMetaEvaluation(evaluate.Metric):
    """``evaluate.load(metric("medal_metaeval"))``."""

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description="How a dialogue judge agrees with people, with intervals (medal-judges).",
            citation="",
            inputs_description=_INPUTS,
            features=datasets.Features(
                {
                    "predictions": datasets.Value("float64"),
                    "references": datasets.Json(),
                    "systems": datasets.Json(),
                }
            ),
        )

    def _compute(
        self,
        predictions: Sequence[float | None],
        references: Sequence[float | Sequence[float | None]],
        systems: Sequence[str | None],
        groups: Sequence[str] | None = None,
        scale: tuple[float, float] | None = None,
    ) -> dict[str, Any]:
        return agreement(predictions, references, systems, groups=groups, scale=scale)
