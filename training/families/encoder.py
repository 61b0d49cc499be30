"""The family ``encoder`` in a run: a sequence classifier fine-tuned by JudgeTrainer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from medal_judges.models.encoder.judge import EncoderJudge
from medal_judges.records.dimension import Dimension
from medal_judges.training.arguments import check_steps
from medal_judges.training.config import TrainConfig
from medal_judges.training.steps import fit_by_steps
from medal_judges.training.trainer import JudgeTrainer

if TYPE_CHECKING:
    from transformers import TrainingArguments

check = check_steps
fit = fit_by_steps


def trainer_class(config: TrainConfig) -> type[JudgeTrainer]:
    """Returns the class of the trainer."""
    return JudgeTrainer


def new_judge(
    config: TrainConfig,
    dimensions: Sequence[Dimension],
    args: TrainingArguments,
) -> EncoderJudge:
    """Returns a judge on the pretrained base, with a new head."""
    return EncoderJudge.create(
        config.model, dimensions, name=config.name, device=args.device
    )
