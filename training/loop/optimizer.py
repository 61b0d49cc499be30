"""AdamW with a rate of its own for the body, decayed layer by layer, and a warm-up schedule."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from torch import nn
from torch.optim import AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR

from medal_judges.training.config import OptimConfig

_NO_DECAY = ("bias", "norm", "LayerNorm", "role", "offset")


def body_layers(body: nn.Module) -> list[nn.Module]:
    """The body's transformer layers, bottom first: its longest ModuleList."""
    lists = [list(m) for m in body.modules() if isinstance(m, nn.ModuleList)]
    return max(lists, key=len) if lists else []


def freeze(body: nn.Module, trainable_layers: int | None) -> None:
    """Let only the top ``trainable_layers`` learn; None: the whole body, 0: none of it."""
    if trainable_layers is None:
        return
    for parameter in body.parameters():
        parameter.requires_grad_(False)
    if trainable_layers:
        for layer in body_layers(body)[-trainable_layers:]:
            for parameter in layer.parameters():
                parameter.requires_grad_(True)


def build_optimizer(model: nn.Module, body: nn.Module, optim: OptimConfig) -> Optimizer:
    """Body layer i of n learns at ``body_lr * layer_decay ** (n - 1 - i)``, embeddings one deeper;
    everything else at ``lr``. Biases and norms are not decayed."""
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter, rate in _rates(model, body, optim):
        decay = 0.0 if any(mark in name for mark in _NO_DECAY) else optim.weight_decay
        groups.setdefault((rate, decay), []).append(parameter)
    settings: list[dict[str, Any]] = [
        {"params": parameters, "lr": rate, "weight_decay": decay}
        for (rate, decay), parameters in groups.items()
    ]
    return AdamW(settings)


def _rates(
    model: nn.Module, body: nn.Module, optim: OptimConfig
) -> Iterator[tuple[str, nn.Parameter, float]]:
    layers = body_layers(body)
    depth = {id(p): i for i, layer in enumerate(layers) for p in layer.parameters()}
    inside = {id(p) for p in body.parameters()}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        rate = optim.lr
        if id(parameter) in inside:
            height = depth.get(id(parameter), -1)
            rate = optim.body_lr * optim.layer_decay ** (len(layers) - 1 - height)
        yield name, parameter, rate


def build_schedule(optimizer: Optimizer, optim: OptimConfig, steps: int) -> LambdaLR:
    """Linear warm-up over ``warmup`` of the steps, then linear or cosine to zero, or constant."""
    warm = math.ceil(optim.warmup * steps)

    def factor(step: int) -> float:
        if step < warm:
            return (step + 1) / (warm + 1)
        left = max(0.0, (steps - step) / max(1, steps - warm))
        shapes = {"linear": left, "cosine": 0.5 - 0.5 * math.cos(math.pi * left), "constant": 1.0}
        return shapes[optim.schedule]

    return LambdaLR(optimizer, factor)


def move_schedule(schedule: LambdaLR, step: int) -> None:
    """Put ``schedule`` after ``step`` of its steps.

    Its state is that number alone. Accelerate would keep it as a pickle and open that without the
    guard of ``weights_only``, so that a checkpoint from elsewhere could run code.
    """
    rates = [
        base * shape(step)
        for base, shape in zip(schedule.base_lrs, schedule.lr_lambdas, strict=True)
    ]
    schedule.last_epoch, schedule._step_count, schedule._last_lr = step, step + 1, rates
    for group, rate in zip(schedule.optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
