"""Features of how the user reacts to an answer, is expected to react, and whether the next turn
follows it.

An answer is good if "Tell me more about that." is a likelier next turn than "That makes no sense."
This is DIET's idea of follow-ups, with turn vectors instead of a language model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from medal_judges.models.base.saving import require_matching_tensors

# Each reply model learns from one half of the groups, and reads the other half in training.
HALVES = 2
HIDDEN_WIDTH = 256  # of the hidden layer
_SHARPNESS = 10.0  # of the contrast on user turns; the reply model learns its own
_VECTOR, _PRODUCT = 6.0, 60.0  # scale entries and products of entries to a similar size


class ReplyModel(nn.Module):
    """A network that predicts the embedding of the user's next turn from an assistant turn and the
    two turns before it.

    Args:
        vector_width: The width H of a turn's embedding, which is also the width of the output.
        features: The number F of features of a turn.
        hidden_width: The width of the hidden layer.
    """

    def __init__(self, vector_width: int, features: int, hidden_width: int) -> None:
        super().__init__()
        self.answer = nn.Linear(vector_width, vector_width, bias=False)
        self.next_turn = nn.Linear(vector_width, vector_width, bias=False)
        for layer in (self.answer, self.next_turn):
            # nn.init.eye_ would import torch's compiler on the device meta
            layer.weight.data.zero_().fill_diagonal_(1)
        self.context = nn.Sequential(
            nn.Linear(4 * vector_width + features, hidden_width),
            nn.GELU(),
            nn.Dropout(0.2),
            nn.Linear(hidden_width, vector_width),
        )
        for parameter in self.context[3].parameters():
            nn.init.zeros_(parameter)
        self.log_sharpness = nn.Parameter(torch.tensor(2.5))

    def forward(
        self, turn: Tensor, before: Tensor, earlier: Tensor, measures: Tensor
    ) -> Tensor:
        """Returns the predicted embeddings of the next user turns, unit vectors [..., H].

        Args:
            turn: The embeddings of the assistant turns, unit vectors [..., H].
            before: The embedding of the turn just before each assistant turn, a unit vector.
                Repeats ``turn`` at the start of a dialogue. [..., H].
            earlier: The embedding of the turn two before each assistant turn, a unit vector.
                Repeats ``turn`` if there is none. [..., H].
            measures: The standardised features of the assistant turns, [..., F].
        """
        products = [_PRODUCT * turn * before, _PRODUCT * turn * earlier]
        inputs = torch.cat([_VECTOR * turn, _VECTOR * before, *products, measures], -1)
        return functional.normalize(self.answer(turn) + self.context(inputs), dim=-1)

    def project_turns(self, vectors: Tensor) -> Tensor:
        """Returns the embeddings of turns, ``vectors`` [..., H], mapped into the space of the
        predictions, as unit vectors [..., H]."""
        return functional.normalize(self.next_turn(vectors), dim=-1)

    def log_likelihood(self, expected: Tensor, turns: Tensor) -> Tensor:
        """Returns the log-likelihood of the actual next turns, [...], up to a constant that is the
        same for all turns.

        Args:
            expected: The predicted embeddings of the next turns, [..., H].
            turns: The embeddings of the actual next turns, [..., H].
        """
        return (expected * self.project_turns(turns)).sum(-1) * self.log_sharpness.exp()

    def log_mean_likelihood(self, expected: Tensor, others: Tensor) -> Tensor:
        """Returns, for each prediction, the log of the mean likelihood of N possible next turns,
        [...]. It is up to a constant that is the same for all predictions.

        Args:
            expected: The predicted embeddings of the next turns, [..., H].
            others: The embeddings of the possible next turns, [N, H].
        """
        return log_mean_exp_cosine(
            expected, self.project_turns(others), self.log_sharpness.exp()
        )


def log_mean_exp_cosine(
    vectors: Tensor, others: Tensor, sharpness: Tensor | float
) -> Tensor:
    """Returns log(mean(exp(sharpness * cosine similarity))) for each of ``vectors``, [...]. The
    mean is over ``others``.

    Args:
        vectors: Unit vectors, [..., H].
        others: N unit vectors, [N, H], with which each of ``vectors`` is compared.
        sharpness: Multiplies the cosine similarity.
    """
    scores = vectors @ others.T * sharpness
    return torch.logsumexp(scores, dim=-1) - math.log(len(others))


def turns_with_context(unit: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns three tensors [T, H], whose row i is about turn i: the turn itself, the turn before
    it, and the turn two before it.

    If the dialogue has no such earlier turn, the row repeats turn i.

    Args:
        unit: The embeddings of a dialogue's T turns, [T, H].
    """
    before = torch.cat([unit[:1], unit[:-1]])
    earlier = torch.cat([unit[:2], unit[:-2]])[: len(unit)]
    return unit, before, earlier


