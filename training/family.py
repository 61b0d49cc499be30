"""What a run passes to the training function of a family of judges. This function, ``fit(rows,
run)``, returns the trained judge (training/config.py)."""

from __future__ import annotations

from dataclasses import dataclass

from medal_judges.records.dimension import Dimension
from medal_judges.training.config import TrainConfig


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """The settings and dimensions of a training run, for the function that trains one kind of
    judge.

    Attributes:
        config: The settings of the run. ``config.model`` has the settings of the judge itself.
        dimensions: The dimensions to learn. Each has a label in the training rows.
        overwrite: Whether to remove the checkpoints of an earlier run. If false, the run resumes
            from them.
    """

    config: TrainConfig
    dimensions: list[Dimension]
    overwrite: bool = False
