"""A judge as a metric of Hugging Face Evaluate, which copies this file before it runs it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import datasets
import evaluate

from medal_judges.integrations.chats import Chat, JudgeSource, load_judge, score_chats
from medal_judges.models.base.judge import Judge, ScoreLevel

_INPUTS = """
Args:
    predictions: chats, each a list of messages {"role", "content"} (or a row that has them under
        "messages", with "id", "lang", ...).
    judge: a loaded judge; the default is the judge of the configuration name.
    level: "dialogue", "turn" (one score for each answer of the assistant) or "last".
    dimensions: names of dimensions; the default is all of the judge's.
    max_cost: US dollars that a judge behind an API may spend.
Returns:
    mean, interval: for each dimension the mean (for an issue the share of chats that have it) and
        its 95% interval [low, high]; None if nothing is scored, or there is no interval.
    scores: for each dimension the scores in order, None if unscored.
    ids: the id of the chat of each score.
    failures: for each score why it is missing, or None.
    coverage: the share of chats or turns with a score in every dimension; None without chats.
    signature: everything that the scores depend on.
"""


class MedalJudgeMetric(evaluate.Metric):
    """A judge as a metric of Hugging Face Evaluate, for
    ``evaluate.load(metric_path("medal_judge"))``.

    Its method ``compute`` takes chats as ``predictions``, each a list of messages. It returns
    ``mean``, ``interval`` (95%) and ``scores`` of each dimension, ``ids`` and ``failures`` of the
    chats, ``coverage`` (share of scored chats, from 0 to 1) and ``signature`` (a string that
    identifies the judge).

    Args:
        config_name: Name, folder or Hub id of the judge. None for ``boxed``.
        options: Further arguments of Evaluate's metrics.
    """

    def __init__(self, config_name: str | None = None, **options: object) -> None:
        self._source: JudgeSource = config_name or "boxed"
        self._judge: Judge | None = None
        # Evaluate makes a folder of its cache by this name; a path would lead out of the cache.
        super().__init__(
            config_name=re.sub(r"[^\w.-]+", "-", str(self._source)), **options
        )

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description="Scores of a dialogue judge (medal-judges), with intervals and coverage.",
            citation="",
            inputs_description=_INPUTS,
            features=datasets.Features({"predictions": datasets.Json()}),
        )

    def _compute(
        self,
        predictions: Sequence[Chat],
        judge: JudgeSource | None = None,
        level: ScoreLevel = "dialogue",
        dimensions: Sequence[str] | None = None,
        max_cost: float | None = None,
    ) -> dict[str, Any]:
        if judge is not None or max_cost is not None:
            loaded = load_judge(judge or self._source, max_cost=max_cost)
        else:
            loaded = self._judge = self._judge or load_judge(self._source)
        scored = score_chats(
            predictions, loaded, level=level, dimensions=dimensions, name="predictions"
        )
        means = {}
        intervals = {}
        scores = {}
        for name, figure in scored.estimates().items():
            means[name] = figure.value
            intervals[name] = None if figure.low is None else [figure.low, figure.high]
            scores[name] = [judgement.scores[name] for judgement in scored.judgements]
        return {
            "mean": means,
            "interval": intervals,
            "scores": scores,
            "ids": [judgement.id for judgement in scored.judgements],
            "failures": [judgement.failure for judgement in scored.judgements],
            "coverage": scored.coverage,
            "signature": scored.judge_signature,
        }
