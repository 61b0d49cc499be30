"""Reactions: the contrast by hand, the context of a turn, and what a reply model may read."""

import math

import pytest
import torch
from torch.nn import functional

from medal_judges.models.linear.reply import ReplyModel, context_of, contrast


def test_contrast_is_the_difference_of_log_mean_exponentials() -> None:
    vectors = torch.tensor([[1.0, 0.0]])
    positive = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    negative = torch.tensor([[-1.0, 0.0]])
    by_hand = math.log((math.exp(2.0) + math.exp(0.0)) / 2) - math.log(math.exp(-2.0))
    assert contrast(vectors, positive, negative, 2.0).item() == pytest.approx(
        by_hand, abs=1e-6
    )


def test_contrast_does_not_depend_on_how_many_reactions_there_are() -> None:
    vectors = functional.normalize(
        torch.randn(5, 8, generator=torch.Generator().manual_seed(0))
    )
    positive, negative = vectors[:2], vectors[2:4]
    doubled = contrast(vectors, torch.cat([positive, positive]), negative)
    assert torch.allclose(contrast(vectors, positive, negative), doubled, atol=1e-5)


def test_swapping_the_reactions_changes_the_sign() -> None:
    vectors = functional.normalize(
        torch.randn(5, 8, generator=torch.Generator().manual_seed(1))
    )
    one = contrast(vectors, vectors[:2], vectors[2:4])
    assert torch.allclose(one, -contrast(vectors, vectors[2:4], vectors[:2]), atol=1e-5)


def test_context_is_the_turns_before_and_the_first_turn_stands_in() -> None:
    unit = torch.arange(4.0).reshape(4, 1)
    now, before, earlier = context_of(unit)
    assert now.flatten().tolist() == [0, 1, 2, 3]
    assert before.flatten().tolist() == [0, 0, 1, 2]
    assert earlier.flatten().tolist() == [0, 1, 0, 1]


def test_an_untrained_model_expects_an_echo() -> None:
    model = ReplyModel(hidden=6, features=3, width=4).eval()
    unit = functional.normalize(
        torch.randn(5, 6, generator=torch.Generator().manual_seed(2))
    )
    expected = model.expect(model(*context_of(unit)), torch.zeros(5, 3))
    assert torch.allclose(expected, unit, atol=1e-6)
