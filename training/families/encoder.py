"""The family ``encoder`` in a run: a sequence classifier fine-tuned by JudgeTrainer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from medal_judges.models.encoder.judge import EncoderJudge
from medal_judges.records.dimension import Dimension
from medal_judges.training.arguments import check_steps
from medal_judges.training.config import TrainConfig
from medal_judges.training.fitted import FittedJudge, TrainingRun
from medal_judges.training.steps import StepFamily, fit_by_steps

if TYPE_CHECKING:
    from transformers import TrainingArguments

check = check_steps


def new_judge(
    config: TrainConfig, dimensions: Sequence[Dimension], args: TrainingArguments
) -> EncoderJudge:
    """Returns a judge on the pretrained base, with a new head."""
    return EncoderJudge.create(
        config.model, dimensions, name=config.name, device=args.device
    )


ENCODER = StepFamily(new_judge)


def fit(run: TrainingRun) -> FittedJudge | None:
    """Trains the judge; None except on the main process."""
    return fit_by_steps(run, ENCODER)
