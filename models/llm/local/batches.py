"""Which prompts are answered together, and what of them is read before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from medal_judges.models.llm.local.likelihood import logits_at
from medal_judges.models.llm.local.prefix_store import (
    BLOCK,
    Chain,
    PrefixStore,
    cut,
    extended,
    length_of,
    to_cache,
)
from medal_judges.models.llm.protocol import ChatRequest

if TYPE_CHECKING:
    from transformers import Cache, PreTrainedModel

# A common beginning shorter than this is not worth a pass of its own.
SHARED_TOKENS = 64
# What a forward pass costs beside its tokens, in tokens: a GPU is idle in a short one.
PASS_COST = {"cpu": 64, "cuda": 512}
Prompts = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class Batching:
    """How prompts of one model may be put together; what is safe is found out in paths.py.

    ``padding``: ``kept`` pads in front of prompts whose beginnings, of any lengths, were read
    before; ``left`` in front of whole prompts, ``none`` keeps prompts of other lengths apart,
    ``alone`` each prompt. ``shared``: the common beginning of prompts of one length is read once
    (with ``kept``, of any prompts).
    """

    padding: Literal["kept", "left", "none", "alone"] = "kept"
    shared: bool = True


@dataclass(frozen=True, slots=True)
class Beginnings:
    """What of the prompts of one batch was read before: ``cache`` (None: nothing) holds their first
    tokens. ``cached``: how many of each were not computed for it, but earlier or for another one.
    ``chains``: the blocks that they are from (with ``kept`` only)."""

    cache: Cache | None
    cached: Sequence[int]
    chains: Sequence[Chain] | None = None


def beginnings(
    model: PreTrainedModel, prompts: Prompts, batching: Batching, store: PrefixStore
) -> Beginnings:
    """What the prompts of a batch have in common, and with earlier ones in ``store``, read once."""
    if batching.padding == "kept":
        chains, cached = _chains(model, prompts, store)
        unread = [len(p) - length_of(c) for p, c in zip(prompts, chains, strict=True)]
        last = _last_columns(unread, PASS_COST.get(model.device.type, PASS_COST["cuda"]))
        for row, (prompt, count) in enumerate(zip(prompts, unread, strict=True)):
            if count > last:
                chains[row] = _read_up_to(model, prompt, chains[row], len(prompt) - last)
        used = [max(0, len(prompt) - last) for prompt in prompts]
        cache = to_cache(chains, used) if any(used) else None
        return Beginnings(cache, list(map(min, cached, used)), chains)
    shared = shared_length(prompts, batching)
    if not shared:
        return Beginnings(None, [0] * len(prompts))
    cache = repeated(model, prompts[0][:shared], len(prompts))
    return Beginnings(cache, [0, *[shared] * (len(prompts) - 1)])


def _chains(
    model: PreTrainedModel, prompts: Prompts, store: PrefixStore
) -> tuple[list[Chain], list[int]]:
    """The beginning of each prompt that was read before, or is read now for several; and how many
    tokens of it were not read for this prompt.

    In the order of their tokens, what a prompt shares with any other it shares with a neighbour: so
    each common part, however they are nested, is read once.
    """
    chains: list[Chain] = [()] * len(prompts)
    cached = [0] * len(prompts)
    order = sorted(range(len(prompts)), key=lambda i: tuple(prompts[i]))
    chain: Chain = ()
    shared = 0  # with the prompt before
    for k, i in enumerate(order):
        after = common_length([prompts[j] for j in order[k : k + 2]]) if k + 1 < len(order) else 0
        chain = max(cut(chain, shared), store.longest(prompts[i]), key=length_of)
        cached[i] = length_of(chain)
        wanted = max(shared, after)
        if wanted - length_of(chain) >= SHARED_TOKENS:
            chain = _read_up_to(model, prompts[i], chain, wanted)
        chains[i], shared = chain, after
    return chains, cached


def _last_columns(unread: Sequence[int], cost: int) -> int:
    """How many tokens at the end of each prompt are read in the pass of all: the number that takes
    the fewest tokens, padding and the passes of ``cost`` for longer prompts counted."""

    def tokens(last: int) -> int:
        return last * len(unread) + sum(n - last + cost for n in unread if n > last)

    return min(sorted(set(unread)), key=tokens)


def _read_up_to(model: PreTrainedModel, prompt: Sequence[int], chain: Chain, end: int) -> Chain:
    """``chain`` with the states of ``prompt`` up to token ``end``, which are computed."""
    import torch

    start = length_of(chain)
    if start >= end:
        return chain
    tokens = torch.tensor([list(prompt[start:end])], device=model.device)
    with torch.inference_mode():
        past = to_cache([chain], [start]) if start else None
        cache = logits_at(model, tokens, [0], use_cache=True, past_key_values=past)[1]
        return extended(chain, prompt, cache.past_key_values, row=0, first=0, end=end)


def repeated(model: PreTrainedModel, beginning: Sequence[int], rows: int) -> Any:
    """The cache of ``beginning``, once for each of ``rows``."""
    import torch

    tokens = torch.tensor([list(beginning)], device=model.device)
    with torch.inference_mode():
        cache = logits_at(model, tokens, [0], use_cache=True)[1].past_key_values
        cache.batch_repeat_interleave(rows)
    return cache


def keep_answers(
    store: PrefixStore,
    prompts: Prompts,
    begun: Beginnings,
    answers: Sequence[Sequence[int]],
    cache: Cache,
) -> None:
    """Put what was read and written in a batch into ``store``: ``cache`` holds it, each row at the
    same right end."""
    assert begun.chains is not None
    longest = max(map(len, prompts))
    written = cache.get_seq_length() - longest  # the last word of the longest answer is not read
    for row, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        ids = [*prompt, *answer[:written]]
        first = longest - len(prompt)
        whole = len(ids) - len(ids) % BLOCK
        store.keep(extended(begun.chains[row], ids, cache, row=row, first=first, end=whole))


# -- which prompts go together ---------------------------------------------------------------------


def batches(
    prompts: Prompts, requests: Sequence[ChatRequest], budget: int, batching: Batching
) -> Iterator[list[int]]:
    """Indices of prompts that are answered together, within ``budget`` padded tokens.

    Prompts that begin alike stand together: a batch of their own, or with ``kept`` beside others;
    the rest is put together by length. Requests that want another number of alternatives are kept
    apart: that setting is a batch's.
    """

    def fits(batch: Sequence[int], i: int) -> bool:
        same = len(prompts[i]) == len(prompts[batch[0]])
        longest = max(len(prompts[k]) + requests[k].max_tokens for k in (*batch, i))
        together = batching.padding != "alone" and (same or batching.padding != "none")
        return together and (len(batch) + 1) * longest <= budget

    for kind in sorted({request.top_logprobs for request in requests}):
        members = [i for i, request in enumerate(requests) if request.top_logprobs == kind]
        groups = _alike(members, prompts, batching)
        single = sorted((g[0] for g in groups if len(g) == 1), key=lambda i: -len(prompts[i]))
        together = [*(g for g in groups if len(g) > 1), single]
        if batching.padding == "kept":
            together = [[i for g in _longest_first(groups, prompts) for i in g]]
        for group in together:
            batch: list[int] = []
            for i in group:
                if batch and not fits(batch, i):
                    yield batch
                    batch = []
                batch.append(i)
            if batch:
                yield batch


def _longest_first(groups: Sequence[list[int]], prompts: Prompts) -> list[list[int]]:
    return sorted(groups, key=lambda group: -max(len(prompts[i]) for i in group))


def _alike(members: Sequence[int], prompts: Prompts, batching: Batching) -> list[list[int]]:
    """``members`` in groups, in which most of the shorter of two neighbours is the beginning of the
    other, and worth sharing."""
    groups: list[list[int]] = []
    for i in sorted(members, key=lambda i: tuple(prompts[i])):
        joins = False
        if groups and batching.shared:
            before, own = prompts[groups[-1][-1]], prompts[i]
            if len(before) == len(own) or batching.padding == "kept":
                enough = max(SHARED_TOKENS, min(len(before), len(own)) // 2)
                joins = common_length([before, own]) >= enough
        if joins:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def common_length(prompts: Sequence[Sequence[int]]) -> int:
    """How many tokens all prompts begin with; one less than the shortest prompt at most."""
    shortest = min(map(len, prompts))
    for k in range(shortest - 1):
        if any(p[k] != prompts[0][k] for p in prompts):
            return k
    return shortest - 1


def shared_length(prompts: Prompts, batching: Batching) -> int:
    """How many tokens of the common beginning of prompts of one length are read once."""
    if len(prompts) == 1 or not batching.shared or len({len(p) for p in prompts}) > 1:
        return 0
    common = common_length(prompts)
    return common if common >= SHARED_TOKENS else 0
