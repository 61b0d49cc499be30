"""Likelihoods of token sequences; the beginnings that they share are read once.

The sequences of a group form a tree. Its *spine*, the longest prefix, goes through the model in one
causal pass that leaves a key-value cache. All other tokens follow, packed, in passes whose mask
lets each token see its own ancestors only. Every distinct token is computed once, with logits only
where the next token is scored. No copy of the cache is needed per continuation, and all turns of a
dialogue go in one tree. The model's own forward computes the logits, so scaling and soft caps after
its last layer apply. The numbers equal the plain loop (one pass per sequence) if a model accepts
such a mask; trial.py tests that.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import DynamicCache

from medal_judges.models.llm.chat_template import TokenSequence

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

# Packed tokens of one masked pass. Attention is computed densely over spine and pass, so a huge
# pass would spend most of its time on pairs that the mask forbids.
PASS_TOKENS = 512
# Rows of logits in memory at once: 512 x 150,000 words in fp32 are 0.3 GB.
LOGIT_ROWS = 512


@dataclass(slots=True)
class Tree:
    """The distinct tokens of a group.

    Node k < len(spine) is the spine's k-th token; the packed tokens follow. For packed token i,
    ``parents[i]`` is its parent node, ``depths[i]`` its position and ``attach[i]`` the number of
    spine tokens that it sees. ``paths`` lists the nodes of each sequence.
    """

    spine: tuple[int, ...]
    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    attach: list[int] = field(default_factory=list)
    paths: list[list[int]] = field(default_factory=list)

    @property
    def size(self) -> int:
        """The number of distinct tokens."""
        return len(self.spine) + len(self.tokens)


def build_tree(sequences: Sequence[TokenSequence]) -> Tree:
    """The token trie of ``sequences``, with the longest unscored prefix as its spine."""
    longest = max(sequences, key=lambda s: s.start)
    tree = Tree(spine=longest.ids[: longest.start])
    spine = np.array(tree.spine)
    children: dict[tuple[int, int], int] = {}
    for sequence in sequences:
        length = min(len(spine), len(sequence.ids))
        differ = np.flatnonzero(spine[:length] != np.array(sequence.ids[:length]))
        shared = int(differ[0]) if len(differ) else length
        path = list(range(shared))
        for depth in range(shared, len(sequence.ids)):
            parent, token = path[-1] if path else -1, sequence.ids[depth]
            if (parent, token) not in children:
                children[parent, token] = tree.size
                tree.tokens.append(token)
                tree.parents.append(parent)
                tree.depths.append(depth)
                tree.attach.append(shared)
            path.append(children[parent, token])
        tree.paths.append(path)
    return tree


def passes(tree: Tree, limit: int = PASS_TOKENS) -> Iterator[list[int]]:
    """Packed token indices in passes of about ``limit`` tokens. A subtree stays in one pass,
    parents before children."""
    base = len(tree.spine)
    root: list[int] = []
    subtrees: dict[int, list[int]] = {}
    for i, parent in enumerate(tree.parents):
        root.append(i if parent < base else root[parent - base])
        subtrees.setdefault(root[i], []).append(i)
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
) -> tuple[list[np.ndarray], list[float | None]]:
    """Log-probabilities [scored tokens] of each sequence, and the sum over its prefix: None unless
    ``joint``, and without the first token, which nothing precedes."""
    tree = build_tree(sequences)
    base = len(tree.spine)
    scored_children = _scored_children(tree, sequences, joint=joint)
    values: dict[int, float] = {}
    # A cache made by the model drops what its windows have passed, which branches still see.
    cache: Any = DynamicCache()
    with torch.inference_mode():
        # The spine in parts with at most LOGIT_ROWS rows of logits.
        ends = [node for node in range(base) if node in scored_children][
            LOGIT_ROWS::LOGIT_ROWS
        ]
        for start, end in pairwise([0, *ends, base]):
            read, cache = _read(model, range(start, end), tree, scored_children, cache)
            values |= read
        for members in passes(tree, limit):
            nodes = [base + i for i in members]
            if scored_children.keys().isdisjoint(nodes):
                continue  # last tokens only: their parents' logits score them
            depths = torch.tensor(
                [[tree.depths[i] for i in members]], device=model.device
            )
            masks = _masks(tree, members, model)
            inputs = {"position_ids": depths, "attention_mask": masks}
            read, cache = _read(model, nodes, tree, scored_children, cache, **inputs)
            values |= read
            cache.crop(-len(members))
    scored: list[np.ndarray] = []
    prefix: list[float | None] = []
    for path, sequence in zip(tree.paths, sequences, strict=True):
        scored.append(np.array([values[node] for node in path[sequence.start :]]))
        before = path[1 : sequence.start]
        prefix.append(float(sum(values[node] for node in before)) if joint else None)
    return scored, prefix


def _scored_children(
    tree: Tree, sequences: Sequence[TokenSequence], *, joint: bool
) -> dict[int, list[int]]:
    """Returns parent -> those of its children whose log-probability is needed."""
    base = len(tree.spine)
    nodes: set[int] = set()
    for path, sequence in zip(tree.paths, sequences, strict=True):
        nodes.update(path[1 if joint else sequence.start :])
    children: dict[int, list[int]] = {}
    for node in sorted(nodes):
        parent = node - 1 if node < base else tree.parents[node - base]
        children.setdefault(parent, []).append(node)
    return children


def _read(
    model: PreTrainedModel,
    nodes: Sequence[int],
    tree: Tree,
    scored_children: Mapping[int, Sequence[int]],
    cache: Any,
    **inputs: Any,
) -> tuple[dict[int, float], Any]:
    """Reads the tokens of ``nodes``; returns the log-probabilities of their scored children
    and the extended cache."""
    all_ids = (*tree.spine, *tree.tokens)
    tokens = torch.tensor([[all_ids[node] for node in nodes]], device=model.device)
    rows: list[int] = []  # the nodes with scored children
    children: list[int] = []
    row_of_child: list[int] = []
    for position, node in enumerate(nodes):
        if node in scored_children:
            children += scored_children[node]
            row_of_child += [len(rows)] * len(scored_children[node])
            rows.append(position)
    name = cache_name(model)
    logits, out = logits_at(
        model, tokens, rows, use_cache=True, **inputs, **{name: cache}
    )
    at = torch.tensor(row_of_child, device=logits.device)
    ids = torch.tensor([all_ids[child] for child in children], device=logits.device)
    logprobs = logits[at, ids] - torch.logsumexp(logits, dim=-1)[at]
    return dict(zip(children, logprobs.tolist(), strict=True)), getattr(out, name)


def _masks(
    tree: Tree, members: Sequence[int], model: PreTrainedModel
) -> torch.Tensor | dict[str, torch.Tensor]:
    """Additive mask [1, 1, pass, spine + pass]: each token sees its ancestors and itself, within a
    layer's window. One mask per kind of layer if a model has several kinds."""
    base, n = len(tree.spine), len(members)
    row_of = {base + i: row for row, i in enumerate(members)}
    ancestors = np.zeros((n, n), dtype=bool)
    for row, i in enumerate(members):
        above = row_of.get(tree.parents[i])
        if above is not None:
            ancestors[row] = ancestors[above]
        ancestors[row, row] = True
    attach = np.array([tree.attach[i] for i in members])
    visible = np.concatenate(
        [np.arange(base)[None, :] < attach[:, None], ancestors], axis=1
    )
    # A token's depth is its position in the text, which windows are measured by.
    depths = np.array([tree.depths[i] for i in members])
    distance = depths[:, None] - np.concatenate([np.arange(base), depths])[None, :]
    lowest = torch.finfo(model.dtype).min
    masks = {}
    for kind, window in (layer_windows(model.config)[1] or {"": None}).items():
        near = visible if window is None else visible & (distance < window)
        mask = torch.full(near.shape, lowest, dtype=model.dtype)
        mask[torch.from_numpy(near)] = 0
        masks[kind] = mask[None, None].to(model.device)
    return masks if len(masks) > 1 else next(iter(masks.values()))


