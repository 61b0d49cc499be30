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
from medal_judges.stats.correlation import (
    undefined_reason,
    weighted_auc,
    weighted_spearman,
)
from medal_judges.stats.equal import Values
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import (
    BESIDE,
    WHOM,
    Clusters,
    choose_clusters,
    with_intervals,
)

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
        beside = None
        if self.others is not None:
            beside = Estimate(self.value, *self.others)
        return Estimate(
            self.value, self.low, self.high, reason=self.reason, beside=beside
        )


def read_agreement(folder: Path) -> list[AgreementRow]:
    """Returns the rows of a judge's agreement.json; none if it has no such file."""
    path = folder / AGREEMENT_NAME
    if not path.is_file():
        return []
    return [
        AgreementRow(**record)
        for record in json.loads(path.read_text(encoding="utf-8"))
    ]


def summary_table(folder: Path) -> Table | None:
    """Returns a table of validation and test sets by dimension, all languages of a set together,
    with the baselines beside the judge; None if the run had no held-out rows."""
    rows = read_agreement(folder)
    # The row ``all`` of a set stands before those of its languages.
    by_set: dict[tuple[str, str, str], AgreementRow] = {}
    for row in rows:
        by_set.setdefault((row.part, row.source, row.dimension), row)
    if not by_set:
        return None
    has_others = any(row.others for row in by_set.values())
    others_column = [BESIDE["these"]] if has_others else []
    cells = []
    for row in by_set.values():
        judge_cell = row.estimate if row.value is not None else f"none: {row.reason}"
        others_cell = [Figured(row.estimate.beside, bare=True)] if has_others else []
        facts = (
            row.part,
            row.source,
            row.dimension,
            row.n,
            row.missed,
            METRICS[row.metric],
        )
        cells.append((*facts, judge_cell, *others_cell, *row.baselines.values()))
    columns = ("part", "source", "dimension", "n", "unscored", "figure", "judge")
    return Table(
        "Agreement with the labels of held-out rows",
        (*columns, *others_column, *rows[0].baselines),
        cells,
        note=f"95% intervals are for {WHOM['these']}.\n\nlength, repetition: untrained judges, "
        "as in medal benchmark (longer, less repetitive is better); chance: 0, of AUC 0.50",
    )


def agreement(
    scored: ScoredExamples,
    baselines: Mapping[str, Scores],
    dimensions: Sequence[Dimension],
    part: str = "validation",
) -> list[AgreementRow]:
    """Returns a row for each dimension, source and language."""
    rows = []
    sources = np.array([example.source for example in scored.examples])
    languages = np.array(
        [example.dialogue.lang or "unknown" for example in scored.examples]
    )
    for dimension in dimensions:
        has_label = np.array(
            [dimension.name in example.human for example in scored.examples]
        )
        for source in np.unique(sources):
            of_source = has_label & (sources == source)
            slices = {
                lang: of_source & (languages == lang) for lang in languages[of_source]
            }
            slices = dict(sorted(slices.items()))
            if len(slices) > 1:
                slices = {"all": of_source} | slices
            # The name of a file: its folder is not published.
            title = Path(str(source)).name
            for lang, chosen in slices.items():
                compared = (scored, baselines, dimension, np.flatnonzero(chosen))
                rows.append(_agreement_row(*compared, (part, title, str(lang))))
    return rows


def _agreement_row(
    scored: ScoredExamples,
    baselines: Mapping[str, Scores],
    dimension: Dimension,
    labelled: np.ndarray,
    names: tuple[str, str, str],
) -> AgreementRow:
    """Returns the row of the examples numbered ``labelled``, on those with a score. ``names`` are
    part, source and language."""
    metric = "roc_auc" if dimension.kind == "binary" else "spearmanr"
    score = np.asarray(scored.scores[dimension.name], dtype=float)
    rows = labelled[np.isfinite(score[labelled])]
    examples = [scored.examples[row] for row in rows]
    human = np.array(
        [example.human[dimension.name] for example in examples], dtype=float
    )

    def estimated(scores: np.ndarray, clusters: Clusters | None = None) -> Estimate:
        return _estimate(
            metric, human, Values(scores[rows], dimension.tolerance), clusters
        )

    bots = [example.dialogue.chatbot for example in examples]
    groups = [example.group or example.dialogue.id for example in examples]
    estimate = estimated(score, choose_clusters(bots, groups))
    others = None
    beside = estimate.beside
    if beside is not None and beside.low is not None and beside.high is not None:
        others = beside.low, beside.high
    part, source, lang = names
    return AgreementRow(
        part=part,
        source=source,
        dimension=dimension.name,
        lang=lang,
        metric=metric,
        value=estimate.value,
        low=estimate.low,
        high=estimate.high,
        n=len(rows),
        reason=estimate.reason,
        missed=len(labelled) - len(rows),
        baselines={
            name: estimated(by[dimension.name]).value for name, by in baselines.items()
        },
        others=others,
    )


