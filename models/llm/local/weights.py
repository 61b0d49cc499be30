"""Where a model's weights lie, and weights in other forms made into safetensors, once.

A GGUF file is dequantised. Weights published as .bin (pickles) alone are read as tensors only:
torch's ``weights_only`` loader builds tensors and plain containers and runs nothing that a file
says. The result is kept in the cache, so that what is loaded later is safetensors as everywhere.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from medal_judges.errors import ConfigError, MissingExtraError
from medal_judges.models.embedded import PREFIX, embedded_files, embedded_sha256
from medal_judges.models.llm.chat_template import ChatTemplate
from medal_judges.records.signature import content_hash
from medal_judges.storage.files import atomic_path, cache_folder, one_at_a_time

if TYPE_CHECKING:
    import torch

# Beside the weights: config, tokenizer, template. Never code.
_BESIDE = ("*.json", "*.model", "*.txt", "*.jinja")


def model_path(model: str) -> str:
    """What transformers loads for ``model``: a hub id, a folder, or the converted embedded one.

    Raises ConfigError for a GGUF file: a tokenizer made from one can split text otherwise than the
    model's own, and nothing in the file tells.
    """
    if model.lower().endswith(".gguf"):
        raise ConfigError(
            f"llm: {model} is a GGUF file, which is not read here",
            hint="serve it (llama-server -m FILE) and give llm=openai:NAME with llm.base_url, or "
            "name the folder or hub id with the model's safetensors",
        )
    if not model.startswith(PREFIX):
        return model
    name = model.removeprefix(PREFIX)
    return str(converted(embedded_files(name), embedded_sha256(name)))


def model_name(model: str) -> str:
    """A hub id or ``embedded:`` name as it is; of a folder its last part (no paths in names)."""
    return Path(model).resolve().name if Path(model).is_dir() else model.replace(":", "/")


def load_chat_template(tokenizer: str) -> ChatTemplate:
    """How chats are rendered for the model whose tokenizer this is (hub id, folder, embedded:...).

    Raises ConfigError where it cannot be loaded.
    """
    from transformers import AutoTokenizer

    try:
        loaded = AutoTokenizer.from_pretrained(model_path(tokenizer), trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise ConfigError(f"llm: cannot load the tokenizer {tokenizer}: {error}") from error
    return ChatTemplate(loaded)


def converted(files: Sequence[Path], sha256: str | None = None) -> Path:
    """Folder with the safetensors and tokenizer of a GGUF file, made at the first use.

    ``files`` are its parts in order; ``sha256`` is the whole file's, where it is checked. Raises
    MissingExtraError without the package ``gguf``, ConfigError for another hash.
    """
    name = files[0].name.split(".gguf")[0]
    place = f"{name}-{content_hash([files[0].name, sum(f.stat().st_size for f in files)])}"
    return _made_once(cache_folder() / "gguf" / place, partial(_from_parts, files, sha256))


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
    return _made_once(folder, partial(_from_pickles, files, beside))


def _made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """``folder``, filled by ``make`` where it is not there yet; others wait meanwhile."""
    if not folder.is_dir():
        with one_at_a_time(folder):
            if not folder.is_dir():
                with atomic_path(folder) as unfinished:
                    unfinished.mkdir()
                    make(unfinished)
    return folder


def _from_parts(files: Sequence[Path], sha256: str | None, folder: Path) -> None:
    if len(files) == 1:
        _from_gguf(files[0], folder)
        return
    with TemporaryDirectory(dir=folder.parent) as whole:
        path, digest = Path(whole) / f"{folder.name}.gguf", hashlib.sha256()
        with path.open("wb") as out:
            for file in files:
                part = file.read_bytes()
                digest.update(part)
                out.write(part)
        if sha256 is not None and digest.hexdigest() != sha256:
            raise ConfigError(
                f"llm: {files[0].name} and what follows it are damaged: SHA-256 "
                f"{digest.hexdigest()[:12]} instead of {sha256[:12]}",
                hint="install their packages again",
            )
        _from_gguf(path, folder)


def _from_gguf(path: Path, folder: Path) -> None:
    if find_spec("gguf") is None:
        raise MissingExtraError("gguf", "llm", f"reading {path.name}")
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
    if model.config.model_type == "llama":
        _split_digits(tokenizer)
    tokenizer.save_pretrained(folder)


def _split_digits(tokenizer: Any) -> None:
    # The tokenizer that transformers rebuilds from GGUF lacks the digit split of SmolLM2's own.
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence

    tokenizer.backend_tokenizer.pre_tokenizer = Sequence(
        [Digits(individual_digits=True), ByteLevel(add_prefix_space=False)]
    )


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


def _from_pickles(files: list[Path], beside: list[Path], folder: Path) -> None:
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
    for file in beside:
        if file.name != "pytorch_model.bin.index.json":
            shutil.copyfile(file, folder / file.name)


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
