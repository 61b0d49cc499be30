"""One vector for the whole dialogue, then a dense layer and the heads: a plain sequence classifier.

The layers are those of transformers' ``...ForSequenceClassification`` of the body's kind, so that
``medal export`` can hand the judge on as such a model (models/encoder/hf_export.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from medal_judges.dimension import Dimension
from medal_judges.models.base.heads import Head, default_head
from medal_judges.models.encoder.config import EncoderConfig

Logits = dict[str, Tensor]


class SequenceNet(nn.Module):
    """Pooled vector -> dense -> activation (-> norm) -> a linear head a dimension.

    ModernBERT: its prediction head (dense, GELU, norm). All others: BERT's pooler (dense, tanh).
    There are no contributions of single turns: the evidence has no columns.
    """

    def __init__(
        self, hidden: int, config: EncoderConfig, dimensions: Sequence[Dimension], body: Any
    ) -> None:
        super().__init__()
        self.dense = nn.Linear(hidden, hidden, bias=getattr(body, "classifier_bias", True))
        self.activation, self.norm = _after_dense(hidden, body)
        self.dropout = nn.Dropout(config.dropout)
        self.heads = nn.ModuleDict(
            {
                d.name: Head(d, config.heads.get(d.name, default_head(d)), hidden, attention=False)
                for d in dimensions
            }
        )

    def forward(self, pooled: Tensor) -> tuple[Logits, Logits, Logits]:
        """Logits {dimension: [B, outputs]} of ``pooled`` [B, H]; evidence and weights [B, 0]."""
        state = self.dropout(self.norm(self.activation(self.dense(pooled)))).unsqueeze(1)
        one = state.new_ones(len(state), 1)
        logits = {name: head(state, one)[0] for name, head in self.heads.items()}
        none = {name: state.new_zeros(len(state), 0) for name in logits}
        return logits, none, none


def _after_dense(hidden: int, body: Any) -> tuple[nn.Module, nn.Module]:
    if body.model_type != "modernbert":
        return nn.Tanh(), nn.Identity()
    from transformers.activations import ACT2FN

    norm = nn.LayerNorm(hidden, eps=body.norm_eps, bias=body.norm_bias)
    return ACT2FN[body.classifier_activation], norm


def pool_sequence(vectors: Tensor, mask: Tensor, pooling: str) -> Tensor:
    """One vector [B, H] of token vectors [B, L, H]: the first (``cls``) or their ``mean``."""
    if pooling == "cls":
        return vectors[:, 0]
    weights = mask.unsqueeze(-1).to(vectors.dtype)
    return (vectors * weights).sum(1) / weights.sum(1)
