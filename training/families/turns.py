"""The family ``encoder`` in a run."""

from __future__ import annotations

from medal_judges.training.config import TrainConfig
from medal_judges.training.fitted import FittedJudge, TrainingRun


def check(config: TrainConfig) -> None:
    """Raises ValueError for settings that do not go together."""
    model = config.model
    ridge, unfrozen = config.optim.solver == "ridge", config.trainable_layers != 0
    if not model.save_body and unfrozen:
        raise ValueError("model.save_body: false needs a frozen body: trainable_layers: 0")
    if (ridge or model.reply) and (model.shape != "hierarchical" or unfrozen):
        raise ValueError(
            f"{'optim.solver: ridge' if ridge else 'model.reply'} reads each turn's "
            "embedding once: set model.shape: hierarchical and trainable_layers: 0"
        )
    if ridge and model.pooling != "role":
        raise ValueError(
            "optim.solver: ridge solves for the mean over a role's turns, so that "
            f"model.pooling: {model.pooling} would score with other numbers: "
            "set model.pooling: role, or optim.solver: gradient"
        )


def fit(run: TrainingRun) -> FittedJudge | None:
    """Trains the judge; None except on the main process."""
    from medal_judges.training.families.steps import train_by_steps

    return train_by_steps(run)
