"""The Accelerator of a run: precision where the device has it, accumulation, logging."""

from __future__ import annotations

import os
from typing import Any

import torch

from medal_judges.errors import ConfigError
from medal_judges.training.config import TrainConfig
from medal_judges.training.loop.distributed import set_deepspeed, uses_deepspeed


def make_accelerator(config: TrainConfig) -> Any:
    """Accelerator with the run's precision, accumulation and logger.

    With DeepSpeed the weights stay in their own precision and torch's autocast computes in
    ``optim.mixed_precision``, as it does without: the same weights are saved either way.
    """
    from accelerate import Accelerator
    from accelerate.utils import (
        DistributedDataParallelKwargs,
        InitProcessGroupKwargs,
        parse_flag_from_env,
        set_seed,
    )

    precision = chosen_precision(config)
    deepspeed = parse_flag_from_env("ACCELERATE_USE_DEEPSPEED")
    handlers: list[Any] = [DistributedDataParallelKwargs(find_unused_parameters=True)]
    if deepspeed and not torch.cuda.is_available():
        # Without it every process is a world of its own, and none of them says so.
        handlers.append(InitProcessGroupKwargs(backend="gloo"))
    accelerator = Accelerator(
        mixed_precision="no" if deepspeed else precision,
        gradient_accumulation_steps=config.optim.gradient_accumulation,
        log_with=None if config.log == "none" else config.log,
        project_dir=config.output_dir,
        kwargs_handlers=handlers,
    )
    _require_one_world(accelerator)
    if uses_deepspeed(accelerator):
        set_deepspeed(accelerator, config.optim, precision)
    set_seed(config.seed)
    if config.log != "none":
        accelerator.init_trackers(config.name)
    return accelerator


def close_group(accelerator: Any) -> None:
    """End the processes' group and the logs: what comes next is the main process's alone, and no
    other waits for it (NCCL would give up after minutes)."""
    accelerator.wait_for_everyone()
    accelerator.end_training()


def _require_one_world(accelerator: Any) -> None:
    """Raise ConfigError where the launched processes do not know each other: each would train
    alone, and all would write to one folder."""
    launched = int(os.environ.get("WORLD_SIZE", "1"))
    if launched != accelerator.num_processes:
        raise ConfigError(
            f"{launched} processes were launched, and this one found {accelerator.num_processes}",
            hint="on a CPU: ACCELERATE_USE_CPU=true, see configs/accelerate/cpu.yaml",
        )


def chosen_precision(config: TrainConfig) -> str:
    """``no``, ``bf16`` or ``fp16``; ``auto`` is bf16 on a GPU that has it."""
    precision = config.optim.mixed_precision
    if precision != "auto":
        return precision
    return "bf16" if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else "no"
