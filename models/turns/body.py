"""The pretrained encoder in an encoder judge: loads it, and computes token vectors without padding.

On a CPU the texts of a batch are packed: their tokens form one row, positions restart with each
text, and attention is computed for all texts of one length at once. The layers are those of
transformers, which calls ``packed_attention`` in place of its own attention.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers import AttentionInterface, AutoConfig, AutoModel, AutoTokenizer
from transformers.utils import logging

from medal_judges.errors import ConfigError, JudgeLoadError
from medal_judges.models.model_files import resolve

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

    from medal_judges.models.turns.config import TurnsConfig

PACKED = "medal_packed"
# Bodies whose texts can be packed: each token's position is an argument, all layers see all tokens.
PACKABLE = ("bert", "roberta", "xlm-roberta")
PASS_TOKENS = 2048  # tokens of a packed row: they fit the cache of a core; 8,192 take 25% longer


def load_body(
    base: str, revision: str | None = None
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Loads (body, tokenizer) of an encoder from a hub id, a path or ``embedded:minilm``.

    Sets attention dropout to 0: with dropout, attention on a CPU is 4 times slower.
    """
    source = resolve(base)
    try:
        config = AutoConfig.from_pretrained(source, revision=revision, trust_remote_code=False)
        tokenizer = load_tokenizer(source, revision)
    except (OSError, ValueError) as error:
        raise JudgeLoadError(
            f"cannot load the encoder {base}: {str(error).splitlines()[0]}",
            hint="give a hub id (with a network, or cached), a folder, or embedded:minilm",
        ) from error
    for name in ("attention_probs_dropout_prob", "attention_dropout"):
        if hasattr(config, name):
            setattr(config, name, 0.0)
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    body = AutoModel.from_pretrained(
        source, revision=revision, config=config, trust_remote_code=False
    )
    return _without_pooler(body), tokenizer


def load_tokenizer(source: str, revision: str | None = None) -> PreTrainedTokenizerBase:
    """Loads the tokenizer of a hub id or folder."""
    made: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
        source, revision=revision, trust_remote_code=False
    )
    return made


def body_of(settings: Mapping[str, Any]) -> PreTrainedModel:
    """Returns a body with random weights from ``settings`` (as in a config.json)."""
    config = AutoConfig.for_model(**settings)
    made: PreTrainedModel = AutoModel.from_config(config, trust_remote_code=False)  # type: ignore[no-untyped-call]
    return _without_pooler(made)


def settings_of(body: PreTrainedModel) -> dict[str, Any]:
    """Returns the settings of a body for ``body_of``."""
    settings: dict[str, Any] = json.loads(body.config.to_json_string(use_diff=False))
    for key in ("_name_or_path", "transformers_version"):  # of this machine, not of the judge
        settings.pop(key, None)
    return settings


def check_window(config: TurnsConfig, body: PretrainedConfig) -> None:
    """Raises ConfigError if ``max_tokens`` is above the number of positions of the body."""
    positions = getattr(body, "max_position_embeddings", None)
    if positions is not None and "roberta" in body.model_type:
        positions -= body.pad_token_id + 1  # their positions start after the padding's
    if positions is not None and config.max_tokens > positions:
        raise ConfigError(
            f"max_tokens {config.max_tokens} is above the {positions} of {config.base}",
            hint=f"set model.max_tokens to {positions} or less",
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
    groups = [(len(list(same)), length) for length, same in groupby(map(len, pieces))]
    config: Any = body.config
    # RoBERTa's positions start after the padding's.
    first = 0 if config.model_type == "bert" else config.pad_token_id + 1
    places = [torch.arange(first, first + length).repeat(texts) for texts, length in groups]
    ids = torch.tensor([list(chain.from_iterable(pieces))])
    attention = config._attn_implementation
    config._attn_implementation = PACKED
    try:
        output = body(input_ids=ids, position_ids=torch.cat(places)[None], groups=groups)
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
    parts = zip(*split, strict=True)
    found = []
    for part, (texts, length) in zip(parts, groups, strict=True):
        each = (one.reshape(heads, texts, length, size).transpose(0, 1) for one in part)
        seen = functional.scaled_dot_product_attention(*each)
        found.append(seen.transpose(1, 2).reshape(1, texts * length, heads, size))
    return torch.cat(found, dim=1), None


AttentionInterface.register(PACKED, packed_attention)


def _without_pooler(body: PreTrainedModel) -> PreTrainedModel:
    """Returns the body without BERT's pooler, which is unused; distributed training fails with
    unused weights."""
    if getattr(body, "pooler", None) is not None:
        setattr(body, "pooler", None)  # noqa: B010  (mypy: a module's attributes are modules)
    return body
