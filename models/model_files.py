"""Hashes of models: weights, tokenizer, settings.

A hash covers the whole content, so that one flipped bit or a shuffled vocabulary is another model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from medal_judges.records.signature import content_hash

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedTokenizerBase

# Weights, tokenizer, template and settings, as transformers and sentence-transformers name them.
MODEL_FILES = ("*.safetensors", "*.json", "*.txt", "*.model", "*.jinja")
# Fields that differ between copies of one model.
_WHO_WROTE = ("transformers_version", "_name_or_path", "name_or_path", "__version__")
_OWN = {
    "tokenizer.json": ("truncation", "padding"),  # of the last call
    "tokenizer_config.json": ("is_local", "local_files_only", "tokenizer_file"),
    "adapter_config.json": ("base_model_name_or_path", "revision", "inference_mode"),
}


def files_hash(
    folder: Path, patterns: Sequence[str] = MODEL_FILES, *, leave_out: Iterable[str] = ()
) -> str:
    """Returns 12 hex digits for the content of the files of ``folder`` that match ``patterns``,
    without the fields of JSON files that differ between copies, and without the fields
    ``leave_out`` of the folder's own config.json. Raises OSError."""
    files = sorted({path for pattern in patterns for path in folder.glob(pattern)})
    hashes = {}
    for path in files:
        if path.is_file():
            name = path.relative_to(folder).as_posix()
            own = leave_out if name == "config.json" else _OWN.get(path.name, ())
            hashes[name] = _file_hash(path, {*_WHO_WROTE, *own})
    return content_hash(hashes)


def weights_folder(model: str, revision: str | None) -> Path:
    """Returns the folder of a model that was loaded from a folder or from the Hub's cache."""
    if Path(model).is_dir():
        return Path(model)
    from huggingface_hub import hf_hub_download

    config = hf_hub_download(model, "config.json", revision=revision, local_files_only=True)
    return Path(config).parent


def network_hash(network: nn.Module) -> str:
    """Returns 12 hex digits for the names, types and values of all parameters and buffers."""
    import torch

    digest = hashlib.sha256()
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:12]


def tokenizer_hash(tokenizer: PreTrainedTokenizerBase) -> str:
    """Returns 12 hex digits for the vocabulary, the splitting rules and the special tokens."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        rules: object = tokenizer.get_vocab()
    else:
        written = backend.to_str()  # truncation and padding of the last call come before this
        rules = written[written.index('"added_tokens"') :]
    special = {name: str(value) for name, value in tokenizer.special_tokens_map.items()}
    return content_hash([rules, special])


def _file_hash(path: Path, leave_out: set[str]) -> str:
    """SHA-256 of a file; of a JSON object without the top-level fields ``leave_out``."""
    if path.suffix != ".json":
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    data = path.read_bytes()
    with suppress(ValueError, RecursionError):  # no JSON: its bytes as they are
        # 32 and 32.0 are one setting, written by a user and read back.
        content = json.loads(data, parse_float=_number)
        if isinstance(content, dict):
            rest = {key: value for key, value in content.items() if key not in leave_out}
            data = json.dumps(rest, sort_keys=True, ensure_ascii=True).encode()
    return hashlib.sha256(data).hexdigest()


def _number(text: str) -> float:
    value = float(text)
    return int(value) if value.is_integer() else value
