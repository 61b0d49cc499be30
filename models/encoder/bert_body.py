"""BERT, RoBERTa and XLM-R straight from their files, for scoring on a CPU.

transformers' modelling code takes two of the five seconds in which ``medal score`` starts, and a
command that scores ten dialogues needs nothing of it: these layers have the names, the weights and
the numbers of ``BertModel`` (fp32: 1e-6). Training, a GPU, and every other kind of body go through
transformers; so does whatever these files say that is not plainly such a body.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from medal_judges.models.base.network_size import shapes_only
from medal_judges.models.base.saving import WEIGHTS_NAME, read_weights

if TYPE_CHECKING:
    from transformers import PretrainedConfig

# The prefix of its weights where they were saved with a head.
KINDS = {"bert": "bert.", "roberta": "roberta.", "xlm-roberta": "roberta."}
_SIZES = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"),
    *("intermediate_size", "max_position_embeddings", "type_vocab_size"),
)
# Settings that make another network of these layers, and the value with which they do not.
_PLAIN = {
    "hidden_act": ("gelu",),
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False, None),
    "add_cross_attention": (False, None),
    "chunk_size_feed_forward": (0, None),
    "quantization_config": (None,),
    "auto_map": (None,),
}
_OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


@dataclass(frozen=True, slots=True)
class BertSettings:
    """What config.json says of such a body; ``written`` is all of it, as it stands there."""

    model_type: str
    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int
    type_vocab_size: int
    layer_norm_eps: float
    pad_token_id: int
    hidden_act: str = "gelu"
    _attn_implementation: str = "sdpa"
    written: Mapping[str, object] = field(default_factory=dict)


class BodyOutput(NamedTuple):
    """``last_hidden_state`` [B, L, H]: the vector of each token."""

    last_hidden_state: Tensor


def bert_settings(written: Mapping[str, object]) -> BertSettings | None:
    """The settings of a body that this module can read; None for any other, and where something is
    left to transformers' defaults."""
    kind, eps, pad = (written.get(k) for k in ("model_type", "layer_norm_eps", "pad_token_id"))
    sizes: dict[str, Any] = {k: v for k in _SIZES if type(v := written.get(k)) is int}
    plain = all(written.get(name) in values for name, values in _PLAIN.items())
    if not (isinstance(kind, str) and kind in KINDS and plain and len(sizes) == len(_SIZES)):
        return None
    if min(sizes.values()) < 1 or sizes["hidden_size"] % sizes["num_attention_heads"]:
        return None
    if not isinstance(eps, float) or type(pad) is not int or not 0 <= pad < sizes["vocab_size"]:
        return None
    return BertSettings(
        model_type=kind, layer_norm_eps=eps, pad_token_id=pad, written=dict(written), **sizes
    )


def first_position(config: BertSettings | PretrainedConfig) -> int:
    """Of a text's first token: RoBERTa's positions start behind the padding's."""
    return 0 if config.model_type == "bert" else int(config.pad_token_id) + 1


# The modules below have the names of transformers', and so their weights.


class BertEmbeddings(nn.Module):
    """Token ids to vectors."""

    def __init__(self, config: BertSettings) -> None:
        super().__init__()
        hidden = config.hidden_size
        self.word_embeddings = nn.Embedding(config.vocab_size, hidden)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, hidden)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, hidden)
        self.LayerNorm = nn.LayerNorm(hidden, eps=config.layer_norm_eps)

    def forward(self, ids: Tensor, places: Tensor) -> Tensor:
        # In the order in which transformers adds them: bf16 rounds each sum.
        state = self.word_embeddings(ids) + self.token_type_embeddings.weight[0]
        made: Tensor = self.LayerNorm(state + self.position_embeddings(places))
        return made


class BertSelfAttention(nn.Module):
    def __init__(self, config: BertSettings) -> None:
        super().__init__()
        hidden, self.heads = config.hidden_size, config.num_attention_heads
        self.query, self.key, self.value = (nn.Linear(hidden, hidden) for _ in range(3))

    def forward(self, state: Tensor, seen: Tensor | None) -> Tensor:
        shape = (*state.shape[:2], self.heads, -1)
        parts = (self.query, self.key, self.value)
        query, key, value = (part(state).view(shape).transpose(1, 2) for part in parts)
        found = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        return found.transpose(1, 2).reshape(state.shape)


