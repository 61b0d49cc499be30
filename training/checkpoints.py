"""Which checkpoint a run resumes from: none of another run, and none is deleted unasked."""

from __future__ import annotations

import json
import logging
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open

from medal_judges.errors import ConfigError
from medal_judges.records.signature import content_hash
from medal_judges.storage.files import read_json_if_there, write_json
from medal_judges.training.config import TrainConfig

_IDENTITY = "run.json"
_STATE = "trainer_state.json"  # written last: a checkpoint that has it is complete
# Settings on which the weights do not depend.
_UNIMPORTANT = {
    "output_dir",
    "threads",
    "name",
    "calibration",
    "answered_rows",
    "card_notes",
}
_UNIMPORTANT_ARGS = (
    "logging",
    "report_to",
    "run_name",
    "save_total_limit",
    "dataloader_num",
)
_PER_STEP = ("per_device_train_batch_size", "gradient_accumulation_steps")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """What checkpoints belong to: ``run``, a hash of settings and data, and how steps are cut."""

    run: str
    examples_a_step: int
    processes: int
    strategy: str

    def write(self, folder: Path) -> None:
        """Writes the identity beside the checkpoints in ``folder``."""
        write_json(folder / _IDENTITY, asdict(self))

    @property
    def parts(self) -> tuple[str, int] | None:
        """The strategy and the number of processes that each hold a part of the optimizer; None if
        each process has all of it."""
        if self.strategy.startswith("zero"):
            return self.strategy, self.processes
        return None


def run_hash(config: TrainConfig, facts: list[dict[str, object]]) -> str:
    """Returns a hash of the settings and data that the weights depend on."""
    settings = config.model_dump(mode="json", exclude=_UNIMPORTANT)
    for name in config.args:
        if name.startswith((*_UNIMPORTANT_ARGS, *_PER_STEP)):
            del settings["args"][name]
    return content_hash([settings, facts])


def _can_be_read(checkpoint: Path) -> bool:
    """Says whether no file of the checkpoint is cut, as a full disk can leave it."""
    try:
        json.loads((checkpoint / _STATE).read_bytes())
        for path in checkpoint.glob("*.safetensors"):
            with safe_open(path, "pt"):
                pass
    except (OSError, ValueError, SafetensorError):
        return False
    archives = [*checkpoint.glob("*.pt"), *checkpoint.glob("*.pth")]  # of torch.save
    return all(map(zipfile.is_zipfile, archives))


def checkpoint_to_resume(folder: Path, identity: RunIdentity) -> str | None:
    """Returns the newest complete checkpoint in ``folder``, None if there is none.

    Raises ConfigError for checkpoints of a run with other settings or data, or with other steps,
    and if each is damaged.
    """
    checkpoints = [
        path for path in folder.glob("checkpoint-*") if (path / _STATE).is_file()
    ]
    if not checkpoints:
        return None
    damaged = [path for path in checkpoints if not _can_be_read(path)]
    for path in damaged:
        logger.warning("%s is damaged and is not used", path)
    if len(damaged) == len(checkpoints):
        raise ConfigError(
            f"no checkpoint in {folder} can be read",
            hint="--overwrite deletes them and starts again",
        )
    newest = max(
        set(checkpoints).difference(damaged),
        key=lambda path: int(path.name.rpartition("-")[2]),
    )
    saved = None
    record = read_json_if_there(folder / _IDENTITY, None)
    if record is not None:
        saved = RunIdentity(**record)
    if saved is None or saved.run != identity.run:
        raise ConfigError(
            f"{newest} is of a run with other settings or data, and is not deleted unasked",
            hint="set another output_dir, or --overwrite to delete it and start again",
        )
    if saved.examples_a_step != identity.examples_a_step:
        raise ConfigError(
            f"{newest} is of a run with {saved.examples_a_step} examples a step (processes: "
            f"{saved.processes}); this one has {identity.examples_a_step} on "
            f"{identity.processes}: its steps would not be the same",
            hint="change args.gradient_accumulation_steps or args.per_device_train_batch_size, or "
            "the number of processes",
        )
    if saved.parts != identity.parts:
        raise ConfigError(
            f"{newest} was written under {saved.strategy} by {saved.processes} processes, this run "
            f"is {identity.strategy} with {identity.processes}: DeepSpeed saves the optimizer in "
            "parts",
            hint="resume with the same launcher settings",
        )
    logger.warning("resuming from %s", newest)
    return str(newest)
