"""How well a judge agrees with the labels of held-out rows, beside what needs no training."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from medal_judges.records.dimension import Dimension
from medal_judges.report.table import Table
from medal_judges.stats.correlation import (
    Floats,
    Statistic,
    undefined_reason,
    weighted_auc,
    weighted_spearman,
)
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import choose_clusters, with_intervals

if TYPE_CHECKING:  # the card reads this module's names, and needs no torch for it
    from medal_judges.models.base.heads import Calibration, Head
    from medal_judges.models.base.judge import Judge
    from medal_judges.training.rows.examples import TrainingExample

Scores = dict[str, np.ndarray]

AGREEMENT_NAME = "agreement.json"
METRICS = {"spearmanr": "Spearman's ρ", "roc_auc": "ROC AUC"}
BASELINES = {"length": "log_words", "repetition": "said_before_3"}
_BASELINE_ROWS = 2000  # training rows that say which way a measure points


@dataclass(frozen=True, slots=True)
class ScoredExamples:
    """Examples, and a score for each [n] per dimension: NaN where the judge says nothing."""

    examples: Sequence[TrainingExample]
    scores: Scores


@dataclass(frozen=True, slots=True)
class AgreementRow:
    """One source, dimension and language (``all`` and each) of a part of the data: ``metric``
    (``roc_auc`` for binary dimensions, else ``spearmanr``), ``value`` or None with ``reason``,
    ``low`` and ``high`` (95%, see stats/intervals.py), ``n`` labelled rows that the judge scored,
    ``missed`` that it did not, ``baselines`` by name with the same figure on the same rows."""

    part: str
    source: str
    dimension: str
    lang: str
    metric: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    reason: str | None
    missed: int
    baselines: Mapping[str, float | None]

    @property
    def estimate(self) -> Estimate:
        """The value with its interval."""
        return Estimate(self.value, self.low, self.high, reason=self.reason)


def read_agreement(folder: Path) -> list[AgreementRow]:
    """The rows of a judge's agreement.json; none where it has no such file."""
    path = folder / AGREEMENT_NAME
    records = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    return [AgreementRow(**record) for record in records]


def summary_table(folder: Path) -> Table | None:
    """Rows of validation and test sets by dimension, all languages of a set together, the trivial
    baselines beside the judge; None where the run had no rows held out."""
    rows = read_agreement(folder)
    if not rows:
        return None
    several = {(r.part, r.source, r.dimension) for r in rows if r.lang == "all"}
    shown = [r for r in rows if r.lang == "all" or (r.part, r.source, r.dimension) not in several]
    return Table(
        "Agreement with the labels of held-out rows, 95% intervals",
        ("part", "source", "dimension", "n", "unscored", "figure", "judge", *rows[0].baselines),
        [
            (
                *(r.part, r.source, r.dimension, r.n, r.missed, METRICS[r.metric]),
                f"none: {r.reason}" if r.value is None else r.estimate,
                *r.baselines.values(),
            )
            for r in shown
        ],
        note="length, repetition: of the answers, untrained; chance is 0.50 of ROC AUC, else 0",
    )


def agreement(
    scored: ScoredExamples,
    baselines: Mapping[str, Scores],
    dimensions: Sequence[Dimension],
    part: str = "validation",
) -> list[AgreementRow]:
    """One row a source, dimension and language."""
    rows = []
    for dimension in dimensions:
        metric = "roc_auc" if dimension.kind == "binary" else "spearmanr"
        score = np.asarray(scored.scores[dimension.name], dtype=float)
        for source, lang, chosen in _by_source_and_language(scored.examples, dimension.name):
            known = [i for i in chosen if np.isfinite(score[i])]
            examples = [scored.examples[i] for i in known]
            human = np.array([e.human[dimension.name] for e in examples], dtype=float)
            estimate = _estimate(metric, human, score[known])
            if estimate.value is not None:
                clusters = choose_clusters(
                    [e.dialogue.chatbot for e in examples],
                    [e.group or e.dialogue.id for e in examples],
                )
                statistic = _statistic(metric, human, score[known])
                estimate = with_intervals({metric: estimate}, statistic, clusters)[metric]
            plain = {
                name: _estimate(metric, human, scores[dimension.name][known]).value
                for name, scores in baselines.items()
            }
            figures = (estimate.value, estimate.low, estimate.high, len(known), estimate.reason)
            place = (part, source, dimension.name, lang, metric)
            rows.append(AgreementRow(*place, *figures, len(chosen) - len(known), plain))
    return rows


