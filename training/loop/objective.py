"""What is optimised, whatever the family: a loss per dimension, summed, missing labels left out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from medal_judges.models.base.heads import Head
from medal_judges.training.rows.example_store import weights_of
from medal_judges.training.rows.examples import Example

Targets = dict[str, tuple[Tensor, Tensor]]


class Objective(nn.Module):
    """``forward`` gives (loss, the members' logits) of ``net``; members learn side by side.

    ``offsets``: an offset a source and dimension is learnt beside the net and stays behind.
    """

    def __init__(
        self, net: nn.Module, dimensions: Sequence[str], sources: Sequence[str], offsets: bool
    ) -> None:
        super().__init__()
        self.net: Any = net  # a module with the attributes of its family
        self.dimensions = list(dimensions)
        self.sources = {source: row for row, source in enumerate(sources)}
        shape = (len(sources), len(self.dimensions))
        self.offset = nn.Parameter(torch.zeros(shape)) if offsets else None

    def logits(self, inputs: Any) -> list[dict[str, Tensor]]:
        """Logits [B, outputs] per dimension of each member."""
        raise NotImplementedError

    def heads(self) -> list[dict[str, Head]]:
        """The heads of each member by dimension."""
        found: list[dict[str, Head]] = self.net.heads
        return found

    def seen(self, sources: Tensor) -> list[Tensor]:
        """For each member the rows [B] that it learns from: all."""
        return [torch.ones_like(sources, dtype=torch.bool)] * len(self.heads())

    def forward(
        self, inputs: Any, targets: Targets, sources: Tensor, weights: Tensor
    ) -> tuple[Tensor, list[dict[str, Tensor]]]:
        """(mean over members of the weighted sum over dimensions of each head's loss, logits)."""
        members, seen = self.logits(inputs), self.seen(sources)
        parts: dict[str, Tensor] = {}
        for column, name in enumerate(self.dimensions):
            target, mask = targets[name]
            losses = [
                self._loss(heads[name], m[name], target, mask & mine, sources, column, weights)
                for heads, m, mine in zip(self.heads(), members, seen, strict=True)
            ]
            parts[name] = torch.stack(losses).mean()
        found = [{name: logits.detach() for name, logits in m.items()} for m in members]
        return torch.stack(list(parts.values())).sum(), found

    def _loss(
        self,
        head: Head,
        logits: Tensor,
        target: Tensor,
        mask: Tensor,
        sources: Tensor,
        column: int,
        weights: Tensor,
    ) -> Tensor:
        if self.offset is not None:
            logits = logits + self.offset[sources, column].unsqueeze(-1)
        # A dimension labelled in few rows must not outweigh the rest; and with the weight of those
        # rows, not their number, the loss of a batch is the mean of its halves' losses.
        share = (mask * weights).mean()
        return head.loss(logits, target, mask, weights) * share * head.config.weight


class Data(ABC):
    """Examples as the loop reads them; a family writes ``lengths`` and ``inputs``."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self.examples = examples
        # Of mean 1, so that the rate of learning does not depend on the unit they were given in.
        weights = weights_of(examples)
        self.weights = weights * len(weights) / weights.sum()

    @property
    @abstractmethod
    def lengths(self) -> Sequence[int]:
        """Cost of each example, by which batches are cut."""

    @abstractmethod
    def inputs(self, rows: Sequence[int]) -> Any:
        """What the objective reads of the examples ``rows``; it has ``.to(device)``."""

    def targets(
        self, rows: Sequence[int], levels: Mapping[str, int], names: Sequence[str]
    ) -> Targets:
        """Per dimension: targets [B] or [B, levels], and the mask of rows that have one."""
        found: Targets = {}
        chosen = [self.examples[row] for row in rows]
        for name in names:
            shape = (levels[name],) if name in levels else ()
            empty = np.zeros(shape, dtype=np.float32)
            there = [example.targets.get(name) for example in chosen]
            values = [empty if t is None else np.asarray(t, dtype=np.float32) for t in there]
            mask = torch.tensor([t is not None for t in there])
            found[name] = (torch.from_numpy(np.stack(values)), mask)
        return found
