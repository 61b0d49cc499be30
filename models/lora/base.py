"""The language model under a LoRA judge: loaded, adapted, saved as a PEFT adapter, merged."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medal_judges.errors import ConfigError, JudgeLoadError, MissingExtraError
from medal_judges.models.base.saving import read_weights, require_same_keys
from medal_judges.models.device import torch_device
from medal_judges.models.llm.local.weights import model_path
from medal_judges.models.lora.config import LoraConfig
from medal_judges.models.model_files import files_hash, weights_folder
from medal_judges.records.signature import content_hash

if TYPE_CHECKING:
    import torch

ADAPTER, TOKENIZER = "adapter", "tokenizer"
RUBRIC, PROMPT = "rubric.yaml", "prompt.yaml"  # of a generative judge


def load_base(
    config: LoraConfig, source: Path | None = None, device: str | torch.device | None = None
) -> tuple[Any, Any]:
    """Loads (model in fp32 or quantised, tokenizer) of ``config.base``, without a language head for
    ``scoring``; the tokenizer is that of the judge saved in ``source``, if given.

    A quantised model cannot be moved later, and is read straight onto ``device``. Raises
    ConfigError.
    """
    import torch
    from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig

    options: dict[str, Any] = {}
    if config.quantize is not None:
        if find_spec("bitsandbytes") is None:
            raise MissingExtraError("bitsandbytes", "qlora", f"quantize: {config.quantize}")
        int8: dict[str, Any] = {"load_in_8bit": True}
        nf4: dict[str, Any] = {
            "load_in_4bit": True,
            "bnb_4bit_quant_type": "nf4",
            "bnb_4bit_use_double_quant": True,
            "bnb_4bit_compute_dtype": torch.bfloat16,
        }
        settings = int8 if config.quantize == "int8" else nf4
        # Without a map transformers puts every process's model on the first GPU.
        options = {
            "quantization_config": BitsAndBytesConfig(**settings),  # type: ignore[no-untyped-call]
            "device_map": {"": torch_device(device)},
        }
    kind: Any = AutoModel if config.head == "scoring" else AutoModelForCausalLM
    base, revision = model_path(config.base), config.base_revision
    try:
        model = kind.from_pretrained(
            base,
            revision=revision,
            dtype=torch.float32,
            use_safetensors=True,
            trust_remote_code=False,
            **options,
        )
        tokenizer = AutoTokenizer.from_pretrained(
            base if source is None else source / TOKENIZER,
            revision=revision if source is None else None,
            trust_remote_code=False,
        )
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"cannot load the base model {config.base}: {error}",
            hint="a hub id, a folder with safetensors weights, or embedded:smollm2",
        ) from error
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return model, tokenizer


def adapted(base: Any, config: LoraConfig) -> Any:
    """Returns ``base`` with fresh adapters: they change nothing before training."""
    if find_spec("peft") is None:
        raise MissingExtraError("peft", "lora", "a LoRA judge")
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
        return get_peft_model(base, settings)
    except ValueError as error:
        raise ConfigError(f"the adapters do not fit {config.base}: {error}") from error


def fresh(config: LoraConfig, device: str | torch.device | None) -> tuple[Any, Any]:
    """Returns (model with new adapters, drawn from torch's seed; tokenizer)."""
    base, tokenizer = load_base(config, device=device)
    return adapted(base, config), tokenizer


def save(model: Any, tokenizer: Any, config: LoraConfig, folder: Path) -> None:
    """Write ``folder/adapter`` in PEFT's format, and the tokenizer. The base is named by its id (a
    folder by its last part): a path helps nobody."""
    tokenizer.save_pretrained(folder / TOKENIZER)
    base = Path(config.base).resolve().name if Path(config.base).is_dir() else config.base
    model.save_pretrained(str(folder / ADAPTER), safe_serialization=True)
    path = folder / ADAPTER / "adapter_config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    settings |= {"base_model_name_or_path": base, "revision": config.base_revision}
    path.write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    (folder / ADAPTER / "README.md").unlink(missing_ok=True)  # PEFT's: it names the path


def load(config: LoraConfig, folder: Path, device: str | torch.device | None) -> tuple[Any, Any]:
    """Loads (model, tokenizer) that ``save`` wrote. Raises JudgeLoadError if keys do not fit."""
    path = folder / ADAPTER / "adapter_model.safetensors"
    state = read_weights(path)
    ranks = {v.shape[0] for k, v in state.items() if ".lora_A." in k}
    if ranks != {config.rank}:  # before adapters of any size are made
        raise JudgeLoadError(f"{path}: adapters of rank {sorted(ranks)}, not {config.rank}")
    base, tokenizer = load_base(config, folder, device)
    model = adapted(base, config)
    from peft import get_peft_model_state_dict, set_peft_model_state_dict

    require_same_keys(get_peft_model_state_dict(model), state, path)
    set_peft_model_state_dict(model, state)
    return model, tokenizer


def with_base(revision: str, config: LoraConfig) -> str:
    """Returns ``revision`` of a judge's own files together with its base model's."""
    base = weights_folder(model_path(config.base), config.base_revision)
    return content_hash([revision, files_hash(base)])
