"""The Accelerator of a run, its trackers, and training over processes with DeepSpeed.

Under ZeRO-3 each process has a part of every parameter, and a module's parameters are gathered for
its forward pass: every process must take part in each pass and in each function here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from medal_judges.errors import ConfigError, did_you_mean
from medal_judges.training.config import TrainConfig

if TYPE_CHECKING:
    from accelerate import Accelerator

LOGS = "logs"  # a folder of the run's; it is never pushed


def make_accelerator(config: TrainConfig) -> Accelerator:
    """Accelerator with the run's precision, accumulation and trackers.

    With DeepSpeed the weights stay in fp32 and torch's autocast computes in
    ``optim.mixed_precision``, as without it: the same weights are saved either way.
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

    _require_trackers(config.log_with)
    precision = chosen_precision(config)
    deepspeed = parse_flag_from_env("ACCELERATE_USE_DEEPSPEED")
    handlers = [DistributedDataParallelKwargs(find_unused_parameters=True)]
    if deepspeed and not torch.cuda.is_available():
        # Without it every process is a world of one, without a warning.
        handlers.append(InitProcessGroupKwargs(backend="gloo"))
    # The state of an earlier run in this process would refuse another precision.
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
            f"{launched} processes were launched, and this one sees {accelerator.num_processes}",
            hint="on a CPU: ACCELERATE_USE_CPU=true, see configs/accelerate/cpu.yaml",
        )
    if uses_deepspeed(accelerator):
        _set_deepspeed(accelerator, config, precision)
    set_seed(config.seed)
    if config.log_with:
        settings = dict(_flat(config.model_dump(mode="json")))
        accelerator.init_trackers(config.name, config=settings)
    return accelerator


def chosen_precision(config: TrainConfig) -> str:
    """``no``, ``bf16`` or ``fp16``; ``auto`` is bf16 on a GPU that supports it."""
    precision = config.optim.mixed_precision
    if precision != "auto":
        return precision
    return "bf16" if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else "no"


def uses_deepspeed(accelerator: Accelerator) -> bool:
    """Whether the run was launched with DeepSpeed."""
    return accelerator.state.deepspeed_plugin is not None


def strategy(accelerator: Accelerator) -> str:
    """How the processes share the work: ``single``, ``ddp``, ``zero2``, ``zero3``, ..."""
    if uses_deepspeed(accelerator):
        return f"zero{accelerator.state.deepspeed_plugin.zero_stage}"
    kind = str(accelerator.distributed_type.value).lower()
    return "single" if kind == "no" else "ddp" if kind.startswith("multi") else kind


def _require_trackers(names: Iterable[str]) -> None:
    """Raise ConfigError for a tracker that Accelerate does not know or whose package is not
    installed: Accelerate would skip it silently."""
    from accelerate.tracking import get_available_trackers

    here = sorted({"all", *(str(each) for each in get_available_trackers())})
    for name in names:
        if name not in here:
            raise ConfigError(
                f"log_with: the tracker {name!r} is not installed, or Accelerate does not know it",
                hint=f"{did_you_mean(name, here)}available: {', '.join(here)}",
            )


