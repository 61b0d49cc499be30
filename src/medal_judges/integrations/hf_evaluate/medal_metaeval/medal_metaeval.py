"""Meta-evaluation as a metric of Hugging Face Evaluate, which runs a copy of this file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import datasets
import evaluate

from medal_judges.integrations.metaeval import agreement

_INPUTS = """
Args:
    predictions: the judge's scores, None where it gave none.
    references: people's answers, each a number, or a list with one for each annotator (None where
        an annotator gave none).
    systems: the chatbot that each row is of, by name; None where it is not known.
    groups: the conversation or context of each row, where rows share one.
    scale: lowest and highest allowed answer; (0, 1) with whole answers makes an issue of it, with
        F1, precision and recall as well (predictions are then probabilities).
Returns:
    pearson, spearman, kendall, within_system (and the others): {value, low, high, p_value, reason},
        with 95% intervals over systems where there are several, else over rows. None has a reason.
    ceiling: the same of one annotator against the others, where rows have several.
    coverage, n, scored, clusters: the share of rows that were scored, and what intervals leave out
        at a time.
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
