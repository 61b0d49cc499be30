"""Trains a judge of the family ``lora``: adapters with a score head, or adapters that write answers
to a prompt."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from datasets import Dataset
from torch import Tensor
from torch.nn import functional

from medal_judges.errors import ConfigError
from medal_judges.models.base.judge import ScoreRequest
from medal_judges.models.batching import pad_rows
from medal_judges.models.lora.generative import GenerativeLoraJudge
from medal_judges.models.lora.judge import LoraJudge
from medal_judges.records.dimension import Dimension
from medal_judges.training.config import TrainConfig
from medal_judges.training.family import TrainingRun
from medal_judges.training.rows import RunRows, TrainingExample
from medal_judges.training.steps import fit_by_steps
from medal_judges.training.trainer import JudgeCollator, JudgeTrainer

if TYPE_CHECKING:
    from transformers import TrainingArguments

logger = logging.getLogger(__name__)
_IGNORED = -1  # a place of a row at which no token of an answer is predicted


def fit(rows: RunRows, run: TrainingRun) -> Any:
    """Trains a LoRA judge on ``rows``. The settings in ``run`` say whether it has a score head or
    writes its scores as text.

    Returns:
        The judge on the main process, None on the others.

    Raises:
        ConfigError: Settings contradict each other, or a row lacks a label that the prompt asks
            for.
        MedalError: The loss is not finite, or the checkpoints in the run's folder are of a run with
            other settings or data.
    """
    if run.config.model.head == "generative":
        return fit_by_steps(rows, run, new_judge, AnswerTrainer)
    return fit_by_steps(rows, run, new_judge)


def new_judge(
    config: TrainConfig,
    dimensions: Sequence[Dimension],
    args: TrainingArguments,
) -> LoraJudge | GenerativeLoraJudge:
    """Returns an untrained judge of ``dimensions``: the pretrained base with new adapters.

    Args:
        config: The settings of the run.
        dimensions: The dimensions to learn.
        args: The training arguments, which decide the device and the floating-point type.
    """
    settings: dict[str, Any] = {"name": config.name, "device": args.device}
    settings["dtype"] = torch.bfloat16 if args.bf16 else torch.float32
    if config.model.head == "generative":
        settings["rubric"] = config.rubric
        return GenerativeLoraJudge.create(config.model, dimensions, **settings)
    return LoraJudge.create(config.model, dimensions, **settings)


# -- a generative judge ----------------------------------------------------------------------------


def answer_dataset(
    judge: GenerativeLoraJudge,
    examples: Sequence[TrainingExample],
    cache: Path | None = None,
) -> Dataset:
    """Returns a dataset for training a generative ``judge``, which writes its scores as text.

    An example gives one row for each prompt whose dimensions all have a label. It is left out if
    its last turn alone is too long for a prompt.

    Args:
        judge: The judge to train.
        examples: The labelled dialogues.
        cache: Ignored.

    Returns:
        A dataset with these columns:

        - ``input_ids``: the token ids of the prompt, then those of the answer
        - ``start``: the index in ``input_ids`` of the answer's first token
        - ``length``: the number of token ids
        - ``number``: the index of the dialogue in ``examples``
        - ``dropped``: the number of turns left out because the dialogue is too long
        - ``cut``: the number of turns shortened for the same reason

    Raises:
        ConfigError: An example has labels, but each prompt also asks for a dimension without one.
    """
    rows: list[dict[str, Any]] = []
    unread = 0
    for number, example in enumerate(examples):
        request = judge.prepare_request(example.dialogue)
        if request.payload.failure is not None:
            unread += 1
            continue
        for prompt, answer in _prompt_answer_pairs(judge, request, example):
            rows.append(
                {
                    "input_ids": prompt + answer,
                    "start": len(prompt),
                    "length": len(prompt) + len(answer),
                    "number": number,
                    "dropped": request.truncated_turns,
                    "cut": request.cut_turns,
                }
            )
    if unread:
        text = "%s rows are left out: no prompt of max_tokens holds their last turn"
        logger.warning(text, unread)
    return Dataset.from_list(rows)


def _prompt_answer_pairs(
    judge: GenerativeLoraJudge,
    request: ScoreRequest,
    example: TrainingExample,
) -> list[tuple[list[int], list[int]]]:
    """Returns (prompt, answer) as token ids, for each of the judge's questions about ``example``
    whose dimensions are all labelled.

    Args:
        judge: The generative judge that asks the questions.
        request: The dialogue of ``example``, prepared for ``judge``.

    Raises:
        ConfigError: The example has labels, but each question needs one that is missing.
    """
    units: dict[str, float] = {}
    lacking = []
    for dimension in judge.dimensions:
        if dimension.name in example.targets:
            units[dimension.name] = float(example.targets[dimension.name])
        else:
            lacking.append(dimension.name)
    pairs = []
    for question in judge.builder_for(None).questions:
        if all(dimension.name in units for dimension in question.dimensions):
            pairs.append(judge.sft_example(request, question, units, example.comments))
    if not pairs and units:
        raise ConfigError(
            f"{example.source}: dialogue {example.dialogue.id!r} has no label of "
            f"{', '.join(lacking[:3])}, and the prompt asks for all dimensions together",
            hint="Set model.layout: each",
        )
    return pairs


class AnswerCollator(JudgeCollator):
    """A collator that makes a batch of B rows, padded to T tokens. A row is a prompt followed by
    its answer.

    A batch has these keys.
        input_ids: [B, T] token ids.
        attention_mask: [B, T] 1 for tokens, 0 for padding.
        logits_to_keep: [P] positions in the row (from 0) whose next token is part of an answer in
            at least one row.
        labels: [B, P] the next token at each of these positions, or -1 if it is not part of the
            row's answer.
    """

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        ids, mask = pad_rows([row["input_ids"] for row in rows], self.pad)
        starts = torch.tensor([row["start"] for row in rows])[:, None]
        positions = torch.arange(ids.shape[1] - 1)
        is_answer = (positions + 1 >= starts) & mask[:, 1:].bool()
        places = is_answer.any(dim=0).nonzero().squeeze(-1)
        following = ids[:, 1:].masked_fill(~is_answer, _IGNORED)[:, places]
        return {
            "input_ids": ids,
            "attention_mask": mask,
            "logits_to_keep": places,
            "labels": following,
        }


class AnswerTrainer(JudgeTrainer):
    """A trainer for a generative judge, which writes its scores as text. The loss is the
    cross-entropy of the tokens of its answers. Validation computes only this loss."""

    dataset = staticmethod(answer_dataset)
    measures = False  # writing the answers would take longer than the training

    def collator(self) -> AnswerCollator:
        return AnswerCollator(int(self.judge.tokenizer.pad_token_id or 0))

    def targets_of(self, labels: Tensor) -> Tensor:
        return labels

    def row_losses(
        self,
        logits: Tensor,
        targets: Tensor,
    ) -> Tensor:
        """Returns the loss of each row, [B]: the mean cross-entropy of its answer tokens.

        Args:
            logits: [B, P, vocabulary] logits of the next token at P positions.
            targets: [B, P] the true next token, -1 where it is not part of an answer.
        """
        losses = functional.cross_entropy(
            logits.float().transpose(1, 2),
            targets,
            ignore_index=_IGNORED,
            reduction="none",
        )
        tokens = (targets != _IGNORED).sum(dim=1)
        return losses.sum(dim=1) / tokens.clamp_min(1)

    def calibrate(
        self,
        dataset: Dataset,
        method: str,
    ) -> None:
        """Does nothing, because a generative judge has no calibration. ``dataset`` and ``method``
        are ignored."""
