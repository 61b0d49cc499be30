"""The linear net solved in closed form: a ridge regression for each expert and dimension.

With a frozen body and linear heads the best weights are known; epochs would only approach them.
Columns are scaled for the penalty and the scaling folded back, so that the saved net stays one
linear map of turns, and each turn's contribution exact.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from medal_judges.errors import ConfigError
from medal_judges.models.encoder import EncoderJudge
from medal_judges.models.encoder_config import ALL_FEATURES, EncoderConfig, ExpertConfig
from medal_judges.models.encoder_net import LinearNet, by_role
from medal_judges.models.heads import Head
from medal_judges.training.examples import STANDARD_SHARE, Example
from medal_judges.training.model import Batcher

_BATCH = 64


def fit_ridge(judge: EncoderJudge, data: Batcher, embedding_share: float) -> None:
    """Set the weights of every expert's heads in place, and the experts' shares per dimension.

    ``embedding_share`` scales an embedding column against a feature column (both of unit
    deviation) before the penalty: an embedding has hundreds of columns and transfers worse. Each
    expert's answers are stretched to the spread of its targets, since a strong penalty shrinks
    them and the experts are averaged. Raises ConfigError for heads other than regression.
    """
    config, net = judge.config, judge.net
    heads = [head for member in net.nets for head in member.heads.values()]  # type: ignore[union-attr, operator]
    if config.net != "linear" or any(h.config.kind != "regression" for h in heads):
        raise ConfigError(
            "solver: ridge needs net: linear and regression heads",
            hint="set optim.solver: gradient, or model.net: linear",
        )
    table = pooled_table(judge, data)
    experts = config.experts or (ExpertConfig(name="all", sources=()),) * config.members
    for row, (expert, member) in enumerate(zip(experts, net.nets, strict=True)):
        columns = expert_columns(config, expert, table.shape[1] // 2)
        for place, name in enumerate(net.names):
            rows = _labelled(data.examples, expert, name)
            head: Head = member.heads[name]  # type: ignore[union-attr, index, assignment]
            if len(rows) < 2:
                net.shares[row, place] = 0
                continue
            target = np.array([data.examples[i].targets[name] for i in rows], dtype=float)
            weights = [data.examples[i].weight for i in rows]
            scale = columns * _column_scale(table[rows], len(config.features), embedding_share)
            _solve(head, table[rows], target, np.array(weights), expert.alpha, scale)


def pooled_table(judge: EncoderJudge, data: Batcher) -> np.ndarray:
    """Mean user inputs beside mean assistant inputs of each dialogue [n, 2 x width]."""
    net, parts = judge.net, []
    linear = net.nets[0]
    assert isinstance(linear, LinearNet)
    with torch.inference_mode():
        for start in range(0, len(data.examples), _BATCH):
            rows = list(range(start, min(start + _BATCH, len(data.examples))))
            inputs = data.inputs(rows).to(judge.device)
            assert inputs.vectors is not None
            vectors, features = net.linear_inputs(inputs.vectors, inputs.batch)
            split, weights = by_role(
                linear.inputs(vectors, features), inputs.batch.roles, inputs.batch.mask
            )
            parts.append((split * weights.unsqueeze(-1)).sum(1).cpu().double().numpy())
    return np.concatenate(parts)


def expert_columns(config: EncoderConfig, expert: ExpertConfig, half: int) -> np.ndarray:
    """Which of the 2 x ``half`` columns an expert reads [2 x half] bool; features stand first."""
    wanted = config.features if expert.features is None else expert.features
    if unknown := [n for n in wanted if n not in config.features]:
        raise ConfigError(
            f"expert {expert.name!r} reads {unknown}, which model.features does not have",
            hint=f"there are {', '.join(n for n in ALL_FEATURES if n in config.features)}",
        )
    side = [name in wanted for name in config.features] + [True] * (half - len(config.features))
    return np.array(side * 2)


def _labelled(examples: Sequence[Example], expert: ExpertConfig, name: str) -> list[int]:
    return [
        i
        for i, e in enumerate(examples)
        if name in e.targets and (not expert.sources or e.source in expert.sources)
    ]


def _solve(
    head: Head,
    table: np.ndarray,
    target: np.ndarray,
    weights: np.ndarray,
    alpha: float,
    scale: np.ndarray,
) -> None:
    """Ridge of ``target`` [n] on ``table`` [n, W] x ``scale``; writes ``head``'s weight, bias."""
    weights = weights / weights.mean()
    mean = np.average(table, axis=0, weights=weights)
    x = (table - mean) * scale * np.sqrt(weights)[:, None]
    middle = float(np.average(target, weights=weights))
    y = (target - middle) / STANDARD_SHARE * np.sqrt(weights)
    gram = x.T @ x + alpha * np.eye(x.shape[1])
    solved = np.linalg.solve(gram, x.T @ y)
    spread = float(np.std(x @ solved)) or 1.0
    coefficient = solved * scale * STANDARD_SHARE * (float(np.std(y)) / spread)
    with torch.no_grad():
        head.value.weight.copy_(torch.tensor(coefficient)[None])
        head.bias.fill_(middle - float(mean @ coefficient))


def _column_scale(table: np.ndarray, features: int, embedding_share: float) -> np.ndarray:
    """1 / deviation of each feature column; one scale for all embedding columns of a side."""
    deviation = table.std(axis=0)
    half = table.shape[1] // 2
    scale = 1 / np.maximum(deviation, 1e-6)
    for start in (0, half):
        block = slice(start + features, start + half)
        if half > features:
            scale[block] = embedding_share / max(float(deviation[block].mean()), 1e-6)
    return scale
