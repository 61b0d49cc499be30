"""Likelihoods of token sequences. A beginning that they share is computed once.

The sequences of a group form a tree. Its *spine* is the longest prefix. The model reads it in one
causal pass, which leaves a key-value cache. All other tokens follow in packed passes. Their
attention mask lets each token see only the tokens before it in its own sequence. So every distinct
token is computed once, and the cache is never copied. Logits are computed only where the next token
is scored.

The model's own forward computes the logits, so scaling and soft caps after its last layer apply. If
a model accepts such a mask, the numbers equal those of one pass for each sequence. ``TESTED`` lists
the architectures for which this was checked.
"""

from __future__ import annotations

import inspect
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

# Packed tokens of one masked pass. Attention is computed densely over spine and pass, so on a CPU a
# huge pass would spend most of its time on pairs that the mask forbids. A GPU waits for small ones:
# with Qwen3-4B an H100 takes 2.7 times as long in passes of 512 tokens as in passes of 8,192.
PASS_TOKENS = 512
GPU_PASS_TOKENS = 8192
# Rows of logits in memory at once: 512 x 150,000 words in fp32 are 0.3 GB.
LOGIT_ROWS = 512


@dataclass(slots=True)
class Tree:
    """A prefix tree (trie) of token sequences. Each node is a token, stored once for all sequences
    that share it.

    The prefix of a sequence is its tokens before the part whose likelihood is computed. The first
    ``base`` nodes are the longest of these prefixes. The other nodes follow, each after its parent.

    Attributes:
        base: The number of nodes of the longest prefix.
        tokens: The token id of each node.
        parents: For each node, the index of its parent among the nodes. It is -1 for the first
            token of a sequence.
        depths: For each node, its position in the sequence, counted from 0.
        paths: For each sequence, the indices of its nodes, in order.
    """

    base: int
    tokens: list[int]
    parents: list[int]
    depths: list[int]
    paths: list[list[int]] = field(default_factory=list)

    @property
    def size(self) -> int:
        """The number of nodes."""
        return len(self.tokens)


def build_tree(sequences: Sequence[TokenSequence]) -> Tree:
    """Returns the prefix tree of ``sequences``. A beginning that sequences share is stored once."""
    longest = max(sequences, key=lambda sequence: sequence.start)
    base = longest.start
    spine = np.array(longest.ids[:base])
    tree = Tree(base, spine.tolist(), list(range(-1, base - 1)), list(range(base)))
    children: dict[tuple[int, int], int] = {}
    for sequence in sequences:
        length = min(base, len(sequence.ids))
        differ = np.flatnonzero(spine[:length] != np.array(sequence.ids[:length]))
        shared = length
        if len(differ):
            shared = int(differ[0])
        path, parent = list(range(shared)), shared - 1
        for depth in range(shared, len(sequence.ids)):
            token = sequence.ids[depth]
            if (parent, token) not in children:
                children[parent, token] = tree.size
                tree.tokens.append(token)
                tree.parents.append(parent)
                tree.depths.append(depth)
            parent = children[parent, token]
            path.append(parent)
        tree.paths.append(path)
    return tree


def split_into_passes(tree: Tree, limit: int) -> Iterator[list[int]]:
    """Yields lists of nodes of ``tree``, by their indices. The model reads each list in one pass.

    Args:
        tree: The prefix tree. The nodes of its longest prefix are in no list.
        limit: The intended maximum number of nodes in a list. A subtree is never split, so a larger
            subtree is a list of its own.
    """
    root: dict[int, int] = {}
    subtrees: dict[int, list[int]] = {}
    for node in range(tree.base, tree.size):
        root[node] = root.get(tree.parents[node], node)
        subtrees.setdefault(root[node], []).append(node)
    nodes: list[int] = []
    for subtree in subtrees.values():
        if nodes and len(nodes) + len(subtree) > limit:
            yield nodes
            nodes = []
        nodes += subtree
    if nodes:
        yield nodes


