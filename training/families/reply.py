"""Train the reply models: which user turn followed this answer? They read no ratings.

Each of the two learns on half of the conversations (by a hash of the group), so that the model that
reads a training conversation has not learnt from it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from medal_judges.errors import ConfigError
from medal_judges.models.turns.config import ReplyConfig
from medal_judges.models.turns.judge import TurnsJudge
from medal_judges.models.turns.net import HALVES, ReplyModel, context_of
from medal_judges.training.rows import TrainingExample

_MOST_TURNS = 200  # of one conversation: one between two bots must not fill a batch
_BATCH = 32
_LEAST = 2  # answers: a model cannot learn from one


def half_of(group: str, seed: int) -> int:
    """The half that a conversation belongs to."""
    return hashlib.sha256(f"{seed}:{group}".encode()).digest()[0] % HALVES


def other_halves(examples: Sequence[TrainingExample], seed: int) -> Tensor:
    """For each example the number of the reply model that did not learn from it [n]."""
    return torch.tensor([1 - half_of(e.group, seed) for e in examples])


def fit_reply(judge: TurnsJudge, data: Any, seed: int) -> None:
    """Train both reply models in place and set the reactions' vectors.

    Raises ConfigError if one of them has too few answered turns to learn from.
    """
    config = judge.config.reply
    assert config is not None and judge.net.reply is not None
    for name, texts in (("positive", config.positive), ("negative", config.negative)):
        vectors = functional.normalize(judge.embed_texts(texts), dim=-1)
        getattr(judge.net, name).copy_(vectors)
    halves = [half_of(example.group, seed) for example in data.examples]
    for half, model in enumerate(judge.net.reply):
        pairs = _pairs(judge, data, [row for row, other in enumerate(halves) if other == half])
        count = len(pairs[0]) if pairs else 0
        if count < _LEAST:
            raise ConfigError(
                f"the reply models learn from two halves of the conversations, and one of them has "
                f"{count} answers that a user replied to (in {halves.count(half)} dialogues): "
                f"{_LEAST} or more are needed",
                hint="train on more conversations of several turns, or without: model.reply=null",
            )
        assert isinstance(model, ReplyModel)
        _train(model, pairs, config, torch.Generator().manual_seed(seed * HALVES + half))
        if config.half:
            model.half().float()


@torch.no_grad()
def _pairs(judge: TurnsJudge, data: Any, rows: Sequence[int]) -> list[Tensor]:
    """(turn, before, earlier, measures, next turn, number of its text) of every assistant turn that
    a user answered, without the opening turn; empty for no rows."""
    batches: list[list[Tensor]] = []
    for start in range(0, len(rows), _BATCH):
        chosen = list(rows[start : start + _BATCH])
        inputs = data.inputs(chosen)
        vectors, batch = inputs["vectors"], inputs["batch"]
        unit = functional.normalize(vectors.float(), dim=-1)
        measures = judge.net.standardised(judge.net.measures(vectors, batch), batch)
        answered = torch.zeros_like(batch.mask)
        answered[:, 1:-1] = (
            (batch.roles[:, 1:-1] == 1) & (batch.roles[:, 2:] == 0) & batch.mask[:, 2:]
        )
        answered[:, _MOST_TURNS:] = False
        following = torch.cat([unit[:, 1:], unit[:, -1:]], dim=1)
        numbers = data.numbers(chosen)
        numbers = torch.cat([numbers[:, 1:], numbers[:, -1:]], dim=1)
        parts = [*context_of(unit), measures, following, numbers]
        batches.append([part[answered] for part in parts])
    return [torch.cat(column) for column in zip(*batches, strict=True)]


def _train(
    model: ReplyModel, pairs: Sequence[Tensor], config: ReplyConfig, generator: torch.Generator
) -> None:
    """Symmetric InfoNCE over batches; equal replies are not each other's negatives."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.lr, weight_decay=0.05)
    count = len(pairs[0])
    size = min(config.batch_size, count)

    def noisy(vectors: Tensor) -> Tensor:
        return vectors + config.noise * torch.randn(vectors.shape, generator=generator)

    model.train()
    for _ in range(config.epochs):
        order = torch.randperm(count, generator=generator)
        for start in range(0, count - size // 2, size):
            rows = order[start : start + size]
            now, before, earlier, measures, following, number = (p[rows] for p in pairs)
            expected = model.expect(noisy(now), noisy(before), noisy(earlier), measures)
            scores = expected @ model.replies(noisy(following)).T * model.log_sharpness.exp()
            same = (number[:, None] == number[None, :]) & ~torch.eye(len(rows), dtype=torch.bool)
            scores = scores.masked_fill(same, -1e4)
            target = torch.arange(len(rows))
            loss = functional.cross_entropy(scores, target)
            loss = (loss + functional.cross_entropy(scores.T, target)) / 2
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    model.eval()
