"""The family ``lora`` in a run."""

from __future__ import annotations

from medal_judges.training.config import TrainConfig
from medal_judges.training.fitted import FittedJudge, TrainingRun


def check(config: TrainConfig) -> None:
    """Accepts every setting that its class accepts."""


def fit(run: TrainingRun) -> FittedJudge | None:
    """Trains the judge; None except on the main process."""
    from medal_judges.training.families.steps import train_by_steps

    return train_by_steps(run)
