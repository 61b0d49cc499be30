"""How well the judge agrees with its validation labels, per language, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from medal_judges.dimension import Dimension
from medal_judges.stats.correlation import (
    MIN_ROWS,
    Floats,
    Statistic,
    undefined_reason,
    weighted_ranks,
    weighted_spearman,
)
from medal_judges.stats.intervals import choose_clusters, with_intervals
from medal_judges.stats.results import Estimate

if TYPE_CHECKING:  # the card reads this module's names, and needs no torch for it
    from medal_judges.models.base.heads import Calibration, Head
    from medal_judges.models.base.judge import Judge
    from medal_judges.training.rows.examples import TrainingExample

Scores = dict[str, np.ndarray]

AGREEMENT_NAME = "agreement.json"


@dataclass(frozen=True, slots=True)
class Scored:
    """Examples, and a score for each [n] per dimension: NaN where the judge says nothing."""

    examples: Sequence[TrainingExample]
    scores: Scores


def joined(parts: Sequence[Scored]) -> Scored:
    """The dimensions of several judges of the same examples as one."""
    return Scored(parts[0].examples, {k: v for part in parts for k, v in part.scores.items()})


def agreement(
    scored: Scored,
    baselines: Mapping[str, Scores],
    dimensions: Sequence[Dimension],
    part: str = "validation",
) -> list[dict[str, Any]]:
    """One record a source, dimension and language (``all`` and each): ``metric`` (``roc_auc`` for
    binary dimensions, else ``spearmanr``), ``value`` or None with ``reason``, ``low`` and ``high``
    (95%, see stats/intervals.py), ``n`` labelled rows that the judge scored, ``missed`` that it did
    not, ``baselines`` by name with the same figure on the same rows, or None."""
    examples = scored.examples
    records = []
    for dimension in dimensions:
        for source in sorted({e.source for e in examples}):
            rows = [
                i
                for i, e in enumerate(examples)
                if e.source == source and dimension.name in e.human
            ]
            for lang, chosen in _by_language(examples, rows):
                named = Path(source).name  # of a file: the folder it stood in is not told
                record = {
                    "part": part,
                    "source": named,
                    "dimension": dimension.name,
                    "lang": lang,
                }
                known = [i for i in chosen if np.isfinite(scored.scores[dimension.name][i])]
                figure = _figure(examples, scored.scores, dimension, known)
                plain = {
                    name: _value(examples, scores, dimension, known)
                    for name, scores in baselines.items()
                }
                missed = {"missed": len(chosen) - len(known)}
                records.append(record | figure | missed | {"baselines": plain})
    return records


def scores_of_logits(
    heads: Mapping[str, Head],
    logits: Mapping[str, np.ndarray],
    calibration: Mapping[str, Calibration],
) -> Scores:
    """Calibrated scores [n] per dimension of a net's ``logits`` [n, outputs]."""
    import torch

    from medal_judges.models.base.heads import Calibration

    return {
        name: np.array(
            head.answers(
                torch.from_numpy(logits[name]).float(), calibration.get(name, Calibration())
            )[0]
        )
        for name, head in heads.items()
        if name in logits
    }


def judge_scores(judge: Judge, examples: Sequence[TrainingExample]) -> Scores:
    """What ``judge`` says of each example, per dimension [n]; NaN where it says nothing."""
    said = [j.scores for j in judge.score([e.dialogue for e in examples])]
    return {
        d.name: np.array([np.nan if s[d.name] is None else s[d.name] for s in said], dtype=float)
        for d in judge.dimensions
    }


def _by_language(
    examples: Sequence[TrainingExample], rows: Sequence[int]
) -> list[tuple[str, Sequence[int]]]:
    languages = sorted({examples[i].dialogue.lang or "unknown" for i in rows})
    parts = [
        (g, [i for i in rows if (examples[i].dialogue.lang or "unknown") == g]) for g in languages
    ]
    return [("all", rows), *parts] if len(languages) > 1 else [(g, rows) for g in languages]


def _figure(
    examples: Sequence[TrainingExample],
    scores: Scores,
    dimension: Dimension,
    known: Sequence[int],
) -> dict[str, Any]:
    metric, human, score = _columns(examples, scores, dimension, known)
    reason = undefined_reason(human, score)
    estimate = Estimate(None, reason=reason)
    if reason is None:
        statistic = _statistic(metric, human, score)
        value = float(statistic(np.ones((1, len(known))))[metric][0])
        clusters = choose_clusters(
            [examples[i].dialogue.chatbot for i in known],
            [examples[i].group or examples[i].dialogue.id for i in known],
        )
        estimate = with_intervals({metric: Estimate(value)}, statistic, clusters)[metric]
    told = {"value": estimate.value, "low": estimate.low, "high": estimate.high}
    return {"metric": metric} | told | {"n": len(known), "reason": estimate.reason}


def _value(
    examples: Sequence[TrainingExample], scores: Scores, dimension: Dimension, known: Sequence[int]
) -> float | None:
    """The figure alone; None where it is undefined."""
    metric, human, score = _columns(examples, scores, dimension, known)
    if undefined_reason(human, score) is not None:
        return None
    return float(_statistic(metric, human, score)(np.ones((1, len(known))))[metric][0])


def _columns(
    examples: Sequence[TrainingExample], scores: Scores, dimension: Dimension, known: Sequence[int]
) -> tuple[str, Floats, Floats]:
    """(name of the figure, human labels, scores) of the rows ``known``."""
    human = np.array([examples[i].human[dimension.name] for i in known], dtype=float)
    score = np.asarray(scores[dimension.name], dtype=float)[list(known)]
    if dimension.kind == "binary":
        return "roc_auc", (human >= 0.5).astype(float), score
    return "spearmanr", human, score


def _statistic(metric: str, human: Floats, score: Floats) -> Statistic:
    if metric == "spearmanr":
        return lambda weights: {metric: weighted_spearman(human, score, weights)}
    return lambda weights: {metric: weighted_auc(human, score, weights)}


def weighted_auc(positive: Floats, score: Floats, weights: Floats) -> Floats:
    """Area under the ROC curve of each weighted sample [samples] by the rank sum of the positives
    (Mann and Whitney, 1947); NaN for a sample of one class or of fewer than 3 rows."""
    ranks = weighted_ranks(score, weights)
    high = (weights * positive).sum(axis=1)
    low = (weights * (1 - positive)).sum(axis=1)
    sums = (weights * positive * ranks).sum(axis=1)
    defined = (high > 0) & (low > 0) & (high + low >= MIN_ROWS)
    area = (sums - high * (high + 1) / 2) / np.where(defined, high * low, 1.0)
    return np.where(defined, area, np.nan)
