"""What a model is made of, told from anything else by a hash: weights, tokenizer, settings.

A hash is of the whole content, so that one flipped bit or a shuffled vocabulary is another model.
Large files are read once: their hash is kept in the cache under the file's place, size and times.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from medal_judges.errors import DataError, RecordError
from medal_judges.records.signature import content_hash
from medal_judges.storage.files import cache_folder
from medal_judges.storage.journal import Journal

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedTokenizerBase

# Weights, tokenizer, template and settings, as transformers and sentence-transformers name them.
MODEL_FILES = ("*.safetensors", "*.json", "*.txt", "*.model", "*.jinja")
# Fields of a file that say who wrote it, when, where or with what: the same model has others.
_WHO_WROTE = ("transformers_version", "_name_or_path", "name_or_path", "__version__")
_OWN = {
    # How texts were last cut and filled up in a call: not the vocabulary's.
    "tokenizer.json": ("truncation", "padding"),
    "tokenizer_config.json": ("is_local", "local_files_only", "tokenizer_file"),
    "adapter_config.json": ("base_model_name_or_path", "revision", "inference_mode"),
}
_KEPT_FROM = 1 << 24  # bytes: smaller files are read in milliseconds
_SETTLED = 2.0  # seconds: a younger file could change again within the same tick of its times


def files_hash(
    folder: Path, patterns: Sequence[str] = MODEL_FILES, *, leave_out: Iterable[str] = ()
) -> str:
    """12 hex digits for the content of the files of ``folder`` that match ``patterns``.

    Of JSON files who wrote them is left out, and of the folder's own config.json the fields
    ``leave_out`` too. Raises OSError where a file cannot be read.
    """
    files = sorted({path for pattern in patterns for path in folder.glob(pattern)})
    hashes = {}
    for path in files:
        if path.is_file():
            name = path.relative_to(folder).as_posix()
            own = leave_out if name == "config.json" else _OWN.get(path.name, ())
            hashes[name] = _file_hash(path, (*_WHO_WROTE, *own))
    return content_hash(hashes)


def weights_folder(model: str, revision: str | None) -> Path:
    """Where the files of a model lie that was loaded from a folder, or from the Hub's cache.

    Raises what huggingface_hub raises where the cache does not have it.
    """
    if Path(model).is_dir():
        return Path(model)
    from huggingface_hub import hf_hub_download

    config = hf_hub_download(model, "config.json", revision=revision, local_files_only=True)
    return Path(config).parent


def network_hash(network: nn.Module) -> str:
    """12 hex digits for the names, types and values of all parameters and buffers in memory."""
    import torch

    digest = hashlib.sha256()
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:12]


def tokenizer_hash(tokenizer: PreTrainedTokenizerBase) -> str:
    """12 hex digits for the vocabulary, how texts are split by it, and the special tokens."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        rules: object = tokenizer.get_vocab()
    else:
        written = backend.to_str()  # what was last cut and filled up stands before this
        rules = written[written.index('"added_tokens"') :]
    special = {name: str(value) for name, value in tokenizer.special_tokens_map.items()}
    return content_hash([rules, special])


def _file_hash(path: Path, leave_out: Iterable[str]) -> str:
    """SHA-256 of a file, of JSON without the top-level fields ``leave_out``."""
    about = path.stat()
    place = [str(path.resolve()), about.st_size, about.st_mtime_ns, about.st_ctime_ns]
    kept = Journal(cache_folder() / "hashes.jsonl")
    if about.st_size >= _KEPT_FROM:
        with suppress(OSError, DataError):  # a cache that cannot be read holds nothing
            for record in kept.records(_hash_record):
                if record[0] == place:
                    return record[1]
    digest = hashlib.sha256()
    if path.suffix == ".json":
        digest.update(_without(path.read_bytes(), set(leave_out)))
    else:
        with path.open("rb") as stream:
            while block := stream.read(1 << 22):
                digest.update(block)
    made = digest.hexdigest()
    settled = time.time() - max(about.st_mtime, about.st_ctime) > _SETTLED
    if about.st_size >= _KEPT_FROM and settled:
        with suppress(OSError):  # the next run reads the file again
            kept.append([{"file": place, "sha256": made}], sync=False)
    return made


def _hash_record(record: object) -> tuple[object, str]:
    if not isinstance(record, dict) or not isinstance(record.get("sha256"), str):
        raise RecordError("sha256", "the hash of a file", record)
    return record.get("file"), record["sha256"]


def _number(text: str) -> float:
    """32 and 32.0 are one setting, written from a user's file and from one that was read back."""
    value = float(text)
    return int(value) if value.is_integer() else value


def _without(data: bytes, fields: set[str]) -> bytes:
    """A JSON object's bytes without ``fields``; anything else as it is."""
    try:
        content = json.loads(data, parse_float=_number)
    except (ValueError, RecursionError):
        return data
    if not isinstance(content, dict):
        return data
    kept = {key: value for key, value in content.items() if key not in fields}
    return json.dumps(kept, sort_keys=True, ensure_ascii=True).encode()
