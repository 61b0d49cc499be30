"""Published checkpoints: from a folder or the Hub, safetensors only."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medal_judges.config import Config
from medal_judges.errors import JudgeLoadError, MedalError
from medal_judges.models.base.hub import download
from medal_judges.models.base.saving import require_data_only
from medal_judges.models.device import Dtype, torch_device, torch_dtype

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_FILES = ("*.json", "*.safetensors", "*.model", "*.txt")  # of a checkpoint, without pickles
_LAYER = re.compile(r"\.(?:layer|layers|block|h)\.\d+\.")  # a training head may be left over
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.ckpt")


class CheckpointConfig(Config):
    """``model``: a folder or hub id at ``revision``. ``tokenizer``: its source if the model brings
    none. ``device``: by default the GPU if there is one."""

    name: str
    model: str
    revision: str | None = None
    tokenizer: str | None = None
    rubric: str
    device: str | None = None
    dtype: Dtype = "fp32"


def load_checkpoint(
    config: CheckpointConfig, network_class: str
) -> tuple[Any, PreTrainedTokenizerBase]:
    """Loads (network in evaluation mode on its device, tokenizer) of a published model.

    ``network_class`` is the class of transformers for the checkpoint. Raises JudgeLoadError; also
    for weights in a pickle only, because opening a pickle can run code.
    """
    import transformers

    model, kind = config.model, getattr(transformers, network_class)
    folder = _folder(model, config.revision)
    _require_safetensors(folder, config, network_class)
    words = _folder(config.tokenizer, None) if config.tokenizer else folder
    require_data_only(folder)
    device = torch_device(config.device)
    try:
        shape = transformers.AutoConfig.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        if shape.model_type != kind.config_class.model_type:
            raise ValueError(f"it is a {shape.model_type}, not a {kind.config_class.model_type}")
        network, loading = kind.from_pretrained(
            folder,
            dtype=torch_dtype(config.dtype, device),
            use_safetensors=True,
            output_loading_info=True,
            local_files_only=True,
            trust_remote_code=False,
        )
        # transformers would only warn: it draws missing weights at random, and drops others.
        missing = {*loading["missing_keys"], *map(str, loading.get("mismatched_keys", ()))}
        spare = {name for name in loading["unexpected_keys"] if _LAYER.search(name)}
        if missing or spare:
            what = "missing" if missing else "left over"
            raise ValueError(f"weights are {what}: {', '.join(sorted(missing or spare)[:6])}")
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            words, local_files_only=True, trust_remote_code=False
        )
    except MedalError:
        raise
    except Exception as error:  # whatever a library raises for damaged files
        raise JudgeLoadError(
            f"cannot load {model}: {error}",
            hint=f"are all files of {_short(model)} there, and is it of this kind? A tokenizer "
            "that comes as a .model file alone needs: pip install sentencepiece; another one's: "
            "tokenizer=ORG/NAME",
        ) from error
    return network.to(device).eval(), tokenizer


def _folder(model: str, revision: str | None) -> Path:
    return Path(model) if Path(model).is_dir() else download(model, revision, patterns=_FILES)


def _require_safetensors(folder: Path, config: CheckpointConfig, network_class: str) -> None:
    model, revision = config.model, config.revision
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
        f"  and then: model={_short(model)}-safetensors; or, if the Hub has a pull request with "
        "converted weights: revision=refs/pr/N",
    )


def conversion(model: str, network_class: str) -> str:
    """Returns the shell line that writes ``model``, with its tokenizer, as safetensors."""
    lines = (
        f'python -c "from transformers import {cls} as M; '
        f"M.from_pretrained('{model}').save_pretrained('{_short(model)}-safetensors')\""
        for cls in (network_class, "AutoTokenizer")
    )
    return " && ".join(lines)


def _short(model: str) -> str:
    """The last part of a hub id or path."""
    return model.rstrip("/").rsplit("/", 1)[-1]


def public_name(model: str) -> str:
    """Returns a hub id as it is, and the name of a folder without its path, for a signature."""
    return Path(model).resolve().name if Path(model).is_dir() else model
