"""Reactions: what the user says next, and what a user could be expected to say.

A chatbot's answer is good when "Tell me more about that." would follow rather than "That makes no
sense." The contrast of positive and negative reactions is DIET's idea of follow-ups (likelihood of
what comes next) carried from language models to turn embeddings: on user turns it is read off what
was really said, on assistant turns off a small model of the next user turn, learnt from
conversations alone, without any rating.
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
HALVES = 2  # two reply models, each learnt on half of the conversations, so that a training
# conversation can be read by the one that has not seen it
_SHARPNESS = 10.0  # of the contrast on user turns; the reply model learns its own
_VECTOR, _PRODUCT = 6.0, 60.0  # bring entries and products of entries to a like size


class ReplyConfig(Config):
    """``positive`` and ``negative`` are short user reactions, in our own words; ``width``,
    ``epochs``, ``lr`` and ``noise`` are of its training (training/encoder/reply.py). ``half``: what
    was learnt is rounded to half precision before anything is fitted on it, and saved so."""

    positive: tuple[str, ...] = Field(min_length=1)
    negative: tuple[str, ...] = Field(min_length=1)
    width: int = Field(default=256, ge=1)
    epochs: int = Field(default=5, ge=1)
    batch_size: int = Field(default=1024, ge=2)
    lr: float = Field(default=1e-3, gt=0)
    noise: float = Field(default=0.02, ge=0)
    half: bool = False


class ReplyModel(nn.Module):
    """From an assistant turn in its context to a unit vector near the user's next turn.

    Context: the turn before, the one before that, and the turn's standardised measures.
    """

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
        """Unit vectors [..., H] of unit turn vectors [..., H] and measures [..., F]."""
        products = [_PRODUCT * now * before, _PRODUCT * now * earlier]
        inputs = [_VECTOR * now, _VECTOR * before, *products, measures]
        return functional.normalize(self.answer(now) + self.context(torch.cat(inputs, -1)), dim=-1)

    def replies(self, vectors: Tensor) -> Tensor:
        """Turn vectors [..., H] in the space of ``expect``."""
        return functional.normalize(self.next_turn(vectors), dim=-1)

    def contrast(self, expected: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Log-mean likelihood of positive less negative reactions [...]."""
        sharpness = self.log_sharpness.exp()
        return contrast(expected, self.replies(positive), self.replies(negative), sharpness)


def contrast(
    vectors: Tensor, positive: Tensor, negative: Tensor, sharpness: Tensor | float = _SHARPNESS
) -> Tensor:
    """log mean exp(s cos) over ``positive`` [P, H] less the same over ``negative`` [N, H]."""

    def log_mean(reactions: Tensor) -> Tensor:
        scores = vectors @ reactions.T * sharpness
        return torch.logsumexp(scores, dim=-1) - math.log(len(reactions))

    return log_mean(positive) - log_mean(negative)


def context_of(unit: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(turn, turn before, turn before that) of unit turn vectors [B, T, H].

    Where there is no turn before that, the turn itself stands in, so that nothing is far away.
    """
    before = torch.cat([unit[:, :1], unit[:, :-1]], dim=1)
    earlier = torch.cat([unit[:, :2], unit[:, :-2]], dim=1)[:, : unit.shape[1]]
    return unit, before, earlier
