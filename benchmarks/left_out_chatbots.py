"""How well a judge of issues tells those of a chatbot that it has not learnt from.

    python benchmarks/left_out_chatbots.py issues  # a config in configs/train/

For each chatbot the whole training (settings, weights, calibration, threshold) runs on the others.
AUC is of the output of the head: the scores of four trainings have four thresholds. F1 is of the
score at 0.5; an interval is from 2,000 draws of whole conversations. Writes
docs/results/data/left_out_chatbots.csv; `make tables` puts it into docs/results/index.md.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.stats import rankdata
from sklearn.metrics import f1_score

from medal_judges.config import load_config
from medal_judges.models.linear.config import LinearConfig
from medal_judges.models.linear.judge import LinearJudge
from medal_judges.records.dimension import Dimension, load_rubric
from medal_judges.training.config import TrainConfig
from medal_judges.training.families.linear import Search, folds_of, search_of
from medal_judges.training.rows import TrainingExample, load_rows
from medal_judges.training.run import learnable

DRAWS = 2000
HEADS = (
    "AUC, mean of the chatbots",
    "AUC of all",
    "F1",
    "F1 of always yes",
    "the difference",
)
TABLE = "docs/results/data/left_out_chatbots.csv"


def _auc(present: np.ndarray, outputs: np.ndarray) -> float:
    """Returns the AUC by ranks: scikit-learn's takes minutes for 2,000 draws."""
    positives = int(present.sum())
    least = positives * (positives + 1) / 2
    pairs = positives * (len(present) - positives)
    return float((rankdata(outputs)[present].sum() - least) / pairs)


def figures(
    present: np.ndarray, outputs: np.ndarray, scores: np.ndarray, bots: np.ndarray
) -> list[float]:
    """Returns the figures of HEADS, then the AUC of each chatbot (NaN if undefined)."""
    by_chatbot = []
    for bot in BOTS:
        labels, answers = present[bots == bot], outputs[bots == bot]
        is_defined = len(labels) > 0 and 0 < labels.mean() < 1
        by_chatbot.append(_auc(labels, answers) if is_defined else np.nan)
    f1 = f1_score(present, scores >= 0.5)
    always = 2 * present.mean() / (1 + present.mean())
    pooled = _auc(present, outputs)
    mean = float(np.nanmean(by_chatbot))
    return [mean, pooled, f1, always, f1 - always, *by_chatbot]


def left_out_scores(
    search: Search, examples: Sequence[TrainingExample], dimension: Dimension
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the output of the head and the score of each example by a training without its
    chatbot."""
    bots = np.array([example.dialogue.chatbot for example in examples])
    outputs, scores = np.zeros(len(examples)), np.zeros(len(examples))
    for bot in BOTS:
        out, others = bots == bot, np.flatnonzero(bots != bot)
        learnt = [examples[row] for row in others]
        inner = replace(
            search,
            examples=learnt,
            columns=search.columns[others],
            folds=folds_of(learnt, len(learnt), search.config, search.seed),
        )
        setting = inner.settings([dimension])[dimension.name]
        print(dimension.name, bot, setting.share, setting.alpha, flush=True)
        head = inner.head(np.arange(len(learnt)), dimension, setting)
        fitted = inner.calibration(dimension, setting, "isotonic")
        assert fitted is not None
        columns = search.columns[out]
        outputs[out] = head.raw(columns)[:, 0]
        units = head.units(columns, "expected", fitted.temperature)
        scores[out] = [fitted.map_unit(unit) for unit in units]
    return outputs, scores


def measure(
    search: Search, examples: Sequence[TrainingExample], dimension: Dimension
) -> list[str]:
    """Returns the row of ``dimension`` in the table."""
    targets = [example.targets[dimension.name] for example in examples]
    present = np.array(targets, dtype=float) >= 0.5
    bots = np.array([example.dialogue.chatbot for example in examples])
    groups = np.array([example.group for example in examples])
    outputs, scores = left_out_scores(search, examples, dimension)
    np.save(f"runs/left_out_{dimension.name}.npy", [outputs, scores])
    rng = np.random.default_rng(0)
    rows_by_group = [np.flatnonzero(groups == group) for group in np.unique(groups)]
    arrays = (present, outputs, scores, bots)
    draws = []
    for _ in range(DRAWS):
        chosen = rng.choice(len(rows_by_group), len(rows_by_group))
        drawn = np.concatenate([rows_by_group[group] for group in chosen])
        draws.append(figures(*(array[drawn] for array in arrays)))
    low, high = np.nanquantile(draws, (0.025, 0.975), axis=0)
    cells = []
    for value, least, most in zip(figures(*arrays), low, high, strict=True):
        cells.append(f"{value:.2f} [{least:.2f}, {most:.2f}]")
    print(dimension.name, *cells, sep="\n  ", flush=True)
    return [f"`{dimension.name}`", f"{present.sum()} of {len(present)}", *cells]


config = load_config(TrainConfig, f"train/{sys.argv[1]}")
assert isinstance(config.model, LinearConfig)
dimensions = load_rubric(config.rubric)
rows = load_rows(config, dimensions)
learnt_dimensions = learnable(config, dimensions, rows)
BOTS = np.unique([example.dialogue.chatbot for example in rows.train])
judge = LinearJudge.create(config.model, learnt_dimensions, name=config.name)
fitted_search = search_of(judge, rows.train, [], config.seed)
table = [["issue", "answers with it", *HEADS, *(f"AUC of {bot}" for bot in BOTS)]]
for learnt_dimension in learnt_dimensions:
    table.append(measure(fitted_search, rows.train, learnt_dimension))
with open(TABLE, "w", encoding="utf-8", newline="") as stream:
    csv.writer(stream, lineterminator="\n").writerows(table)
