"""Checkpoints: a run that stops goes on where it was, to the same weights."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from medal_judges.errors import ConfigError

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


def save_checkpoint(folder: Path, progress: Progress, accelerator: Any, run_hash: str) -> None:
    """Write ``folder/step-N`` whole or not at all; keep the newest two."""
    target = folder / f"{_PREFIX}{progress.step:08d}"
    partial = folder / ".partial"
    if accelerator.is_main_process and partial.exists():
        shutil.rmtree(partial)
    accelerator.wait_for_everyone()
    accelerator.save_state(str(partial), safe_serialization=True)
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
    accelerator.load_state(str(found[-1]))
    return Progress(**state)
