"""What a run hands to the family of judges that it trains.

A family is a function ``fit(rows, trainer)`` that returns the trained judge (training/config.py).
A run knows nothing else of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from medal_judges.records.dimension import Dimension
from medal_judges.training.config import TrainConfig


@dataclass(frozen=True, slots=True)
class FamilyTrainer:
    """Trains a judge with the settings ``config.model`` on the ``dimensions`` that have labels.

    ``config`` also has the judge's name and the seed of the run. ``overwrite`` removes the
    checkpoints of an earlier run. A judge with a network is trained by ``fit_by_steps``
    (training/steps.py).
    """

    config: TrainConfig
    dimensions: list[Dimension]
    overwrite: bool = False
