"""Finds a model's weights and tokenizer. Converts an embedded GGUF file at its first use."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from pathlib import Path

from medal_judges.errors import ConfigError, MissingExtraError
from medal_judges.models.model_files import PREFIX, resolve_model
from medal_judges.records.signature import content_hash
from medal_judges.storage.files import build_once, cache_folder


def find_or_convert_model(model: str) -> str:
    """Returns the folder or Hub id from which transformers loads ``model``.

    A shipped model (``embedded:smollm2``) that is stored as GGUF is converted at its first use.

    Raises:
        ConfigError: ``model`` is a GGUF file of the user.
        MissingExtraError: The package ``gguf`` is needed and not installed.
    """
    # A tokenizer built from such a file may split text in another way than the model's own.
    if model.lower().endswith(".gguf"):
        raise ConfigError(
            f"llm: {model} is a GGUF file, which is not read here",
            hint="Serve it (llama-server -m FILE) and type llm=openai:NAME with llm.base_url, or "
            "name the folder or hub id with the model's safetensors",
        )
    if not model.startswith(PREFIX):
        return model
    path = Path(resolve_model(model))
    return str(convert_gguf(path) if path.is_file() else path)


def model_name(model: str) -> str:
    """Returns the name of ``model`` in saved scores. For a folder it is the folder's name without
    the path. Otherwise it is ``model`` with slashes for colons, such as ``embedded/smollm2``."""
    if Path(model).is_dir():
        return Path(model).resolve().name
    return model.replace(":", "/")


def convert_gguf(file: Path) -> Path:
    """Converts the model in the GGUF ``file`` to safetensors with a tokenizer, and returns the
    cached folder. Later calls return the same folder.

    Raises:
        MissingExtraError: The package ``gguf`` is not installed.
    """
    version = content_hash([file.name, file.stat().st_size])
    folder = cache_folder() / "gguf" / f"{file.stem}-{version}"
    return build_once(folder, partial(_write_from_gguf, file))


def _write_from_gguf(path: Path, folder: Path) -> None:
    if find_spec("gguf") is None:
        raise MissingExtraError("gguf", "llm", f"reading {path.name}")
    import torch
    from tokenizers.pre_tokenizers import ByteLevel, Digits
    from tokenizers.pre_tokenizers import Sequence as InOrder
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    # The name goes in twice: gguf_file finds the config, GgufConfig the dense weights.
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
    if model.config.model_type == "llama":
        # The tokenizer that transformers builds from GGUF lacks SmolLM2's split of digits.
        tokenizer.backend_tokenizer.pre_tokenizer = InOrder(
            [Digits(individual_digits=True), ByteLevel(add_prefix_space=False)]
        )
    tokenizer.save_pretrained(folder)
