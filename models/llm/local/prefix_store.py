"""Key-value states of text that was read before, kept in memory within a bound.

What a causal model computed for a token depends on the tokens before it alone, so a prompt that
begins as an earlier one did need not be read again up to where they part: a second question about
one dialogue, an answer after the model has thought, the next turn of a dialogue that grows.

States are kept in blocks of 16 tokens that form a trie, so that ten questions about one dialogue
keep it once. Only models whose every layer attends to all before it have such states (``paths.py``
says which, by trying).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from transformers import Cache

BLOCK = 16  # tokens


@dataclass(slots=True, eq=False)
class StateBlock:
    """The states of ``tokens``: ``keys`` and ``values`` are [layers, heads, tokens, dimension]."""

    tokens: tuple[int, ...]
    keys: torch.Tensor
    values: torch.Tensor
    before: StateBlock | None = None
    after: dict[tuple[int, ...], StateBlock] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes."""
        return int(self.keys.nbytes + self.values.nbytes)


# Blocks from the first token on; the last may be shorter, and is then not kept.
Chain = tuple[StateBlock, ...]


def length_of(chain: Sequence[StateBlock]) -> int:
    """Tokens of ``chain``."""
    return sum(len(block.tokens) for block in chain)


def cut(chain: Chain, end: int) -> Chain:
    """The first ``end`` tokens of ``chain``, or all of it where it is shorter."""
    blocks: list[StateBlock] = []
    left = end
    for block in chain:
        if left < len(block.tokens):
            if left > 0:
                states = (block.keys[:, :, :left], block.values[:, :, :left])
                blocks.append(StateBlock(block.tokens[:left], *states))
            break
        blocks.append(block)
        left -= len(block.tokens)
    return tuple(blocks)


class PrefixStore:
    """Blocks of at most ``limit`` bytes; the least recently used go first, from their ends."""

    def __init__(self, limit: int) -> None:
        self.limit, self.bytes = limit, 0
        self._first: dict[tuple[int, ...], StateBlock] = {}
        # Oldest use first. A block is used with all before it and is moved to the end before them,
        # so nothing stands behind the oldest one.
        self._used: OrderedDict[int, StateBlock] = OrderedDict()

    def longest(self, ids: Sequence[int]) -> Chain:
        """The kept beginning of ``ids``, without its last token (whose logits will be wanted)."""
        chain: list[StateBlock] = []
        below = self._first
        for at in range(0, len(ids) - BLOCK, BLOCK):
            block = below.get(tuple(ids[at : at + BLOCK]))
            if block is None:
                break
            chain.append(block)
            below = block.after
        self._use(chain)
        return tuple(chain)

    def keep(self, chain: Chain) -> None:
        """Keep the whole blocks of ``chain``, as far as there is room for them."""
        kept: list[StateBlock] = []
        below = self._first
        for block in chain:
            if len(block.tokens) < BLOCK:
                break
            known = below.get(block.tokens)
            if known is None:
                if not self._make_room(block.size, kept):
                    break
                before = kept[-1] if kept else None
                known = StateBlock(block.tokens, block.keys, block.values, before)
                below[known.tokens] = self._used[id(known)] = known
                self.bytes += known.size
            kept.append(known)
            below = known.after
        self._use(kept)

    def clear(self) -> None:
        """Let go of everything."""
        self._first, self.bytes = {}, 0
        self._used.clear()

    def _use(self, chain: Sequence[StateBlock]) -> None:
        for block in reversed(chain):
            self._used.move_to_end(id(block))

    def _make_room(self, size: int, chain: Sequence[StateBlock]) -> bool:
        """Whether ``size`` more bytes fit, once what is not of ``chain`` has made room."""
        if size > self.limit:
            return False
        if self.bytes + size > self.limit:
            self._use(chain)
        while self.bytes + size > self.limit:
            oldest = next(iter(self._used.values()))
            if chain and oldest is chain[-1]:
                return False
            del self._used[id(oldest)]
            del (self._first if oldest.before is None else oldest.before.after)[oldest.tokens]
            self.bytes -= oldest.size
        return True


# -- between blocks and what transformers calls a cache --------------------------------------------


def extended(
    chain: Chain, ids: Sequence[int], cache: Cache, *, row: int, first: int, end: int
) -> Chain:
    """``chain`` up to token ``end`` of ``ids``, its states taken out of ``cache``.

    The states of token k are those of ``row`` in column ``first`` + k. Raises TypeError for a cache
    whose layers do not keep all that was read.
    """
    import torch

    _require_whole(cache)
    blocks = [block for block in chain if len(block.tokens) == BLOCK]
    for start in range(len(blocks) * BLOCK, end, BLOCK):
        stop = min(start + BLOCK, end)
        columns = slice(first + start, first + stop)
        layers: Any = cache.layers
        keys = torch.stack([layer.keys[row, :, columns] for layer in layers])
        values = torch.stack([layer.values[row, :, columns] for layer in layers])
        blocks.append(StateBlock(tuple(ids[start:stop]), keys, values))
    return tuple(blocks)


def to_cache(chains: Sequence[Chain], used: Sequence[int]) -> Cache:
    """A cache with a row for each of ``chains``: its first ``used`` tokens, at the right end."""
    import torch
    from transformers import DynamicCache

    columns = max(used)
    sides = []
    for side in ("keys", "values"):
        some = getattr(next(chain for chain in chains if chain)[0], side)
        layers, heads, _, dimension = some.shape
        whole = some.new_zeros((layers, len(chains), heads, columns, dimension))
        for row, (chain, count) in enumerate(zip(chains, used, strict=True)):
            if count:
                states = torch.cat([getattr(block, side) for block in chain], dim=2)
                whole[:, row, :, columns - count :] = states[:, :, :count]
        sides.append(whole)
    cache = DynamicCache()
    for layer, (keys, values) in enumerate(zip(*sides, strict=True)):
        cache.update(keys, values, layer)
    return cache


def _require_whole(cache: Cache) -> None:
    from transformers.cache_utils import DynamicLayer

    for layer in cache.layers:
        if type(layer) is not DynamicLayer:
            raise TypeError(f"{type(layer).__name__} does not keep what was read")