# -- one pass a sequence -----------------------------------------------------------------------


def plain_logprobs(
    model: PreTrainedModel, sequences: Sequence[TokenSequence], *, joint: bool = False
) -> tuple[list[np.ndarray], list[float | None]]:
    """As ``tree_logprobs``, one forward pass per sequence."""
    scored: list[np.ndarray] = []
    prefix: list[float | None] = []
    for sequence in sequences:
        first = 1 if joint else sequence.start
        with torch.inference_mode():
            tokens = torch.tensor([list(sequence.ids)], device=model.device)
            rows = range(first - 1, len(sequence.ids) - 1)
            logits, _ = logits_at(model, tokens, rows, use_cache=False)
            logprobs = torch.log_softmax(logits, dim=-1).gather(
                1, tokens[0, first:, None]
            )[:, 0]
        values = logprobs.cpu().numpy().astype(float)
        before = len(values) - (len(sequence.ids) - sequence.start)
        scored.append(values[before:])
        prefix.append(float(values[:before].sum()) if joint else None)
    return scored, prefix


def logits_at(
    model: PreTrainedModel, ids: torch.Tensor, rows: Sequence[int], **settings: Any
) -> tuple[torch.Tensor, Any]:
    """(logits [len(rows), words] in fp32 at the places ``rows`` of the one sequence ``ids`` [1, n],
    the output of the model's own forward)."""
    places = torch.tensor(list(rows), dtype=torch.long, device=ids.device)
    if takes(model, "logits_to_keep"):
        out = model(input_ids=ids, logits_to_keep=places, **settings)
        return out.logits[0].float(), out
    out = model(input_ids=ids, **settings)
    return out.logits[0, places].float(), out


