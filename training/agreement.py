"""How well a judge agrees with the labels of held-out rows, and two untrained baselines with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from medal_judges.config import read_yaml
from medal_judges.records.dimension import Dimension
from medal_judges.report.console import ProgressBar
from medal_judges.report.table import Cell, Figured, Table
from medal_judges.stats.correlation import (
    undefined_reason,
    weighted_auc,
    weighted_spearman,
)
from medal_judges.stats.equal import Values
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import (
    OTHERS,
    THESE,
    Clusters,
    choose_clusters,
    estimated,
)
from medal_judges.storage.files import read_json_if_there

if TYPE_CHECKING:  # the card imports this module, and needs no torch for it
    from pandas import DataFrame

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
    records = read_json_if_there(folder / AGREEMENT_NAME, [])
    return [AgreementRow(**record) for record in records]


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
    columns = ["part", "source", "dimension", "n", "unscored", "figure", "judge"]
    has_others = any(row.others for row in by_set.values())
    if has_others:
        columns.append(OTHERS)
    cells = []
    for row in by_set.values():
        line: list[Cell] = [row.part, row.source, row.dimension, row.n, row.missed]
        line.append(METRICS[row.metric])
        if row.value is None:
            line.append(f"none: {row.reason}")
        else:
            line.append(row.estimate)
        if has_others:
            line.append(Figured(row.estimate.beside, bare=True))
        cells.append([*line, *row.baselines.values()])
    return Table(
        "Agreement with the labels of held-out rows",
        [*columns, *rows[0].baselines],
        cells,
        note=f"95% intervals are for {THESE}.\n\nlength, repetition: untrained judges, "
        "as in medal benchmark (longer, less repetitive is better); chance: 0, of AUC 0.50",
    )


def agreement(
    scored: ScoredExamples,
    dimensions: Sequence[Dimension],
    part: str,
) -> list[AgreementRow]:
    """Returns a row for each of the ``dimensions`` that is scored, its sources and languages."""
    import pandas as pd

    dimensions = [
        dimension for dimension in dimensions if dimension.name in scored.scores
    ]
    baselines = baseline_scores(scored.examples, dimensions)
    records = []
    for example in scored.examples:
        dialogue = example.dialogue
        records.append(
            {
                "source": example.source,
                "lang": dialogue.lang or "unknown",
                "chatbot": dialogue.chatbot,
                "group": example.group or dialogue.id,
            }
        )
    frame = pd.DataFrame(records)
    agreement_rows = []
    for dimension in dimensions:
        name = dimension.name
        frame["human"] = [example.human.get(name) for example in scored.examples]
        frame["judge"] = scored.scores[name]
        for baseline, scores in baselines.items():
            frame[baseline] = scores[name]
        for source, rows in frame.dropna(subset="human").groupby("source"):
            slices = dict(iter(rows.groupby("lang")))
            if len(slices) > 1:
                slices = {"all": rows} | slices
            # The name of a file: its folder is not published.
            title = Path(source).name
            for lang, labelled in slices.items():
                row = _agreement_row(labelled, dimension, part, title, lang)
                agreement_rows.append(row)
    return agreement_rows


def _agreement_row(
    labelled: DataFrame,
    dimension: Dimension,
    part: str,
    source: str,
    lang: str,
) -> AgreementRow:
    """Returns the row of the ``labelled`` examples, on those that the judge scored."""
    metric = "roc_auc" if dimension.kind == "binary" else "spearmanr"
    scored = labelled.dropna(subset="judge")
    clusters = choose_clusters(scored["chatbot"].tolist(), scored["group"].tolist())
    human = scored["human"].to_numpy(float)

    def of(
        name: str,
        clusters: Clusters | None = None,
    ) -> Estimate:
        scores = Values(scored[name].to_numpy(float), dimension.tolerance)
        return _estimate(metric, human, scores, clusters)

    estimate = of("judge", clusters)
    others = None
    beside = estimate.beside
    if beside is not None and beside.low is not None and beside.high is not None:
        others = beside.low, beside.high
    return AgreementRow(
        part=part,
        source=source,
        dimension=dimension.name,
        lang=lang,
        metric=metric,
        value=estimate.value,
        low=estimate.low,
        high=estimate.high,
        n=len(scored),
        reason=estimate.reason,
        missed=len(labelled) - len(scored),
        baselines={name: of(name).value for name in BASELINES},
        others=others,
    )


def _estimate(
    metric: str,
    human: np.ndarray,
    score: Values,
    clusters: Clusters | None,
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
    return estimated(statistic, clusters, "undefined")[metric]


# -- the scores that are compared with the labels --------------------------------------------------


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
    examples: Sequence[TrainingExample],
    dimensions: Sequence[Dimension],
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
    judge: Judge,
    examples: Sequence[TrainingExample],
    config: TrainConfig,
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
