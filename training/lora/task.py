"""Training a LoRA judge: token sequences, and adapters and heads as what is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from medal_judges.models.base.judge import Judge
from medal_judges.models.batching import pad_rows
from medal_judges.models.lora.judge import LoraJudge
from medal_judges.training.config import TrainConfig
from medal_judges.training.loop.objective import Data, Objective
from medal_judges.training.loop.task import Task, learnt_alone
from medal_judges.training.rows.example_store import sources_of
from medal_judges.training.rows.examples import TrainingExample
from medal_judges.training.rows.token_store import encoded, tokenizer_key


@dataclass(slots=True)
class TokenInputs:
    """Padded ids [B, L] and their mask (1 = token)."""

    ids: Tensor
    mask: Tensor

    def to(self, device: torch.device) -> TokenInputs:
        return TokenInputs(self.ids.to(device), self.mask.to(device))


def _id_features() -> Any:
    from datasets import Features, List, Value

    return Features({"ids": List(Value("int32"))})


def _write_ids(ids: list[int]) -> dict[str, Any]:
    return {"ids": ids}


def _read_ids(row: dict[str, Any]) -> list[int]:
    ids: list[int] = row["ids"]
    return ids


IDS = (_write_ids, _read_ids, _id_features)


class TokenData(Data):
    """Each dialogue as the judge reads it."""

    def __init__(self, judge: LoraJudge, examples: Sequence[TrainingExample]) -> None:
        super().__init__(examples)
        reader = [tokenizer_key(judge.tokenizer), judge.config.max_tokens, judge.config.speaks]
        self.ids, self._lengths = encoded(
            examples, reader, lambda e: judge.encode(e.dialogue)[0], len, IDS
        )
        self.pad = judge.pad

    @property
    def lengths(self) -> Sequence[int]:
        """Tokens."""
        return self._lengths

    def inputs(self, rows: Sequence[int]) -> TokenInputs:
        """Inputs of the examples ``rows``."""
        return TokenInputs(*pad_rows([self.ids[row] for row in rows], self.pad))


class LoraObjective(Objective):
    """The losses of the heads on the last token."""

    def logits(self, inputs: TokenInputs) -> list[dict[str, Tensor]]:
        """Logits per dimension."""
        return [self.net(inputs.ids, inputs.mask)]


class LoraTask(Task):
    """See Task. The base stays as it is: adapters and heads alone learn, and are kept."""

    def __init__(
        self,
        config: TrainConfig,
        judge: LoraJudge,
        train: Sequence[TrainingExample],
        validation: Sequence[TrainingExample],
        device: torch.device,
    ) -> None:
        self.judge = judge
        if not judge.config.quantize:
            judge.net.to(device)
        judge.device = device
        self.body = judge.net.body
        self.train, self.validation = TokenData(judge, train), TokenData(judge, validation)
        sources = sources_of(train)
        names = [d.name for d in judge.dimensions]
        self.objective = LoraObjective(judge.net, names, sources, config.source_offsets)

    def kept(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Adapters and heads."""
        return learnt_alone(self.judge.net, state)


def lora_task(
    config: TrainConfig,
    judge: Judge,
    train: Sequence[TrainingExample],
    validation: Sequence[TrainingExample],
    device: torch.device,
) -> Task:
    """The task of a scoring or a generative LoRA judge."""
    if isinstance(judge, LoraJudge):
        return LoraTask(config, judge, train, validation, device)
    from medal_judges.training.lora.generative import GenerativeTask

    return GenerativeTask(config, judge, train, validation, device)  # type: ignore[arg-type]
