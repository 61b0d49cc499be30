"""Token vectors without padding: the texts of a batch are packed into one row.

Positions restart with each text, and attention is computed for all texts of one length at once. The
layers are those of transformers, which calls ``packed_attention`` in place of its own attention.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, groupby
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
PASS_TOKENS = (
    2048  # tokens of a packed row: they fit the cache of a core; 8,192 take 25% longer
)


def can_pack(body: PreTrainedModel) -> bool:
    """Returns whether ``packed_sums`` supports ``body``. On a GPU padded batches are faster."""
    config: Any = body.config
    return (
        body.device.type == "cpu"
        and config.model_type in PACKABLE
        and not getattr(config, "is_decoder", False)
    )


def packed_sums(body: PreTrainedModel, pieces: Sequence[Sequence[int]]) -> Tensor:
    """Returns the sum of the token vectors [P, H] (fp32) of each of ``pieces`` (token ids), which
    are sorted by length."""
    # (texts, their length) of each length; the pieces are sorted by it.
    groups = [
        (len(list(lengths)), length) for length, lengths in groupby(map(len, pieces))
    ]
    config: Any = body.config
    # RoBERTa's positions start after the padding's.
    first = 0 if config.model_type == "bert" else config.pad_token_id + 1
    positions = [
        torch.arange(first, first + length).repeat(texts) for texts, length in groups
    ]
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
    rows = torch.split(vectors, [texts * length for texts, length in groups])
    sums = [
        row.view(texts, length, -1).sum(1)
        for row, (texts, length) in zip(rows, groups, strict=True)
    ]
    return torch.cat(sums)


def packed_attention(
    module: object,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: None,
    *,
    groups: Sequence[tuple[int, int]],
    **options: object,
) -> tuple[Tensor, None]:
    """Returns the attention output [1, N, heads, size] of a packed row [1, heads, N, size];
    ``groups`` are (number of texts, length), in the order of the row."""
    heads, size = query.shape[1], query.shape[3]
    lengths = [texts * length for texts, length in groups]
    split = (torch.split(part[0], lengths, dim=1) for part in (query, key, value))
    outputs = []
    for part, (texts, length) in zip(zip(*split, strict=True), groups, strict=True):
        batched = [
            tensor.reshape(heads, texts, length, size).transpose(0, 1)
            for tensor in part
        ]
        attended = functional.scaled_dot_product_attention(*batched)
        outputs.append(attended.transpose(1, 2).reshape(1, texts * length, heads, size))
    return torch.cat(outputs, dim=1), None


AttentionInterface.register(PACKED, packed_attention)
