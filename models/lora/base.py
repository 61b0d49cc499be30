"""The language model under a LoRA judge: loaded, adapted, saved as a PEFT adapter, merged."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medal_judges.errors import ConfigError, JudgeLoadError, MissingExtraError
from medal_judges.models.base.saving import read_weights, require_all_loaded, require_same_keys
from medal_judges.models.device import torch_device
from medal_judges.models.llm.local.weights import model_path
from medal_judges.models.lora.config import LoraConfig
from medal_judges.models.model_files import files_hash, weights_folder
from medal_judges.records.signature import content_hash

if TYPE_CHECKING:
    import torch
    from peft import PeftModel
    from transformers import PreTrainedModel

ADAPTER = "adapter"
MERGED = "model"
TOKENIZER = "tokenizer"


def need_peft() -> None:
    """Raises MissingExtraError where PEFT is not installed."""
    if find_spec("peft") is None:
        raise MissingExtraError("peft", "lora", "a LoRA judge")


def load_base(
    config: LoraConfig, source: str | Path | None = None, device: str | torch.device | None = None
) -> Any:
    """The base model in fp32 (or quantised), without its language head for ``scoring``.

    ``source`` stands in for ``config.base`` (a merged model). A quantised model cannot be moved
    later, and is read straight onto ``device``. Raises ConfigError.
    """
    import torch
    from transformers import AutoModel, AutoModelForCausalLM

    kind: Any = AutoModel if config.head == "scoring" else AutoModelForCausalLM
    try:
        model, loaded = kind.from_pretrained(
            model_path(config.base) if source is None else source,
            revision=config.base_revision if source is None else None,
            dtype=torch.float32,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
            **_quantisation(config, device),
        )
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"cannot load the base model {config.base}: {error}",
            hint="a hub id, a folder with safetensors weights, or embedded:smollm2",
        ) from error
    if source is not None:  # a base from the Hub may bring a head that is not asked for
        require_all_loaded(loaded, Path(source))
    return model


def _quantisation(config: LoraConfig, device: str | torch.device | None) -> dict[str, Any]:
    import torch

    if config.quantize is None:
        return {}
    if find_spec("bitsandbytes") is None:
        raise MissingExtraError("bitsandbytes", "qlora", f"quantize: {config.quantize}")
    from transformers import BitsAndBytesConfig

    if config.quantize == "int8":
        settings = BitsAndBytesConfig(load_in_8bit=True)  # type: ignore[no-untyped-call]
    else:
        settings = BitsAndBytesConfig(  # type: ignore[no-untyped-call]
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=torch.bfloat16,
        )
    # Without a map transformers puts every process's model on the current GPU, which is the first.
    return {"quantization_config": settings, "device_map": {"": torch_device(device)}}


def with_base(revision: str, config: LoraConfig) -> str:
    """``revision`` of a judge's own files with its base model's, unless that was merged in."""
    if config.merge:
        return revision
    base = weights_folder(model_path(config.base), config.base_revision)
    return content_hash([revision, files_hash(base)])


def load_tokenizer(config: LoraConfig, source: str | Path | None = None) -> Any:
    """The base model's tokenizer, or the one saved in ``source``."""
    from transformers import AutoTokenizer

    place = model_path(config.base) if source is None else str(source)
    revision = config.base_revision if source is None else None
    tokenizer = AutoTokenizer.from_pretrained(place, revision=revision, trust_remote_code=False)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def adapted(base: PreTrainedModel, config: LoraConfig) -> Any:
    """``base`` with fresh adapters: they change nothing before training."""
    need_peft()
    from peft import LoraConfig as PeftConfig
    from peft import get_peft_model, prepare_model_for_kbit_training

    if config.quantize:
        # Gradient checkpointing is optim.gradient_checkpointing's to switch on, and not reentrant.
        base = prepare_model_for_kbit_training(  # type: ignore[no-untyped-call]
            base, use_gradient_checkpointing=False
        )
    settings = PeftConfig(
        r=config.rank,
        lora_alpha=config.alpha,  # type: ignore[arg-type]
        lora_dropout=config.dropout,
        target_modules=(
            config.targets if isinstance(config.targets, str) else list(config.targets)
        ),
        use_rslora=config.rslora,
        use_dora=config.dora,
        task_type="FEATURE_EXTRACTION" if config.head == "scoring" else "CAUSAL_LM",
    )
    try:
        model = get_peft_model(base, settings)
    except ValueError as error:
        raise ConfigError(f"the adapters do not fit {config.base}: {error}") from error
    return model


def save_adapter(model: PeftModel | PreTrainedModel, config: LoraConfig, folder: Path) -> None:
    """``folder/adapter`` in PEFT's format, or the merged model in ``folder/model``.

    The adapter names its base by its id (of a folder by the last part): a path helps nobody.
    """
    if config.merge:
        merge = getattr(model, "merge_and_unload", None)
        merged: Any = model if merge is None else merge()
        merged.config.name_or_path = _id(config.base)
        merged.save_pretrained(folder / MERGED)
        return
    model.save_pretrained(str(folder / ADAPTER), safe_serialization=True)
    path = folder / ADAPTER / "adapter_config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    settings["base_model_name_or_path"] = _id(config.base)
    settings["revision"] = config.base_revision
    path.write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    (folder / ADAPTER / "README.md").unlink(missing_ok=True)  # PEFT's: it names the path


def _id(base: str) -> str:
    return Path(base).resolve().name if Path(base).is_dir() else base


def load_adapter(config: LoraConfig, folder: Path, device: str | torch.device | None = None) -> Any:
    """The model saved by ``save_adapter``; ``device``: see load_base. Raises JudgeLoadError where
    keys do not fit."""
    if (folder / MERGED).is_dir():
        return load_base(config, folder / MERGED)
    need_peft()
    path = folder / ADAPTER / "adapter_model.safetensors"
    state = read_weights(path)
    ranks = {v.shape[0] for k, v in state.items() if ".lora_A." in k}
    if ranks != {config.rank}:  # before adapters of any size are made
        raise JudgeLoadError(f"{path}: adapters of rank {sorted(ranks)}, not {config.rank}")
    model = adapted(load_base(config, device=device), config)
    from peft import get_peft_model_state_dict, set_peft_model_state_dict

    require_same_keys(get_peft_model_state_dict(model), state, path)
    set_peft_model_state_dict(model, state)
    return model
