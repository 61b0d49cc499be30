"""What a family brings to the loop (data, objective, weights that change), and the figures of its
validation: per dimension, averaged over sources."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from medal_judges.errors import ConfigError
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
                loss = head.loss(logits[name], target, known, weights)
                # A dimension labelled in few rows must not outweigh the rest; and by the weight
                # of those rows, not their number, a batch's loss is the mean of its halves'.
                each.append(loss * (known * weights).mean() * head.config.weight)
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


# -- validation figures ----------


def validation_figures(
    examples: Sequence[TrainingExample],
    predictions: Mapping[str, np.ndarray],
    binary: Collection[str],
) -> dict[str, float]:
    """``spearman/DIM`` and ``auc/DIM`` (binary dimensions), each the mean over the sources where it
    is defined, and their means over dimensions ``spearman`` and ``auc``.

    ``predictions`` maps a dimension to a score per example [n].
    """
    from scipy.stats import spearmanr
    from sklearn.metrics import roc_auc_score

    figures: dict[str, float] = {}
    for name, scores in predictions.items():
        rows: dict[str, list[tuple[float, float]]] = {}
        for example, score in zip(examples, scores, strict=True):
            if name in example.human:
                rows.setdefault(example.source, []).append((example.human[name], float(score)))
        found = []
        for pairs in rows.values():
            human, score = np.array(pairs).T
            label = human >= 0.5 if name in binary else human
            if len(set(label)) < 2 or len(set(score)) < 2:
                continue
            if name in binary:
                found.append(roc_auc_score(label, score))
            else:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found.append(spearmanr(human, score).statistic)
        if found:
            figures[f"{'auc' if name in binary else 'spearman'}/{name}"] = float(np.mean(found))
    return figures | means_over_dimensions(figures)


def means_over_dimensions(figures: Mapping[str, float]) -> dict[str, float]:
    """The means ``spearman`` and ``auc`` of the figures of single dimensions."""
    means = {}
    for kind in ("spearman", "auc"):
        if values := [v for k, v in figures.items() if k.startswith(f"{kind}/")]:
            means[kind] = float(np.mean(values))
    return means


def watched(figures: Mapping[str, float], metric: str) -> float:
    """The figure that early stopping watches. Raises ConfigError for an unknown name."""
    if metric not in figures:
        raise ConfigError(
            f"stop.metric {metric!r} is not a figure of this run's validation",
            hint=f"there are: {', '.join(sorted(figures))}",
        )
    return figures[metric]