class Reactions(nn.Module):
    """Scores how positively users react to assistant turns. Embeddings are compared with typical
    replies of a pleased and of an annoyed user.

    A user turn is itself a reaction. For an assistant turn, a ReplyModel predicts the user's
    reaction, the next turn.

    Args:
        reactions: The typical replies: ``{"positive": ["Good point."], "negative": ["Stop it."]}``.
            Only their number is used here. Training or loading fills in their embeddings.
        vector_width: The width H of a turn's embedding.
        features: The number F of features of a turn.

    Attributes:
        models: Two reply models, each trained on one half of the dialogues.
        positive: The embeddings of the P positive replies, [P, H].
        negative: The embeddings of the N negative replies, [N, H].
    """

    positive: Tensor
    negative: Tensor

    def __init__(
        self, reactions: Mapping[Any, Sequence[str]], vector_width: int, features: int
    ) -> None:
        super().__init__()
        self.models = nn.ModuleList(
            ReplyModel(vector_width, features, HIDDEN_WIDTH) for _ in range(HALVES)
        )
        self.register_buffer(
            "positive", torch.zeros(len(reactions["positive"]), vector_width)
        )
        self.register_buffer(
            "negative", torch.zeros(len(reactions["negative"]), vector_width)
        )
        self.eval()

    @torch.inference_mode()
    def reaction_features(
        self,
        units: Sequence[np.ndarray],
        measures: np.ndarray,
        roles: Sequence[np.ndarray],
        half: int | None = None,
    ) -> list[np.ndarray]:
        """Returns three features of each turn, which compare it with typical user reactions.

        Args:
            units: For each dialogue, the embeddings of its T turns (unit vectors), [T, H].
            measures: The F standardised features of each turn, for the turns of all dialogues one
                after the other, [turns, F].
            roles: For each dialogue, 0 for a user turn and 1 for an assistant turn, [T].
            half: In training, which of the two reply models to use, 0 or 1. None takes the mean of
                both.

        Returns:
            An array [T, 3] for each dialogue. Column 0 (``reaction``): how positive a user turn is.
                Column 1 (``expected_reaction``): how positive the predicted reply to an assistant
                turn is. Column 2 (``follows_answer``): how well a user turn fits the assistant turn
                before it. A column is 0 for turns that it does not apply to.
        """
        contexts = [
            turns_with_context(torch.from_numpy(unit).float()) for unit in units
        ]
        turns, before, earlier = map(torch.cat, zip(*contexts, strict=True))
        speakers = np.concatenate(roles)
        lengths = [len(role) for role in roles]
        ends = np.cumsum(lengths)
        is_opening, is_closing = np.zeros((2, len(speakers)), dtype=bool)
        is_opening[ends - lengths] = True
        is_closing[ends - 1] = True
        answers = (speakers == 1) & ~is_opening  # an opening turn has no context
        has_reply = answers & (np.roll(speakers, -1) == 0) & ~is_closing
        is_reply = np.roll(has_reply, 1)
        features = torch.from_numpy(measures[answers]).float()
        context = turns[answers], before[answers], earlier[answers]
        reactions = torch.cat([self.positive, self.negative])
        expected, fits = [], []
        for number in range(HALVES) if half is None else [half]:
            model = self.models[number]
            assert isinstance(model, ReplyModel)
            replies = model(*context, features)
            positive = model.log_mean_likelihood(replies, self.positive)
            expected.append(
                positive - model.log_mean_likelihood(replies, self.negative)
            )
            replies = replies[has_reply[answers]]
            likelihood = model.log_likelihood(replies, turns[is_reply])
            fits.append(likelihood - model.log_mean_likelihood(replies, reactions))
        columns = np.zeros((len(speakers), 3))
        users = speakers == 0
        good, bad = (
            log_mean_exp_cosine(turns[users], vectors, _SHARPNESS)
            for vectors in (self.positive, self.negative)
        )
        columns[users, 0] = good - bad
        columns[answers, 1] = torch.stack(expected).mean(0)
        columns[is_reply, 2] = torch.stack(fits).mean(0)
        return np.split(columns, ends[:-1])

    def tensors_to_save(self) -> dict[str, Tensor]:
        """Returns tensor name -> tensor, such as ``{"reply.positive": ...}``. These are the weights
        of the reply models in half precision, and the embeddings of the typical replies."""
        tensors = {}
        for name, tensor in self.state_dict().items():
            is_model = name.startswith("models.")
            tensors[f"reply.{name}"] = tensor.half() if is_model else tensor
        return tensors

    @classmethod
    def from_tensors(
        cls,
        texts: Mapping[Any, Sequence[str]],
        vector_width: int,
        features: int,
        tensors: Mapping[str, Tensor],
        path: Path,
    ) -> Reactions:
        """Returns the saved reply models with the embeddings of the typical replies.

        Args:
            texts: The typical replies: ``{"positive": ["Good point."], "negative": ["Stop it."]}``.
            vector_width: The width H of a turn's embedding.
            features: The number F of features of a turn.
            tensors: Tensor name -> saved tensor, such as ``{"reply.positive": ...}``.
            path: The file of the tensors, for error messages.

        Raises:
            JudgeLoadError: The shapes of the tensors do not fit ``texts``, ``vector_width`` and
                ``features``.
        """
        # takes no memory for sizes that a wrong config asks for
        with torch.device("meta"):
            reactions = cls(texts, vector_width, features)
        require_matching_tensors(reactions.tensors_to_save(), tensors, path)
        state = {
            name.removeprefix("reply."): tensor.float()
            for name, tensor in tensors.items()
        }
        reactions.load_state_dict(state, assign=True)
        return reactions.requires_grad_(False)
