"""How well a judge of issues tells those of a chatbot that it has not learnt from.

    python benchmarks/left_out_chatbots.py repetitive  # configs in configs/train/

For each chatbot the whole training (settings, weights, calibration, threshold) runs on the others.
F1 is of the score at 0.5; an interval is from 2,000 draws of whole conversations. Writes
docs/results/data/left_out_chatbots.csv; `make tables` puts it into docs/results/index.md.
"""

from __future__ import annotations

import csv
import sys
from dataclasses import replace

import numpy as np
from sklearn.metrics import f1_score, roc_auc_score

from medal_judges.config import load_config
from medal_judges.models.linear.config import LinearConfig
from medal_judges.models.linear.judge import LinearJudge
from medal_judges.records.dimension import load_rubric
from medal_judges.training.config import TrainConfig
from medal_judges.training.families.linear import folds_of, search_of
from medal_judges.training.rows import load_rows
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


def figures(present: np.ndarray, scores: np.ndarray, bots: np.ndarray) -> list[float]:
    each = [(present[bots == bot], scores[bots == bot]) for bot in np.unique(bots)]
    own = [
        roc_auc_score(labels, answers)
        for labels, answers in each
        if 0 < labels.mean() < 1
    ]
    f1, always = (
        f1_score(present, scores >= 0.5),
        2 * present.mean() / (1 + present.mean()),
    )
    return [
        float(np.mean(own)),
        roc_auc_score(present, scores),
        f1,
        always,
        f1 - always,
    ]


def measure(path: str) -> list[str]:
    config = load_config(TrainConfig, path)
    model = config.model
    assert isinstance(model, LinearConfig)
    dimensions = load_rubric(config.rubric)
    rows = load_rows(config, dimensions)
    (dimension,) = learnable(dimensions, rows, config.only)
    name, examples = dimension.name, rows.train
    judge = LinearJudge.create(model, [dimension], name=config.name)
    whole = search_of(judge, examples, [], config.seed)
    bots = np.array([example.dialogue.chatbot for example in examples])
    present = (
        np.array([example.targets[name] for example in examples], dtype=float) >= 0.5
    )
    groups, scores = np.array([e.group for e in examples]), np.zeros(len(examples))
    for bot in np.unique(bots):
        out, others = bots == bot, np.flatnonzero(bots != bot)
        learnt = [examples[row] for row in others]
        search = replace(
            whole,
            examples=learnt,
            table=replace(whole.table, columns=whole.table.columns[others]),
            folds=folds_of(learnt, len(learnt), model, config.seed),
            tried=[],
        )
        setting = search.run([dimension])[name]
        head = search.head(np.arange(len(learnt)), dimension, setting)
        fitted = search.calibration(dimension, setting, config.calibration)
        assert fitted is not None
        units = head.units(whole.table.columns[out], model.decode, fitted.temperature)
        scores[out] = [fitted.map_unit(unit) for unit in units]
        auc, _, f1, *_ = figures(present[out], scores[out], bots[out])
        print(
            f"{name}, {bot}: AUC {auc:.2f}, F1 {f1:.2f}, {present[out].sum()} of {out.sum()}"
        )
    rng = np.random.default_rng(0)
    places = {group: np.flatnonzero(groups == group) for group in np.unique(groups)}
    draws = []
    for _ in range(DRAWS):
        drawn = np.concatenate(
            [places[g] for g in rng.choice(list(places), len(places))]
        )
        draws.append(figures(present[drawn], scores[drawn], bots[drawn]))
    low, high = np.quantile(draws, (0.025, 0.975), axis=0)
    found = zip(figures(present, scores, bots), low, high, strict=True)
    cells = [f"{value:.2f} [{a:.2f}, {b:.2f}]" for value, a, b in found]
    print(name, *map(": ".join, zip(HEADS, cells, strict=True)), sep="\n  ")
    return [f"`{name}`", f"{present.sum()} of {len(present)}", *cells]


made = [measure(f"train/{path}") for path in sys.argv[1:]]
with open(TABLE, "w", encoding="utf-8", newline="") as stream:
    csv.writer(stream).writerows([["judge", "answers with it", *HEADS], *made])
