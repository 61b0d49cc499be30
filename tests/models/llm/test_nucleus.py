"""The nucleus of a distribution (Holtzman et al. 2020), looked for among few words first."""

from __future__ import annotations

import pytest
import torch

from medal_judges.models.llm.local.processors import FEW, _nucleus


def by_definition(logits: torch.Tensor, top_p: float) -> set[int]:
    """The smallest set of likeliest words whose probability is at least ``top_p``, in float64."""
    ordered, ids = logits.double().sort(descending=True)
    chances = ordered.softmax(dim=-1)
    return set(ids[chances.cumsum(-1) - chances < top_p].tolist())


@pytest.mark.parametrize("spread", [0.0, 0.5, 2.0, 8.0], ids=["flat", "wide", "usual", "sharp"])
@pytest.mark.parametrize("size", [5, FEW, 5000])
def test_the_nucleus_is_the_definitions(spread: float, size: int) -> None:
    noise = torch.randn(size, generator=torch.Generator().manual_seed(0))
    for top_p in (0.1, 0.5, 0.9, 0.95):
        # Distinct values, so that the set is unique; a sum that meets top_p to the last
        # digit of float32 may go either way.
        logits = noise * spread + torch.arange(size) * 1e-4
        kept = set(torch.isfinite(_nucleus(logits, top_p)).nonzero().flatten().tolist())
        expected = by_definition(logits, top_p)
        assert kept == expected or len(kept ^ expected) <= 1, (top_p, len(kept), len(expected))