def _by_source_and_language(
    examples: Sequence[TrainingExample], name: str
) -> Iterator[tuple[str, str, list[int]]]:
    """(source, language or ``all``, rows with a label of dimension ``name``). Of a file the source
    is its name: the folder that it was in is not published."""
    languages = [e.dialogue.lang or "unknown" for e in examples]
    for source in sorted({e.source for e in examples}):
        rows = [i for i, e in enumerate(examples) if e.source == source and name in e.human]
        own = sorted({languages[i] for i in rows})
        if len(own) > 1:
            yield Path(source).name, "all", rows
        for lang in own:
            yield Path(source).name, lang, [i for i in rows if languages[i] == lang]


def _estimate(metric: str, human: Floats, score: Floats) -> Estimate:
    """The figure alone; None with its reason where it is undefined."""
    answers = human >= 0.5 if metric == "roc_auc" else human
    reason = undefined_reason(answers.astype(float), score)
    if reason is not None:
        return Estimate(None, reason=reason)
    value = _statistic(metric, human, score)(np.ones((1, len(human))))[metric][0]
    return Estimate(float(value))


def _statistic(metric: str, human: Floats, score: Floats) -> Statistic:
    if metric == "spearmanr":
        return lambda weights: {metric: weighted_spearman(human, score, weights)}
    positive = (human >= 0.5).astype(float)
    return lambda weights: {metric: weighted_auc(positive, score, weights)}


# -- the scores that are held against the labels --------------------------------------------------


def scores_of_logits(
    heads: Mapping[str, Head],
    logits: Mapping[str, np.ndarray],
    calibration: Mapping[str, Calibration],
) -> Scores:
    """Calibrated scores [n] per dimension of a net's ``logits`` [n, outputs]."""
    import torch

    from medal_judges.models.base.heads import Calibration

    scores = {}
    for name, outputs in logits.items():
        fitted = calibration.get(name, Calibration())
        scores[name] = np.array(heads[name].answers(torch.from_numpy(outputs).float(), fitted)[0])
    return scores


def judge_scores(judge: Judge, examples: Sequence[TrainingExample]) -> Scores:
    """What ``judge`` says of each example, per dimension [n]; NaN where it says nothing."""
    answers = [j.scores for j in judge.score([e.dialogue for e in examples])]
    return {
        d.name: np.array([np.nan if s[d.name] is None else s[d.name] for s in answers], dtype=float)
        for d in judge.dimensions
    }


def baseline_scores(
    train: Sequence[TrainingExample],
    examples: Sequence[TrainingExample],
    dimensions: Sequence[Dimension],
    seed: int,
) -> dict[str, Scores]:
    """Baseline -> dimension -> score of each example [n]: the mean of one surface measure over the
    assistant's turns, with the sign that its correlation with the labels has on (at most 2,000
    drawn) training rows. Only order and sign mean anything; NaN without an assistant turn."""
    drawn = np.random.default_rng(seed).permutation(len(train))[:_BASELINE_ROWS]
    known = [train[i] for i in sorted(drawn)]
    before, now = _measures(known), _measures(examples)
    return {
        baseline: {
            d.name: _sign(known, before[:, column], d.name) * now[:, column] for d in dimensions
        }
        for column, baseline in enumerate(BASELINES)
    }


def _measures(examples: Sequence[TrainingExample]) -> np.ndarray:
    """Means of the baselines' measures over the assistant's turns [n, measures]."""
    from medal_judges.models.base.turn_features import FEATURE_NAMES, turn_features

    columns = [FEATURE_NAMES.index(name) for name in BASELINES.values()]
    means = np.full((len(examples), len(columns)), np.nan)
    for row, example in enumerate(examples):
        if turns := list(example.dialogue.assistant_turns):
            means[row] = turn_features(example.dialogue)[turns][:, columns].mean(axis=0)
    return means


def _sign(examples: Sequence[TrainingExample], values: np.ndarray, name: str) -> float:
    """1 or -1: which way the labels go with ``values``, by the sum of the sources' correlations; 1
    where nothing tells."""
    total = 0.0
    for source in {e.source for e in examples if name in e.human}:
        pairs = [
            (value, e.human[name])
            for value, e in zip(values, examples, strict=True)
            if e.source == source and name in e.human and np.isfinite(value)
        ]
        table = np.array(pairs).reshape(-1, 2)
        centred = table - table.mean(axis=0) if len(table) else table
        spread = float(np.sqrt((centred**2).sum(axis=0).prod()))
        total += float((centred[:, 0] * centred[:, 1]).sum()) / spread if spread else 0.0
    return -1.0 if total < 0 else 1.0
