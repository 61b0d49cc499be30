"""AdamW with a rate of its own for the body, decayed layer by layer, and its schedule."""

from __future__ import annotations

import math

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
    body.requires_grad_(False)
    if trainable_layers:
        for layer in body_layers(body)[-trainable_layers:]:
            layer.requires_grad_(True)


def build_optimizer(model: nn.Module, body: nn.Module, optim: OptimConfig) -> Optimizer:
    """Body layer i of n learns at ``body_lr * layer_decay ** (n - 1 - i)``, embeddings one deeper;
    everything else at ``lr``. Biases and norms are not decayed."""
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

    transformers' schedules, which begin at a rate of 0, from their second step on: no step is lost.
    """
    from transformers import get_scheduler

    name = "constant_with_warmup" if optim.schedule == "constant" else optim.schedule
    warm = math.ceil(optim.warmup * steps)
    schedule: LambdaLR = get_scheduler(name, optimizer, warm + 1, steps + 1)
    move_schedule(schedule, 0)
    return schedule


def move_schedule(schedule: LambdaLR, step: int) -> None:
    """Put ``schedule`` after ``step`` steps of training.

    Its state is that number alone. Accelerate would keep it as a pickle and open that without the
    guard of ``weights_only``, so that a checkpoint from elsewhere could run code.
    """
    place = step + 1
    rates = [
        base * shape(place)
        for base, shape in zip(schedule.base_lrs, schedule.lr_lambdas, strict=True)
    ]
    schedule.last_epoch, schedule._step_count, schedule._last_lr = place, place + 1, rates
    for group, rate in zip(schedule.optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