def score_as_tree(
    model: PreTrainedModel,
    sequences: Sequence[TokenSequence],
    *,
    joint: bool = False,
    limit: int | None = None,
) -> tuple[list[np.ndarray], list[float | None]]:
    """Computes the log-probabilities of the scored part of each sequence. A beginning that
    sequences share is computed once.

    Args:
        model: A causal language model with eager or SDPA attention.
        sequences: The token ids of each sequence. Its scored part is the tokens from ``start`` on.
        joint: Whether to compute the log-probability of the tokens before the scored part too.
        limit: The approximate number of tokens in a forward pass. None is 512 on a CPU and 8192 on
            a GPU.

    Returns:
        Two lists with an entry for each sequence. In the first list, the entry is an array with the
        log-probability of each token of the scored part. In the second, it is the summed
        log-probability of the tokens before the scored part, or None if ``joint`` is False.
    """
    if limit is None:
        limit = PASS_TOKENS if model.device.type == "cpu" else GPU_PASS_TOKENS
    tree = build_tree(sequences)
    scored_children = _scored_children(tree, sequences, joint=joint)
    logprobs: dict[int, float] = {}
    # A cache made by the model drops what its windows have passed, which branches still see.
    cache: Any = DynamicCache()
    with torch.inference_mode():
        # The spine in parts with at most LOGIT_ROWS rows of logits.
        scored_spine = sorted(node for node in scored_children if node < tree.base)
        ends = [*scored_spine[LOGIT_ROWS::LOGIT_ROWS], tree.base]
        for start, end in pairwise([0, *ends]):
            nodes = range(start, end)
            read, cache = _compute_child_logprobs(
                model, nodes, tree, scored_children, cache
            )
            logprobs |= read
        for packed in split_into_passes(tree, limit):
            if scored_children.keys().isdisjoint(packed):
                continue  # last tokens only: their parents' logits score them
            depths = torch.tensor(tree.depths, device=model.device)[None, packed]
            masks = _attention_mask(tree, packed, model)
            inputs = {"position_ids": depths, "attention_mask": masks}
            read, cache = _compute_child_logprobs(
                model, packed, tree, scored_children, cache, **inputs
            )
            logprobs |= read
            cache.crop(-len(packed))
    scored: list[np.ndarray] = []
    prefix: list[float | None] = [None] * len(sequences)
    for index, (path, sequence) in enumerate(zip(tree.paths, sequences, strict=True)):
        scored.append(np.array([logprobs[node] for node in path[sequence.start :]]))
        if joint:
            # The first token has no log-probability.
            prefix[index] = float(sum(logprobs[k] for k in path[1 : sequence.start]))
    return scored, prefix


def _scored_children(
    tree: Tree, sequences: Sequence[TokenSequence], *, joint: bool
) -> dict[int, list[int]]:
    """Returns node -> its children whose log-probability is needed.

    Args:
        tree: The prefix tree of ``sequences``.
        joint: Whether the log-probabilities of prefixes are needed too.
    """
    nodes: set[int] = set()
    for path, sequence in zip(tree.paths, sequences, strict=True):
        nodes.update(path[_first_scored_index(sequence, joint) :])
    children: dict[int, list[int]] = {}
    for node in sorted(nodes):
        children.setdefault(tree.parents[node], []).append(node)
    return children


def _first_scored_index(sequence: TokenSequence, joint: bool) -> int:
    """Returns the index of the first token of ``sequence`` whose log-probability is needed: 1 with
    ``joint``, otherwise where the scored part begins."""
    if joint:
        return 1
    return sequence.start


