"""The encoder judge's network: a shared body, nets that look across turns, a head a dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from medal_judges.dimension import Dimension
from medal_judges.models.base.heads import Head
from medal_judges.models.base.turn_features import ALL_FEATURES, turn_similarities
from medal_judges.models.encoder.config import EncoderConfig
from medal_judges.models.encoder.reply import HALVES, ReplyModel, context_of, contrast
from medal_judges.models.encoder.turn_batch import TurnBatch
from medal_judges.models.encoder.turn_nets import (
    LinearNet,
    Logits,
    SequenceNet,
    TurnNet,
    pool_sequence,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_FEATURE_LIMIT = 4.0  # standard deviations; real logs hold 600-turn dialogues and pasted pages


class EncoderNet(nn.Module):
    """``body`` gives token vectors; ``nets`` (the ensemble members) give logits per dimension."""

    def __init__(
        self,
        body: PreTrainedModel,
        hidden: int,
        config: EncoderConfig,
        dimensions: Sequence[Dimension],
    ) -> None:
        super().__init__()
        self.config, self.hidden = config, hidden
        self.body: Any = body  # a module with the attributes of its family
        self.names = [d.name for d in dimensions]
        self.columns = [ALL_FEATURES.index(name) for name in config.features]
        count = len(config.feature_groups) or config.members
        kind = {"transformer": TurnNet, "linear": LinearNet}.get(config.net)
        self.nets = nn.ModuleList(
            SequenceNet(hidden, config, dimensions, body.config)
            if kind is None
            else kind(hidden, config, dimensions)
            for _ in range(count)
        )
        # Share of each member in each dimension's score; 0 where its feature group has no label.
        shares = [[e.weight] for e in config.feature_groups] or [[1.0]] * count
        self.shares: Tensor
        self.register_buffer("shares", torch.tensor(shares).repeat(1, len(self.names)))
        self.reply: nn.ModuleList | None = None
        if config.reply is not None:
            width = config.reply.width
            self.reply = nn.ModuleList(
                ReplyModel(hidden, len(self.columns), width) for _ in range(HALVES)
            )
            self.register_buffer("positive", torch.zeros(len(config.reply.positive), hidden))
            self.register_buffer("negative", torch.zeros(len(config.reply.negative), hidden))
        # Of the training set, per role: a new domain must not be re-centred on itself.
        self.feature_mean: Tensor
        self.feature_std: Tensor
        self.embedding_mean: Tensor
        # One column at least: saving takes empty tensors for one tensor under two names.
        columns = max(1, len(config.feature_names))
        self.register_buffer("feature_mean", torch.zeros(2, columns))
        self.register_buffer("feature_std", torch.ones(2, columns))
        self.register_buffer("embedding_mean", torch.zeros(2, hidden))

    @property
    def heads(self) -> list[dict[str, Head]]:
        """The heads of each member by dimension."""
        return [cast("dict[str, Head]", dict(net.heads.items())) for net in self.nets]  # type: ignore[operator, union-attr]

    def token_vectors(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Last hidden states [P, L, H] of the body."""
        output: Tensor = self.body(input_ids=ids, attention_mask=mask).last_hidden_state
        return output

    def piece_sums(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Sum of token vectors [P, H] and count [P, 1], so that pieces of one turn add up."""
        weights = mask.unsqueeze(-1).float()
        return (self.token_vectors(ids, mask).float() * weights).sum(1), weights.sum(1)

    def sequence_vectors(self, ids: Tensor, mask: Tensor, segments: Tensor, turns: int) -> Tensor:
        """Flat shape: mean token vector of each turn [B, turns, H] of ``ids`` [B, L]; of the whole
        sequence [B, H] for net ``sequence``."""
        vectors = self.token_vectors(ids, mask).float()
        if self.config.net == "sequence":
            return pool_sequence(vectors, mask, self.config.pooling)
        index = segments.clamp_min(0).unsqueeze(-1)
        inside = (segments >= 0).unsqueeze(-1).float()
        empty = vectors.new_zeros(len(ids), turns, vectors.shape[-1])
        total = empty.scatter_add(1, index.expand_as(vectors), vectors * inside)
        count = empty[..., :1].scatter_add(1, index, inside)
        return total / count.clamp_min(1)

    def forward(self, vectors: Tensor, batch: TurnBatch) -> list[tuple[Logits, Logits, Logits]]:
        """(logits, evidence, pooling weights) per dimension, for each member; ``vectors`` as
        ``sequence_vectors`` or the encoded turns give them."""
        if self.config.net == "sequence":
            return [net(vectors) for net in self.nets]
        if self.config.net == "linear":
            vectors, features = self.linear_inputs(vectors, batch)
        else:
            features = self.features(vectors, batch)
        return [net(vectors, features, batch) for net in self.nets]

    def linear_inputs(
        self, vectors: Tensor, batch: TurnBatch, halves: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """(unit embeddings, features), both centred: a side that never speaks adds nothing."""
        unit = functional.normalize(vectors.float(), dim=-1) - self.embedding_mean[batch.roles]
        return unit * batch.mask.unsqueeze(-1), self.features(vectors, batch, halves)

    def combine(self, members: Sequence[Logits], name: str) -> Tensor:
        """The members' weighted mean of dimension ``name``."""
        weights = self.shares[:, self.names.index(name)]
        stacked = torch.stack([member[name].float() for member in members])
        return torch.einsum("m,m...->...", weights / weights.sum(), stacked)

    def measures(self, vectors: Tensor, batch: TurnBatch) -> Tensor:
        """The measures of ``config.features`` [B, T, F] in their own units."""
        similar = turn_similarities(vectors, batch.roles, batch.mask)
        return torch.cat([batch.features, similar], dim=-1)[..., self.columns]

    def standardised(self, raw: Tensor, batch: TurnBatch) -> Tensor:
        """The first columns of the features [B, T, any], by the training set; 0 on padding."""
        mean, std = self.feature_mean[..., : raw.shape[-1]], self.feature_std[..., : raw.shape[-1]]
        z = (raw - mean[batch.roles]) / std[batch.roles]
        return z.clamp(-_FEATURE_LIMIT, _FEATURE_LIMIT) * batch.mask.unsqueeze(-1)

    def raw_features(
        self, vectors: Tensor, batch: TurnBatch, halves: Tensor | None = None
    ) -> Tensor:
        """All features [B, T, F]. ``halves`` [B] names the reply model that reads each dialogue
        (cross-fitting, in training); None is the mean of both."""
        raw = self.measures(vectors, batch)
        if self.reply is None:
            return raw
        reactions = self.reactions(vectors, self.standardised(raw, batch), batch, halves)
        return torch.cat([raw, reactions], dim=-1)

    def reactions(
        self, vectors: Tensor, measures: Tensor, batch: TurnBatch, halves: Tensor | None
    ) -> Tensor:
        """(reaction, expected_reaction) of each turn [B, T, 2]; 0 on the other side's turns."""
        assert self.reply is not None
        unit = functional.normalize(vectors.float(), dim=-1)
        user = (batch.roles == 0) & batch.mask
        said = contrast(unit, self.positive, self.negative) * user  # type: ignore[arg-type]
        now, before, earlier = context_of(unit)
        each = torch.stack(
            [
                model.contrast(  # type: ignore[operator]
                    model.expect(now, before, earlier, measures),  # type: ignore[operator]
                    self.positive,
                    self.negative,
                )
                for model in self.reply
            ]
        )
        if halves is None:
            expected = each.mean(0)
        else:
            expected = each[halves, torch.arange(len(halves), device=halves.device)]
        # The opening turn answers nothing: there is no context to read it in.
        answers = (batch.roles == 1) & batch.mask
        answers[:, 0] = False
        return torch.stack([said, expected * answers], dim=-1)

    def features(self, vectors: Tensor, batch: TurnBatch, halves: Tensor | None = None) -> Tensor:
        """Standardised features [B, T, F], 0 on padding."""
        return self.standardised(self.raw_features(vectors, batch, halves), batch)
