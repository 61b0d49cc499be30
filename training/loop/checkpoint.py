"""Checkpoints: a stopped run resumes at its last one, and ends with the same weights."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medal_judges.errors import ConfigError
from medal_judges.training.loop.accelerator import uses_deepspeed

if TYPE_CHECKING:
    from accelerate import Accelerator
    from torch import Tensor, nn

_PREFIX = "step-"
_STATE = "progress.json"
_KEEP = 2


@dataclass(slots=True)
class RunProgress:
    """How far a run is: optimiser steps done, and the best validation of ``history``."""

    step: int = 0
    best: float | None = None
    best_step: int = 0
    waited: int = 0  # validations since the best
    stopped: bool = False
    history: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RunShape:
    """What a checkpoint can be resumed with: ``run`` (a hash of settings and data), and how batches
    are shared. One step takes ``batches`` batches of ``batch_size`` dialogues, over processes and
    accumulation together."""

    run: str
    batch_size: int
    batches: int
    processes: int
    strategy: str


def save_only_trained(
    accelerator: Accelerator, trained: Callable[[Mapping[str, Tensor]], dict[str, Tensor]]
) -> None:
    """Make checkpoints contain only what training changes, ``trained`` of the model's state: the
    base of a LoRA judge is gigabytes that stay the same. DeepSpeed has its own files."""

    def before_saving(models: object, weights: list[Mapping[str, Tensor]], folder: str) -> None:
        prefix = "module."  # of DistributedDataParallel
        own = [{name.removeprefix(prefix): v for name, v in state.items()} for state in weights]
        weights[:] = [trained(state) for state in own]

    def before_loading(models: list[nn.Module], folder: str) -> None:
        from safetensors.torch import load_file

        while models:
            model = accelerator.unwrap_model(models.pop())
            wanted = trained(model.state_dict())
            state = load_file(Path(folder) / "model.safetensors")
            # Weights that share memory are in a file once.
            shared = {wanted[name].data_ptr() for name in state if name in wanted}
            lost = [n for n, w in wanted.items() if n not in state and w.data_ptr() not in shared]
            if wrong := sorted({*lost, *(set(state) - set(wanted))}):
                names = ", ".join(wrong[:3])
                raise ConfigError(f"{folder}: the weights do not fit this model: {names}")
            model.load_state_dict(state, strict=False)

    accelerator.register_save_state_pre_hook(before_saving)
    if not uses_deepspeed(accelerator):
        accelerator.register_load_state_pre_hook(before_loading)


def save_checkpoint(
    folder: Path, progress: RunProgress, accelerator: Accelerator, shape: RunShape
) -> None:
    """Write ``folder/step-N`` completely or not at all; keep the newest two."""
    target = folder / f"{_PREFIX}{progress.step:08d}"
    partial = folder / ".partial"
    if accelerator.is_main_process and partial.exists():
        shutil.rmtree(partial)
    accelerator.wait_for_everyone()
    frozen = {"exclude_frozen_parameters": True} if uses_deepspeed(accelerator) else {}
    accelerator.save_state(str(partial), safe_serialization=True, **frozen)
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        state = {"progress": asdict(progress)} | asdict(shape)
        (partial / _STATE).write_text(json.dumps(state), encoding="utf-8")
        if target.exists():
            shutil.rmtree(target)
        partial.replace(target)
        for old in checkpoints(folder)[:-_KEEP]:
            shutil.rmtree(old)
    accelerator.wait_for_everyone()


def clear_checkpoints(folder: Path, accelerator: Accelerator) -> None:
    """Remove an earlier run's checkpoints, which could be newer than this run's."""
    if accelerator.is_main_process and folder.exists():
        shutil.rmtree(folder)
    accelerator.wait_for_everyone()


def checkpoints(folder: Path) -> list[Path]:
    """Complete checkpoints, oldest first."""
    return sorted(p for p in folder.glob(f"{_PREFIX}*") if (p / _STATE).is_file())


def load_checkpoint(folder: Path, accelerator: Accelerator, shape: RunShape) -> RunProgress:
    """Load the newest checkpoint into the prepared objects; a new RunProgress if there is none.

    Raises ConfigError for a checkpoint of a run with other settings or data, or with other steps:
    the numbers of processes and of accumulated batches may differ, their product may not.
    """
    found = checkpoints(folder)
    if not found:
        return RunProgress()
    newest = found[-1]
    state = json.loads((newest / _STATE).read_text(encoding="utf-8"))
    if state["run"] != shape.run:
        raise ConfigError(
            f"{newest} was written by a run with other settings or data",
            hint="set another output_dir, or remove the checkpoints folder to start again",
        )
    batches, own = state["batches"], shape.processes
    if batches != shape.batches:
        fits = f"optim.gradient_accumulation={batches // own}" if batches % own == 0 else None
        raise ConfigError(
            f"{newest} was written by a run of {batches} batches of {shape.batch_size} dialogues a "
            f"step ({state['processes']} processes); this one takes {shape.batches} "
            f"({own} processes): its steps would not be the same",
            hint=f"{fits} with {own} processes" if fits else f"{state['processes']} processes",
        )
    partitioned = {"zero2", "zero3"} & {state["strategy"], shape.strategy}
    if partitioned and (state["strategy"], state["processes"]) != (shape.strategy, own):
        raise ConfigError(
            f"{newest} was written under {state['strategy']} by {state['processes']} processes, "
            f"this run is {shape.strategy} with {own}: DeepSpeed saves the optimizer in parts, one "
            "a process",
            hint="resume with the same launcher settings",
        )
    if custom := sorted(newest.glob("custom_checkpoint_*")):
        # This code writes none. torch reads optimizer and random states as tensors and plain
        # values, but Accelerate would unpickle this one.
        raise ConfigError(
            f"{newest} contains {custom[0].name}, a pickle, which can run code when it is opened",
            hint="this run did not write it: do not resume from a folder unless you know who made "
            "it; remove the file, or start again without --resume",
        )
    # DeepSpeed has its own name for strict; the hook above has loaded other models.
    options = {"load_module_strict": False} if uses_deepspeed(accelerator) else {}
    accelerator.load_state(str(newest), **options)
    progress = RunProgress(**state["progress"])
    # Accelerate counts batches to know where a step ends, and has read other processes' count.
    accelerator.step = progress.step * accelerator.gradient_accumulation_steps
    return progress
