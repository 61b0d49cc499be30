"""The family ``lora`` in a run: adapters with a head, or with answers to a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from medal_judges.errors import ConfigError
from medal_judges.models.base.judge import ScoreRequest
from medal_judges.models.batching import pad_rows
from medal_judges.models.lora.generative import GenerativeLoraJudge
from medal_judges.models.lora.judge import LoraJudge
from medal_judges.records.dimension import Dimension
from medal_judges.training.arguments import check_steps
from medal_judges.training.config import TrainConfig
from medal_judges.training.fitted import FittedJudge, TrainingRun
from medal_judges.training.rows import TrainingExample
from medal_judges.training.steps import StepFamily, fit_by_steps
from medal_judges.training.trainer import JudgeTrainer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from datasets import Dataset
    from transformers import TrainingArguments

_IGNORED = -1  # a place of a row at which no token of an answer is predicted


def check(config: TrainConfig) -> None:
    """Raises ValueError for arguments that TrainingArguments does not have, and for a setting of
    encoders."""
    check_steps(config)
    if config.trainable_layers is not None:
        raise ValueError("trainable_layers is for encoders: of a LoRA judge only adapters learn")


def fit(run: TrainingRun) -> FittedJudge | None:
    """Trains the judge; None except on the main process."""
    is_generative = run.config.model.head == "generative"
    return fit_by_steps(run, AnswerSteps() if is_generative else ScoringSteps())


def _placement(args: TrainingArguments) -> dict[str, Any]:
    return {"device": args.device, "dtype": torch.bfloat16 if args.bf16 else torch.float32}


class ScoringSteps(StepFamily):
    """A new LoRA judge that scores."""

    def new_judge(
        self, config: TrainConfig, dimensions: Sequence[Dimension], args: TrainingArguments
    ) -> LoraJudge:
        return LoraJudge.create(config.model, dimensions, name=config.name, **_placement(args))


# -- a generative judge ----------------------------------------------------------------------------


class AnswerSteps(StepFamily):
    """A new LoRA judge that writes answers."""

    @property
    def trainer(self) -> type[JudgeTrainer]:
        return AnswerTrainer

    def new_judge(
        self, config: TrainConfig, dimensions: Sequence[Dimension], args: TrainingArguments
    ) -> GenerativeLoraJudge:
        return GenerativeLoraJudge.create(
            config.model, dimensions, name=config.name, rubric=config.rubric, **_placement(args)
        )

    def dataset(self, judge: Any, examples: Sequence[TrainingExample], cache: Path | None) -> Any:
        return answer_dataset(judge, examples)


def answer_dataset(judge: GenerativeLoraJudge, examples: Sequence[TrainingExample]) -> Dataset:
    """Returns a row for each prompt and its answer: token ids, where the answer ``start``s, the
    row's weight, and what ``beyond_window`` counts. The answers of an example share its weight by
    their tokens. Examples that fit into no prompt have no row, as the judge could not score them.
    """
    from datasets import Dataset

    rows: list[dict[str, Any]] = []
    for number, example in enumerate(examples):
        request = judge.request(example.dialogue)
        if request.payload.failure is not None:
            continue
        pairs = _answers(judge, request, example)
        total = sum(len(answer) for _, answer in pairs)
        for prompt, answer in pairs:
            row: dict[str, Any] = {"input_ids": prompt + answer, "start": len(prompt)}
            row |= {"length": len(prompt) + len(answer), "number": number}
            row |= {"dropped": request.truncated_turns, "cut": request.cut_turns}
            rows.append(row | {"weight": example.weight * len(answer) / total})
    mean = sum(row["weight"] for row in rows) / max(1, len(rows))
    for row in rows:
        row["weight"] /= mean
    return Dataset.from_list(rows)


def _answers(
    judge: GenerativeLoraJudge, request: ScoreRequest, example: TrainingExample
) -> list[tuple[list[int], list[int]]]:
    """Token ids of an example's prompts and answers. Raises ConfigError for an example whose labels
    answer no whole question."""
    names = {dimension.name for dimension in judge.dimensions}
    units = {name: float(value) for name, value in example.targets.items() if name in names}
    pairs = [
        judge.sft_example(request, question, units, example.comments)
        for question in judge.builder(None).questions
        if all(dimension.name in units for dimension in question.dimensions)
    ]
    if not pairs and units:
        lacking = [d.name for d in judge.dimensions if d.name not in units]
        raise ConfigError(
            f"{example.source}: dialogue {example.dialogue.id!r} has no label of "
            f"{', '.join(lacking[:3])}, and the prompt asks for all dimensions together",
            hint="set model.layout: each",
        )
    return pairs


class AnswerCollator:
    """Pads prompts with their answers, and says at which places the network has to compute logits:
    those before a token of an answer in any row.

    ``labels`` [B, 1 + places] are the row's weight, and the token that follows each place (-1: none
    of an answer).
    """

    def __init__(self, pad: int) -> None:
        self.pad = pad

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        ids, mask = pad_rows([row["input_ids"] for row in rows], self.pad)
        starts = torch.tensor([row["start"] for row in rows])[:, None]
        positions = torch.arange(ids.shape[1] - 1)
        is_answer = (positions + 1 >= starts) & mask[:, 1:].bool()
        places = is_answer.any(dim=0).nonzero().squeeze(-1)
        following = ids[:, 1:].masked_fill(~is_answer, _IGNORED)[:, places]
        weights = torch.tensor([row["weight"] for row in rows])[:, None]
        return {
            "input_ids": ids,
            "attention_mask": mask,
            "logits_to_keep": places,
            "labels": torch.cat([weights, following.float()], dim=1),
        }


class AnswerTrainer(JudgeTrainer):
    """Trains a generative judge on the tokens of its answers. Validation has only a loss: writing
    every answer out would cost more than the rest of it."""

    def collator(self) -> AnswerCollator:
        return AnswerCollator(int(self.judge.tokenizer.pad_token_id or 0))

    def measures(self) -> bool:
        return False

    def binary(self) -> set[str]:
        return set()

    def judge_loss(self, outputs: Any, labels: Tensor, num_items_in_batch: Any = None) -> Tensor:
        """Returns the weighted mean of the rows' losses, each the mean cross-entropy of the tokens
        of its answer: long answers count no more than short ones."""
        following = labels[:, 1:].long()
        logits = outputs.logits.float().transpose(1, 2)
        losses = functional.cross_entropy(
            logits, following, ignore_index=_IGNORED, reduction="none"
        )
        tokens = (following != _IGNORED).sum(dim=1)
        total = (losses.sum(dim=1) / tokens.clamp_min(1) * labels[:, 0]).sum()
        return total / (len(labels) if num_items_in_batch is None else num_items_in_batch)

    def calibrate(
        self, examples: Sequence[TrainingExample], method: str
    ) -> tuple[dict[str, float], dict[str, Any]]:
        """Returns the loss of the validation rows: a generative judge writes its numbers."""
        return {"loss": float(self.evaluate()["eval_loss"])}, {}
