"""Settings of the LoRA judges, and their language model: loaded, adapted and saved."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from medal_judges.errors import ConfigError, JudgeLoadError, MissingExtraError
from medal_judges.models.base.heads import HeadedConfig
from medal_judges.models.base.pretrained import load_base_model
from medal_judges.models.base.saving import read_weights, require_matching_tensors
from medal_judges.models.device import (
    Device,
    cast_weights,
    set_fastest_attention,
    torch_device,
    torch_dtype,
)
from medal_judges.models.llm.local.weights import find_or_convert_model
from medal_judges.models.model_files import absolute_name, files_hash, local_model_path
from medal_judges.records.signature import content_hash

if TYPE_CHECKING:
    from transformers import PretrainedConfig

MIXED = "mixed"  # in training: the base in 16 bits, what learns in fp32
ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
RUBRIC, PROMPT = "rubric.yaml", "prompt.yaml"  # of a generative judge


class LoraConfig(HeadedConfig):
    """The settings of a judge that is a causal language model with low-rank adapters (PEFT).

    Attributes:
        family: Always ``lora``.
        base: The base model: a Hub id, a folder or ``embedded:smollm2``.
        base_revision: The branch, tag or commit of a Hub id. None is the main branch.
        head: ``scoring`` computes scores from a dialogue's last token, with a classification head.
            ``generative`` learns to write scores as the answer to a prompt.
        heads: Dimension -> settings of its output head, such as ``{overall: {kind: ordinal}}``.
            Only with ``head: scoring``.
        peft: Fields of PEFT's LoraConfig, such as ``{use_dora: true}``. The defaults are ``r`` 16,
            ``lora_alpha`` 32 and ``target_modules`` ``all-linear``.
        quantize: ``nf4`` loads the base model in 4 bits (QLoRA), which needs bitsandbytes and is
            slow on a CPU. None does not quantize.
        max_tokens: The maximum length of a dialogue in tokens. For a generative judge it is the
            maximum length of the whole prompt. A longer dialogue loses its oldest turns.
        layout: How a generative judge asks. ``together`` asks one question about all dimensions,
            ``each`` one question per dimension. None is ``together``.
        answer_tokens: The maximum length of a generated answer in tokens (generative judges).
        comment_chars: The maximum length of a comment on a score in characters (generative judges).

    Raises:
        ValueError: ``heads`` are given with ``head: generative``.
    """

    family: Literal["lora"] = "lora"
    base: str = "embedded:smollm2"
    base_revision: str | None = None
    head: Literal["scoring", "generative"] = "scoring"
    peft: dict[str, Any] = Field(default_factory=dict)
    quantize: Literal["nf4"] | None = None
    max_tokens: int = Field(default=2048, ge=32)
    layout: str | None = None
    answer_tokens: int = Field(default=512, ge=8)
    comment_chars: int = Field(default=200, ge=0)

    @model_validator(mode="after")
    def _reject_generative_heads(self) -> LoraConfig:
        if self.head == "generative" and self.heads:
            raise ValueError(
                "leave heads out, or set head: scoring. A generative judge writes its numbers"
            )
        return self


def with_absolute_base(config: LoraConfig) -> LoraConfig:
    """Returns a copy of ``config`` with the absolute path of the base model, if that is a folder.
    If it is not a folder, returns ``config`` itself."""
    if not Path(config.base).is_dir():
        return config
    return config.model_copy(update={"base": str(Path(config.base).resolve())})


def load_adapted_model(
    config: LoraConfig,
    device: Device,
    saved: Path | None = None,
    *,
    labels: Mapping[str, Any] | None = None,
    dtype: torch.dtype = torch.float32,
) -> tuple[Any, Any]:
    """Loads the base model of ``config`` with low-rank adapters, and returns (model, tokenizer).

    Args:
        device: The device of the model, such as ``cuda``. None is the GPU if there is one.
        saved: The folder of a judge with trained adapters. None makes new adapters.
        labels: Fields of transformers' config for a classification head, such as ``{"num_labels":
            2}``. None for a generative judge.
        dtype: The dtype of the base model, unless it is quantised. New adapters are in fp32.

    Raises:
        ConfigError: The settings do not fit the base model.
        JudgeLoadError: The base cannot be loaded, or the saved adapters do not fit ``config``.
        MissingExtraError: PEFT is not installed. Or ``config.quantize`` is set and bitsandbytes is
            not installed.
    """
    if find_spec("peft") is None:
        raise MissingExtraError("peft", "lora", "a LoRA judge")
    adapters = _peft_config(config)
    state: dict[str, Tensor] = {}
    path = Path() if saved is None else saved / ADAPTER_WEIGHTS
    if saved is not None:
        state = read_weights(path)
        ranks = {v.shape[0] for k, v in state.items() if ".lora_A." in k}
        if ranks != {adapters.r}:  # before adapters of any size are created
            raise JudgeLoadError(
                f"{path}: adapters of rank {sorted(ranks)}, not {adapters.r}. Copy the whole folder"
            )
    # The base's tokenizer: a saved chat template is a program that may never end.
    model, tokenizer = _load_base_and_tokenizer(config, device, labels, dtype)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    # by which a head finds the last token
    model.config.pad_token_id = tokenizer.pad_token_id
    from peft import (
        get_peft_model,
        get_peft_model_state_dict,
        prepare_model_for_kbit_training,
        set_peft_model_state_dict,
    )

    if config.quantize:
        # args.gradient_checkpointing switches it on, in its form that is not reentrant.
        model = prepare_model_for_kbit_training(  # type: ignore[no-untyped-call]
            model, use_gradient_checkpointing=False
        )
    try:
        model = get_peft_model(model, adapters)
    except ValueError as error:
        raise ConfigError(f"the adapters do not fit {config.base}: {error}") from error
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and "modules_to_save" in name:
            parameter.data = parameter.data.float()
    if saved is not None:
        require_matching_tensors(get_peft_model_state_dict(model), state, path)
        set_peft_model_state_dict(model, state)
    return model, tokenizer


def rebuild_trained_network(
    config: LoraConfig,
    device: Device,
    state: Mapping[str, Tensor],
    labels: Mapping[str, Any] | None = None,
) -> Any:
    """Loads the base model again, and returns it with the trained adapters and head in ``state``.

    Args:
        config: The settings of the judge, which name the base model.
        device: The device of the network, such as ``cuda``. None is the GPU if there is one.
        state: Parameter name -> tensor after training. Weights of the base model in it are ignored.
        labels: Fields of transformers' config for a classification head, such as ``{"num_labels":
            2}``. None for a generative judge.

    Raises:
        JudgeLoadError: The base model cannot be loaded.
    """
    # Training may have rounded the base, so it is loaded again.
    network, _ = load_adapted_model(config, device, labels=labels)
    marks = ("lora_", "modules_to_save")
    learned = {
        name: value
        for name, value in state.items()
        if any(map(name.__contains__, marks))
    }
    network.load_state_dict(learned, strict=False)
    return network


def move_and_cast_network(
    network: Any, config: LoraConfig, device: Device, dtype: str
) -> Any:
    """Moves ``network`` to ``device``, casts it to ``dtype``, and returns it in evaluation mode
    with the fastest attention.

    A quantised network is not moved or cast.

    Args:
        config: The settings of the judge, which say whether the network is quantised.
        device: The device, such as ``cuda``. None is the GPU if there is one.
        dtype: ``fp32``, ``bf16``, ``fp16``, or ``mixed``, which keeps the dtype of every weight.
    """
    precision = "bf16" if dtype == MIXED else dtype
    if config.quantize is None:
        network = network.to(torch_device(device))
        if dtype != MIXED:
            cast_weights(network, torch_dtype(dtype))
    set_fastest_attention(network, network.device, precision)
    return network.eval()


def _load_base_and_tokenizer(
    config: LoraConfig,
    device: Device,
    labels: Mapping[str, Any] | None,
    dtype: torch.dtype,
) -> tuple[Any, Any]:
    from transformers import (
        AutoModelForCausalLM,
        AutoModelForSequenceClassification,
        BitsAndBytesConfig,
    )

    options: dict[str, Any] = {}
    if config.quantize is not None:
        if find_spec("bitsandbytes") is None:
            raise MissingExtraError(
                "bitsandbytes", "qlora", f"quantize: {config.quantize}"
            )
        settings: dict[str, Any] = {
            "load_in_4bit": True,
            "bnb_4bit_quant_type": "nf4",
            "bnb_4bit_use_double_quant": True,
            "bnb_4bit_compute_dtype": torch.bfloat16,
        }
        # A quantised model cannot be moved later. Without a map transformers would put the model of
        # every process on the first GPU.
        options["quantization_config"] = BitsAndBytesConfig(**settings)  # type: ignore[no-untyped-call]
        options["device_map"] = {"": torch_device(device)}
    kind: Any = AutoModelForCausalLM
    if config.head == "scoring":
        kind = AutoModelForSequenceClassification

    def change(settings_of_base: PretrainedConfig) -> None:
        settings_of_base.update(dict(labels or {}))

    path = find_or_convert_model(config.base)
    return load_base_model(kind, path, config, change, dtype=dtype, **options)


def _peft_config(config: LoraConfig) -> Any:
    """Returns the adapter settings in ``config`` as PEFT's LoraConfig. Raises ConfigError if PEFT
    does not know a setting."""
    from peft import LoraConfig as PeftConfig

    settings: dict[str, Any] = {"task_type": "CAUSAL_LM"}
    if config.head == "scoring":
        # The head is saved, or it would be drawn anew when the adapters are loaded.
        settings = {"task_type": "SEQ_CLS", "modules_to_save": ["score"]}
    settings |= {"r": 16, "lora_alpha": 32, "target_modules": "all-linear"}
    try:
        return PeftConfig(**(settings | config.peft))
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"model.peft: {error}", hint="Use the fields of peft.LoraConfig"
        ) from error


def save_adapters(model: Any, tokenizer: Any, config: LoraConfig, folder: Path) -> None:
    """Writes the adapters of ``model``, in PEFT's format, and the ``tokenizer`` into ``folder``.

    Args:
        config: The settings of the judge. The name of its base model is written with the adapters.
    """
    tokenizer.save_pretrained(folder)
    model.save_pretrained(
        str(folder), safe_serialization=True, save_embedding_layers=False
    )
    path = folder / ADAPTER_CONFIG
    settings = json.loads(path.read_text(encoding="utf-8"))
    # A hub id or an absolute path, which is found from any working directory.
    settings |= {
        "base_model_name_or_path": absolute_name(config.base),
        "revision": config.base_revision,
    }
    if isinstance(settings["target_modules"], list):
        # PEFT writes a set, in another order in each process: the judge's hash would change.
        settings["target_modules"].sort()
    path.write_text(
        json.dumps(settings, indent=2, sort_keys=True) + "\n", encoding="utf-8"
    )
    (folder / "README.md").unlink(missing_ok=True)  # PEFT's card; ours is written later


def hash_with_base(revision: str, config: LoraConfig) -> str:
    """Returns a hash that identifies a judge's weights together with the files of its base model.

    Args:
        revision: The hash of the judge's own files.
        config: The settings of the judge, which name the base model.
    """
    base = local_model_path(find_or_convert_model(config.base), config.base_revision)
    return content_hash([revision, files_hash(base)])
