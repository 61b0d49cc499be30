"""The family ``feature`` in a run."""

from __future__ import annotations

from medal_judges.models.feature.judge import FeatureJudge
from medal_judges.training.config import TrainConfig, refuse_steps
from medal_judges.training.fitted import FittedJudge, TrainingRun


def check(config: TrainConfig) -> None:
    """Raises ValueError for settings of training by steps."""
    refuse_steps(config)


def fit(run: TrainingRun) -> FittedJudge:
    """Fits a model of turn measures for each dimension."""
    config = run.config
    judge = FeatureJudge.fit(config.model, run.rows.train, run.dimensions, name=config.name)
    return FittedJudge(judge)
