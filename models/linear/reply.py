"""Scores how the user reacts to an answer, how a user is expected to react, and whether the user's
next turn follows the answer.

An answer is good if "Tell me more about that." is a likelier next turn than "That makes no sense."
This is DIET's idea of follow-ups, with turn vectors instead of a language model. User turns are
compared with positive and negative reactions. For assistant turns, a small model predicts the
vector of the next user turn. If the user's real next turn fits this prediction no better than the
reactions do, the answer probably belongs to another question. The model learns from dialogues
alone, without ratings, and is cross-fitted over two halves of the training groups.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from medal_judges.models.base.saving import require_same_keys
from medal_judges.models.linear.config import ReplyConfig

HALVES = (
    2  # each reply model learns from one half, and reads the other half in training
)
_SHARPNESS = 10.0  # of the contrast on user turns; the reply model learns its own
_VECTOR, _PRODUCT = 6.0, 60.0  # scale entries and products of entries to a similar size


class ReplyModel(nn.Module):
    """Predicts the vector of the user's next turn.

    It maps an assistant turn, the two turns before it and its features to a unit vector.
    """

    def __init__(self, hidden: int, features: int, width: int) -> None:
        super().__init__()
        self.answer = nn.Linear(hidden, hidden, bias=False)
        self.next_turn = nn.Linear(hidden, hidden, bias=False)
        for layer in (self.answer, self.next_turn):
            nn.init.eye_(layer.weight)
        self.context = nn.Sequential(
            nn.Linear(4 * hidden + features, width),
            nn.GELU(),
            nn.Dropout(0.2),
            nn.Linear(width, hidden),
        )
        for parameter in self.context[3].parameters():
            nn.init.zeros_(parameter)
        self.log_sharpness = nn.Parameter(torch.tensor(2.5))

    def forward(self, turn: Tensor, before: Tensor, earlier: Tensor) -> Tensor:
        """Returns what ``expect`` reads of unit turn vectors [..., H]: [..., H + width]."""
        products = [_PRODUCT * turn * before, _PRODUCT * turn * earlier]
        inputs = torch.cat([_VECTOR * turn, _VECTOR * before, *products], -1)
        weight = self.context.get_parameter("0.weight")[:, : inputs.shape[-1]]
        bias = self.context.get_parameter("0.bias")
        hidden = functional.linear(inputs, weight, bias)
        return torch.cat([self.answer(turn), hidden], -1)

    def expect(self, reading: Tensor, measures: Tensor) -> Tensor:
        """Returns the expected replies: unit vectors [..., H], from the ``reading`` of turns and
        their features [..., F]."""
        size = self.answer.out_features
        weight = self.context.get_parameter("0.weight")[:, 4 * size :]
        hidden = reading[..., size:] + measures @ weight.T
        replies = reading[..., :size] + self.context[1:](hidden)
        return functional.normalize(replies, dim=-1)

    def replies(self, vectors: Tensor) -> Tensor:
        """Returns turn vectors [..., H] mapped to the space of ``expect``."""
        return functional.normalize(self.next_turn(vectors), dim=-1)

    def contrast(self, expected: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Returns the log-mean likelihood of positive reactions minus that of negative reactions
        [...]."""
        sharpness = self.log_sharpness.exp()
        return contrast(
            expected, self.replies(positive), self.replies(negative), sharpness
        )

    def fit(self, expected: Tensor, turns: Tensor, reactions: Tensor) -> Tensor:
        """Returns the log-likelihood of ``turns`` [..., H] where ``expected`` [..., H] replies are,
        minus the log-mean likelihood of ``reactions`` [R, H]."""
        sharpness = self.log_sharpness.exp()
        likelihood = (expected * self.replies(turns)).sum(-1) * sharpness
        return likelihood - log_mean(expected, self.replies(reactions), sharpness)


def contrast(
    vectors: Tensor,
    positive: Tensor,
    negative: Tensor,
    sharpness: Tensor | float = _SHARPNESS,
) -> Tensor:
    """Returns log mean exp(s cos) over ``positive`` [P, H] minus the same over ``negative`` [N,
    H]."""
    return log_mean(vectors, positive, sharpness) - log_mean(
        vectors, negative, sharpness
    )


