"""What the net subtracts from and divides its inputs by, fitted once on the training set."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional

from medal_judges.models.encoder.judge import EncoderJudge
from medal_judges.training.encoder.model import Batcher

_FLOOR = 1e-3  # of a deviation: a measure that never varies must not blow up on a new domain


@torch.no_grad()
def fit_feature_scale(judge: EncoderJudge, data: Batcher, rows: int = 4000) -> None:
    """Mean and deviation per role of the net's features, mean of its unit turn embeddings, over
    the first ``rows`` of the training set; each source counts the same."""
    features: dict[tuple[str, int], list[np.ndarray]] = {}
    embeddings: dict[tuple[str, int], list[np.ndarray]] = {}
    for row in range(min(rows, len(data.examples))):
        batch = data.inputs([row]).batch.to(judge.device)
        # of a body still in training: from its first weights
        vectors = data.vectors(row).to(judge.device)
        table = judge.net.raw_features(vectors, batch)[0].cpu().numpy()
        unit = functional.normalize(vectors[0].float(), dim=-1).cpu().numpy()
        for role in (0, 1):
            key, mine = (data.examples[row].source, role), data.encoded[row].roles == role
            features.setdefault(key, []).append(table[mine])
            embeddings.setdefault(key, []).append(unit[mine])
    net = judge.net
    for role in (0, 1):
        tables = _per_source(features, role)
        if tables:
            spread = np.mean([t.std(0) for t in tables], axis=0)
            middle = np.mean([t.mean(0) for t in tables], axis=0)
            net.feature_mean[role, : len(middle)] = torch.tensor(middle)
            net.feature_std[role, : len(spread)] = torch.tensor(np.maximum(spread, _FLOOR))
            means = [t.mean(0) for t in _per_source(embeddings, role)]
            net.embedding_mean[role] = torch.tensor(np.mean(means, axis=0))


def _per_source(found: dict[tuple[str, int], list[np.ndarray]], role: int) -> list[np.ndarray]:
    tables = [np.concatenate(v) for (_, r), v in found.items() if r == role]
    return [table for table in tables if len(table) > 1]
