"""How near a turn's embedding stands to earlier turns: the net's own repetition and relevance."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

_WINDOW = 4
SIMILARITY_NAMES = (
    "nearest_own",  # highest cosine with any earlier turn of the same speaker
    "nearest_recent_own",  # with the last four of them
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
            _nearest(cosine, own),
            _nearest(cosine, own & (_from_end(own) <= _WINDOW)),
            _nth_last(cosine, own, 1),
            _nth_last(cosine, partner, 1),
            _nth_last(cosine, partner, 2),
        ],
        dim=-1,
    )


def _nearest(cosine: Tensor, allowed: Tensor) -> Tensor:
    highest = cosine.masked_fill(~allowed, -2).amax(-1)
    return torch.where(allowed.any(-1), highest, torch.zeros_like(highest))


def _from_end(allowed: Tensor) -> Tensor:
    """1 at the last allowed turn, 2 at the one before it, and so on."""
    return allowed.flip(-1).cumsum(-1).flip(-1)


def _nth_last(cosine: Tensor, allowed: Tensor, n: int) -> Tensor:
    """Cosine with the n-th last allowed turn, 0 where there are fewer."""
    chosen = allowed & (_from_end(allowed) == n)
    return (cosine * chosen).sum(-1)
