"""What the net subtracts from and divides its features by, fitted once on the training set."""

from __future__ import annotations

import numpy as np
import torch

from medal_judges.models.encoder import EncoderJudge
from medal_judges.models.similarity import turn_similarities
from medal_judges.training.model import Batcher


def fit_feature_scale(judge: EncoderJudge, data: Batcher, rows: int = 4000) -> None:
    """Mean and deviation per role of the net's features, over the first ``rows`` of the training
    set, each source counting the same."""
    seen: dict[str, dict[int, list[np.ndarray]]] = {}
    device = judge.device
    for row in range(min(rows, len(data.examples))):
        inputs = data.inputs([row])
        vectors = inputs.vectors
        if vectors is None:  # similarities of a body still in training: from its first weights
            vectors = judge.embed_texts(data.encoded[row].texts).unsqueeze(0)
        batch = inputs.batch
        similar = turn_similarities(
            vectors.to(device), batch.roles.to(device), batch.mask.to(device)
        )
        table = torch.cat([batch.features, similar.cpu()], dim=-1)[0].numpy()
        for role in (0, 1):
            found = table[data.encoded[row].roles == role]
            seen.setdefault(data.examples[row].source, {}).setdefault(role, []).append(found)
    for role in (0, 1):
        tables = [np.concatenate(v[role]) for v in seen.values() if sum(map(len, v[role])) > 1]
        if tables:
            judge.net.feature_mean[role] = torch.tensor(
                np.mean([t.mean(0) for t in tables], axis=0)
            )
            spread = np.mean([t.std(0) for t in tables], axis=0)
            judge.net.feature_std[role] = torch.tensor(np.maximum(spread, 1e-3))
