"""The family ``encoder`` in a run: a sequence classifier fine-tuned by JudgeTrainer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from medal_judges.models.encoder.judge import EncoderJudge
from medal_judges.records.dimension import Dimension
from medal_judges.training.config import TrainConfig
from medal_judges.training.family import TrainingRun
from medal_judges.training.rows import RunRows
from medal_judges.training.steps import fit_by_steps

if TYPE_CHECKING:
    from transformers import TrainingArguments


def new_judge(
    config: TrainConfig,
    dimensions: Sequence[Dimension],
    args: TrainingArguments,
) -> EncoderJudge:
    """Returns an untrained judge: the pretrained base with new heads for ``dimensions``.

    Args:
        config: The settings of the run.
        dimensions: The dimensions to learn.
        args: The training arguments. The judge is moved to ``args.device``.
    """
    return EncoderJudge.create(
        config.model, dimensions, name=config.name, device=args.device
    )


def fit(rows: RunRows, run: TrainingRun) -> Any:
    """Trains an encoder judge on ``rows`` with the settings in ``run``.

    Returns:
        The judge on the main process, None on the others.

    Raises:
        ConfigError: Settings contradict each other.
        MedalError: The loss is not finite, or the checkpoints in the run's folder are of a run with
            other settings or data.
    """
    return fit_by_steps(rows, run, new_judge)
