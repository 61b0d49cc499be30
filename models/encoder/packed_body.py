"""A BERT body on a CPU that reads texts without padding, with fused layers.

transformers' forward pads a batch to its longest text, lays out a layer's weights again at each
call, and writes every step of a layer to memory. Here all tokens of a batch lie in one row: texts
are sorted by length, attention runs over each group of equal length (nothing is padded, nothing is
masked), weights are laid out once for oneDNN, and GELU and the residual sum are part of the matrix
product. The numbers are those of transformers (fp32: 1e-5), which is tried when a body is first
used; where it does not hold, or torch has no oneDNN, the body's own forward is taken.

The operators are the ones that torch.compile calls after freezing; compiling itself takes half a
minute and a C++ compiler on the user's machine.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, groupby
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from medal_judges.models.encoder.bert_body import KINDS, first_position

if TYPE_CHECKING:
    from medal_judges.models.encoder.body import Body

logger = logging.getLogger(__name__)

# Tokens of a pass: two megabytes of L2 hold them; 8,192 are a quarter slower in bf16.
PASS_TOKENS = 2048
_ROWS = 256
_ALLOWED = {torch.float32: 1e-4, torch.bfloat16: 0.05}  # of the largest value, in the trial
_TRIAL = (3, 11, 11, 27)  # lengths of the trial's texts

Normal = tuple[Tensor, Tensor, float]  # weight, bias, eps of a layer norm


class _Linear:
    """A linear layer with its weight laid out for oneDNN, and what follows it fused in."""

    def __init__(self, *parts: nn.Linear) -> None:
        weight = torch.cat([part.weight.detach() for part in parts])
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), None)
        self.bias = torch.cat([part.bias.detach() for part in parts])

    def __call__(self, rows: Tensor, activation: str = "none") -> Tensor:
        """``activation`` of the layer's output [N, outputs] of ``rows`` [N, inputs]."""
        run = torch.ops.mkldnn._linear_pointwise
        out: Tensor = run(rows, self.weight, self.bias, activation, [], "none")
        return out

    def plus(self, rows: Tensor, residual: Tensor) -> Tensor:
        """The layer's output added to ``residual`` [N, outputs]."""
        run = torch.ops.mkldnn._linear_pointwise.binary
        out: Tensor = run(rows, residual, self.weight, self.bias, "add")
        return out


