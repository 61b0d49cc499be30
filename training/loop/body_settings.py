"""How the body computes while it trains: attention, precision of what is frozen, gradient
checkpointing, Liger kernels."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from medal_judges.errors import ConfigError, MissingExtraError
from medal_judges.models.device import Attention, set_attention, torch_dtype
from medal_judges.training.config import TrainConfig
from medal_judges.training.loop.distributed import strategy, uses_deepspeed

if TYPE_CHECKING:
    from accelerate import Accelerator
    from transformers import PreTrainedModel


def set_body(
    body: PreTrainedModel, config: TrainConfig, accelerator: Accelerator, precision: str
) -> dict[str, Any]:
    """Set what ``config`` asks for; returns what was set, for the judge's config.json.

    Raises ConfigError or MissingExtraError for what is not available here.
    """
    wanted: Attention = getattr(config.model, "attention", "auto")
    attention = set_attention(body, wanted, accelerator.device, precision, strict=True)
    if config.optim.gradient_checkpointing:
        checkpoint_layers(body, reentrant=strategy(accelerator) == "zero3")
    if config.optim.liger:
        patch_liger(body, accelerator.device)
    if precision != "no" and not uses_deepspeed(accelerator):
        narrow_base(body, torch_dtype(precision, accelerator.device))
    return {
        "precision": precision,
        "attention": attention,
        "gradient_checkpointing": config.optim.gradient_checkpointing,
        "liger": config.optim.liger,
    }


def reset_body(body: PreTrainedModel, config: TrainConfig) -> None:
    """Set the body as a fresh process would load it on a CPU, but for its weights."""
    if config.optim.gradient_checkpointing:
        body.gradient_checkpointing_disable()  # type: ignore[no-untyped-call]
        body.disable_input_require_grads()  # type: ignore[no-untyped-call]
    unpatch_liger(body)
    widen_base(body)
    set_attention(body, "auto", torch.device("cpu"), "no")


def narrow_base(body: nn.Module, dtype: torch.dtype) -> None:
    """Hold the frozen linear layers under adapters in ``dtype``, where that changes no weight.

    Autocast multiplies in ``dtype``, and made of each such layer's fp32 weights a copy for the
    backward pass. A base that was released in ``dtype`` loses nothing without the fp32 ones: the
    products are the same. Norms and embeddings stay in fp32, and so does what is added up between
    layers; a head that shares the embeddings' weights stays with them.
    """
    if not hasattr(body, "get_base_model"):  # only PEFT's bodies have adapters
        return
    embeddings = {id(m.weight) for m in body.modules() if isinstance(m, nn.Embedding)}
    for layer in body.modules():
        # Of a kind of its own where it is quantised.
        if type(layer) is not nn.Linear or id(layer.weight) in embeddings:
            continue
        weight = layer.weight
        if weight.requires_grad or weight.dtype != torch.float32:
            continue
        narrow = weight.data.to(dtype)
        if torch.equal(narrow.float(), weight.data):
            weight.data = narrow


def widen_base(body: nn.Module) -> None:
    """Undo ``narrow_base``: adapters may be merged, and the judge asked outside autocast."""
    for layer in body.modules():
        if type(layer) is nn.Linear and layer.weight.dtype in (torch.bfloat16, torch.float16):
            layer.weight.data = layer.weight.data.float()


def checkpoint_layers(body: PreTrainedModel, *, reentrant: bool) -> None:
    """Keep each layer's input alone and compute the rest again in the backward pass.

    ``reentrant`` for ZeRO-3, whose parameters are parted again by then: torch's other kind
    compares shapes and finds them changed. It needs an input that has a gradient.
    Raises ConfigError where the model cannot.
    """
    if not getattr(body, "supports_gradient_checkpointing", True):
        raise ConfigError(
            "optim.gradient_checkpointing: the body cannot do it",
            hint="set optim.gradient_checkpointing: false",
        )
    kwargs = {"use_reentrant": reentrant}
    body.gradient_checkpointing_enable(kwargs)  # type: ignore[no-untyped-call]
    if reentrant:
        body.enable_input_require_grads()  # type: ignore[no-untyped-call]


def patch_liger(body: PreTrainedModel, device: torch.device) -> None:
    """Liger's kernels for norms and gated layers of ``body``, in place.

    Not its rotary positions, nor its losses: they replace functions of transformers for the whole
    process, which then can score on no CPU. Raises ConfigError on a CPU and for models that Liger
    does not know, MissingExtraError where the package is not installed.
    """
    if device.type != "cuda":
        raise ConfigError("optim.liger needs a GPU", hint="set optim.liger: false")
    if find_spec("liger_kernel") is None:
        raise MissingExtraError("liger-kernel", "liger", "optim.liger: true")
    from liger_kernel.transformers.monkey_patch import (
        MODEL_TYPE_TO_APPLY_LIGER_FN,
        _apply_liger_kernel_to_instance,
    )

    model: PreTrainedModel = getattr(body, "get_base_model", lambda: body)()  # PEFT's inner one
    kind = model.config.model_type
    if kind not in MODEL_TYPE_TO_APPLY_LIGER_FN:
        raise ConfigError(
            f"optim.liger: Liger has no kernels for a {kind} body", hint="set optim.liger: false"
        )
    _apply_liger_kernel_to_instance(
        model=model, rope=False, cross_entropy=False, fused_linear_cross_entropy=False
    )


def unpatch_liger(body: PreTrainedModel) -> None:
    """Take Liger's methods off the modules of ``body``: its kernels run on no CPU."""
    for module in body.modules():
        for name, value in list(vars(module).items()):
            function = getattr(value, "__func__", None)
            if str(getattr(function, "__module__", "")).startswith("liger_kernel"):
                delattr(module, name)
