"""Checkpoints: a run that stops goes on where it was, to the same weights."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from medal_judges.errors import ConfigError
from medal_judges.training.loop.distributed import uses_deepspeed

_PREFIX = "step-"
_STATE = "progress.json"
_KEEP = 2


@dataclass(slots=True)
class Progress:
    """Where a run stands. ``step`` counts optimiser steps done; ``best`` is validation's best."""

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
        """Raise ConfigError where the run that wrote ``state`` would have gone on otherwise: the
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


def keep_what_learns(accelerator: Any, kept: Callable[[Mapping[str, Any]], dict[str, Any]]) -> None:
    """Have checkpoints hold what training changes only: ``kept`` of the model's state, by its own
    names whether it is wrapped for several processes or not. The rest of a LoRA judge is its base,
    gigabytes that are the same at every step. DeepSpeed reads and writes its own files."""

    def thin(models: Any, weights: list[Mapping[str, Any]], folder: str) -> None:
        weights[:] = [kept(_own_names(state)) for state in weights]

    def load(models: list[Any], folder: str) -> None:
        while models:
            _load_model(accelerator.unwrap_model(models.pop()), Path(folder), kept)

    accelerator.register_save_state_pre_hook(thin)
    if not uses_deepspeed(accelerator):
        accelerator.register_load_state_pre_hook(load)


def _own_names(state: Mapping[str, Any]) -> dict[str, Any]:
    """``state`` of a model without the prefix that DistributedDataParallel puts before names."""
    prefix = "module."
    return {name.removeprefix(prefix): value for name, value in state.items()}


def _load_model(
    model: Any, folder: Path, kept: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> None:
    """Raises ConfigError where the checkpoint's weights are not the model's."""
    from safetensors.torch import load_file

    state = load_file(folder / "model.safetensors")
    own = kept(model.state_dict())
    # Of weights that share memory a file holds one.
    there = {own[name].data_ptr() for name in state if name in own}
    lost = [name for name in own if name not in state and own[name].data_ptr() not in there]
    if wrong := sorted({*lost, *(set(state) - set(own))}):
        raise ConfigError(f"{folder}: the weights do not fit this model: {', '.join(wrong[:3])}")
    model.load_state_dict(state, strict=False)


def save_checkpoint(folder: Path, progress: Progress, accelerator: Any, shape: RunShape) -> None:
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
        position = {"batches_done": progress.step * shape.batches}
        state = {"progress": asdict(progress)} | asdict(shape) | position
        (partial / _STATE).write_text(json.dumps(state), encoding="utf-8")
        if target.exists():
            shutil.rmtree(target)
        partial.replace(target)
        for old in checkpoints(folder)[:-_KEEP]:
            shutil.rmtree(old)
    accelerator.wait_for_everyone()


def clear_checkpoints(folder: Path, accelerator: Any) -> None:
    """Remove what an earlier run left: its checkpoints would pass for this run's newest."""
    if accelerator.is_main_process and folder.exists():
        shutil.rmtree(folder)
    accelerator.wait_for_everyone()


def checkpoints(folder: Path) -> list[Path]:
    """Complete checkpoints, oldest first."""
    return sorted(p for p in folder.glob(f"{_PREFIX}*") if (p / _STATE).is_file())


def load_checkpoint(folder: Path, accelerator: Any, shape: RunShape) -> Progress:
    """Newest checkpoint's state into the prepared objects; a fresh Progress where there is none.

    Raises ConfigError when the checkpoint belongs to a run with other settings or data, or one
    whose steps would not be this run's (see ``RunShape``).
    """
    found = checkpoints(folder)
    if not found:
        return Progress()
    state = json.loads((found[-1] / _STATE).read_text(encoding="utf-8"))
    shape.require(state, found[-1])
    _require_plain_state(found[-1])
    # DeepSpeed has its own word for strict; the other models were loaded by the hook above.
    options = {"load_module_strict": False} if uses_deepspeed(accelerator) else {}
    accelerator.load_state(str(found[-1]), **options)
    progress = Progress(**state["progress"])
    # Accelerate counts batches to know where a step ends, and read the count of other processes.
    accelerator.step = progress.step * accelerator.gradient_accumulation_steps
    return progress


def _require_plain_state(folder: Path) -> None:
    """Raise ConfigError for a checkpoint with a file that Accelerate would unpickle unguarded: none
    is written here. Optimizer and random states are read by torch as tensors and plain values."""
    if custom := sorted(folder.glob("custom_checkpoint_*")):
        raise ConfigError(
            f"{folder} holds {custom[0].name}, a pickle, which can run code when it is opened",
            hint="this run did not write it: do not resume from a folder unless you know who made "
            "it; remove the file, or start again without --resume",
        )
