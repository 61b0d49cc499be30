"""What a family brings to the loop (data, objective, weights that change), and the figures of its
validation: per dimension, averaged over sources."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from medal_judges.models.base.heads import Head
from medal_judges.training.rows import Columns, TrainingExample

Logits = dict[str, Tensor]
Targets = dict[str, tuple[Tensor, Tensor]]


class TrainingData(ABC):
    """Examples as the loop reads them. A family sets ``lengths``, the cost of each example, by
    which batches are cut."""

    lengths: Sequence[int]

    def __init__(self, examples: Sequence[TrainingExample]) -> None:
        self.examples = examples
        # Of mean 1, so that the learning rate does not depend on the unit of the weights.
        weights = Columns.of(examples).weights
        self.weights = weights * len(weights) / weights.sum()

    @abstractmethod
    def inputs(self, rows: Sequence[int]) -> Any:
        """What the objective reads of the examples ``rows``: tensors, or a dict of them."""

    def targets(
        self, rows: Sequence[int], levels: Mapping[str, int], names: Sequence[str]
    ) -> Targets:
        """Per dimension: targets [B] or [B, levels], and the mask of rows that have one."""
        targets: Targets = {}
        chosen = [self.examples[row] for row in rows]
        for name in names:
            missing = np.zeros((levels[name],) if name in levels else (), dtype=np.float32)
            given = [example.targets.get(name) for example in chosen]
            values = [missing if t is None else np.asarray(t, dtype=np.float32) for t in given]
            mask = torch.tensor([t is not None for t in given])
            targets[name] = (torch.from_numpy(np.stack(values)), mask)
        return targets


class Objective(nn.Module):
    """The module that Accelerate wraps: ``forward`` gives the loss of a batch and the members'
    logits. ``net`` is the judge's; ``dimensions`` are those with a head, ``sources`` numbers the
    sources of the examples ``train``."""

    net: Any

    def __init__(
        self,
        net: nn.Module,
        dimensions: Sequence[str] = (),
        train: Sequence[TrainingExample] = (),
    ) -> None:
        super().__init__()
        self.net = net
        self.dimensions = list(dimensions)
        names = sorted({example.source for example in train})
        self.sources = {source: row for row, source in enumerate(names)}

    def logits(self, inputs: Any) -> list[Logits]:
        """Logits [B, outputs] per dimension of each member."""
        raise NotImplementedError

    def learns_from(self, sources: Tensor) -> list[Tensor]:
        """The rows [B] that each member learns from: all."""
        return [torch.ones_like(sources, dtype=torch.bool)] * len(self.net.heads)

    def forward(
        self, inputs: Any, targets: Targets, sources: Tensor, weights: Tensor
    ) -> tuple[Tensor, list[Logits]]:
        """(mean over members of the weighted sum over dimensions of each head's loss, logits).
        Missing labels are left out; members learn side by side."""
        members, learns = self.logits(inputs), self.learns_from(sources)
        losses = []
        for name in self.dimensions:
            target, mask = targets[name]
            each = []
            for heads, logits, mine in zip(self.net.heads, members, learns, strict=True):
                head, known = heads[name], mask & mine
                values = target if target.ndim > 1 else target[:, None]
                values = values.masked_fill(~known[:, None], torch.nan)
                each.append((head.losses(logits[name], values) * weights).mean())
            losses.append(torch.stack(each).mean())
        detached = [{name: one.detach() for name, one in m.items()} for m in members]
        return torch.stack(losses).sum(), detached


class TrainingTask(ABC):
    """A judge in training. ``body`` is the part that learns at ``optim.body_lr``. ``heads`` are the
    first member's by dimension: all members' decode alike; a generative judge has none."""

    judge: Any
    train: TrainingData
    validation: TrainingData
    objective: Objective
    body: Any
    heads: Mapping[str, Head]

    def trained(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The entries of the net's ``state`` that training changes: all by default."""
        return dict(state)

    def solve(self) -> bool:
        """Solve in closed form if the config says so; False: the loop takes steps."""
        return False
