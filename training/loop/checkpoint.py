"""Checkpoints: a run that was stopped resumes where it was, and ends at the same weights."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medal_judges.errors import ConfigError
from medal_judges.training.loop.distributed import uses_deepspeed

if TYPE_CHECKING:
    from accelerate import Accelerator
    from torch import Tensor, nn

_PREFIX = "step-"
_STATE = "progress.json"
_KEEP = 2


@dataclass(slots=True)
class RunProgress:
    """How far a run is. ``step`` counts optimiser steps done; ``best`` is validation's best."""

    step: int = 0
    best: float | None = None
    best_step: int = 0
    waited: int = 0  # validations since the best
    stopped: bool = False
    history: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RunShape:
    """What a checkpoint can be resumed with: the ``run`` (a hash of settings and data), and how its
    batches are shared. ``batches``: how many of ``batch_size`` dialogues one step takes, over
    processes and accumulation together."""

    run: str
    batch_size: int
    batches: int
    processes: int
    strategy: str

    def require(self, state: Mapping[str, Any], where: Path) -> None:
        """Raise ConfigError where the run that wrote ``state`` would have taken other steps: the
        numbers of processes and of accumulated batches may differ, their product may not."""
        if state["run"] != self.run:
            raise ConfigError(
                f"{where} was written by a run with other settings or data",
                hint="give another output_dir, or remove the checkpoints folder to start again",
            )
        if state["batches"] != self.batches:
            kept, own = state["batches"], self.processes
            fits = f"optim.gradient_accumulation={kept // own}" if kept % own == 0 else None
            raise ConfigError(
                f"{where} was written by a run of {kept} batches of {self.batch_size} dialogues a "
                f"step ({state['processes']} processes); this one takes {self.batches} "
                f"({own} processes): its steps would not be the same",
                hint=f"{fits} with {own} processes" if fits else f"{state['processes']} processes",
            )
        parted = {"zero2", "zero3"} & {state["strategy"], self.strategy}
        same = (state["strategy"], state["processes"]) == (self.strategy, self.processes)
        if parted and not same:
            raise ConfigError(
                f"{where} was written under {state['strategy']} by {state['processes']} processes, "
                f"this run is {self.strategy} with {self.processes}: DeepSpeed keeps the optimizer "
                "in parts, one a process",
                hint="resume with the same launcher settings",
            )


def save_only_trained(
    accelerator: Accelerator, trained: Callable[[Mapping[str, Tensor]], dict[str, Tensor]]
) -> None:
    """Have checkpoints hold only what training changes: ``trained`` of the model's state, by its
    own names whether it is wrapped for several processes or not. The rest of a LoRA judge is its
    base, gigabytes that are the same at every step. DeepSpeed reads and writes its own files."""

    def before_saving(models: object, weights: list[Mapping[str, Tensor]], folder: str) -> None:
        prefix = "module."  # of DistributedDataParallel
        own = [{name.removeprefix(prefix): v for name, v in state.items()} for state in weights]
        weights[:] = [trained(state) for state in own]

    def before_loading(models: list[nn.Module], folder: str) -> None:
        while models:
            model = accelerator.unwrap_model(models.pop())
            _load_model(model, Path(folder), trained(model.state_dict()))

    accelerator.register_save_state_pre_hook(before_saving)
    if not uses_deepspeed(accelerator):
        accelerator.register_load_state_pre_hook(before_loading)


def _load_model(model: nn.Module, folder: Path, trained: Mapping[str, Tensor]) -> None:
    """Raises ConfigError where the checkpoint's weights are not the model's."""
    from safetensors.torch import load_file

    state = load_file(folder / "model.safetensors")
    # Of weights that share memory a file holds one.
    shared = {trained[name].data_ptr() for name in state if name in trained}
    lost = [n for n, w in trained.items() if n not in state and w.data_ptr() not in shared]
    if wrong := sorted({*lost, *(set(state) - set(trained))}):
        raise ConfigError(f"{folder}: the weights do not fit this model: {', '.join(wrong[:3])}")
    model.load_state_dict(state, strict=False)


def save_checkpoint(
    folder: Path, progress: RunProgress, accelerator: Accelerator, shape: RunShape
) -> None:
    """Write ``folder/step-N`` whole or not at all; keep the newest two."""
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
    """Remove what an earlier run left: its checkpoints would pass for this run's newest."""
    if accelerator.is_main_process and folder.exists():
        shutil.rmtree(folder)
    accelerator.wait_for_everyone()


def checkpoints(folder: Path) -> list[Path]:
    """Complete checkpoints, oldest first."""
    return sorted(p for p in folder.glob(f"{_PREFIX}*") if (p / _STATE).is_file())


def load_checkpoint(folder: Path, accelerator: Accelerator, shape: RunShape) -> RunProgress:
    """Newest checkpoint's state into the prepared objects; a fresh RunProgress where there is none.

    Raises ConfigError when the checkpoint belongs to a run with other settings or data, or one
    whose steps would not be this run's (see ``RunShape``).
    """
    kept = checkpoints(folder)
    if not kept:
        return RunProgress()
    newest = kept[-1]
    state = json.loads((newest / _STATE).read_text(encoding="utf-8"))
    shape.require(state, newest)
    if custom := sorted(newest.glob("custom_checkpoint_*")):
        # None is written here. Optimizer and random states are read by torch as tensors and plain
        # values, but Accelerate would unpickle this one unguarded.
        raise ConfigError(
            f"{newest} holds {custom[0].name}, a pickle, which can run code when it is opened",
            hint="this run did not write it: do not resume from a folder unless you know who made "
            "it; remove the file, or start again without --resume",
        )
    # DeepSpeed has its own word for strict; the other models were loaded by the hook above.
    options = {"load_module_strict": False} if uses_deepspeed(accelerator) else {}
    accelerator.load_state(str(newest), **options)
    progress = RunProgress(**state["progress"])
    # Accelerate counts batches to know where a step ends, and read the count of other processes.
    accelerator.step = progress.step * accelerator.gradient_accumulation_steps
    return progress