def _compute_child_logprobs(
    model: PreTrainedModel,
    nodes: Sequence[int],
    tree: Tree,
    scored_children: Mapping[int, Sequence[int]],
    cache: Any,
    **inputs: Any,
) -> tuple[dict[int, float], Any]:
    """Runs ``model`` on the tokens of ``nodes``, with the tokens before them in ``cache``.

    Args:
        tree: The prefix tree of the tokens.
        scored_children: Node -> its children whose log-probability is needed.
        inputs: Further arguments of the model.

    Returns:
        (scored child -> its log-probability, the cache extended by ``nodes``).
    """
    token_ids = torch.tensor(tree.tokens, device=model.device)
    rows: list[int] = []  # the nodes with scored children
    children: list[int] = []
    row_of_child: list[int] = []
    for position, node in enumerate(nodes):
        if node in scored_children:
            children += scored_children[node]
            row_of_child += [len(rows)] * len(scored_children[node])
            rows.append(position)
    name = cache_argument(model)
    inputs |= {"use_cache": True, name: cache}
    logits, out = run_for_logits(model, token_ids[None, nodes], rows, **inputs)
    at = torch.tensor(row_of_child, device=logits.device)
    chosen = logits[at, token_ids[children]]
    logprobs = chosen - torch.logsumexp(logits, dim=-1)[at]
    return dict(zip(children, logprobs.tolist(), strict=True)), getattr(out, name)


def _attention_mask(
    tree: Tree, nodes: Sequence[int], model: PreTrainedModel
) -> torch.Tensor | dict[str, torch.Tensor]:
    """Returns the additive attention mask [1, 1, nodes, base + nodes] with which each node sees
    only itself and its ancestors.

    If the layers of ``model`` differ in their attention window, returns kind of layer -> its mask.

    Args:
        tree: The prefix tree of the tokens.
        nodes: The nodes of one forward pass.
    """
    base = tree.base
    column_of = {node: column for column, node in enumerate(nodes, start=base)}
    visible = np.zeros((len(nodes), base + len(nodes)), dtype=bool)
    for row, node in enumerate(nodes):
        parent = tree.parents[node]
        if parent < base:
            visible[row, : parent + 1] = True
        else:
            visible[row] = visible[column_of[parent] - base]
        visible[row, column_of[node]] = True
    # A token's depth is its position in the text, which windows are measured by.
    depths = np.array(tree.depths)
    distance = depths[nodes, None] - depths[[*range(base), *nodes]]
    lowest = torch.finfo(model.dtype).min
    masks = {}
    for kind, window in layer_windows(model.config).items():
        near = visible
        if window is not None:
            near = visible & (distance < window)
        mask = torch.full(near.shape, lowest, dtype=model.dtype)
        mask[torch.from_numpy(near)] = 0
        masks[kind] = mask[None, None].to(model.device)
    if len(masks) == 1:
        return masks.popitem()[1]
    return masks


# -- one pass a sequence -----------------------------------------------------------------------


def score_one_by_one(
    model: PreTrainedModel, sequences: Sequence[TokenSequence], *, joint: bool = False
) -> tuple[list[np.ndarray], list[float | None]]:
    """Computes the log-probabilities of the scored part of each sequence. Each sequence has its own
    forward pass.

    Args:
        model: A causal language model.
        sequences: The token ids of each sequence. Its scored part is the tokens from ``start`` on.
        joint: Whether to compute the log-probability of the tokens before the scored part too.

    Returns:
        Two lists with an entry for each sequence. In the first list, the entry is an array with the
        log-probability of each token of the scored part. In the second, it is the summed
        log-probability of the tokens before the scored part, or None if ``joint`` is False.
    """
    scored: list[np.ndarray] = []
    prefix: list[float | None] = []
    for sequence in sequences:
        first = _first_scored_index(sequence, joint)
        tokens = torch.tensor([sequence.ids], device=model.device)
        rows = range(first - 1, len(sequence.ids) - 1)
        with torch.inference_mode():
            logits, _ = run_for_logits(model, tokens, rows, use_cache=False)
            logprobs = torch.log_softmax(logits, dim=-1)
            logprobs = logprobs.gather(1, tokens[0, first:, None])[:, 0]
        before, after = np.split(
            logprobs.cpu().numpy().astype(float), [sequence.start - first]
        )
        scored.append(after)
        prefix.append(float(before.sum()) if joint else None)
    return scored, prefix


