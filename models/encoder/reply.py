"""Reactions: how the user reacts to an answer, and how a user would be expected to react.

An answer is good if "Tell me more about that." is a likelier next turn than "That makes no sense."
This is DIET's idea of follow-ups on turn embeddings instead of a language model: user turns are
compared with positive and negative reactions, and for assistant turns a small model predicts the
next user turn. It learns from conversations alone, without ratings, and is cross-fitted over two
halves of the training groups.
"""

from __future__ import annotations

import math

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from medal_judges.config import Config

REACTION_NAMES = (
    "reaction",  # user turns: log-mean similarity to positive less negative reactions
    "expected_reaction",  # assistant turns: the same of the reaction that the reply model expects
)
HALVES = 2  # each reply model learns from one half, and reads the other half in training
_SHARPNESS = 10.0  # of the contrast on user turns; the reply model learns its own
_VECTOR, _PRODUCT = 6.0, 60.0  # scale entries and products of entries to a similar size


class ReplyConfig(Config):
    """``positive`` and ``negative`` are short user reactions, in our own words; ``width``,
    ``epochs``, ``lr`` and ``noise`` are for its training (training/encoder/reply.py). ``half``: the
    weights are rounded to half precision before anything is fitted on them, and saved so."""

    positive: tuple[str, ...] = Field(min_length=1)
    negative: tuple[str, ...] = Field(min_length=1)
    width: int = Field(default=256, ge=1)
    epochs: int = Field(default=5, ge=1)
    batch_size: int = Field(default=1024, ge=2)
    lr: float = Field(default=1e-3, gt=0)
    noise: float = Field(default=0.02, ge=0)
    half: bool = False


class ReplyModel(nn.Module):
    """From an assistant turn, the two turns before it and its measures to a unit vector
    near the user's next turn."""

    def __init__(self, hidden: int, features: int, width: int) -> None:
        super().__init__()
        self.answer = nn.Linear(hidden, hidden, bias=False)
        self.next_turn = nn.Linear(hidden, hidden, bias=False)
        for layer in (self.answer, self.next_turn):  # begins as the identity
            nn.init.zeros_(layer.weight)
            layer.weight.data.diagonal().fill_(1.0)
        self.context = nn.Sequential(
            nn.Linear(4 * hidden + features, width),
            nn.GELU(),
            nn.Dropout(0.2),
            nn.Linear(width, hidden),
        )
        last = self.context[3]
        nn.init.zeros_(last.weight)  # type: ignore[arg-type]
        nn.init.zeros_(last.bias)  # type: ignore[arg-type]
        self.log_sharpness = nn.Parameter(torch.tensor(2.5))

    def expect(self, now: Tensor, before: Tensor, earlier: Tensor, measures: Tensor) -> Tensor:
        """Returns unit vectors [..., H] for unit turn vectors [..., H] and measures [..., F]."""
        products = [_PRODUCT * now * before, _PRODUCT * now * earlier]
        inputs = [_VECTOR * now, _VECTOR * before, *products, measures]
        return functional.normalize(self.answer(now) + self.context(torch.cat(inputs, -1)), dim=-1)

    def replies(self, vectors: Tensor) -> Tensor:
        """Returns turn vectors [..., H] in the space of ``expect``."""
        return functional.normalize(self.next_turn(vectors), dim=-1)

    def contrast(self, expected: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Returns the log-mean likelihood of positive less negative reactions [...]."""
        sharpness = self.log_sharpness.exp()
        return contrast(expected, self.replies(positive), self.replies(negative), sharpness)


def contrast(
    vectors: Tensor, positive: Tensor, negative: Tensor, sharpness: Tensor | float = _SHARPNESS
) -> Tensor:
    """Returns log mean exp(s cos) over ``positive`` [P, H] less that over ``negative`` [N, H]."""

    def log_mean(reactions: Tensor) -> Tensor:
        scores = vectors @ reactions.T * sharpness
        return torch.logsumexp(scores, dim=-1) - math.log(len(reactions))

    return log_mean(positive) - log_mean(negative)


def context_of(unit: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns (turn, turn before, turn before that) of unit turn vectors [B, T, H]; a missing turn
    is replaced by the first one, so that nothing is far away."""
    before = torch.cat([unit[:, :1], unit[:, :-1]], dim=1)
    earlier = torch.cat([unit[:, :2], unit[:, :-2]], dim=1)[:, : unit.shape[1]]
    return unit, before, earlier