@dataclass(slots=True)
class _Layer:
    heads: int
    attention_input: _Linear  # query, key and value side by side
    attention_output: _Linear
    attention_norm: Normal
    inner: _Linear
    outer: _Linear
    norm: Normal

    def __call__(self, rows: Tensor, groups: Sequence[tuple[int, int]]) -> Tensor:
        """Token vectors [N, H] after the layer; ``groups`` are (texts, length) in order."""
        hidden = rows.shape[1]
        shape = (3, self.heads, hidden // self.heads)
        sizes = [texts * length for texts, length in groups]
        seen = []
        for part, (texts, length) in zip(
            torch.split(self.attention_input(rows), sizes), groups, strict=True
        ):
            query, key, value = part.view(texts, length, *shape).permute(2, 0, 3, 1, 4)
            found = functional.scaled_dot_product_attention(query, key, value)
            seen.append(found.transpose(1, 2).reshape(-1, hidden))
        rows = self.attention_output.plus(torch.cat(seen), rows)
        rows = _normalised(rows, self.attention_norm)
        return _normalised(self.outer.plus(self.inner(rows, "gelu"), rows), self.norm)


class PackedBody:
    """The layers of ``body`` as they read packed texts; ``key`` tells whether it has changed.

    ``agrees``: whether the numbers are those of its own forward. Where they are not, or torch lacks
    an operator, that is said once, nothing is kept, and the own forward is to be taken.
    """

    def __init__(self, body: Body) -> None:
        self.key, self.agrees = _state_of(body), False
        self.layers: list[_Layer] = []
        try:
            self._lay_out(body)
            share = _difference(self, body)
        except (RuntimeError, AttributeError, IndexError) as error:  # private operators, few places
            told = str(error).splitlines()[0]
        else:
            self.agrees = share <= _ALLOWED[body.dtype]
            told = f"packed, they differ by {share:g}"
        if not self.agrees:
            self.layers = []
            logger.warning("texts are read one padded batch at a time: %s", told)

    def _lay_out(self, body: Body) -> None:
        parts: Any = body
        config, self.embeddings = body.config, parts.embeddings
        self.first = first_position(config)
        self.layers = [
            _Layer(
                heads=config.num_attention_heads,
                attention_input=_Linear(
                    layer.attention.self.query, layer.attention.self.key, layer.attention.self.value
                ),
                attention_output=_Linear(layer.attention.output.dense),
                attention_norm=_norm(layer.attention.output.LayerNorm),
                inner=_Linear(layer.intermediate.dense),
                outer=_Linear(layer.output.dense),
                norm=_norm(layer.output.LayerNorm),
            )
            for layer in parts.encoder.layer
        ]

    def sums(self, pieces: Sequence[Sequence[int]]) -> Tensor:
        """Sum of token vectors [P, H] (fp32) of each of ``pieces``, token ids sorted by length."""
        tokens = sum(map(len, pieces))
        # oneDNN makes its kernels for each number of rows anew, which takes a fifth of a pass:
        # texts of one token, whose sums are dropped, bring most passes to one number.
        fill = -tokens % _ROWS if tokens > PASS_TOKENS // 2 else 0
        filled: list[Sequence[int]] = [*pieces, *[(0,)] * fill]
        groups = [(len(list(same)), length) for length, same in groupby(map(len, filled))]
        rows = self._embedded(torch.tensor(list(chain.from_iterable(filled))), groups)
        for layer in self.layers:
            rows = layer(rows, groups)
        cut = torch.split(rows.float(), [texts * length for texts, length in groups])
        return torch.cat(
            [
                part.view(texts, length, -1).sum(1)
                for part, (texts, length) in zip(cut, groups, strict=True)
            ]
        )[: len(pieces)]

    def _embedded(self, ids: Tensor, groups: Sequence[tuple[int, int]]) -> Tensor:
        places = torch.cat(
            [torch.arange(self.first, self.first + length).repeat(n) for n, length in groups]
        )
        parts = self.embeddings
        # In the order in which transformers adds them: bf16 rounds each sum.
        rows = parts.word_embeddings(ids) + parts.token_type_embeddings.weight[0]
        return _normalised(rows + parts.position_embeddings(places), _norm(parts.LayerNorm))


def packed(body: Body, kept: PackedBody | None) -> PackedBody | None:
    """``body`` as it reads packed texts, or None where its own forward has to be taken: another
    family or device, or weights that are being trained.

    ``kept``, which an earlier call gave, comes back where the weights are still the same; so does
    one that does not agree, which is then not tried again.
    """
    if not _fits(body):
        return None
    return kept if kept is not None and kept.key == _state_of(body) else PackedBody(body)


def _fits(body: Body) -> bool:
    config = body.config
    plain = config.model_type in KINDS and not getattr(config, "is_decoder", False)
    return (
        plain
        and config.hidden_act == "gelu"
        and getattr(config, "position_embedding_type", "absolute") in ("absolute", None)
        and body.device.type == "cpu"
        and body.dtype in _ALLOWED
        and not body.training
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")  # oneDNN's operators would not follow it
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    )


def _difference(made: PackedBody, body: Body) -> float:
    """Largest difference of both ways' vectors of some made-up texts, as a share of the largest
    value."""
    ids = list(range(1, 1 + sum(_TRIAL)))
    vocabulary = int(body.config.vocab_size)
    ends = accumulate(_TRIAL)
    texts = [
        [i * 97 % vocabulary for i in ids[end - n : end]]
        for end, n in zip(ends, _TRIAL, strict=True)
    ]
    pad = getattr(body.config, "pad_token_id", None)
    texts = [[i + 1 if i == pad else i for i in text] for text in texts]
    found = made.sums(texts)
    own = torch.stack(
        [
            body(input_ids=torch.tensor([text])).last_hidden_state.float().sum((0, 1))
            for text in texts
        ]
    )
    return float((found - own).abs().max() / own.abs().max())


def _state_of(body: Body) -> tuple[tuple[int, int], ...]:
    """Changes with the weights of ``body``: where they lie, and how often they were written."""
    return tuple(
        (weight.data_ptr(), 0 if weight.is_inference() else weight._version)
        for weight in body.parameters()
    )


def _norm(layer: nn.LayerNorm) -> Normal:
    return layer.weight, layer.bias, layer.eps


def _normalised(rows: Tensor, norm: Normal) -> Tensor:
    weight, bias, eps = norm
    return functional.layer_norm(rows, weight.shape, weight, bias, eps)
