"""Training a generative LoRA judge: lessons, packed where the model allows, and loss on the answers
only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from medal_judges.errors import ConfigError
from medal_judges.models.base.heads import Head
from medal_judges.models.lora.generative import GenerativeLoraJudge
from medal_judges.training.config import TrainConfig
from medal_judges.training.loop.objective import Data, Objective, Targets
from medal_judges.training.loop.task import Task, learnt_alone
from medal_judges.training.lora.packing import (
    Lesson,
    LessonInputs,
    answer_logits,
    in_rows,
    pack,
    packs_cleanly,
)
from medal_judges.training.rows.examples import TrainingExample
from medal_judges.training.rows.token_store import encoded, tokenizer_key


class LessonData(Data):
    """Each example's lessons: one where all is asked together, one a label otherwise.

    ``packed`` False gives each lesson a row of its own (see packing.py).
    """

    def __init__(
        self, judge: GenerativeLoraJudge, examples: Sequence[TrainingExample], *, packed: bool = True
    ) -> None:
        super().__init__(examples)
        self.packed = packed
        reader = [
            tokenizer_key(judge.tokenizer),
            judge.lora.model_dump(),
            judge.prompt.model_dump(mode="json"),
            [d.to_record() for d in judge.dimensions],
        ]
        self.lessons, self._lengths = encoded(
            examples, reader, lambda example: _lessons(judge, example), _tokens, LESSONS
        )

    @property
    def lengths(self) -> Sequence[int]:
        """Tokens."""
        return self._lengths

    def inputs(self, rows: Sequence[int]) -> LessonInputs:
        """Inputs of the examples ``rows``."""
        lessons = [(place, x) for place, row in enumerate(rows) for x in self.lessons[row]]
        return pack(lessons) if self.packed else in_rows(lessons)


def _tokens(lessons: Sequence[Lesson]) -> int:
    return sum(len(x.prompt) + len(x.answer) for x in lessons)


def _row_of(lessons: Sequence[Lesson]) -> dict[str, Any]:
    return {"prompts": [x.prompt for x in lessons], "answers": [x.answer for x in lessons]}


def _from_row(row: dict[str, Any]) -> list[Lesson]:
    pairs = zip(row["prompts"], row["answers"], strict=True)
    return [Lesson(prompt, answer) for prompt, answer in pairs]


def _features() -> Any:
    from datasets import Features, List, Value

    whole = List(List(Value("int32")))
    return Features({"prompts": whole, "answers": whole})


LESSONS = (_row_of, _from_row, _features)


def _lessons(judge: GenerativeLoraJudge, example: TrainingExample) -> list[Lesson]:
    """Raises ConfigError for an example whose labels answer no whole question."""
    units = {name: float(value) for name, value in example.targets.items()}
    found = []
    for question in judge.builder(None).questions:
        if all(d.name in units for d in question.dimensions):
            ids = judge.lesson(example.dialogue, question, units, example.comments)
            found.append(Lesson(*ids))
    if not found and units:
        lacking = [d.name for d in judge.dimensions if d.name not in units]
        raise ConfigError(
            f"{example.source}: dialogue {example.dialogue.id!r} has no label of "
            f"{', '.join(lacking[:3])}, and the prompt asks for all dimensions together",
            hint="set model.layout: each",
        )
    return found


class GenerativeObjective(Objective):
    """Mean over rows of the cross-entropy of a row's answer tokens (nats a token)."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__(net, [], [], offsets=False)

    def heads(self) -> list[dict[str, Head]]:
        """None: the numbers are written."""
        return [{}]

    def logits(self, inputs: Any) -> list[dict[str, Tensor]]:
        """None."""
        return [{}]

    def forward(
        self, inputs: LessonInputs, targets: Targets, sources: Tensor, weights: Tensor
    ) -> tuple[Tensor, list[dict[str, Tensor]]]:
        """(loss, [{}]); a row's tokens share its weight, however long its answer is."""
        logits = answer_logits(self.net, inputs)
        losses = functional.cross_entropy(logits, inputs.wanted, reduction="none")
        empty = losses.new_zeros(len(weights))
        total = empty.index_add(0, inputs.owner, losses)
        count = empty.index_add(0, inputs.owner, torch.ones_like(losses))
        return (total / count.clamp_min(1) * weights).mean(), [{}]


class GenerativeTask(Task):
    """See Task. Validation has a loss only: writing every answer out would cost more than it."""

    def __init__(
        self,
        config: TrainConfig,
        judge: GenerativeLoraJudge,
        train: Sequence[TrainingExample],
        validation: Sequence[TrainingExample],
        device: torch.device,
    ) -> None:
        self.judge = judge
        if not judge.lora.quantize:
            judge.net.to(device)
        judge.device = device
        self.body = judge.net
        packed = packs_cleanly(judge.net, len(judge.tokenizer), device)
        self.train = LessonData(judge, train, packed=packed)
        self.validation = LessonData(judge, validation, packed=packed)
        self.objective = GenerativeObjective(judge.net)

    def kept(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The adapters."""
        return learnt_alone(self.judge.net, state)
