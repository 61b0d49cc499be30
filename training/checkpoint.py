"""Checkpoints: a run that stops goes on where it was, to the same weights."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from medal_judges.errors import ConfigError
from medal_judges.training.distributed import uses_deepspeed

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


def leave_out_frozen(accelerator: Any, kept: Callable[[Mapping[str, Any]], dict[str, Any]]) -> None:
    """Have checkpoints hold what training changes only: ``kept`` of a model's state. The rest of a
    LoRA judge is its base, gigabytes that are the same at every step."""

    def thin(models: Any, weights: list[Mapping[str, Any]], folder: str) -> None:
        weights[:] = [kept(state) for state in weights]

    accelerator.register_save_state_pre_hook(thin)


def save_checkpoint(folder: Path, progress: Progress, accelerator: Any, run_hash: str) -> None:
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
        state = asdict(progress) | {"run": run_hash}
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


def load_checkpoint(folder: Path, accelerator: Any, run_hash: str) -> Progress:
    """Newest checkpoint's state into the prepared objects; a fresh Progress where there is none.

    Raises ConfigError when the checkpoint belongs to a run with other settings or data.
    """
    found = checkpoints(folder)
    if not found:
        return Progress()
    state = json.loads((found[-1] / _STATE).read_text(encoding="utf-8"))
    if state.pop("run") != run_hash:
        raise ConfigError(
            f"{found[-1]} was written by a run with other settings or data",
            hint="give another output_dir, or remove the checkpoints folder to start anew",
        )
    # See leave_out_frozen; DeepSpeed writes its own files, and has its own word for strict.
    strict = "load_module_strict" if uses_deepspeed(accelerator) else "strict"
    accelerator.load_state(str(found[-1]), **{strict: False})
    return Progress(**state)
