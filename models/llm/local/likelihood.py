"""Likelihoods of token sequences: what several have in common is read once.

The sequences of a group form a tree. Its *spine*, the longest prefix, goes through the model in one
causal pass that leaves a key-value cache; all other tokens, packed, follow in passes whose mask
lets each token see its own ancestors only. Every distinct token is computed once, and logits only
where a scored token stands. The model's own forward makes the logits: what it does after its last
layer (scaling, soft caps) is its own. Same numbers as the plain loop (one forward pass
a sequence, as the papers' own code does) where a model takes such a mask; which models do is found
out by trying (paths.py).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from medal_judges.models.llm.chat_template import TokenSequence
from medal_judges.models.llm.local.layers import tree_windows
from medal_judges.models.llm.local.prefix_store import (
    BLOCK,
    PrefixStore,
    cut,
    extended,
    length_of,
    to_cache,
)

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

# Packed tokens of one masked pass. Attention is computed densely over spine and pass, so one huge
# pass would spend most of its time on pairs that the mask forbids.
PASS_TOKENS = 512
# Rows of logits held at once: 512 x 150,000 words in fp32 are 0.3 GB.
LOGIT_ROWS = 512


@dataclass(slots=True)
class Tree:
    """The distinct tokens of a group.

    Node k < len(spine) is the spine's k-th token; the others follow. ``parents[i]`` is the parent
    node of packed token i, ``attach[i]`` how many spine tokens it sees, ``roots[i]`` which subtree
    it is of. ``paths`` names the nodes of each sequence.
    """

    spine: tuple[int, ...]
    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    attach: list[int] = field(default_factory=list)
    paths: list[list[int]] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Distinct tokens."""
        return len(self.spine) + len(self.tokens)


def build_tree(sequences: Sequence[TokenSequence]) -> Tree:
    """The token trie of ``sequences``, its spine the longest unscored prefix among them."""
    longest = max(sequences, key=lambda s: s.start)
    tree = Tree(spine=longest.ids[: longest.start])
    spine = np.array(tree.spine)
    children: dict[tuple[int, int], int] = {}
    for sequence in sequences:
        shared = _common(spine, sequence.ids)
        path = list(range(shared))
        for depth in range(shared, len(sequence.ids)):
            path.append(
                _child(tree, children, path[-1] if path else -1, sequence.ids[depth], depth, shared)
            )
        tree.paths.append(path)
    return tree


def _common(spine: np.ndarray, ids: tuple[int, ...]) -> int:
    length = min(len(spine), len(ids))
    differ = np.flatnonzero(spine[:length] != np.array(ids[:length]))
    return int(differ[0]) if len(differ) else length


def _child(
    tree: Tree, children: dict[tuple[int, int], int], parent: int, token: int, depth: int, at: int
) -> int:
    node = children.get((parent, token))
    if node is None:
        node = len(tree.spine) + len(tree.tokens)
        children[parent, token] = node
        tree.tokens.append(token)
        tree.parents.append(parent)
        tree.depths.append(depth)
        tree.attach.append(at)
    return node


def passes(tree: Tree, limit: int = PASS_TOKENS) -> Iterator[list[int]]:
    """Packed token indices in passes of about ``limit``; a subtree is never parted.

    Parents come before children within a pass, and a pass needs the spine and itself only.
    """
    base = len(tree.spine)
    root: list[int] = []
    for i, parent in enumerate(tree.parents):
        root.append(i if parent < base else root[parent - base])
    subtrees: dict[int, list[int]] = {}
    for i, r in enumerate(root):
        subtrees.setdefault(r, []).append(i)
    current: list[int] = []
    for members in subtrees.values():
        if current and len(current) + len(members) > limit:
            yield current
            current = []
        current += members
    if current:
        yield current


def tree_logprobs(
    model: PreTrainedModel,
    sequences: Sequence[TokenSequence],
    *,
    joint: bool = False,
    limit: int = PASS_TOKENS,
    store: PrefixStore | None = None,
) -> tuple[list[np.ndarray], list[float | None]]:
    """Natural-log probabilities [scored tokens] of each sequence, and the sum over its prefix.

    ``model`` is a causal language model of transformers that the tree fits (paths.py). The prefix
    sum (first token left out: nothing stands before it) is None unless ``joint``. What ``store``
    has of the spine is not read again, and what is read is put there.
    """
    import torch

    tree = build_tree(sequences)
    wanted = _wanted(tree, sequences, joint)
    with torch.inference_mode():
        values = _forward(model, tree, wanted, limit, store or PrefixStore(0))
    scored = [
        np.array([values[node] for node in path[s.start :]])
        for path, s in zip(tree.paths, sequences, strict=True)
    ]
    prefix: list[float | None] = [None] * len(sequences)
    if joint:
        prefix = [
            float(sum(values[node] for node in path[1 : s.start]))
            for path, s in zip(tree.paths, sequences, strict=True)
        ]
    return scored, prefix


def _wanted(tree: Tree, sequences: Sequence[TokenSequence], joint: bool) -> dict[int, list[int]]:
    """Parent node -> the nodes below it whose probability is asked for."""
    nodes: set[int] = set()
    for path, sequence in zip(tree.paths, sequences, strict=True):
        nodes.update(path[1:] if joint else path[sequence.start :])
    base = len(tree.spine)
    wanted: dict[int, list[int]] = {}
    for node in sorted(nodes):
        parent = node - 1 if node < base else tree.parents[node - base]
        wanted.setdefault(parent, []).append(node)
    return wanted


