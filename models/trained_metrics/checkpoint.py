"""Published checkpoints: from a folder or the Hub, safetensors only."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from medal_judges.errors import JudgeLoadError

DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
_READ = ("*.json", "*.safetensors", "*.model", "*.txt")  # what a checkpoint is made of, no pickle
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.ckpt")


def load_checkpoint(
    model: str,
    network_class: str,
    *,
    revision: str | None = None,
    tokenizer: str | None = None,
    device: str | None = None,
    dtype: str = "fp32",
) -> tuple[Any, Any]:
    """(network in evaluation mode on ``device``, tokenizer) of a folder or hub id.

    ``network_class`` is the class of transformers that the checkpoint is for, ``tokenizer`` a
    folder or hub id where the checkpoint brings none of its own. Raises JudgeLoadError; also for
    weights that are a pickle only, since opening a pickle can run what is in it.
    """
    import torch
    import transformers

    if dtype not in DTYPES:
        raise JudgeLoadError(f"dtype {dtype!r} is not one of {', '.join(DTYPES)}")
    folder = _folder(model, revision)
    _require_safetensors(folder, model, network_class, revision)
    words = _folder(tokenizer, None) if tokenizer else folder
    kind = getattr(transformers, network_class)
    try:
        config = transformers.AutoConfig.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        if config.model_type != kind.config_class.model_type:
            raise ValueError(f"it is a {config.model_type}, not a {kind.config_class.model_type}")
        network, found = kind.from_pretrained(
            folder,
            dtype=getattr(torch, DTYPES[dtype]),
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
        if found["missing_keys"]:  # transformers would draw them at random, with a warning
            raise ValueError(f"weights are missing: {', '.join(sorted(found['missing_keys']))}")
        pieces = transformers.AutoTokenizer.from_pretrained(
            words, local_files_only=True, trust_remote_code=False
        )
    except (OSError, ValueError, ImportError) as error:
        raise JudgeLoadError(f"cannot load {model}: {error}", hint=_convert(model)) from error
    chosen = device or ("cuda" if torch.cuda.is_available() else "cpu")
    return network.to(chosen).eval(), pieces


def _folder(model: str, revision: str | None) -> Path:
    if Path(model).is_dir():
        return Path(model)
    from medal_judges.models.base.hub import download

    return download(model, revision, patterns=_READ)


def _require_safetensors(
    folder: Path, model: str, network_class: str, revision: str | None
) -> None:
    if any(folder.glob("*.safetensors")):
        return
    if not (folder / "config.json").is_file():
        raise JudgeLoadError(f"{model}: no checkpoint of transformers, it has no config.json")
    pickles = sorted(p.name for kind in _PICKLES for p in folder.glob(kind))
    there = f"only {', '.join(pickles)}" if pickles else "no safetensors file"
    at = f" at revision {revision}" if revision else ""
    raise JudgeLoadError(
        f"{model}{at}: there is {there}, and weights are read from safetensors alone "
        "(a pickle can run code when it is opened)",
        hint=f"if you trust the file, convert it once:\n  {conversion(model, network_class)}\n"
        f"  and then: model={_short(model)}-safetensors; or, where the Hub has a pull request with "
        "converted weights: revision=refs/pr/N",
    )


def conversion(model: str, network_class: str) -> str:
    """The shell line that writes ``model`` as safetensors, tokenizer included where it has one."""
    target = f"{_short(model)}-safetensors"
    return (
        f'python -c "from transformers import {network_class} as M; '
        f"M.from_pretrained('{model}').save_pretrained('{target}')\" && "
        f'python -c "from transformers import AutoTokenizer as T; '
        f"T.from_pretrained('{model}').save_pretrained('{target}')\""
    )


def _short(model: str) -> str:
    """Last part of a hub id or path: what a signature may say."""
    return model.rstrip("/").rsplit("/", 1)[-1]


def _convert(model: str) -> str:
    return (
        f"are all files of {_short(model)} there, and is it of this kind? A tokenizer that comes "
        "as a .model file alone needs: pip install sentencepiece; another one's: tokenizer=ORG/NAME"
    )


def public_name(model: str) -> str:
    """A hub id as it is, of a folder its name only: no paths in a signature."""
    return Path(model).resolve().name if Path(model).is_dir() else model


def weights_hash(network: Any) -> str:
    """First 12 hex digits of the SHA-256 over names, dtypes and values of all parameters."""
    import torch

    digest = hashlib.sha256()
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:12]


def plain(text: str, tokenizer: Any) -> str:
    """``text`` with the tokenizer's special tokens broken up: a turn cannot add fields."""
    for token in tokenizer.all_special_tokens:
        if token in text:
            text = text.replace(token, " ".join(token))
    return text
