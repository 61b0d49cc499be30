"""How the body trains: attention, precision, gradient checkpointing; which layers learn, at
which rate."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim import AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR

from medal_judges.errors import ConfigError
from medal_judges.models.device import Attention, set_attention, torch_dtype
from medal_judges.training.config import OptimConfig, TrainConfig
from medal_judges.training.loop.accelerator import strategy, uses_deepspeed

if TYPE_CHECKING:
    from accelerate import Accelerator
    from transformers import PreTrainedModel

_NO_DECAY = ("bias", "norm", "LayerNorm", "role")


def set_body(
    body: PreTrainedModel, config: TrainConfig, accelerator: Accelerator, precision: str
) -> dict[str, Any]:
    """Apply the settings of ``config``; returns them for the judge's config.json.

    Raises ConfigError for a setting that is not available on this machine.
    """
    wanted: Attention = getattr(config.model, "attention", "auto")
    attention = set_attention(body, wanted, accelerator.device, precision, strict=True)
    if config.optim.gradient_checkpointing:
        if not getattr(body, "supports_gradient_checkpointing", True):
            raise ConfigError(
                "optim.gradient_checkpointing: the body does not support it",
                hint="set optim.gradient_checkpointing: false",
            )
        # Reentrant under ZeRO-3: its parameters are partitioned again before the backward pass,
        # and torch's other kind compares shapes. It needs an input with a gradient.
        reentrant = strategy(accelerator) == "zero3"
        kwargs = {"use_reentrant": reentrant}
        body.gradient_checkpointing_enable(kwargs)  # type: ignore[no-untyped-call]
        if reentrant:
            body.enable_input_require_grads()  # type: ignore[no-untyped-call]
    # Warns of bf16 on a CPU that does not multiply it.
    dtype = torch_dtype("fp32" if precision == "no" else precision, accelerator.device)
    if precision != "no" and not uses_deepspeed(accelerator):
        narrow_base(body, dtype)
    return {
        "precision": precision,
        "attention": attention,
        "gradient_checkpointing": config.optim.gradient_checkpointing,
    }


def reset_body(body: PreTrainedModel, config: TrainConfig) -> None:
    """Undo ``set_body``: the body computes as one loaded on a CPU, so that adapters can be merged
    and the judge scores outside autocast."""
    if config.optim.gradient_checkpointing:
        body.gradient_checkpointing_disable()  # type: ignore[no-untyped-call]
        body.disable_input_require_grads()  # type: ignore[no-untyped-call]
    for layer in body.modules():
        if type(layer) is nn.Linear and layer.weight.dtype in (torch.bfloat16, torch.float16):
            layer.weight.data = layer.weight.data.float()
    set_attention(body, "auto", torch.device("cpu"), "no")


def narrow_base(body: nn.Module, dtype: torch.dtype) -> None:
    """Put the frozen linear layers under adapters into ``dtype`` if that changes no weight.

    Autocast multiplies in ``dtype`` and would copy each layer's fp32 weights for the backward pass.
    A base that was released in ``dtype`` needs no fp32 weights: the products are the same. Norms
    and embeddings stay in fp32, and so does a head that shares the embeddings' weights.
    """
    if not hasattr(body, "get_base_model"):  # only PEFT's bodies have adapters
        return
    embeddings = {id(m.weight) for m in body.modules() if isinstance(m, nn.Embedding)}
    for layer in body.modules():
        # A quantised layer is of another class.
        if type(layer) is not nn.Linear or id(layer.weight) in embeddings:
            continue
        weight = layer.weight
        narrow = weight.data.to(dtype)
        frozen = not weight.requires_grad and weight.dtype == torch.float32
        if frozen and torch.equal(narrow.float(), weight.data):
            weight.data = narrow


def body_layers(body: nn.Module) -> list[nn.Module]:
    """The body's transformer layers, bottom first: its longest ModuleList."""
    lists = [list(m) for m in body.modules() if isinstance(m, nn.ModuleList)]
    return max(lists, key=len) if lists else []


def freeze(body: nn.Module, trainable_layers: int | None) -> None:
    """Let only the top ``trainable_layers`` learn; None: the whole body, 0: none of it."""
    if trainable_layers is None:
        return
    body.requires_grad_(False)
    if trainable_layers:
        for layer in body_layers(body)[-trainable_layers:]:
            layer.requires_grad_(True)


def build_optimizer(model: nn.Module, body: nn.Module, optim: OptimConfig) -> Optimizer:
    """AdamW. Body layer i of n learns at ``body_lr * layer_decay ** (n - 1 - i)``, embeddings one
    deeper; everything else at ``lr``. Biases and norms are not decayed."""
    layers = body_layers(body)
    height = {id(p): -1 for p in body.parameters()}
    height |= {id(p): i for i, layer in enumerate(layers) for p in layer.parameters()}
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        rate = optim.lr
        if id(parameter) in height:
            above = len(layers) - 1 - height[id(parameter)]
            rate = optim.body_lr * optim.layer_decay**above
        decay = 0.0 if any(mark in name for mark in _NO_DECAY) else optim.weight_decay
        groups.setdefault((rate, decay), []).append(parameter)
    return AdamW(
        [
            {"params": parameters, "lr": rate, "weight_decay": decay}
            for (rate, decay), parameters in groups.items()
        ]
    )


def build_schedule(optimizer: Optimizer, optim: OptimConfig, steps: int) -> LambdaLR:
    """Linear warm-up over ``warmup`` of the steps, then linear or cosine to zero, or constant.

    transformers' schedules begin at a rate of 0; this one starts at their second step.
    """
    from transformers import get_scheduler

    name = "constant_with_warmup" if optim.schedule == "constant" else optim.schedule
    warm = math.ceil(optim.warmup * steps)
    schedule: LambdaLR = get_scheduler(name, optimizer, warm + 1, steps + 1)
    move_schedule(schedule, 0)
    return schedule


def move_schedule(schedule: LambdaLR, step: int) -> None:
    """Move ``schedule`` to after ``step`` training steps.

    The number is its whole state. Accelerate would save it as a pickle and load it without
    ``weights_only``, so that a checkpoint from somebody else could run code.
    """
    place = step + 1
    rates = [
        base * shape(place)
        for base, shape in zip(schedule.base_lrs, schedule.lr_lambdas, strict=True)
    ]
    schedule.last_epoch, schedule._step_count, schedule._last_lr = place, place + 1, rates
    for group, rate in zip(schedule.optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
