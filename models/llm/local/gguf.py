"""A GGUF file as a model folder: dequantised once into safetensors, kept in the cache."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from medal_judges.errors import MissingExtraError
from medal_judges.files import cache_folder
from medal_judges.signature import content_hash


def converted(path: Path) -> Path:
    """Folder with the safetensors and tokenizer of the GGUF file ``path``, made at the first use.

    Raises MissingExtraError without the package ``gguf``.
    """
    stat = path.stat()
    folder = cache_folder() / "gguf" / f"{path.stem}-{content_hash([path.name, stat.st_size])}"
    if folder.is_dir():
        return folder
    if find_spec("gguf") is None:
        raise MissingExtraError("gguf", "llm", f"reading {path.name}")
    partial = folder.with_name(f"{folder.name}.{os.getpid()}")
    partial.mkdir(parents=True, exist_ok=True)
    _convert(path, partial)
    try:
        partial.replace(folder)
    except OSError:  # another process was first
        shutil.rmtree(partial)
    return folder


def _convert(path: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    # The name goes in twice: the config is found by gguf_file, the dense weights by GgufConfig.
    model = AutoModelForCausalLM.from_pretrained(
        path.parent,
        gguf_file=path.name,
        quantization_config=GgufConfig(gguf_file=path.name, dequantize=True),
        dtype=torch.float32,
        trust_remote_code=False,
    )
    model.save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(
        path.parent, gguf_file=path.name, trust_remote_code=False
    )
    _split_digits(tokenizer)
    tokenizer.save_pretrained(folder)


def _split_digits(tokenizer: Any) -> None:
    # The tokenizer that transformers rebuilds from GGUF lacks the digit split of SmolLM2's own.
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence

    tokenizer.backend_tokenizer.pre_tokenizer = Sequence(
        [Digits(individual_digits=True), ByteLevel(add_prefix_space=False)]
    )