def cache_name(model: PreTrainedModel) -> str:
    """The name of the cache in the model's inputs and outputs; older transformers have another."""
    return "cache" if takes(model, "cache") else "past_key_values"


def takes(model: PreTrainedModel, name: str) -> bool:
    """Whether the model's forward has a parameter ``name``."""
    return name in inspect.signature(model.forward).parameters


# -- how far a model's layers see, by its config --------------------------------------------------

# The names of a window, in tokens, and of the context in configs of transformers.
_WINDOWS = (
    *("sliding_window", "attention_window", "attention_window_size"),
    *("attention_chunk_size", "local_attention", "window_size"),
)
_CONTEXTS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
_RECURRENT = ("mamba", "rwkv", "jamba", "zamba")
_FULL, _SLIDING = "full_attention", "sliding_attention"


def context_of(config: PreTrainedConfig) -> int | None:
    """The number of positions that the model has; None if its config sets no bound."""
    return min(_sizes(config, _CONTEXTS)[:1], default=None)


def _sizes(config: PreTrainedConfig, names: Sequence[str]) -> list[int]:
    """The positive numbers among the fields ``names`` of the decoder's config."""
    decoder = config.get_text_config(decoder=True)
    values = [getattr(decoder, name, None) for name in names]
    return [value for value in values if isinstance(value, int) and value > 0]


def layer_windows(
    config: PreTrainedConfig,
) -> tuple[int | None, Mapping[str, int | None] | None]:
    """(the shortest window of any layer in tokens, None if every layer sees all tokens before;
    the window of each kind of layer, None if a layer sees in a way that no mask expresses, such as
    chunks or a recurrent state)."""
    decoder = config.get_text_config(decoder=True)
    # GPT-Neo has another name for the list.
    layer_types = getattr(decoder, "layer_types", None) or getattr(
        decoder, "attention_layers", ()
    )
    kinds = {*map(str, layer_types or ())}
    window = min(_sizes(config, _WINDOWS), default=None)
    if kinds:
        limited = re.compile("sliding|chunked|local|window")
        is_limited = any(map(limited.search, kinds))
    else:
        is_limited = getattr(decoder, "use_sliding_window", True)
    if not is_limited:
        window = None
    if any(word in decoder.model_type for word in _RECURRENT):
        return window, None
    if window is None:
        return None, {_FULL: None} if kinds <= {_FULL, "global"} else None
    windows = {_FULL: None, _SLIDING: window}
    kinds = kinds or {_SLIDING}
    if (
        window != getattr(decoder, "sliding_window", None)
        or not kinds <= windows.keys()
    ):
        return window, None
    return window, {kind: size for kind, size in windows.items() if kind in kinds}
