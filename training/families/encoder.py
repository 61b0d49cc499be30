"""The family ``encoder`` in a run: a sequence classifier fine-tuned by JudgeTrainer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torch import nn

from medal_judges.models.encoder.judge import EncoderJudge
from medal_judges.records.dimension import Dimension
from medal_judges.training.arguments import check_steps
from medal_judges.training.balance import balanced_heads
from medal_judges.training.config import TrainConfig
from medal_judges.training.fitted import FittedJudge, TrainingRun
from medal_judges.training.rows import TrainingExample
from medal_judges.training.steps import fit_by_steps
from medal_judges.training.trainer import JudgeTrainer, judge_dataset

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import TrainingArguments


def check(config: TrainConfig) -> None:
    """Raises ValueError for arguments that TrainingArguments does not have."""
    check_steps(config)


def fit(run: TrainingRun) -> FittedJudge | None:
    """Trains the judge; None except on the main process."""
    return fit_by_steps(run, EncoderSteps())


class EncoderSteps:
    """What the family brings to training by steps; see StepFamily."""

    def new_judge(
        self,
        config: TrainConfig,
        dimensions: Sequence[Dimension],
        train: Sequence[TrainingExample],
        args: TrainingArguments,
    ) -> EncoderJudge:
        heads = balanced_heads(config.model.heads, train)
        model = config.model.model_copy(update={"heads": heads})
        judge = EncoderJudge.create(model, dimensions, name=config.name, device=args.device)
        freeze(judge.net, config.trainable_layers)
        return judge

    def dataset(
        self, judge: EncoderJudge, examples: Sequence[TrainingExample], cache: Path | None
    ) -> Dataset:
        return judge_dataset(judge, examples, cache)

    def trainer_class(self, judge: EncoderJudge) -> type[JudgeTrainer]:
        return JudgeTrainer


def freeze(network: nn.Module, trainable_layers: int | None) -> None:
    """Lets only the classification head, the top ``trainable_layers`` of the base and what comes
    after its layers learn; None: everything."""
    if trainable_layers is None:
        return
    base = getattr(network, str(network.base_model_prefix))
    lists = [list(m) for m in base.modules() if isinstance(m, nn.ModuleList)]
    layers = max(lists, key=len)
    base.requires_grad_(False)
    for layer in layers[len(layers) - trainable_layers :] if trainable_layers else ():
        layer.requires_grad_(True)
    final_norm = getattr(base, "final_norm", None)
    if trainable_layers and final_norm is not None:
        final_norm.requires_grad_(True)
