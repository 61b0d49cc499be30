"""How near each turn's embedding stands to earlier turns: the net's own repetition and relevance."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

SIMILARITY_NAMES = (
    "nearest_own",  # highest cosine with any earlier turn of the same speaker
    "mean_own",
    "last_own",
    "last_partner",
    "last_but_one_partner",
)


def turn_similarities(vectors: Tensor, roles: Tensor, mask: Tensor) -> Tensor:
    """Cosines [B, T, 5] of turn ``vectors`` [B, T, H] with earlier turns; 0 where there is none."""
    unit = functional.normalize(vectors.float(), dim=-1)
    cosine = unit @ unit.transpose(1, 2)  # [B, T, T]
    turns = vectors.shape[1]
    position = torch.arange(turns, device=vectors.device)
    earlier = (position[None, :] < position[:, None]) & mask[:, None, :]
    same = roles[:, :, None] == roles[:, None, :]
    own, partner = earlier & same, earlier & ~same
    return torch.stack(
        [
            _where_any(cosine.masked_fill(~own, -2).amax(-1), own),
            (cosine * own).sum(-1) / own.sum(-1).clamp_min(1),
            _nth_last(cosine, own, 1),
            _nth_last(cosine, partner, 1),
            _nth_last(cosine, partner, 2),
        ],
        dim=-1,
    )


def _where_any(value: Tensor, allowed: Tensor) -> Tensor:
    return torch.where(allowed.any(-1), value, torch.zeros_like(value))


def _nth_last(cosine: Tensor, allowed: Tensor, n: int) -> Tensor:
    """Cosine with the n-th last allowed turn, 0 where there are fewer."""
    from_end = allowed.flip(-1).cumsum(-1).flip(-1)  # 1 at the last allowed turn, 2 before it, ...
    chosen = allowed & (from_end == n)
    return (cosine * chosen).sum(-1)