class BertOutput(nn.Module):
    """What ends both halves of a layer."""

    def __init__(self, config: BertSettings, inputs: int) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, found: Tensor, state: Tensor) -> Tensor:
        made: Tensor = self.LayerNorm(self.dense(found) + state)
        return made


class BertAttention(nn.Module):
    def __init__(self, config: BertSettings) -> None:
        super().__init__()
        self.self = BertSelfAttention(config)
        self.output = BertOutput(config, config.hidden_size)


class BertIntermediate(nn.Module):
    def __init__(self, config: BertSettings) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.intermediate_size)


class BertLayer(nn.Module):
    def __init__(self, config: BertSettings) -> None:
        super().__init__()
        self.attention = BertAttention(config)
        self.intermediate = BertIntermediate(config)
        self.output = BertOutput(config, config.intermediate_size)

    def forward(self, state: Tensor, seen: Tensor | None) -> Tensor:
        """``state`` [B, L, H] after the layer; ``seen`` [B, 1, 1, L] is true where there is a
        token."""
        state = self.attention.output(self.attention.self(state, seen), state)
        inner = functional.gelu(self.intermediate.dense(state))
        made: Tensor = self.output(inner, state)
        return made


class BertEncoder(nn.Module):
    def __init__(self, config: BertSettings) -> None:
        super().__init__()
        self.layer = nn.ModuleList(BertLayer(config) for _ in range(config.num_hidden_layers))


class BertBody(nn.Module):
    """Such a body without its pooler; ``forward`` is what ``BertModel``'s gives in evaluation."""

    _supports_sdpa = True

    def __init__(self, config: BertSettings) -> None:
        super().__init__()
        self.config = config
        self.embeddings = BertEmbeddings(config)
        self.encoder = BertEncoder(config)

    @property
    def device(self) -> torch.device:
        return self.get_input_embeddings().weight.device

    @property
    def dtype(self) -> torch.dtype:
        return self.get_input_embeddings().weight.dtype

    def get_input_embeddings(self) -> nn.Embedding:
        """The table of the vocabulary, as transformers names it."""
        return self.embeddings.word_embeddings

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> BodyOutput:
        """The vectors of ``input_ids`` [B, L], where ``attention_mask`` [B, L] is 1 (None: all)."""
        if first_position(self.config):
            there = input_ids.ne(self.config.pad_token_id).long()
            places = there.cumsum(1) * there + self.config.pad_token_id
        else:
            places = torch.arange(input_ids.shape[1], device=input_ids.device).expand_as(input_ids)
        state = self.embeddings(input_ids, places)
        seen = None if attention_mask is None else attention_mask.bool()[:, None, None]
        for layer in self.encoder.layer:
            state = layer(state, seen)
        return BodyOutput(state)


def empty_bert(settings: BertSettings) -> BertBody:
    """A body without numbers yet; nothing is drawn, and on the device ``meta`` nothing is taken."""
    where = torch.get_default_device()
    with shapes_only():
        body = BertBody(settings)
    return body.to_empty(device=where)


def bert_in(folder: Path, settings: BertSettings) -> BertBody | None:
    """The body whose weights lie in ``folder`` as one safetensors file; None where they lie there
    otherwise, or are not those of ``settings``."""
    path = folder / WEIGHTS_NAME
    if not path.is_file() or (folder / "adapter_config.json").exists():
        return None
    with shapes_only():
        body = BertBody(settings)
    own, found = body.state_dict(), {}
    for name, weight in read_weights(path).items():
        name = name.removeprefix(KINDS[settings.model_type])
        for old, new in _OLD_NAMES.items():
            name = name.replace(old, new)
        if name in own and own[name].shape == weight.shape:
            found[name] = weight.float()
    if found.keys() != own.keys():
        return None
    body.load_state_dict(found, assign=True)  # mapped from the file: rows are read as texts need
    return body.eval()
