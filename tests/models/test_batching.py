"""Batches by token budget, and halved when memory runs out."""

import pytest

from medal_judges.models.batching import budget_batches, is_out_of_memory, retry_on_oom


def test_every_item_comes_once_and_fits_the_budget() -> None:
    lengths = [5, 90, 1, 33, 33, 7, 64, 2, 120]
    batches = list(budget_batches(range(len(lengths)), lambda i: lengths[i], 100))
    assert sorted(i for b in batches for i in b) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= 100
    assert batches[0] == [8]  # longest first, and longer than the budget: alone


def test_tight_batches_waste_little_on_turns_of_any_length() -> None:
    lengths = [1 + (7 * i * i) % 97 for i in range(640)]
    padded = {}
    for tight in (False, True):
        batches = list(budget_batches(range(640), lambda i: lengths[i], 8192, tight=tight))
        assert sorted(i for batch in batches for i in batch) == list(range(640))
        padded[tight] = sum(len(batch) * lengths[batch[0]] for batch in batches)
        assert all(len(batch) * lengths[batch[0]] <= 8192 for batch in batches)
    assert padded[True] < 1.2 * sum(lengths) < padded[False]
    same = list(budget_batches(range(50), lambda i: 20, 8192, tight=True))
    assert len(same) == 1  # nothing is parted that is of one length


def test_retry_on_oom_keeps_order_and_goes_down_to_what_fits() -> None:
    sizes: list[int] = []

    def run(batch: list[int]) -> list[int]:
        sizes.append(len(batch))
        if len(batch) > 2:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return [10 * item for item in batch]

    assert retry_on_oom(run, list(range(7))) == [0, 10, 20, 30, 40, 50, 60]
    assert sizes[0] == 7 and max(sizes[-2:]) <= 2


def test_retry_on_oom_raises_what_is_not_memory_and_what_cannot_be_halved() -> None:
    def broken(batch: list[int]) -> list[int]:
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes"):
        retry_on_oom(broken, [1, 2])

    def full(batch: list[int]) -> list[int]:
        raise MemoryError

    with pytest.raises(MemoryError):
        retry_on_oom(full, [1, 2])
    assert is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory"))
    cublas = "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"
    assert is_out_of_memory(RuntimeError(cublas))
    assert not is_out_of_memory(RuntimeError("CUDA error: device-side assert triggered"))
