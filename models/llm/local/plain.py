"""The plain loop: one forward pass a sequence. What the papers' own code does, and the reference
that prefix.py is tested against."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from medal_judges.models.llm.local.forward import logits_at
from medal_judges.models.llm.local.prefix import TokenSequence


def plain_logprobs(
    model: Any, sequences: Sequence[TokenSequence], *, joint: bool = False
) -> tuple[list[np.ndarray], list[float | None]]:
    """As ``tree_logprobs``, sequence by sequence."""
    scored: list[np.ndarray] = []
    prefix: list[float | None] = []
    for sequence in sequences:
        values = _token_logprobs(model, sequence.ids, 1 if joint else sequence.start)
        own = len(sequence.ids) - sequence.start
        scored.append(values[len(values) - own :])
        prefix.append(float(values[: len(values) - own].sum()) if joint else None)
    return scored, prefix


def _token_logprobs(model: Any, ids: Sequence[int], first: int) -> np.ndarray:
    """Log-probabilities [len(ids) - first] of the tokens from ``first`` (at least 1) on."""
    import torch

    with torch.inference_mode():
        tokens = torch.tensor([list(ids)], device=model.device)
        rows = range(first - 1, len(ids) - 1)
        logits, _ = logits_at(model, tokens, rows, use_cache=False)
        wanted = tokens[0, first:, None]
        found = torch.log_softmax(logits, dim=-1).gather(1, wanted)[:, 0]
    values: np.ndarray = found.cpu().numpy().astype(float)
    return values
