"""What decides the result of a run by steps, and the checkpoint from which a stopped run
resumes."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from transformers import TrainerState

from medal_judges.records.dimension import Dimension
from medal_judges.storage.files import read_json_if_there
from medal_judges.storage.runs import hash_or_name, require_same_run
from medal_judges.training.config import TrainConfig

RUN_NAME = "run.json"
# Settings on which the weights do not depend, and settings whose content counts instead.
_UNIMPORTANT = {"output_dir", "name", "calibration", "card_notes"}
_BY_CONTENT = {"rubric", "start", "train", "validation", "test"}
_UNIMPORTANT_ARGS = ("logging", "report_to", "run_name", "save_total", "dataloader_num")
_PER_STEP = ("per_device_train_batch_size", "gradient_accumulation_steps")

logger = logging.getLogger(__name__)


def run_record(
    config: TrainConfig,
    dimensions: Sequence[Dimension],
    facts: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Returns the settings and data hashes that decide the weights of a run.

    A run resumes a checkpoint only if this record is equal to that of the run that wrote it. Input
    files are recorded by a hash of their content.

    Args:
        config: The settings of the run.
        dimensions: The dimensions of the rubric.
        facts: One mapping for each data source, such as ``{"part": "train", "rows": 900, "hash":
            ...}``.
    """
    settings = config.model_dump(mode="json", exclude=_UNIMPORTANT | _BY_CONTENT)
    for name in config.args:
        if name.startswith((*_UNIMPORTANT_ARGS, *_PER_STEP)):
            del settings["args"][name]
    record: dict[str, Any] = pd.json_normalize(settings).to_dict("records")[0]
    for name in ("model.base", "model.prompt"):
        if name in record:
            record[name] = hash_or_name(record[name])
    record["rubric"] = [dimension.to_record() for dimension in dimensions]
    record["start"] = config.start and hash_or_name(config.start)
    for part in ("train", "validation"):
        record[f"{part} rows"] = [
            [fact["hash"], fact["rows"]] for fact in facts if fact["part"] == part
        ]
    return record


def checkpoint_to_resume(
    folder: Path,
    record: Mapping[str, Any],
) -> Path | None:
    """Returns the newest complete checkpoint in ``folder``, or None if there is none. Logs a
    warning about incomplete ones.

    Args:
        record: The settings and data hashes of the present run.

    Raises:
        MedalError: The newest checkpoint is of a run with other settings or data.
    """
    checkpoints = list(folder.glob("checkpoint-*"))
    readable = [path for path in checkpoints if is_complete(path)]
    for path in set(checkpoints).difference(readable):
        logger.warning("%s is not whole and is not used", path)
    if not readable:
        return None
    newest = max(readable, key=lambda path: int(path.name.rpartition("-")[2]))
    require_same_run(newest, read_json_if_there(folder / RUN_NAME, {}), record)
    logger.warning("resuming from %s", newest)
    return newest


def is_complete(checkpoint: Path) -> bool:
    """Returns whether the Trainer finished writing ``checkpoint``."""
    try:  # the Trainer writes this file last
        TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))
    except (OSError, ValueError, TypeError):
        return False
    return True
