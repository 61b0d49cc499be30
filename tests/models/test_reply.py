"""Reactions: the contrast by hand, the context of a turn, and what a reply model may read."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from medal_judges.models.linear.reply import (
    Reactions,
    ReplyModel,
    log_mean_exp_cosine,
    turns_with_context,
)


def test_the_log_mean_by_hand() -> None:
    vectors = torch.tensor([[1.0, 0.0]])
    others = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    by_hand = math.log((math.exp(2.0) + math.exp(0.0)) / 2)
    by_model = log_mean_exp_cosine(vectors, others, 2.0).item()
    assert by_model == pytest.approx(by_hand, abs=1e-6)


def test_context_is_the_turns_before_and_the_first_turn_stands_in() -> None:
    unit = torch.arange(4.0).reshape(4, 1)
    now, before, earlier = turns_with_context(unit)
    assert now.flatten().tolist() == [0, 1, 2, 3]
    assert before.flatten().tolist() == [0, 0, 1, 2]
    assert earlier.flatten().tolist() == [0, 1, 0, 1]


def reactions_of(model: ReplyModel, positive: Tensor, negative: Tensor) -> Reactions:
    """Returns reactions whose two reply models are ``model``."""
    config = {"positive": ["a"] * len(positive), "negative": ["b"] * len(negative)}
    reactions = Reactions(config, vector_width=6, features=3)
    reactions.models = nn.ModuleList([model, model])
    reactions.positive, reactions.negative = positive, negative
    return reactions


def test_a_turn_follows_the_answer_better_than_the_reactions_do_by_hand() -> None:
    model = ReplyModel(vector_width=6, features=3, hidden_width=4).eval()
    generator = torch.Generator().manual_seed(3)
    unit = functional.normalize(torch.randn(6, 6, generator=generator))
    reactions = reactions_of(model, unit[:2], unit[3:4])
    # A second answer, at 4, stands between the answer at 3 and the last user turn.
    roles = np.array([0, 1, 0, 1, 1, 0])
    vectors = unit.numpy()
    # One pass over three dialogues: the others change nothing.
    dialogues = [vectors[:3], vectors, vectors[:1]]
    measures = np.zeros((10, 3))
    _, columns, _ = reactions.reaction_features(
        dialogues, measures, [roles[:3], roles, roles[:1]]
    )
    # of a model without training, which expects the turn itself
    sharpness = math.exp(2.5)

    def by_hand(turn: int) -> float:
        cosines = unit @ unit[turn - 1]
        likelihoods = [math.exp(sharpness * cosines[row].item()) for row in (0, 1, 3)]
        own = sharpness * cosines[turn].item()
        return own - math.log(sum(likelihoods) / 3)

    right = [0, 0, by_hand(2), 0, 0, by_hand(5)]
    assert columns[:, 2].tolist() == pytest.approx(right, abs=1e-4)


@pytest.mark.parametrize("roles", [[1, 0, 1, 0], [0, 0, 1, 1], [0, 1, 0, 0], [0], [1]])
def test_a_turn_follows_nothing_if_no_answer_with_a_context_is_before_it(
    roles: list[int],
) -> None:
    model = ReplyModel(vector_width=6, features=3, hidden_width=4).eval()
    unit = functional.normalize(torch.randn(len(roles), 6))
    reactions = reactions_of(model, unit[:1], -unit[:1])
    (columns,) = reactions.reaction_features(
        [unit.numpy()], np.zeros((len(roles), 3)), [np.array(roles)]
    )
    follows = {(1, 0, 1, 0): [3], (0, 1, 0, 0): [2]}
    assert np.flatnonzero(columns[:, 2]).tolist() == follows.get(tuple(roles), [])
