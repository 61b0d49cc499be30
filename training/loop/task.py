"""What a family of judges brings to the loop: its data, its objective, the weights it changes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from medal_judges.models.base.heads import Head
from medal_judges.training.rows.examples import TrainingExample, weights_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Targets = dict[str, tuple[Tensor, Tensor]]


class ModelInputs(Protocol):
    """What a net reads of one batch."""

    def to(self, device: torch.device) -> ModelInputs: ...


class TrainableJudge(Protocol):
    """What the loop needs of a judge: a net that learns, and the device that the net is on."""

    device: torch.device

    @property
    def net(self) -> nn.Module: ...


class HeadedNet(Protocol):
    """A net with a head for each dimension, in each of its members."""

    @property
    def heads(self) -> list[dict[str, Head]]: ...

    def combine(self, members: Sequence[dict[str, Tensor]], name: str) -> Tensor: ...


InputsT = TypeVar("InputsT", bound=ModelInputs)


class TrainingData(ABC, Generic[InputsT]):
    """Examples as the loop reads them; a family writes ``lengths`` (the cost of each example, by
    which batches are cut) and ``inputs``."""

    lengths: Sequence[int]

    def __init__(self, examples: Sequence[TrainingExample]) -> None:
        self.examples = examples
        # Of mean 1, so that the learning rate does not depend on the unit of the weights.
        weights = weights_of(examples)
        self.weights = weights * len(weights) / weights.sum()

    @abstractmethod
    def inputs(self, rows: Sequence[int]) -> InputsT:
        """What the objective reads of the examples ``rows``."""

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


class Objective(nn.Module, ABC, Generic[InputsT]):
    """A module whose ``forward`` gives the loss of a batch and the members' logits.

    It is what Accelerate wraps: ``net`` is the judge's, and ``dimensions`` are those with a head.
    """

    def __init__(
        self, net: nn.Module, dimensions: Sequence[str] = (), sources: Sequence[str] = ()
    ) -> None:
        super().__init__()
        self.net = net
        self.dimensions = list(dimensions)
        self.sources = {source: row for row, source in enumerate(sources)}

    @abstractmethod
    def forward(
        self, inputs: InputsT, targets: Targets, sources: Tensor, weights: Tensor
    ) -> tuple[Tensor, list[dict[str, Tensor]]]:
        """(loss, logits [B, outputs] per dimension of each member)."""

    def heads(self) -> list[dict[str, Head]]:
        """The heads of each member by dimension."""
        return [{}]

    def combine(self, members: Sequence[dict[str, Tensor]], name: str) -> Tensor:
        """The members' logits of dimension ``name`` as one."""
        raise NotImplementedError


class HeadsObjective(Objective[InputsT]):
    """The heads' losses summed over dimensions, missing labels left out; members learn side by
    side. ``offsets``: an offset for each source and dimension is learnt beside the net, and is not
    saved with it. A family writes ``logits``.
    """

    net: HeadedNet  # type: ignore[assignment]  # and a module

    def __init__(
        self, net: nn.Module, dimensions: Sequence[str], sources: Sequence[str], offsets: bool
    ) -> None:
        super().__init__(net, dimensions, sources)
        shape = (len(sources), len(self.dimensions))
        self.offset = nn.Parameter(torch.zeros(shape)) if offsets else None

    @abstractmethod
    def logits(self, inputs: InputsT) -> list[dict[str, Tensor]]:
        """Logits [B, outputs] per dimension of each member."""

    def heads(self) -> list[dict[str, Head]]:
        return self.net.heads

    def combine(self, members: Sequence[dict[str, Tensor]], name: str) -> Tensor:
        return self.net.combine(members, name)

    def learns_from(self, sources: Tensor) -> list[Tensor]:
        """For each member the rows [B] that it learns from: all."""
        return [torch.ones_like(sources, dtype=torch.bool)] * len(self.heads())

    def forward(
        self, inputs: InputsT, targets: Targets, sources: Tensor, weights: Tensor
    ) -> tuple[Tensor, list[dict[str, Tensor]]]:
        """(mean over members of the weighted sum over dimensions of each head's loss, logits)."""
        members, learns = self.logits(inputs), self.learns_from(sources)
        losses = []
        for column, name in enumerate(self.dimensions):
            target, mask = targets[name]
            offset = 0.0 if self.offset is None else self.offset[sources, column].unsqueeze(-1)
            each = []
            for heads, logits, mine in zip(self.heads(), members, learns, strict=True):
                head, known = heads[name], mask & mine
                loss = head.loss(logits[name] + offset, target, known, weights)
                # A dimension labelled in few rows must not outweigh the rest; and with the weight
                # of those rows, not their number, a batch's loss is the mean of its halves'.
                each.append(loss * (known * weights).mean() * head.config.weight)
            losses.append(torch.stack(each).mean())
        detached = [{name: one.detach() for name, one in m.items()} for m in members]
        return torch.stack(losses).sum(), detached


class TrainingTask(ABC):
    """One judge in training. ``body`` is the part that learns at ``optim.body_lr``; the judge is on
    its device once the task is made."""

    judge: TrainableJudge
    train: TrainingData[Any]
    validation: TrainingData[Any]
    objective: Objective[Any]
    body: PreTrainedModel  # or PEFT's wrapper of one

    @property
    def heads(self) -> Mapping[str, Head]:
        """The first member's head per dimension: all members' decode alike."""
        return self.objective.heads()[0]

    def trained(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Of the net's ``state`` what training changes: all, unless a family says otherwise."""
        return dict(state)

    def solve(self) -> bool:
        """Solve in closed form where the config asks for it; False: the loop takes steps."""
        return False
