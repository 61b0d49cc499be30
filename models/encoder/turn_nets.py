"""The members of an encoder judge's ensemble: from turn vectors, or one vector, to logits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from medal_judges.dimension import Dimension
from medal_judges.models.base.heads import heads_of
from medal_judges.models.encoder.config import EncoderConfig
from medal_judges.models.encoder.turn_batch import TurnBatch

if TYPE_CHECKING:
    from transformers import PretrainedConfig

Logits = dict[str, Tensor]


class LinearNet(nn.Module):
    """Heads straight on each turn's embedding and features: a linear model of their means."""

    def __init__(self, hidden: int, config: EncoderConfig, dimensions: Sequence[Dimension]) -> None:
        super().__init__()
        self.embedding = config.embedding
        width = 2 * (len(config.feature_names) + (hidden if config.embedding else 0))
        attention = config.pooling == "attention"
        self.heads = heads_of(dimensions, config.heads, width, attention=attention)

    def inputs(self, vectors: Tensor, features: Tensor) -> Tensor:
        """What a turn is to the heads [B, T, W/2]: features, then its embedding."""
        return torch.cat([features, vectors], dim=-1) if self.embedding else features

    def forward(
        self, vectors: Tensor, features: Tensor, batch: TurnBatch
    ) -> tuple[Logits, Logits, Logits]:
        """See TurnNet.forward."""
        split, weights = by_role(self.inputs(vectors, features), batch.roles, batch.mask)
        return _apply(self.heads, split, weights)


class TurnNet(nn.Module):
    """Turn vectors and features to logits: a few transformer layers over turns, then the heads."""

    def __init__(self, hidden: int, config: EncoderConfig, dimensions: Sequence[Dimension]) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.embed = nn.Linear(hidden, width) if config.embedding else None
        self.embed_norm = nn.LayerNorm(hidden) if config.embedding else None
        self.embed_dropout = nn.Dropout(config.embedding_dropout)
        count = len(config.feature_names)
        self.measure = nn.Linear(count, width) if count else None
        self.role = nn.Embedding(2, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width,
                config.attention_heads,
                2 * width,
                config.dropout,
                batch_first=True,
                norm_first=True,
            )
            for _ in range(config.layers)
        )
        self.turn = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Dropout(config.dropout)
        )
        skip = count if config.skip else 0
        attention = config.pooling == "attention"
        self.heads = heads_of(dimensions, config.heads, 2 * (width + skip), attention=attention)

    def forward(
        self, vectors: Tensor, features: Tensor, batch: TurnBatch
    ) -> tuple[Logits, Logits, Logits]:
        """Logits {dimension: [B, outputs]}, evidence and pooling weights {dimension: [B, T]}."""
        mask = batch.mask
        if self.training and self.config.turn_dropout:
            keep = torch.rand(mask.shape, device=mask.device) >= self.config.turn_dropout
            keep[:, :2] = True  # never an empty dialogue
            mask = mask & keep
        state = self.role(batch.roles)
        if self.embed is not None and self.embed_norm is not None:
            state = state + self.embed(self.embed_dropout(self.embed_norm(vectors)))
        if self.measure is not None:
            state = state + self.measure(features)
        for layer in self.layers:
            state = layer(state, src_key_padding_mask=~mask)
        state = self.turn(state)
        if self.config.feature_names and self.config.skip:
            state = torch.cat([state, features], dim=-1)
        split, weights = by_role(state, batch.roles, mask)
        return _apply(self.heads, split, weights)


def _apply(heads: nn.ModuleDict, split: Tensor, weights: Tensor) -> tuple[Logits, Logits, Logits]:
    answers = {name: head(split, weights) for name, head in heads.items()}
    logits, evidence, pooling = ({k: v[i] for k, v in answers.items()} for i in range(3))
    return logits, evidence, pooling


def by_role(state: Tensor, roles: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Turn vectors [B, T, 2W] (user half, assistant half), weights [B, T] = 1 / turns of the role.

    A sum with these weights is the mean over user turns beside the mean over assistant turns.
    """
    assistant = (roles == 1).unsqueeze(-1)
    split = torch.cat([state * ~assistant, state * assistant], dim=-1)
    counts = torch.stack([((roles == r) & mask).sum(-1) for r in (0, 1)], dim=-1).clamp_min(1)
    weights = mask.float() / counts.gather(1, roles).float()
    return split, weights


class SequenceNet(nn.Module):
    """One vector of the dialogue -> dense -> activation (-> norm) -> a linear head a dimension.

    ModernBERT: its prediction head (dense, GELU, norm). All others: BERT's pooler (dense, tanh).
    The layers are those of transformers' ``...ForSequenceClassification`` of the body's kind, so
    that ``medal export`` can hand the judge on as such a model (models/encoder/hf_export.py). There
    are no contributions of single turns: the evidence has no columns.
    """

    def __init__(
        self,
        hidden: int,
        config: EncoderConfig,
        dimensions: Sequence[Dimension],
        body: PretrainedConfig,
    ) -> None:
        super().__init__()
        self.dense = nn.Linear(hidden, hidden, bias=getattr(body, "classifier_bias", True))
        self.activation: nn.Module = nn.Tanh()
        self.norm: nn.Module = nn.Identity()
        if body.model_type == "modernbert":
            from transformers.activations import ACT2FN

            self.activation = ACT2FN[body.classifier_activation]
            self.norm = nn.LayerNorm(hidden, eps=body.norm_eps, bias=body.norm_bias)
        self.dropout = nn.Dropout(config.dropout)
        self.heads = heads_of(dimensions, config.heads, hidden)

    def forward(self, pooled: Tensor) -> tuple[Logits, Logits, Logits]:
        """Logits {dimension: [B, outputs]} of ``pooled`` [B, H]; evidence and weights [B, 0]."""
        state = self.dropout(self.norm(self.activation(self.dense(pooled)))).unsqueeze(1)
        one = state.new_ones(len(state), 1)
        logits = {name: head(state, one)[0] for name, head in self.heads.items()}
        none = {name: state.new_zeros(len(state), 0) for name in logits}
        return logits, none, none


def pool_sequence(vectors: Tensor, mask: Tensor, pooling: str) -> Tensor:
    """One vector [B, H] of token vectors [B, L, H]: the first (``cls``) or their ``mean``."""
    if pooling == "cls":
        return vectors[:, 0]
    weights = mask.unsqueeze(-1).to(vectors.dtype)
    return (vectors * weights).sum(1) / weights.sum(1)
