"""The family ``encoder`` in a run: a sequence classifier fine-tuned by JudgeTrainer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import nn

from medal_judges.errors import ConfigError
from medal_judges.models.encoder.judge import EncoderJudge
from medal_judges.records.dimension import Dimension
from medal_judges.training.arguments import check_steps
from medal_judges.training.config import TrainConfig
from medal_judges.training.fitted import FittedJudge, TrainingRun
from medal_judges.training.steps import StepFamily, fit_by_steps

if TYPE_CHECKING:
    from transformers import TrainingArguments


check = check_steps


def fit(run: TrainingRun) -> FittedJudge | None:
    """Trains the judge; None except on the main process."""
    return fit_by_steps(run, EncoderSteps())


class EncoderSteps(StepFamily):
    """A new encoder judge, of which some layers may be frozen."""

    def new_judge(
        self, config: TrainConfig, dimensions: Sequence[Dimension], args: TrainingArguments
    ) -> EncoderJudge:
        name, device = config.name, args.device
        judge = EncoderJudge.create(config.model, dimensions, name=name, device=device)
        freeze(judge.net, config.trainable_layers)
        return judge


def freeze(network: nn.Module, trainable_layers: int | None) -> None:
    """Lets only the classification head, the top ``trainable_layers`` of the base and what comes
    after its layers learn; None: everything. Raises ConfigError for more layers than the base
    has."""
    if trainable_layers is None:
        return
    base = getattr(network, str(network.base_model_prefix))
    lists = [list(m) for m in base.modules() if isinstance(m, nn.ModuleList)]
    layers = max(lists, key=len)
    if trainable_layers > len(layers):
        raise ConfigError(
            f"trainable_layers {trainable_layers} is above the {len(layers)} layers of the base",
            hint="leave trainable_layers out: then everything learns",
        )
    base.requires_grad_(False)
    for layer in layers[len(layers) - trainable_layers :]:
        layer.requires_grad_(True)
    final_norm = getattr(base, "final_norm", None)
    if trainable_layers and final_norm is not None:
        final_norm.requires_grad_(True)
