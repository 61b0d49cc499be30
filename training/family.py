"""What a run passes to the training function of a family of judges. This function, ``fit(rows,
trainer)``, returns the trained judge (training/config.py)."""

from __future__ import annotations

from dataclasses import dataclass

from medal_judges.records.dimension import Dimension
from medal_judges.training.config import TrainConfig


@dataclass(frozen=True, slots=True)
class FamilyTrainer:
    """The settings with which a family trains a judge.

    ``config`` holds the settings of the run, with the family's settings in ``config.model``.
    ``dimensions`` are the dimensions to learn, those that have labels. ``overwrite`` says whether
    to remove the checkpoints of an earlier run. A judge with a network is trained by
    ``fit_by_steps`` (training/steps.py).
    """

    config: TrainConfig
    dimensions: list[Dimension]
    overwrite: bool = False
