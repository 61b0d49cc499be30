"""How well a judge agrees with the labels of held-out rows, and two untrained baselines with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from medal_judges.config import read_yaml
from medal_judges.records.dimension import Dimension
from medal_judges.report.console import ProgressBar
from medal_judges.report.table import Figured, Table
from medal_judges.stats.correlation import undefined_reason, weighted_auc, weighted_spearman
from medal_judges.stats.equal import Values
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import BESIDE, WHOM, choose_clusters, with_intervals

if TYPE_CHECKING:  # the card imports this module, and needs no torch for it
    from medal_judges.models.base.heads import Calibration, OutputHead
    from medal_judges.models.base.judge import Judge
    from medal_judges.training.config import TrainConfig
    from medal_judges.training.rows import TrainingExample

Scores = dict[str, np.ndarray]

AGREEMENT_NAME = "agreement.json"
METRICS = {"spearmanr": "Spearman's ρ", "roc_auc": "ROC AUC"}
BASELINES = ("length", "repetition")  # names of shipped judges


@dataclass(frozen=True, slots=True)
class ScoredExamples:
    """Examples, and a score for each [n] per dimension: NaN if the judge gives none."""

    examples: Sequence[TrainingExample]
    scores: Scores


@dataclass(frozen=True, slots=True)
class AgreementRow:
    """One source, dimension and language (``all`` and each) of a part of the data: ``metric``
    (``roc_auc`` for binary dimensions, else ``spearmanr``), ``value`` or None with ``reason``,
    ``low`` and ``high`` (95%, for these chatbots, see stats/intervals.py), ``n`` labelled rows with
    a score, ``missed`` without one, ``baselines`` by name with the same figure on the same rows,
    ``others`` the interval for other chatbots, from 5 on."""

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
    others: tuple[float, float] | None = None

    @property
    def estimate(self) -> Estimate:
        """The value with its intervals."""
        beside = Estimate(self.value, *self.others) if self.others else None
        return Estimate(self.value, self.low, self.high, reason=self.reason, beside=beside)


def read_agreement(folder: Path) -> list[AgreementRow]:
    """The rows of a judge's agreement.json; none if it has no such file."""
    path = folder / AGREEMENT_NAME
    records = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    return [AgreementRow(**record) for record in records]


def summary_table(folder: Path) -> Table | None:
    """Rows of validation and test sets by dimension, all languages of a set together, with the
    baselines beside the judge; None if the run had no held-out rows."""
    rows = read_agreement(folder)
    if not rows:
        return None
    several = {(r.part, r.source, r.dimension) for r in rows if r.lang == "all"}
    shown = [r for r in rows if r.lang == "all" or (r.part, r.source, r.dimension) not in several]
    heads, plain = [BESIDE["these"]] if any(r.others for r in shown) else [], rows[0].baselines
    return Table(
        "Agreement with the labels of held-out rows",
        ("part", "source", "dimension", "n", "unscored", "figure", "judge", *heads, *plain),
        [
            (
                *(r.part, r.source, r.dimension, r.n, r.missed, METRICS[r.metric]),
                f"none: {r.reason}" if r.value is None else r.estimate,
                *[Figured(r.estimate.beside, bare=True) for _ in heads],
                *r.baselines.values(),
            )
            for r in shown
        ],
        note=f"95% intervals are for {WHOM['these']}.\n\nlength, repetition: untrained judges, "
        "as in medal benchmark (longer, less repetitive is better); chance: 0, of AUC 0.50",
    )


