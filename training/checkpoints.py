"""Which checkpoint a run resumes from: none of another run, and none is deleted unasked."""

from __future__ import annotations

import json
import logging
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from medal_judges.errors import ConfigError
from medal_judges.records.signature import content_hash
from medal_judges.storage.files import atomic_write
from medal_judges.training.arguments import CHECKPOINTS
from medal_judges.training.config import TrainConfig
from medal_judges.training.fitted import TrainingRun

_IDENTITY = "run.json"
_STATE = "trainer_state.json"  # written last: a checkpoint that has it is complete
# Settings on which the weights do not depend.
_UNIMPORTANT = {"output_dir", "threads", "name", "calibration", "answered_rows", "card_notes"}
_UNIMPORTANT_ARGS = ("logging", "report_to", "run_name", "save_total_limit", "dataloader_num")
_PER_STEP = ("per_device_train_batch_size", "gradient_accumulation_steps")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """What checkpoints belong to: ``run``, a hash of settings and data, and how steps are cut."""

    run: str
    examples_a_step: int
    processes: int
    strategy: str


def run_hash(config: TrainConfig, facts: list[dict[str, object]]) -> str:
    """Returns a hash of the settings and data that the weights depend on."""
    settings = config.model_dump(mode="json", exclude=_UNIMPORTANT)
    left_out = (*_UNIMPORTANT_ARGS, *_PER_STEP)
    arguments = {k: v for k, v in config.args.items() if not k.startswith(left_out)}
    return content_hash([settings | {"args": arguments}, facts])


def checkpoints(folder: Path) -> list[Path]:
    """Returns the complete checkpoints in ``folder``, the oldest first."""
    complete = [path for path in folder.glob("checkpoint-*") if (path / _STATE).is_file()]
    return sorted(complete, key=lambda path: int(path.name.rpartition("-")[2]))


def checkpoint_to_resume(run: TrainingRun, config: TrainConfig, own: RunIdentity) -> Path | None:
    """Returns the newest checkpoint in the run's folder, None if it has none.

    Raises ConfigError for checkpoints of a run with other settings or data, or with other steps,
    and for ``resume`` without a checkpoint.
    """
    folder = Path(config.output_dir) / CHECKPOINTS
    found = checkpoints(folder)
    if not found:
        if run.resume:
            raise ConfigError(f"{folder}: no checkpoint to resume from", hint="leave out --resume")
        return None
    newest = found[-1]
    identity = folder / _IDENTITY
    saved = None
    if identity.is_file():
        saved = RunIdentity(**json.loads(identity.read_text(encoding="utf-8")))
    if saved is None or saved.run != own.run:
        raise ConfigError(
            f"{newest} is of a run with other settings or data, and is not deleted unasked",
            hint="set another output_dir, or --overwrite to delete it and start again",
        )
    if saved.examples_a_step != own.examples_a_step:
        raise ConfigError(
            f"{newest} is of a run with {saved.examples_a_step} examples a step (processes: "
            f"{saved.processes}); this one has {own.examples_a_step} on {own.processes}: its steps "
            "would not be the same",
            hint="change args.gradient_accumulation_steps or args.per_device_train_batch_size, or "
            "the number of processes",
        )
    partitioned = own.strategy.startswith("zero") or saved.strategy.startswith("zero")
    if partitioned and (saved.strategy, saved.processes) != (own.strategy, own.processes):
        raise ConfigError(
            f"{newest} was written under {saved.strategy} by {saved.processes} processes, this run "
            f"is {own.strategy} with {own.processes}: DeepSpeed saves the optimizer in parts",
            hint="resume with the same launcher settings",
        )
    logger.warning("resuming from %s", newest)
    return newest


def remove_checkpoints(config: TrainConfig) -> None:
    """Removes the checkpoints of an earlier run in the same folder."""
    shutil.rmtree(Path(config.output_dir) / CHECKPOINTS, ignore_errors=True)


def write_identity(config: TrainConfig, own: RunIdentity) -> None:
    """Writes what the checkpoints of this run belong to."""
    path = Path(config.output_dir) / CHECKPOINTS / _IDENTITY
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, json.dumps(asdict(own)) + "\n")
