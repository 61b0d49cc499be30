"""How well a judge of issues tells those of a chatbot that it has not learnt from.

    python benchmarks/left_out_chatbots.py configs/train/repetitive.yaml configs/train/empathetic.yaml

For each chatbot the whole training (settings, weights, calibration, threshold) runs on the others.
F1 is of the score at 0.5; an interval is from 2,000 draws of whole conversations.
"""

from __future__ import annotations

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

for path in sys.argv[1:]:
    config = load_config(TrainConfig, path)
    model = config.model
    assert isinstance(model, EmbeddingConfig)
    dimensions = load_rubric(config.rubric)
    rows = load_rows(config, dimensions)
    (dimension,) = learnable(dimensions, rows, config.only)
    name, examples = dimension.name, rows.train
    encoder = SentenceEncoder.create(model.base, model.base_revision, layers=model.layers)
    judge = EmbeddingJudge(model, encoder, [dimension], {}, name=config.name)
    read = [each.vector for row in range(0, len(examples), judge.window)
            for each in judge.read([e.dialogue for e in examples[row : row + judge.window]])]  # fmt: skip
    table, bots = np.stack(read), np.array([e.dialogue.chatbot for e in examples])
    present = np.array([e.targets[name] for e in examples], dtype=float) >= 0.5
    groups = np.array([e.group for e in examples])
    scores = np.zeros(len(examples))
    for bot in np.unique(bots):
        mine = np.flatnonzero(bots != bot)
        others = [examples[i] for i in mine]
        folds = folds_of(others, len(others), model, config.seed)
        search = Search(model, others, table[mine], judge.is_feature, folds, config.seed, tried=[])
        setting = search.run([dimension])[name]
        net = search.fit(np.arange(len(others)), name, setting)
        fitted = search.calibration(dimension, setting, config.calibration)
        assert fitted is not None
        out = bots == bot
        scores[out] = [fitted.map_unit(unit) for unit in net.units(table[out], model.decode)]
        print(f"{name}, {bot}: AUC {roc_auc_score(present[out], scores[out]):.2f}, "
              f"F1 {f1_score(present[out], scores[out] >= 0.5):.2f}, "
              f"{present[out].sum()} of {out.sum()} turns, alpha {setting.alpha:g}")  # fmt: skip

    def figures(
        rows: np.ndarray, scores: np.ndarray = scores, labels: np.ndarray = present
    ) -> list:
        own = [roc_auc_score(labels[r], scores[r]) for b in np.unique(bots[rows])
               if 0 < labels[r := rows[bots[rows] == b]].sum() < len(r)]  # fmt: skip
        always = 2 * labels[rows].mean() / (1 + labels[rows].mean())
        f1 = f1_score(labels[rows], scores[rows] >= 0.5)
        return [np.mean(own), roc_auc_score(labels[rows], scores[rows]), f1, always, f1 - always]

    rng = np.random.default_rng(0)
    places = {group: np.flatnonzero(groups == group) for group in np.unique(groups)}
    draws = [
        figures(np.concatenate([places[g] for g in rng.choice(list(places), len(places))]))
        for _ in range(DRAWS)
    ]
    low, high = np.quantile(draws, (0.025, 0.975), axis=0)
    heads = ("mean AUC of the chatbots", "AUC", "F1", "F1 of always yes", "F1 less always yes")
    for head, value, a, b in zip(heads, figures(np.arange(len(present))), low, high, strict=True):
        print(f"{name}, all left out: {head} {value:.2f} [{a:.2f}, {b:.2f}]")
