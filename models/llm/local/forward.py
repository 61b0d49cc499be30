"""One forward pass of a causal language model, with logits only where they are wanted."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def logits_at(
    model: Any, ids: torch.Tensor, rows: Sequence[int], **settings: Any
) -> tuple[torch.Tensor, Any]:
    """(logits [len(rows), words] in fp32 at the places ``rows`` of the one sequence ``ids`` [1, n],
    the model's output), made by the model's own forward: nothing is left out after its last layer.
    """
    import torch

    places = torch.tensor(list(rows), dtype=torch.long, device=ids.device)
    if "logits_to_keep" in inspect.signature(model.forward).parameters:
        out = model(input_ids=ids, logits_to_keep=places, **settings)
        return out.logits[0].float(), out
    out = model(input_ids=ids, **settings)
    return out.logits[0, places].float(), out
