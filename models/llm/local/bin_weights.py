"""Weights published as .bin (pickles) alone, as safetensors: read as tensors only, once.

torch's ``weights_only`` loader builds tensors and plain containers and runs nothing that a file
says; the result is kept in the cache, so that what is loaded later is safetensors as everywhere.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from medal_judges.errors import ConfigError
from medal_judges.files import cache_folder
from medal_judges.signature import content_hash

if TYPE_CHECKING:
    import torch

# Beside the weights: config, tokenizer, template. Never code.
_BESIDE = ("*.json", "*.model", "*.txt", "*.jinja")


def converted_bin(model: str, revision: str | None = None) -> Path:
    """Folder with the weights of ``model`` (hub id or folder) as safetensors, made at first use.

    A folder that has safetensors is given back as it is. Raises ConfigError where there are no
    such weights, and where a file holds more than tensors.
    """
    source = _source(model, revision)
    if any(source.glob("*.safetensors")):
        return source
    files = sorted(source.glob("pytorch_model*.bin"))
    if not files:
        raise ConfigError(
            f"llm: {model} has no pytorch_model*.bin", hint="leave llm.bin_weights out"
        )
    beside = [file for pattern in _BESIDE for file in sorted(source.glob(pattern))]
    facts = [(f.name, f.stat().st_size, f.stat().st_mtime_ns) for f in [*files, *beside]]
    folder = cache_folder() / "bin" / f"{source.name}-{content_hash(facts)}"
    if folder.is_dir():
        return folder
    partial = folder.with_name(f"{folder.name}.{os.getpid()}")
    partial.mkdir(parents=True, exist_ok=True)
    try:
        _convert(files, partial)
        for file in beside:
            if file.name != "pytorch_model.bin.index.json":
                shutil.copyfile(file, partial / file.name)
        partial.replace(folder)
    except OSError:
        if not folder.is_dir():  # else another process was first
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def _source(model: str, revision: str | None) -> Path:
    if Path(model).is_dir():
        return Path(model).resolve()
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    patterns = ["pytorch_model*.bin", *_BESIDE]
    try:
        return Path(snapshot_download(model, revision=revision, allow_patterns=patterns))
    except (OSError, ValueError, HfHubHTTPError, LocalEntryNotFoundError) as error:
        raise ConfigError(f"llm: cannot load {model}: {error}") from error


def _convert(files: list[Path], folder: Path) -> None:
    """One safetensors file for each of ``files``, and an index: one file is in memory at a time."""
    from safetensors.torch import save_file

    places: dict[str, str] = {}
    for number, file in enumerate(files, start=1):
        state = _tensors(file)
        name = f"model-{number:05d}-of-{len(files):05d}.safetensors"
        # Cloned: tensors that share memory are stored twice, which safetensors wants.
        whole = {key: tensor.clone().contiguous() for key, tensor in state.items()}
        save_file(whole, folder / name, metadata={"format": "pt"})
        places |= dict.fromkeys(whole, name)
    index = {"metadata": {}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")


def _tensors(file: Path) -> dict[str, torch.Tensor]:
    import torch

    try:
        state = torch.load(file, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        said = str(error).strip().splitlines()[0][:200]
        raise ConfigError(
            f"llm: {file.name} is not read: it holds more than tensors, or is damaged ({said})",
            hint="a model with safetensors weights",
        ) from error
    if not isinstance(state, dict) or not all(isinstance(v, torch.Tensor) for v in state.values()):
        raise ConfigError(f"llm: {file.name} is not read: it is no plain table of tensors")
    return state