def _estimate(
    metric: str, human: np.ndarray, score: Values, clusters: Clusters | None = None
) -> Estimate:
    """Returns the value of the metric, with an interval if there are ``clusters``; None with its
    reason if it is undefined."""
    labels = Values(human, score.tolerance)
    if metric == "roc_auc":
        labels = Values((human >= 0.5).astype(float), score.tolerance)
    reason = undefined_reason(labels, score)
    if reason is not None:
        return Estimate(None, reason=reason)

    def statistic(weights: np.ndarray) -> dict[str, np.ndarray]:
        if metric == "roc_auc":
            return {metric: weighted_auc(labels.numbers, score, weights)}
        return {metric: weighted_spearman(labels, score, weights)}

    estimate = Estimate(float(statistic(np.ones((1, len(human))))[metric][0]))
    if clusters is None:
        return estimate
    return with_intervals({metric: estimate}, statistic, clusters)[metric]


# -- the scores that are compared with the labels --------------------------------------------------


def scores_of_logits(
    heads: Mapping[str, OutputHead],
    logits: Mapping[str, np.ndarray],
    calibration: Mapping[str, Calibration],
) -> Scores:
    """Returns the calibrated scores [n] of each dimension by the ``logits`` [n, outputs] of a
    network."""
    import torch

    from medal_judges.models.base.heads import Calibration

    scores = {}
    for name, outputs in logits.items():
        fitted = calibration.get(name, Calibration())
        scores[name] = np.array(
            heads[name].answers(torch.from_numpy(outputs).float(), fitted)[0]
        )
    return scores


def judge_scores(
    judge: Judge,
    examples: Sequence[TrainingExample],
    progress: Callable[[int], None] | None = None,
) -> Scores:
    """Returns the judge's score of each example, per dimension [n]; NaN for none."""
    dialogues = [example.dialogue for example in examples]
    judgements = list(judge.score(dialogues, progress=progress))
    scores: Scores = {}
    for dimension in judge.dimensions:
        values = [judgement.scores[dimension.name] for judgement in judgements]
        scores[dimension.name] = np.array(values, dtype=float)  # None becomes NaN
    return scores


def baseline_scores(
    examples: Sequence[TrainingExample], dimensions: Sequence[Dimension]
) -> dict[str, Scores]:
    """Returns baseline -> dimension -> score of each example [n], as the packaged judge of that
    name gives it: longer answers, or less repetitive ones, are better."""
    from medal_judges.models.linear.judge import LinearJudge

    scores = {}
    for name in BASELINES:
        judge = LinearJudge.from_settings(read_yaml(f"judges/{name}"), dimensions)
        scores[name] = judge_scores(judge, examples)
    return scores


def score_examples(
    judge: Judge, examples: Sequence[TrainingExample], config: TrainConfig
) -> ScoredExamples:
    """Returns the judge's scores of ``examples``. A generative judge takes seconds a dialogue: it
    scores ``answered_rows`` of them, drawn by the run's seed."""
    is_generative = bool(judge.language_models())
    if is_generative and len(examples) > config.answered_rows:
        order = np.random.default_rng(config.seed).permutation(len(examples))
        examples = [examples[row] for row in sorted(order[: config.answered_rows])]
    with ProgressBar(
        "answering held-out rows", len(examples), visible=is_generative
    ) as bar:
        return ScoredExamples(examples, judge_scores(judge, examples, bar.advance))
