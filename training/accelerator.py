"""The Accelerator of a run: precision where the device has it, accumulation, logging."""

from __future__ import annotations

from typing import Any

import torch

from medal_judges.training.config import TrainConfig


def make_accelerator(config: TrainConfig) -> Any:
    """Accelerator with the run's precision, accumulation and logger."""
    from accelerate import Accelerator
    from accelerate.utils import DistributedDataParallelKwargs, set_seed

    precision = config.optim.mixed_precision
    if precision == "auto":
        cuda = torch.cuda.is_available() and torch.cuda.is_bf16_supported()
        precision = "bf16" if cuda else "no"
    accelerator = Accelerator(
        mixed_precision=precision,
        gradient_accumulation_steps=config.optim.gradient_accumulation,
        log_with=None if config.log == "none" else config.log,
        project_dir=config.output_dir,
        kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)],
    )
    set_seed(config.seed)
    if config.log != "none":
        accelerator.init_trackers(config.name)
    return accelerator
