"""BERT without padding: the texts of a batch are packed into one row.

The token vectors are the same as with transformers, which takes longer to import than this takes
for ten dialogues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

# Bases that PackedBert computes.
PACKABLE = ("embedded:minilm", "embedded:e5")
# Tokens of a packed row: they fit the cache of a core; 8,192 take 25% longer.
PASS_TOKENS = 2048


class PackedBert:
    """A BERT encoder that reads a batch of texts without padding, as one long row of tokens.

    Args:
        weights: Tensor name -> weights, as transformers saves them.
        settings: The fields of transformers' config.json, such as ``num_hidden_layers``.
        dtype: The precision that the weights are cast to.
    """

    def __init__(
        self, weights: Mapping[str, Tensor], settings: Any, dtype: torch.dtype
    ) -> None:
        self.settings = settings
        self.weights = {}
        for name, weight in weights.items():
            self.weights[name] = weight.to(dtype)

    def token_sums(self, pieces: Sequence[Sequence[int]]) -> Tensor:
        """Returns the sum of the token vectors of each of P texts, [P, H] in fp32, where H is the
        width of the encoder.

        Args:
            pieces: The token ids of each text. Texts with the same number of tokens must follow
                each other.
        """
        settings = self.settings
        # The pieces are sorted by length, so texts of one length are together.
        lengths = Counter(map(len, pieces))
        sizes = [length * texts for length, texts in lengths.items()]
        positions = torch.cat(list(map(torch.arange, map(len, pieces))))
        words, types, places = (
            self.weights[f"embeddings.{name}_embeddings.weight"]
            for name in ("word", "token_type", "position")
        )
        vectors = words[list(chain.from_iterable(pieces))] + types[0]
        vectors = self._layer_norm("embeddings", vectors + places[positions])
        for number in range(settings.num_hidden_layers):
            layer = f"encoder.layer.{number}"
            outputs = self._attend(f"{layer}.attention.self", vectors, lengths, sizes)
            vectors = self._dense_add_and_norm(
                f"{layer}.attention.output", outputs, vectors
            )
            wide = self._linear(f"{layer}.intermediate.dense", vectors)
            vectors = self._dense_add_and_norm(
                f"{layer}.output", functional.gelu(wide), vectors
            )
        sums = []
        parts = vectors.float().split(sizes)
        for length, part in zip(lengths, parts, strict=True):
            sums.append(part.unflatten(0, (-1, length)).sum(1))
        return torch.cat(sums)

    def _attend(
        self, name: str, vectors: Tensor, lengths: Iterable[int], sizes: Sequence[int]
    ) -> Tensor:
        """Returns the output of one self-attention layer, [N, H]. Tokens attend only to tokens of
        their own text.

        Args:
            name: The start of the layer's tensor names, such as ``encoder.layer.0.attention.self``.
            vectors: The vectors of all N tokens, sorted by the length of their text, [N, H].
            lengths: The distinct lengths of texts, in the order of ``vectors``.
            sizes: For each of ``lengths``, the number of tokens of all its texts together.
        """
        shape = (len(vectors), self.settings.num_attention_heads, -1)
        parts = []
        for part in ("query", "key", "value"):
            mapped = self._linear(f"{name}.{part}", vectors).view(shape)
            parts.append(mapped.split(sizes))
        outputs = []
        for length, *groups in zip(lengths, *parts, strict=True):
            batched = []
            for group in groups:
                batched.append(group.unflatten(0, (-1, length)).transpose(1, 2))
            attended = functional.scaled_dot_product_attention(*batched)
            outputs.append(attended.transpose(1, 2).flatten(2).flatten(0, 1))
        return torch.cat(outputs)

    def _linear(self, name: str, vectors: Tensor) -> Any:
        weight = self.weights[f"{name}.weight"]
        return functional.linear(vectors, weight, self.weights[f"{name}.bias"])

    def _dense_add_and_norm(self, name: str, wide: Tensor, vectors: Tensor) -> Any:
        """Applies the dense layer ``name`` to ``wide`` [N, ...], adds ``vectors`` [N, H] and
        applies LayerNorm to the sum, [N, H]."""
        return self._layer_norm(name, self._linear(f"{name}.dense", wide).add_(vectors))

    def _layer_norm(self, name: str, vectors: Tensor) -> Any:
        weight = self.weights[f"{name}.LayerNorm.weight"]
        bias = self.weights[f"{name}.LayerNorm.bias"]
        epsilon = self.settings.layer_norm_eps
        return functional.layer_norm(vectors, weight.shape, weight, bias, epsilon)
