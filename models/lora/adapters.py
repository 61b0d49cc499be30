"""Settings of the LoRA judges, and their language model: loaded, adapted and saved."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from medal_judges.errors import ConfigError, JudgeLoadError, MissingExtraError
from medal_judges.models.base.heads import HeadConfig
from medal_judges.models.base.saving import (
    read_weights,
    require_same_keys,
)
from medal_judges.models.base.trained import TrainedConfig
from medal_judges.models.device import Attention, torch_device
from medal_judges.models.llm.local.weights import model_path
from medal_judges.models.model_files import files_hash, weights_folder
from medal_judges.records.signature import content_hash

if TYPE_CHECKING:
    pass

ADAPTER, TOKENIZER = "adapter", "tokenizer"
RUBRIC, PROMPT = "rubric.yaml", "prompt.yaml"  # of a generative judge


class LoraConfig(TrainedConfig):
    """A causal language model with low-rank adapters (PEFT); stored whole in judge.json.

    ``base`` is a hub id or ``embedded:smollm2``. With ``head: scoring`` the judge reads the
    dialogue as a chat up to the point where the speaker ``speaks`` would begin the next turn, and
    one head per dimension reads the state of the last token (for the user, it encodes the expected
    reaction). With ``head: generative`` the model is trained to write the answer to ``prompt``
    (with comments, if the labels have some) and asked like a prompted judge.

    ``rank``, ``alpha``, ``dropout`` and ``targets`` (names of linear layers, or ``all-linear``)
    are PEFT's, as are ``rslora`` (Kalajdzievski, 2023) and ``dora`` (Liu et al., 2024).
    ``quantize`` loads the base in 4 or 8 bits (QLoRA; needs bitsandbytes, and is slow on a CPU).
    Dialogues longer than ``max_tokens`` lose whole oldest turns.
    """

    family: Literal["lora"] = "lora"
    base: str = "embedded:smollm2"
    base_revision: str | None = None
    head: Literal["scoring", "generative"] = "scoring"
    rank: int = Field(default=16, ge=1)
    alpha: float = Field(default=32, gt=0)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    targets: Literal["all-linear"] | tuple[str, ...] = "all-linear"
    rslora: bool = False
    dora: bool = False
    quantize: Literal["nf4", "int8"] | None = None
    max_tokens: int = Field(default=2048, ge=32)
    attention: Attention = "auto"
    heads: dict[str, HeadConfig] = Field(default_factory=dict)
    speaks: Literal["user", "assistant"] = "user"
    prompt: str = "lora"
    layout: str | None = None
    answer_tokens: int = Field(default=512, ge=8)
    comment_chars: int = Field(default=200, ge=0)

    def level_dimensions(self) -> set[str]:
        by_level = ("ordinal", "classification")
        return {name for name, head in self.heads.items() if head.kind in by_level}

    @model_validator(mode="after")
    def _settings_apply(self) -> LoraConfig:
        if self.head == "generative" and self.heads:
            raise ValueError("heads are for head: scoring; a generative judge writes its numbers")
        return self


def load_adapted(
    config: LoraConfig, device: str | torch.device | None, saved: Path | None = None
) -> tuple[Any, Any]:
    """Loads (model with adapters, tokenizer) of ``config.base``: with new adapters, which change
    nothing before training, or with the adapters of the judge ``saved`` in a folder.

    The model is in fp32 or quantised, and has no language head for ``scoring``. Raises ConfigError,
    and JudgeLoadError for saved adapters that do not fit.
    """
    from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig

    state: dict[str, Tensor] = {}
    path = Path() if saved is None else saved / ADAPTER / "adapter_model.safetensors"
    if saved is not None:
        state = read_weights(path)
        ranks = {v.shape[0] for k, v in state.items() if ".lora_A." in k}
        if ranks != {config.rank}:  # before adapters of any size are created
            raise JudgeLoadError(f"{path}: adapters of rank {sorted(ranks)}, not {config.rank}")
    if find_spec("peft") is None:
        raise MissingExtraError("peft", "lora", "a LoRA judge")
    options: dict[str, Any] = {}
    if config.quantize is not None:
        if find_spec("bitsandbytes") is None:
            raise MissingExtraError("bitsandbytes", "qlora", f"quantize: {config.quantize}")
        settings: dict[str, Any] = {"load_in_8bit": True}
        if config.quantize == "nf4":
            settings = {
                "load_in_4bit": True,
                "bnb_4bit_quant_type": "nf4",
                "bnb_4bit_use_double_quant": True,
                "bnb_4bit_compute_dtype": torch.bfloat16,
            }
        # A quantised model cannot be moved later. Without a map transformers would put the model of
        # every process on the first GPU.
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
        tokenizer = own = AutoTokenizer.from_pretrained(
            base, revision=revision, trust_remote_code=False
        )
        if saved is not None:
            tokenizer = AutoTokenizer.from_pretrained(saved / TOKENIZER, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"cannot load the base model {config.base}: {error}",
            hint="a hub id, a folder with safetensors weights, or embedded:smollm2",
        ) from error
    if tokenizer.chat_template != own.chat_template:  # a program, which need not end
        raise JudgeLoadError(
            f"{saved}: its chat template is not that of {config.base}",
            hint="copy the judge again, and the base model that it was trained on",
        )
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    from peft import LoraConfig as PeftConfig
    from peft import (
        get_peft_model,
        get_peft_model_state_dict,
        prepare_model_for_kbit_training,
        set_peft_model_state_dict,
    )

    if config.quantize:
        # optim.gradient_checkpointing switches gradient checkpointing on, in its form that is not
        # reentrant.
        model = prepare_model_for_kbit_training(  # type: ignore[no-untyped-call]
            model, use_gradient_checkpointing=False
        )
    peft = PeftConfig(
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
        model = get_peft_model(model, peft)
    except ValueError as error:
        raise ConfigError(f"the adapters do not fit {config.base}: {error}") from error
    if saved is not None:
        require_same_keys(get_peft_model_state_dict(model), state, path)
        set_peft_model_state_dict(model, state)
    return model, tokenizer


def save_adapted(model: Any, tokenizer: Any, config: LoraConfig, folder: Path) -> None:
    """Writes the adapters in PEFT's format, and the tokenizer. The base is named by its id; of a
    base in a folder only the folder's name is written."""
    tokenizer.save_pretrained(folder / TOKENIZER)
    base = Path(config.base).resolve().name if Path(config.base).is_dir() else config.base
    model.save_pretrained(str(folder / ADAPTER), safe_serialization=True)
    path = folder / ADAPTER / "adapter_config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    settings |= {"base_model_name_or_path": base, "revision": config.base_revision}
    path.write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    (folder / ADAPTER / "README.md").unlink(missing_ok=True)  # PEFT writes the path into it


def with_base(revision: str, config: LoraConfig) -> str:
    """Returns a hash of the ``revision`` of a judge's own files and of its base model's files."""
    base = weights_folder(model_path(config.base), config.base_revision)
    return content_hash([revision, files_hash(base)])
