"""What a run passes to the training function of a family. A family is a function ``fit(rows,
trainer)`` that returns the trained judge (training/config.py). A run knows nothing more about
it."""

from __future__ import annotations

from dataclasses import dataclass

from medal_judges.records.dimension import Dimension
from medal_judges.training.config import TrainConfig


@dataclass(frozen=True, slots=True)
class FamilyTrainer:
    """The settings with which a family trains a judge.

    ``config`` are the settings of the run, with those of the family in ``config.model``.
    ``dimensions`` are the dimensions that have labels. ``overwrite`` removes the checkpoints of an
    earlier run. A judge with a network is trained by ``fit_by_steps`` (training/steps.py).
    """

    config: TrainConfig
    dimensions: list[Dimension]
    overwrite: bool = False
