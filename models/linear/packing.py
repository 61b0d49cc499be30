"""Token vectors without padding: the texts of a batch are packed into one row.

Positions restart with each text, and attention is computed for all texts of one length at once. The
layers are those of transformers, which calls ``packed_attention`` in place of its own attention.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers import AttentionInterface

if TYPE_CHECKING:
    from transformers import PreTrainedModel

PACKED = "medal_packed"
# Bodies whose texts can be packed: each token's position is an argument, all layers see all tokens.
PACKABLE = ("bert", "roberta", "xlm-roberta")
# Tokens of a packed row: they fit the cache of a core; 8,192 take 25% longer.
PASS_TOKENS = 2048


def can_pack(body: PreTrainedModel) -> bool:
    """Returns whether ``packed_sums`` supports the network ``body``: a BERT or RoBERTa encoder on a
    CPU. On a GPU padded batches are faster."""
    config: Any = body.config
    return (
        body.device.type == "cpu"
        and config.model_type in PACKABLE
        and not getattr(config, "is_decoder", False)
    )


def packed_sums(body: PreTrainedModel, pieces: Sequence[Sequence[int]]) -> Tensor:
    """Returns the sum of the token vectors of each of ``pieces``, [P, H] in fp32. ``body``: the
    network. ``pieces``: lists of token ids, sorted by length."""
    # Length: number of texts. The pieces are sorted by length, so texts of one length are together.
    groups = Counter(map(len, pieces))
    config: Any = body.config
    # RoBERTa's positions start after the padding's.
    first = 0 if config.model_type == "bert" else config.pad_token_id + 1
    positions = []
    for length, texts in groups.items():
        positions.append(torch.arange(first, first + length).repeat(texts))
    ids = torch.tensor([list(chain.from_iterable(pieces))])
    attention = config._attn_implementation
    config._attn_implementation = PACKED
    try:
        output = body(
            input_ids=ids, position_ids=torch.cat(positions)[None], groups=groups
        )
    finally:
        config._attn_implementation = attention
    vectors: Tensor = output.last_hidden_state[0].float()
    sums = []
    start = 0
    for length, texts in groups.items():
        end = start + length * texts
        sums.append(vectors[start:end].view(texts, length, -1).sum(1))
        start = end
    return torch.cat(sums)


def packed_attention(
    module: object,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: None,
    *,
    groups: Mapping[int, int],
    **options: object,
) -> tuple[Tensor, None]:
    """Returns the attention output [1, N, heads, size] of a packed row and no attention weights.
    ``query``, ``key`` and ``value`` are [1, heads, N, size]. ``groups``: length -> number of texts,
    in the order of the row. transformers calls this function in place of its own attention."""
    outputs = []
    start = 0
    for length, texts in groups.items():
        end = start + length * texts
        batched: list[Any] = []
        for part in (query, key, value):
            group = part[0, :, start:end]
            batched.append(
                group.reshape(-1, texts, length, group.shape[2]).transpose(0, 1)
            )
        attended = functional.scaled_dot_product_attention(*batched)
        outputs.append(attended.transpose(1, 2).flatten(0, 1))
        start = end
    return torch.cat(outputs)[None], None


AttentionInterface.register(PACKED, packed_attention)
