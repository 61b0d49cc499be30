"""The Accelerator of a run, and training over processes with DeepSpeed.

Under ZeRO-3 each process holds a part of every parameter, and a module's own are gathered for its
forward pass: every process must take part in each pass and in each function here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from medal_judges.errors import ConfigError
from medal_judges.training.config import OptimConfig, TrainConfig
from medal_judges.training.loop.trackers import LOGS, require_trackers, start_trackers

if TYPE_CHECKING:
    from accelerate import Accelerator


def make_accelerator(config: TrainConfig) -> Accelerator:
    """Accelerator with the run's precision, accumulation and logger.

    With DeepSpeed the weights stay in their own precision and torch's autocast computes in
    ``optim.mixed_precision``, as it does without: the same weights are saved either way.
    """
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState
    from accelerate.utils import (
        DistributedDataParallelKwargs,
        InitProcessGroupKwargs,
        ProjectConfiguration,
        parse_flag_from_env,
        set_seed,
    )

    require_trackers(config.log_with)
    precision = chosen_precision(config)
    deepspeed = parse_flag_from_env("ACCELERATE_USE_DEEPSPEED")
    handlers = [DistributedDataParallelKwargs(find_unused_parameters=True)]
    if deepspeed and not torch.cuda.is_available():
        # Without it every process is a world of its own, and none of them says so.
        handlers.append(InitProcessGroupKwargs(backend="gloo"))
    # What an earlier run of this process chose holds otherwise, and another precision is refused.
    AcceleratorState._reset_state()
    accelerator = Accelerator(
        mixed_precision="no" if deepspeed else precision,
        gradient_accumulation_steps=config.optim.gradient_accumulation,
        log_with=list(config.log_with) or None,
        project_config=ProjectConfiguration(
            project_dir=config.output_dir, logging_dir=str(Path(config.output_dir) / LOGS)
        ),
        kwargs_handlers=handlers,
    )
    launched = int(os.environ.get("WORLD_SIZE", "1"))
    if launched != accelerator.num_processes:  # each would train alone, all into one folder
        raise ConfigError(
            f"{launched} processes were launched, and this one found {accelerator.num_processes}",
            hint="on a CPU: ACCELERATE_USE_CPU=true, see configs/accelerate/cpu.yaml",
        )
    if uses_deepspeed(accelerator):
        set_deepspeed(accelerator, config.optim, precision)
    set_seed(config.seed)
    start_trackers(accelerator, config)
    return accelerator


def chosen_precision(config: TrainConfig) -> str:
    """``no``, ``bf16`` or ``fp16``; ``auto`` is bf16 on a GPU that has it."""
    precision = config.optim.mixed_precision
    if precision != "auto":
        return precision
    return "bf16" if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else "no"


def uses_deepspeed(accelerator: Accelerator) -> bool:
    """True when the run was launched with DeepSpeed."""
    return accelerator.state.deepspeed_plugin is not None


def strategy(accelerator: Accelerator) -> str:
    """How the processes share the work: ``single``, ``ddp``, ``zero2``, ``zero3``, ..."""
    if uses_deepspeed(accelerator):
        return f"zero{accelerator.state.deepspeed_plugin.zero_stage}"
    kind = str(accelerator.distributed_type.value).lower()
    return "single" if kind == "no" else "ddp" if kind.startswith("multi") else kind


def set_deepspeed(accelerator: Accelerator, optim: OptimConfig, precision: str) -> None:
    """What the training config says takes the place of what DeepSpeed's file says.

    Batches are cut by tokens: their size, which DeepSpeed only reports, is the most they hold.
    Raises ConfigError for fp16, whose loss DeepSpeed scales only for weights that are fp16 too.
    """
    if precision == "fp16":
        raise ConfigError(
            "optim.mixed_precision: fp16 does not go with DeepSpeed here",
            hint="set optim.mixed_precision: bf16, or no where the GPU does not have bf16",
        )
    plugin = accelerator.state.deepspeed_plugin
    if plugin.zero_stage == 3:
        # Torch's fused layer reads its submodules' weights past their forward: they are not there.
        torch.backends.mha.set_fastpath_enabled(False)
    settings = plugin.deepspeed_config
    settings["torch_autocast"] = {"enabled": precision == "bf16", "dtype": "bfloat16"}
    settings["train_micro_batch_size_per_gpu"] = optim.batch_size
    settings["gradient_accumulation_steps"] = optim.gradient_accumulation
    settings["gradient_clipping"] = optim.clip


@contextmanager
def whole_weights(accelerator: Accelerator) -> Iterator[None]:
    """Models loaded inside are whole on every process: once a ZeRO-3 plugin is there, transformers
    parts what it loads, and what is fitted before the first step reads whole weights."""
    from transformers.integrations import deepspeed as integration

    known = integration._hf_deepspeed_config_weak_ref
    integration.unset_hf_deepspeed_config()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        integration._hf_deepspeed_config_weak_ref = known


def innermost(optimizer: Optimizer) -> Optimizer:
    """The torch optimizer inside Accelerate's and DeepSpeed's wrappers: a schedule needs it."""
    while hasattr(optimizer, "optimizer"):
        optimizer = optimizer.optimizer
    return optimizer


def set_leaves(model: nn.Module, accelerator: Accelerator) -> None:
    """Have ZeRO-3 gather an attention's weights together: torch's reads its output layer's weights
    without calling that layer, at which they would be gathered."""
    if strategy(accelerator) == "zero3" and any(
        isinstance(m, nn.MultiheadAttention) for m in model.modules()
    ):
        from deepspeed.utils import set_z3_leaf_modules

        set_z3_leaf_modules(model, [nn.MultiheadAttention])


@contextmanager
def gathered(parameters: Iterable[Tensor], *, write: bool = False) -> Iterator[None]:
    """The parameters whole on every process; what the main one wrote (``write``) goes to all."""
    parted: list[Any] = [p for p in parameters if hasattr(p, "ds_id")]
    if not parted:
        yield
        return
    import deepspeed

    with deepspeed.zero.GatheredParameters(parted, modifier_rank=0 if write else None):
        yield
    # DeepSpeed keeps small parameters whole between steps, and its record of what a pass gathers
    # relies on it; the line above has parted them too.
    for parameter in parted:
        if parameter.ds_persist:
            parameter.all_gather()


def whole_state(net: nn.Module, names: Iterable[str], main: bool) -> dict[str, Tensor]:
    """Copies on the CPU of the named entries of the state; empty except on the main process.

    One at a time, so that no more than one parameter is whole at once.
    """
    tensors = net.state_dict(keep_vars=True)
    state: dict[str, Tensor] = {}
    for name in names:
        with gathered([tensors[name]]):
            if main:
                state[name] = tensors[name].detach().cpu().clone().contiguous()
    return state


@torch.no_grad()
def write_state(net: nn.Module, state: dict[str, Tensor], names: Iterable[str]) -> None:
    """``state`` into the named entries of the net, in place. Parted parameters are written by the
    main process; ``state`` must hold the others on every process."""
    tensors = net.state_dict(keep_vars=True)
    for name in names:
        target = tensors[name]
        with gathered([target], write=True):
            if not hasattr(target, "ds_id") or torch.distributed.get_rank() == 0:
                target.data.copy_(state[name])


def leave_deepspeed(model: Any, net: nn.Module, main: bool) -> None:
    """End DeepSpeed's hold of ``net``: on the main process it is a plain module on the CPU again.

    The parameters are new ones (the old have DeepSpeed's methods) and no hook is left, so that
    ``net`` scores in one process what all of them trained. Models loaded from here on are whole:
    transformers would part them under ZeRO-3, by a group that is about to close.
    """
    from transformers.integrations.deepspeed import unset_hf_deepspeed_config

    state = whole_state(net, [name for name, _ in net.named_parameters()], main)
    plain = {
        id(parameter): nn.Parameter(state[name], parameter.requires_grad)
        for name, parameter in net.named_parameters()
        if main
    }
    model.destroy()
    unset_hf_deepspeed_config()  # type: ignore[no-untyped-call]
    if main:
        for module in net.modules():
            module._parameters = {
                name: None if parameter is None else plain[id(parameter)]
                for name, parameter in module._parameters.items()
            }
