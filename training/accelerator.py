"""The Accelerator of a run: precision where the device has it, accumulation, logging."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from medal_judges.training.config import TrainConfig
from medal_judges.training.distributed import set_deepspeed, uses_deepspeed


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
    if uses_deepspeed(accelerator):
        set_deepspeed(accelerator, config.optim, precision)
    set_seed(config.seed)
    if config.log != "none":
        accelerator.init_trackers(config.name)
    return accelerator


def chosen_precision(config: TrainConfig) -> str:
    """``no``, ``bf16`` or ``fp16``; ``auto`` is bf16 on a GPU that has it."""
    precision = config.optim.mixed_precision
    if precision != "auto":
        return precision
    return "bf16" if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else "no"


def scoring_autocast(accelerator: Any, precision: str) -> AbstractContextManager[Any]:
    """What a forward pass outside the wrapped model runs in, so that it computes as training."""
    if not uses_deepspeed(accelerator):
        context: AbstractContextManager[Any] = accelerator.autocast()
        return context
    if precision == "no":
        return nullcontext()
    return torch.autocast(accelerator.device.type, dtype=torch.bfloat16)