def _flat(settings: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """``optim.lr`` and so on; a list is JSON, which every tracker accepts; null is left out."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        elif value is not None:
            plain = isinstance(value, str | int | float | bool)
            yield f"{before}{name}", value if plain else json.dumps(value, ensure_ascii=False)


def log_figures(
    accelerator: Accelerator, part: str, figures: Mapping[str, float], step: int
) -> None:
    """Log figures as ``part/NAME``, such as ``validation/spearman_overall``: a tracker that writes
    files cannot have ``spearman`` beside ``spearman/overall``."""
    named = {f"{part}/{name.replace('/', '_')}": value for name, value in figures.items()}
    accelerator.log(named, step=step)


# -- DeepSpeed ------------------------------------------------------------------------------------


def _set_deepspeed(accelerator: Accelerator, config: TrainConfig, precision: str) -> None:
    """The training config overrides DeepSpeed's file.

    DeepSpeed only reports the batch size, so it gets the largest one. Raises ConfigError for fp16,
    because DeepSpeed scales the loss only if the weights are fp16 too.
    """
    if precision == "fp16":
        raise ConfigError(
            "optim.mixed_precision: fp16 is not supported with DeepSpeed",
            hint="set optim.mixed_precision: bf16, or no if the GPU does not support bf16",
        )
    plugin = accelerator.state.deepspeed_plugin
    if plugin.zero_stage == 3:
        # Torch's fused layer reads its submodules' weights outside their forward pass.
        torch.backends.mha.set_fastpath_enabled(False)
    settings = plugin.deepspeed_config
    settings["torch_autocast"] = {"enabled": precision == "bf16", "dtype": "bfloat16"}
    settings["train_micro_batch_size_per_gpu"] = config.optim.batch_size
    settings["gradient_accumulation_steps"] = config.optim.gradient_accumulation
    settings["gradient_clipping"] = config.optim.clip


@contextmanager
def whole_weights() -> Iterator[None]:
    """Load models whole on every process: with a ZeRO-3 plugin transformers partitions them, and
    what is fitted before the first step reads whole weights."""
    from transformers.integrations import deepspeed as integration

    known = integration._hf_deepspeed_config_weak_ref
    integration.unset_hf_deepspeed_config()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        integration._hf_deepspeed_config_weak_ref = known


def set_leaves(model: nn.Module, accelerator: Accelerator) -> None:
    """Let ZeRO-3 gather an attention's weights together: torch's attention reads its output layer's
    weights without calling that layer, which would gather them."""
    if strategy(accelerator) == "zero3" and any(
        isinstance(m, nn.MultiheadAttention) for m in model.modules()
    ):
        from deepspeed.utils import set_z3_leaf_modules

        set_z3_leaf_modules(model, [nn.MultiheadAttention])


@contextmanager
def _gathered(parameter: Any, *, write: bool = False) -> Iterator[None]:
    """Gathers the parameter on every process; with ``write`` all get the main process's values."""
    if not hasattr(parameter, "ds_id"):
        yield
        return
    import deepspeed

    with deepspeed.zero.GatheredParameters([parameter], modifier_rank=0 if write else None):
        yield
    # DeepSpeed has small parameters whole between steps, and its record of what a pass gathers
    # relies on it; the line above has partitioned them too.
    if parameter.ds_persist:
        parameter.all_gather()


def whole_state(net: nn.Module, names: Iterable[str], main: bool) -> dict[str, Tensor]:
    """Copies on the CPU of the named entries of the state; empty except on the main process.

    One at a time, so that at most one parameter is whole at once.
    """
    tensors = net.state_dict(keep_vars=True)
    state: dict[str, Tensor] = {}
    for name in names:
        with _gathered(tensors[name]):
            if main:
                state[name] = tensors[name].detach().cpu().clone().contiguous()
    return state


@torch.no_grad()
def write_state(net: nn.Module, state: Mapping[str, Tensor], names: Iterable[str]) -> None:
    """Copy ``state`` into the named entries of the net, in place. The main process writes
    partitioned parameters; ``state`` must have the others on every process."""
    tensors = net.state_dict(keep_vars=True)
    for name in names:
        target = tensors[name]
        with _gathered(target, write=True):
            if not hasattr(target, "ds_id") or torch.distributed.get_rank() == 0:
                target.data.copy_(state[name])


def leave_deepspeed(model: Any, net: nn.Module, main: bool) -> None:
    """Remove DeepSpeed from ``net``: on the main process it is a plain module on the CPU again.

    Its parameters are new ones (the old have DeepSpeed's methods) and no hook is left. Models
    loaded from here on are whole: under ZeRO-3 transformers would partition them among a closed
    group.
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
