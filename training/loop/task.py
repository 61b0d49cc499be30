"""What a family brings to the loop: its data, its objective, and which of its weights are kept."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from medal_judges.models.base.heads import Head
from medal_judges.models.base.judge import Judge
from medal_judges.training.config import TrainConfig
from medal_judges.training.loop.objective import Data, Objective
from medal_judges.training.rows.examples import Example


class Task(ABC):
    """One judge in training. ``train``, ``validation``, ``objective`` and ``body`` (the part that
    learns at ``optim.body_lr``) are there once it is made; the judge is on its device by then."""

    judge: Any  # a judge with a ``net``
    train: Data
    validation: Data
    objective: Objective
    body: nn.Module

    @property
    def heads(self) -> Mapping[str, Head]:
        """The first member's head per dimension: all members' decode alike."""
        return self.objective.heads()[0]

    def combine(self, members: Sequence[Mapping[str, Tensor]], name: str) -> Tensor:
        """The members' logits of dimension ``name`` as one."""
        combined: Tensor = self.judge.net.combine(members, name)
        return combined

    def kept(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Of the net's state what training changes: all, unless a family says otherwise."""
        return dict(state)

    def solve(self) -> bool:
        """Solve in closed form where the config asks for it; False: the loop takes steps."""
        return False


def learnt_alone(net: nn.Module, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Of a state of ``net`` the parameters that learn: of a LoRA judge, all but its base."""
    learnt = {name for name, parameter in net.named_parameters() if parameter.requires_grad}
    return {name: value for name, value in state.items() if name in learnt}


def make_task(
    config: TrainConfig,
    judge: Judge,
    train: Sequence[Example],
    validation: Sequence[Example],
    device: torch.device,
) -> Task:
    """The task of the judge's family, on ``device``."""
    from medal_judges.models.encoder.judge import EncoderJudge

    if isinstance(judge, EncoderJudge):
        from medal_judges.training.encoder.task import EncoderTask

        return EncoderTask(config, judge, train, validation, device)
    from medal_judges.training.lora.task import lora_task

    return lora_task(config, judge, train, validation, device)
