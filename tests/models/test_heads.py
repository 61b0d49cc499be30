"""Heads: losses and probabilities by hand and against torch."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from medal_judges.models.base.heads import (
    Calibration,
    HeadConfig,
    OutputHead,
    corn_losses,
    corn_probabilities,
    fit_isotonic,
    squash_to_unit,
)
from medal_judges.records.dimension import Dimension
from medal_judges.training.calibration import fit_temperature

OVERALL = Dimension("overall", "ordinal", 1, 5)
ISSUE = Dimension("unsafe", "binary", 0, 1, good="low")


def one_hot(level: int, levels: int) -> torch.Tensor:
    return functional.one_hot(torch.tensor([level]), levels).float()


@pytest.mark.parametrize("level", range(5))
def test_corn_loss_is_the_sum_over_the_questions_asked(level: int) -> None:
    logits = torch.tensor([[0.3, -0.7, 1.1, 0.2]])
    by_hand = 0.0
    # question k: is it above level k, asked only when it is at least k
    for k in range(4):
        if level >= k:
            p = 1 / (1 + math.exp(-logits[0, k].item()))
            by_hand -= math.log(p if level > k else 1 - p)
    found = corn_losses(logits, one_hot(level, 5)).item()
    assert found == pytest.approx(by_hand, rel=1e-5)


def test_corn_probabilities_are_a_distribution_and_chain() -> None:
    logits = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    p = corn_probabilities(logits)
    assert torch.allclose(p.sum(-1), torch.ones(6))
    assert (p >= 0).all()
    assert torch.allclose(1 - p[:, 0], torch.sigmoid(logits[:, 0]))
    assert torch.allclose(p[:, -1], torch.sigmoid(logits).prod(-1))


def head(dimension: Dimension, **settings: object) -> OutputHead:
    return OutputHead(dimension, HeadConfig(**settings))  # type: ignore[arg-type]


def test_binary_loss_is_torchs_with_smoothing_and_weight() -> None:
    logits, targets = torch.tensor([[0.5], [-1.0]]), torch.tensor([[1.0], [0.0]])
    issue = head(ISSUE, kind="binary", label_smoothing=0.1, positive_weight=3.0)
    expected = functional.binary_cross_entropy_with_logits(
        logits,
        torch.tensor([[0.95], [0.05]]),
        pos_weight=torch.tensor(3.0),
        reduction="none",
    )
    torch.testing.assert_close(issue.losses(logits, targets), expected[:, 0])


@pytest.mark.parametrize("kind", ["regression", "binary", "ordinal", "classification"])
def test_rows_without_a_label_change_no_loss_and_have_no_gradient(kind: str) -> None:
    torch.manual_seed(0)
    judged = head(ISSUE if kind == "binary" else OVERALL, kind=kind)
    logits = torch.randn(5, judged.outputs).requires_grad_()
    by_level = kind in ("ordinal", "classification")
    targets = torch.rand(5, judged.levels).softmax(-1) if by_level else torch.rand(5, 1)
    labelled = torch.tensor([True, False, True, True, False])
    targets[~labelled] = torch.nan
    losses = judged.losses(logits, targets)
    (gradient,) = torch.autograd.grad(losses.sum(), logits)
    alone = logits.detach()[labelled].requires_grad_()
    expected = judged.losses(alone, targets[labelled])
    torch.testing.assert_close(losses[labelled], expected)
    assert not losses[~labelled].any()
    (expected_gradient,) = torch.autograd.grad(expected.sum(), alone)
    torch.testing.assert_close(gradient[labelled], expected_gradient)
    assert not gradient[~labelled].any()
    broken = logits.detach().clone()
    broken[1] = torch.nan
    torch.testing.assert_close(judged.losses(broken, targets), losses.detach())


def test_raw_scores_bend_towards_the_ends_in_their_order() -> None:
    raw = np.sort(np.concatenate([np.linspace(-40, 40, 4001), np.linspace(0, 1, 4001)]))
    found = squash_to_unit(np.unique(raw))
    assert (np.diff(found) > 0).all() and found[0] > 0 and found[-1] < 1
    assert squash_to_unit([0.1, 0.37, 0.9]) == pytest.approx([0.1, 0.37, 0.9], abs=1e-9)
    assert squash_to_unit([-0.3, 0.0, 1.0]) == pytest.approx([0.02, 0.05, 0.95])
    assert squash_to_unit(1 - raw) == pytest.approx(1 - squash_to_unit(raw), abs=1e-12)
    around = squash_to_unit([0.1 - 1e-6, 0.1, 0.1 + 1e-6])
    # it bends without a corner
    assert np.diff(around) == pytest.approx([1e-6, 1e-6], rel=1e-4)
    assert np.isnan(squash_to_unit(np.nan))


def test_temperature_is_recovered_from_simulated_answers() -> None:
    generator = np.random.default_rng(0)
    honest = generator.normal(0, 2, 20_000)
    labels = (generator.random(20_000) < 1 / (1 + np.exp(-honest))).astype(float)
    for scale in (3.0, 1.0):

        def probabilities(temperature: float, scale: float = scale) -> np.ndarray:
            chances = 1 / (1 + np.exp(-scale * honest / temperature))
            return np.column_stack([1 - chances, chances])

        fitted = fit_temperature(probabilities, labels[:, None])
        assert fitted == pytest.approx(scale, rel=0.05)


def test_isotonic_is_monotone_and_goes_through_the_means() -> None:
    units, targets = [0.1, 0.2, 0.3, 0.8], [0.0, 0.4, 0.2, 1.0]
    fitted = Calibration(isotonic=fit_isotonic(units, targets))
    found = fitted.apply_isotonic(np.linspace(0, 1, 50)).tolist()
    assert (np.diff(found) > 0).all()
    # the two that disagree are pooled
    assert fitted.apply_isotonic(0.25) == pytest.approx(0.3, abs=0.01)
    assert Calibration().apply_isotonic(0.37) == pytest.approx(0.37, abs=1e-9)