def agreement(
    scored: ScoredExamples,
    baselines: Mapping[str, Scores],
    dimensions: Sequence[Dimension],
    part: str = "validation",
) -> list[AgreementRow]:
    """One row a source, dimension and language."""
    rows = []
    languages = [e.dialogue.lang or "unknown" for e in scored.examples]
    sources = sorted({e.source for e in scored.examples})
    for dimension in dimensions:
        name = dimension.name
        metric = "roc_auc" if dimension.kind == "binary" else "spearmanr"
        score = np.asarray(scored.scores[name], dtype=float)
        for source in sources:
            labelled = [
                i for i, e in enumerate(scored.examples) if e.source == source and name in e.human
            ]
            own = sorted({languages[i] for i in labelled})
            for lang in ["all", *own] if len(own) > 1 else own:
                chosen = [i for i in labelled if lang in ("all", languages[i])]
                known = [i for i in chosen if np.isfinite(score[i])]
                examples = [scored.examples[i] for i in known]
                human = np.array([e.human[name] for e in examples], dtype=float)
                groups = [e.group or e.dialogue.id for e in examples]
                bots = [e.dialogue.chatbot for e in examples]
                tolerance = dimension.tolerance
                judge = Values(score[known], tolerance)
                estimate = _estimate(metric, human, judge, (bots, groups))
                beside = estimate.beside
                others = None
                if beside is not None and beside.low is not None and beside.high is not None:
                    others = beside.low, beside.high
                plain = {
                    baseline: _estimate(metric, human, Values(scores[name][known], tolerance)).value
                    for baseline, scores in baselines.items()
                }
                rows.append(
                    AgreementRow(
                        # The name of a file: its folder is not published.
                        *(part, Path(source).name, name, lang, metric),
                        *(estimate.value, estimate.low, estimate.high, len(known)),
                        *(estimate.reason, len(chosen) - len(known), plain),
                        others,
                    )
                )
    return rows


def _estimate(
    metric: str,
    human: np.ndarray,
    score: Values,
    clusters: tuple[Sequence[str | None], Sequence[str]] | None = None,
) -> Estimate:
    """The figure, with an interval over ``clusters`` (chatbots, conversations) if they are given;
    None with its reason if it is undefined."""
    binary = metric == "roc_auc"
    answers = Values((human >= 0.5).astype(float) if binary else human, score.tolerance)
    reason = undefined_reason(answers, score)
    if reason is not None:
        return Estimate(None, reason=reason)

    def statistic(weights: np.ndarray) -> dict[str, np.ndarray]:
        if binary:
            return {metric: weighted_auc(answers.numbers, score, weights)}
        return {metric: weighted_spearman(answers, score, weights)}

    estimate = Estimate(float(statistic(np.ones((1, len(human))))[metric][0]))
    if clusters is None:
        return estimate
    return with_intervals({metric: estimate}, statistic, choose_clusters(*clusters))[metric]


# -- the scores that are compared with the labels --------------------------------------------------


def scores_of_logits(
    heads: Mapping[str, OutputHead],
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


def judge_scores(
    judge: Judge, examples: Sequence[TrainingExample], progress: Callable[[int], None] | None = None
) -> Scores:
    """The judge's score of each example, per dimension [n]; NaN for none."""
    answers = [j.scores for j in judge.score([e.dialogue for e in examples], progress=progress)]
    return {
        d.name: np.array([np.nan if s[d.name] is None else s[d.name] for s in answers], dtype=float)
        for d in judge.dimensions
    }


def baseline_scores(
    examples: Sequence[TrainingExample], dimensions: Sequence[Dimension]
) -> dict[str, Scores]:
    """Baseline -> dimension -> score of each example [n], as the shipped judge of that name gives
    it: longer answers, or less repetitive ones, are better."""
    from medal_judges.models.linear.judge import LinearJudge

    judges = [LinearJudge.from_settings(read_yaml(f"judges/{n}"), dimensions) for n in BASELINES]
    return {judge.name: judge_scores(judge, examples) for judge in judges}


def score_examples(
    judge: Judge, examples: Sequence[TrainingExample], config: TrainConfig
) -> ScoredExamples:
    """The judge's scores of ``examples``; of ``answered_rows`` of them, drawn, if it is generative,
    which takes seconds a dialogue."""
    chosen, writes = examples, bool(judge.language_models())
    if writes and len(examples) > config.answered_rows:
        order = np.random.default_rng(config.seed).permutation(len(examples))
        chosen = [examples[i] for i in sorted(order[: config.answered_rows])]
    with ProgressBar("answering held-out rows", len(chosen), visible=writes) as bar:
        return ScoredExamples(chosen, judge_scores(judge, chosen, bar.advance))