def log_mean(vectors: Tensor, others: Tensor, sharpness: Tensor | float) -> Tensor:
    """Returns log mean exp(s cos) of ``vectors`` [..., H] over ``others`` [N, H]."""
    scores = vectors @ others.T * sharpness
    return torch.logsumexp(scores, dim=-1) - math.log(len(others))


def context_of(unit: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns (turn, turn before, turn before that) for unit turn vectors [T, H]; a turn before the
    beginning is replaced by the first turn."""
    before = torch.cat([unit[:1], unit[:-1]])
    earlier = torch.cat([unit[:2], unit[:-2]])[: len(unit)]
    return unit, before, earlier


class Reactions(nn.Module):
    """The two reply models, and the unit vectors of positive [P, H] and negative [N, H]
    reactions."""

    positive: Tensor
    negative: Tensor

    def __init__(self, config: ReplyConfig, hidden: int, features: int) -> None:
        super().__init__()
        self.is_half = config.half
        self.models = nn.ModuleList(
            ReplyModel(hidden, features, config.width) for _ in range(HALVES)
        )
        self.register_buffer("positive", torch.zeros(len(config.positive), hidden))
        self.register_buffer("negative", torch.zeros(len(config.negative), hidden))
        self.eval()

    @torch.inference_mode()
    def read(self, unit: np.ndarray) -> Tensor:
        """Returns what each reply model reads of the turns of a dialogue [T, models, H + width]."""
        context = context_of(torch.from_numpy(unit).float())
        return torch.stack([model(*context) for model in self.models], 1)

    @torch.inference_mode()
    def columns(
        self,
        unit: np.ndarray,
        context: Tensor,
        measures: np.ndarray,
        roles: np.ndarray,
        half: int | None,
    ) -> np.ndarray:
        """Returns REACTION_NAMES of each turn [T, 3], 0 for turns of the other side; ``context``:
        see ``read``. ``half`` selects the reply model (in training); None uses the mean of both."""
        columns = np.zeros((len(roles), 3))
        vectors = torch.from_numpy(unit).float()
        users = vectors[roles == 0]
        columns[roles == 0, 0] = contrast(users, self.positive, self.negative)
        answers = roles == 1
        answers[:1] = False  # the opening turn answers nothing: it has no context
        has_reply = answers & np.append(roles[1:] == 0, False)
        is_reply = np.roll(has_reply, 1)
        reactions = torch.cat([self.positive, self.negative])
        inputs = torch.from_numpy(measures[answers]).float()
        expected, fits = [], []
        for number in range(HALVES) if half is None else [half]:
            model = self.models[number]
            assert isinstance(model, ReplyModel)
            replies = model.expect(context[answers, number], inputs)
            expected.append(model.contrast(replies, self.positive, self.negative))
            replies = replies[has_reply[answers]]
            fits.append(model.fit(replies, vectors[is_reply], reactions))
        columns[answers, 1] = torch.stack(expected).mean(0)
        columns[is_reply, 2] = torch.stack(fits).mean(0)
        return columns

    def tensors(self) -> dict[str, Tensor]:
        """Returns the arrays to save. Models rounded to half precision are saved in it."""
        state = self.state_dict()
        if self.is_half:
            state |= {k: v.half() for k, v in state.items() if k.startswith("models.")}
        return {f"reply.{name}": tensor for name, tensor in state.items()}

    @classmethod
    def of(
        cls,
        config: ReplyConfig,
        hidden: int,
        features: int,
        tensors: Mapping[str, Tensor],
        path: Path,
    ) -> Reactions:
        """Returns the reactions saved as ``tensors`` in the file ``path``. Raises JudgeLoadError if
        they do not fit the settings."""
        # takes no memory for sizes that a wrong config asks for
        with torch.device("meta"):
            made = cls(config, hidden, features)
        require_same_keys(made.tensors(), tensors, path)
        state = {
            name.removeprefix("reply."): tensor.float()
            for name, tensor in tensors.items()
        }
        made.load_state_dict(state, assign=True)
        return made.requires_grad_(False)
