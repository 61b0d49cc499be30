"""Batches by token budget, and what to do when one does not fit the memory."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")
R = TypeVar("R")

logger = logging.getLogger(__name__)

# cuBLAS asks for its own workspace, and where there is no room for it says no more than the last.
_OOM_SIGNS = ("out of memory", "can't allocate memory", "cublas_status_alloc_failed")


def windows(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Consecutive lists of at most ``size`` items; memory stays flat in the input's length."""
    iterator = iter(items)
    while window := list(islice(iterator, size)):
        yield window


def budget_batches(
    items: Sequence[T], length: Callable[[T], int], budget: int, *, tight: bool = False
) -> Iterator[list[T]]:
    """Batches sorted by length, longest first, whose padded size (count x longest) fits ``budget``.

    An item longer than the budget is a batch of its own. Longest first, so that memory runs out at
    once or not at all. ``tight``: a batch that has a sixteenth of the budget also ends where the
    next item is under four fifths of its longest. Turns of 32 dialogues, whose lengths differ much,
    are else padded to twice their tokens (of 192 dialogues to 1.3 times; tight: 1.1 of both).
    """
    batch: list[T] = []
    longest = 0
    for item in sorted(items, key=length, reverse=True):
        full = (len(batch) + 1) * longest > budget
        large = tight and len(batch) * longest >= budget / 16
        if batch and (full or (large and length(item) < 0.8 * longest)):
            yield batch
            batch = []
        if not batch:
            longest = max(1, length(item))
        batch.append(item)
    if batch:
        yield batch


def retry_on_oom(run: Callable[[Sequence[T]], list[R]], batch: Sequence[T]) -> list[R]:
    """``run(batch)``; when memory runs out, both halves one after the other, down to one item."""
    try:
        return run(batch)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error) or len(batch) == 1:
            raise
        logger.warning("out of memory with a batch of %d; halving it", len(batch))
    # Outside the except block: the traceback would keep the failed batch's tensors alive.
    _release_memory()
    middle = len(batch) // 2
    return retry_on_oom(run, batch[:middle]) + retry_on_oom(run, batch[middle:])


def pad_rows(rows: Sequence[Sequence[int]], pad: int) -> tuple[Tensor, Tensor]:
    """``rows`` of token ids [R, L], filled up with ``pad``, and their mask [R, L] (1 = token)."""
    import torch

    longest = max(map(len, rows))
    ids = torch.full((len(rows), longest), pad, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = torch.tensor(row)
        mask[number, : len(row)] = 1
    return ids, mask


def is_out_of_memory(error: BaseException) -> bool:
    """True for CUDA's (cuBLAS's too), MPS's and the CPU allocator's out-of-memory errors."""
    return isinstance(error, MemoryError) or any(sign in str(error).lower() for sign in _OOM_SIGNS)


def _release_memory() -> None:
    import gc

    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
