"""How well a judge of issues tells those of a chatbot that it has not learnt from.

    python benchmarks/left_out_chatbots.py empathetic repetitive  # configs in configs/train/

For each chatbot the whole training (settings, weights, calibration, threshold) runs on the others.
F1 is of the score at 0.5; an interval is from 2,000 draws of whole conversations. Writes
docs/results/data/left_out_chatbots.csv; `make tables` puts it into docs/results/index.md.
"""

from __future__ import annotations

import csv
import sys

import numpy as np
from sklearn.metrics import f1_score, roc_auc_score

from medal_judges.config import load_config
from medal_judges.models.embedding.judge import EmbeddingConfig, EmbeddingJudge, SentenceEncoder
from medal_judges.records.dimension import load_rubric
from medal_judges.training.config import TrainConfig
from medal_judges.training.families.embedding import Search, folds_of
from medal_judges.training.rows import load_rows
from medal_judges.training.run import learnable

DRAWS = 2000
HEADS = ("AUC, mean of the chatbots", "AUC of all", "F1", "F1 of always yes", "the difference")
TABLE = "docs/results/data/left_out_chatbots.csv"


def figures(present: np.ndarray, scores: np.ndarray, bots: np.ndarray) -> list[float]:
    each = [(present[bots == bot], scores[bots == bot]) for bot in np.unique(bots)]
    own = [roc_auc_score(labels, answers) for labels, answers in each if 0 < labels.mean() < 1]
    f1, always = f1_score(present, scores >= 0.5), 2 * present.mean() / (1 + present.mean())
    return [float(np.mean(own)), roc_auc_score(present, scores), f1, always, f1 - always]


def measure(path: str) -> list[str]:
    config = load_config(TrainConfig, path)
    model = config.model
    assert isinstance(model, EmbeddingConfig)
    dimensions = load_rubric(config.rubric)
    rows = load_rows(config, dimensions)
    (dimension,) = learnable(dimensions, rows, config.only)
    name, examples = dimension.name, rows.train
    encoder = SentenceEncoder.create(model.base, model.base_revision, depth=model.depth)
    judge = EmbeddingJudge(model, encoder, [dimension], {}, name=config.name)
    read: list[np.ndarray] = []
    for start in range(0, len(examples), judge.window):
        window = [example.dialogue for example in examples[start : start + judge.window]]
        read += [each.vector for each in judge.read(window)]
    table, bots = np.stack(read), np.array([e.dialogue.chatbot for e in examples])
    present = np.array([e.targets[name] for e in examples], dtype=float) >= 0.5
    groups, scores = np.array([e.group for e in examples]), np.zeros(len(examples))
    for bot in np.unique(bots):
        out, mine = bots == bot, np.flatnonzero(bots != bot)
        others = [examples[i] for i in mine]
        folds = folds_of(others, len(others), model, config.seed)
        search = Search(model, others, table[mine], judge.is_feature, folds, config.seed, [])
        setting = search.run([dimension])[name]
        net = search.fit(np.arange(len(others)), name, setting)
        fitted = search.calibration(dimension, setting, config.calibration)
        assert fitted is not None
        scores[out] = [fitted.map_unit(unit) for unit in net.units(table[out], model.decode)]
        auc, _, f1, *_ = figures(present[out], scores[out], bots[out])
        print(f"{name}, {bot}: AUC {auc:.2f}, F1 {f1:.2f}, {present[out].sum()} of {out.sum()}")
    rng = np.random.default_rng(0)
    places = {group: np.flatnonzero(groups == group) for group in np.unique(groups)}
    draws = []
    for _ in range(DRAWS):
        drawn = np.concatenate([places[g] for g in rng.choice(list(places), len(places))])
        draws.append(figures(present[drawn], scores[drawn], bots[drawn]))
    low, high = np.quantile(draws, (0.025, 0.975), axis=0)
    found = zip(figures(present, scores, bots), low, high, strict=True)
    cells = [f"{value:.2f} [{a:.2f}, {b:.2f}]" for value, a, b in found]
    print(name, *map(": ".join, zip(HEADS, cells, strict=True)), sep="\n  ")
    return [f"`{name}`", f"{present.sum()} of {len(present)}", *cells]


made = [measure(f"train/{path}") for path in sys.argv[1:]]
with open(TABLE, "w", encoding="utf-8", newline="") as stream:
    csv.writer(stream).writerows([["judge", "answers with it", *HEADS], *made])