def _forward(
    model: PreTrainedModel,
    tree: Tree,
    wanted: dict[int, list[int]],
    limit: int,
    store: PrefixStore,
) -> dict[int, float]:
    """Log-probability of every wanted node."""
    import torch
    from transformers import DynamicCache

    base = len(tree.spine)
    values: dict[int, float] = {}
    chain = cut(store.longest(tree.spine), min(wanted, default=base))
    known = length_of(chain)
    # A cache made by the model lets go of what its windows have passed, which branches still see.
    cache = to_cache([chain], [known]) if known else DynamicCache()
    for start, end in _stretches(known, base, wanted):
        spine = torch.tensor([tree.spine[start:end]], device=model.device)
        read, cache = _read(model, spine, range(start, end), tree, wanted, past_key_values=cache)
        values |= read
    if store.limit and cache is not None:
        store.keep(extended(chain, tree.spine, cache, row=0, first=0, end=base - base % BLOCK))
    for members in passes(tree, limit):
        nodes = [base + i for i in members]
        if not any(node in wanted for node in nodes):
            continue  # last tokens only: their probabilities stand with their parents
        tokens = torch.tensor([[tree.tokens[i] for i in members]], device=model.device)
        depths = torch.tensor([[tree.depths[i] for i in members]], device=model.device)
        masks = _masks(tree, members, model)
        placed = {"position_ids": depths, "attention_mask": masks, "past_key_values": cache}
        read, cache = _read(model, tokens, nodes, tree, wanted, **placed)
        values |= read
        cache.crop(-len(members))
    return values


def _stretches(start: int, base: int, wanted: dict[int, list[int]]) -> Iterator[tuple[int, int]]:
    """The spine from ``start`` on, in parts (start, end) with at most LOGIT_ROWS rows of logits."""
    rows = 0
    for node in range(start, base):
        if node in wanted:
            if rows == LOGIT_ROWS:
                yield start, node
                start, rows = node, 0
            rows += 1
    yield start, base


def _read(
    model: PreTrainedModel,
    tokens: torch.Tensor,
    nodes: Sequence[int],
    tree: Tree,
    wanted: dict[int, list[int]],
    **placed: Any,
) -> tuple[dict[int, float], Any]:
    """Log-probabilities of the wanted children of ``nodes``, whose tokens [1, n] are read; and the
    cache with these tokens in it."""
    import torch

    rows = [row for row, node in enumerate(nodes) if node in wanted]
    logits, out = logits_at(model, tokens, rows, use_cache=True, **placed)
    base = len(tree.spine)
    below = [wanted[nodes[row]] for row in rows]
    at = torch.tensor([k for k, each in enumerate(below) for _ in each], device=logits.device)
    flat = [node for each in below for node in each]
    ids = torch.tensor(
        [tree.spine[n] if n < base else tree.tokens[n - base] for n in flat], device=logits.device
    )
    logprobs = logits[at, ids] - torch.logsumexp(logits, dim=-1)[at]
    return dict(zip(flat, logprobs.tolist(), strict=True)), out.past_key_values


def _masks(
    tree: Tree, members: Sequence[int], model: PreTrainedModel
) -> torch.Tensor | dict[str, torch.Tensor]:
    """Additive mask [1, 1, pass, spine + pass]: each token sees its ancestors and itself, as far
    back as a layer's window reaches. One for each kind of layer where a model has several."""
    import torch

    base = len(tree.spine)
    depths = np.array([tree.depths[i] for i in members])
    # How far above each token (row) another stands (column): its depth is its place in the text.
    distance = depths[:, None] - np.concatenate([np.arange(base), depths])[None, :]
    seen = _ancestors(tree, members)
    lowest = torch.finfo(model.dtype).min
    masks = {}
    for kind, window in (tree_windows(model.config) or {"": None}).items():
        near = seen if window is None else seen & (distance < window)
        mask = torch.full(near.shape, lowest, dtype=model.dtype)
        mask[torch.from_numpy(near)] = 0
        masks[kind] = mask[None, None].to(model.device)
    return masks if len(masks) > 1 else next(iter(masks.values()))


def _ancestors(tree: Tree, members: Sequence[int]) -> np.ndarray:
    """[pass, spine + pass]: whether the column's token is the row's or stands above it."""
    base, n = len(tree.spine), len(members)
    row_of = {base + i: row for row, i in enumerate(members)}
    own = np.zeros((n, n), dtype=bool)
    for row, i in enumerate(members):
        above = row_of.get(tree.parents[i])
        if above is not None:
            own[row] = own[above]
        own[row, row] = True
    attach = np.array([tree.attach[i] for i in members])
    return np.concatenate([np.arange(base)[None, :] < attach[:, None], own], axis=1)


# -- one pass a sequence -----------------------------------------------------------------------


def plain_logprobs(
    model: PreTrainedModel, sequences: Sequence[TokenSequence], *, joint: bool = False
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


def _token_logprobs(model: PreTrainedModel, ids: Sequence[int], first: int) -> np.ndarray:
    """Log-probabilities [len(ids) - first] of the tokens from ``first`` (at least 1) on."""
    import torch

    with torch.inference_mode():
        tokens = torch.tensor([list(ids)], device=model.device)
        rows = range(first - 1, len(ids) - 1)
        logits, _ = logits_at(model, tokens, rows, use_cache=False)
        wanted = tokens[0, first:, None]
        logprobs = torch.log_softmax(logits, dim=-1).gather(1, wanted)[:, 0]
    values: np.ndarray = logprobs.cpu().numpy().astype(float)
    return values


def logits_at(
    model: PreTrainedModel, ids: torch.Tensor, rows: Sequence[int], **settings: Any
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