def run_for_logits(
    model: PreTrainedModel, ids: torch.Tensor, rows: Sequence[int], **settings: Any
) -> tuple[torch.Tensor, Any]:
    """Runs ``model`` on one sequence of tokens.

    Args:
        ids: The token ids, [1, n].
        rows: The positions of the tokens whose logits are needed, counted from 0.
        settings: Further arguments of the model, such as ``use_cache=False``.

    Returns:
        (logits [len(rows), vocabulary] in fp32, whole output of the model).
    """
    places = torch.tensor(list(rows), dtype=torch.long, device=ids.device)
    if takes_argument(model, "logits_to_keep"):
        out = model(input_ids=ids, logits_to_keep=places, **settings)
        return out.logits[0].float(), out
    out = model(input_ids=ids, **settings)
    return out.logits[0, places].float(), out


def cache_argument(model: PreTrainedModel) -> str:
    """Returns the name under which ``model`` takes and returns its key-value cache, such as
    ``past_key_values``."""
    return "cache" if takes_argument(model, "cache") else "past_key_values"


def takes_argument(model: PreTrainedModel, name: str) -> bool:
    """Returns whether ``forward`` of ``model`` has a parameter ``name``."""
    return name in inspect.signature(model.forward).parameters


# -- architectures ---------------------------------------------------------------------------------

# Those whose quick ways were compared with the plain loop (tests/models/llm/test_architectures.py).
# Others are read one sequence a pass and answer one prompt at a time.
TESTED = {
    "cohere",
    "cohere2",
    "deepseek_v3",
    "gemma2",
    "gemma3",
    "gemma3_text",
    "gpt2",
    "gpt_neox",
    "gpt_oss",
    "gptj",
    "granite",
    "granitemoe",
    "llama",
    "mistral",
    "olmo",
    "olmo2",
    "opt",
    "phi3",
    "qwen2",
    "qwen3",
    "qwen3_moe",
    "smollm3",
}
# Attention that takes any mask.
_MASKED = ("eager", "sdpa")
_CONTEXTS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
_SLIDING = "sliding_attention"


def context_length(config: PreTrainedConfig) -> int:
    """Returns the context length in tokens that the ``config`` of a transformers model states, or
    1,000,000 if it states none."""
    decoder = config.get_text_config(decoder=True)
    for name in _CONTEXTS:
        size = getattr(decoder, name, None)
        if isinstance(size, int) and size > 0:
            return size
    return 1_000_000


def is_tested(config: PreTrainedConfig) -> bool:
    """Returns whether batching prompts and sharing prefixes were tested for the model with this
    ``config``. That is True for the tested architectures, such as llama, with eager or SDPA
    attention."""
    attention = getattr(config, "_attn_implementation", None)
    return config.model_type in TESTED and attention in _MASKED


def can_share_prefix(config: PreTrainedConfig) -> bool:
    """Returns whether a prefix of several prompts can be computed once for all of them.

    Args:
        config: The model's config. The result is True only for a tested architecture with eager or
            SDPA attention, without sliding windows, and without rotary scaling that depends on the
            sequence length.
    """
    decoder = config.get_text_config(decoder=True)
    rope = getattr(decoder, "rope_parameters", None) or {}
    # One mapping for the model, or one for each kind of layer.
    for parameters in (rope, *rope.values()):
        kind = parameters.get("rope_type") if isinstance(parameters, dict) else None
        if kind in ("dynamic", "longrope"):
            return False
    return is_tested(config) and set(layer_windows(config).values()) == {None}


def layer_windows(config: PreTrainedConfig) -> Mapping[str, int | None]:
    """Returns kind of layer -> how many tokens back its attention reaches, such as
    ``{"full_attention": None, "sliding_attention": 4096}``. None is no limit.

    If the config does not name its kinds of layers, the only key is an empty string.
    """
    decoder = config.get_text_config(decoder=True)
    window = getattr(decoder, "sliding_window", None)
    if not getattr(decoder, "use_sliding_window", True):
        window = None
    kinds = getattr(decoder, "layer_types", None)
    if not kinds:
        return {"": window}
    windows = dict.fromkeys(kinds)
    if _SLIDING in windows:
        windows[_SLIDING] = window
    return windows
