"""Training a LoRA judge: adapters and heads learn and are saved, the base stays as it is.

A generative judge learns from the tokens of its answers (SFT).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from medal_judges.errors import ConfigError
from medal_judges.models.batching import pad_rows
from medal_judges.models.lora.generative import GenerativeLoraJudge
from medal_judges.models.lora.judge import LoraJudge
from medal_judges.training.config import TrainConfig
from medal_judges.training.loop.task import Logits, Objective, Targets, TrainingData, TrainingTask
from medal_judges.training.rows import TrainingExample


class LoraTask(TrainingTask):
    """A LoRA judge in training, with heads on the last token or generative. A generative judge has
    only a loss in validation: writing every answer out would cost more than the rest of it."""

    judge: LoraJudge | GenerativeLoraJudge

    def __init__(
        self,
        config: TrainConfig,
        judge: LoraJudge | GenerativeLoraJudge,
        train: Sequence[TrainingExample],
        validation: Sequence[TrainingExample],
        device: torch.device,
    ) -> None:
        settings = judge.lora if isinstance(judge, GenerativeLoraJudge) else judge.config
        if not settings.quantize:  # bitsandbytes has already placed it
            judge.net.to(device)
        judge.device = device
        self.judge = judge
        if isinstance(judge, GenerativeLoraJudge):
            self.body, self.heads = judge.net, {}
            self.train = SFTDataset(judge, train)
            self.validation = SFTDataset(judge, validation)
            self.objective = SFTObjective(judge.net)
        else:
            self.body, self.heads = judge.net.body, judge.net.heads[0]
            self.train = TokenDataset(judge, train)
            self.validation = TokenDataset(judge, validation)
            names = [d.name for d in judge.dimensions]
            self.objective = LoraObjective(judge.net, names, train)

    def trained(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Adapters, and heads if there are any."""
        learns = {n for n, p in self.judge.net.named_parameters() if p.requires_grad}
        return {name: value for name, value in state.items() if name in learns}


class TokenDataset(TrainingData):
    """Each dialogue as the judge reads it."""

    def __init__(self, judge: LoraJudge, examples: Sequence[TrainingExample]) -> None:
        super().__init__(examples)
        self.ids = [judge.encode(example.dialogue).ids for example in examples]
        self.lengths = [len(each) for each in self.ids]
        self.pad = judge.pad

    def inputs(self, rows: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Padded ids [B, L] and their mask (1 = token)."""
        return pad_rows([self.ids[row] for row in rows], self.pad)


class LoraObjective(Objective):
    """The losses of the heads on the last token."""

    def logits(self, inputs: tuple[Tensor, Tensor]) -> list[Logits]:
        return [self.net(*inputs)]


# -- a generative judge ---------------------------------------------------------------------------


class SFTDataset(TrainingData):
    """Each dialogue's prompts and answers: one if the prompt asks for all dimensions together, else
    one a label, each in a row of its own."""

    def __init__(self, judge: GenerativeLoraJudge, examples: Sequence[TrainingExample]) -> None:
        super().__init__(examples)
        self.pairs = [_sft_pairs(judge, example) for example in examples]
        self.lengths = [sum(len(p) + len(a) for p, a in pairs) for pairs in self.pairs]

    def inputs(self, rows: Sequence[int]) -> dict[str, Tensor]:
        """``ids`` [R, L] of prompts and answers, ``mask`` [R, L] without the padding at the end,
        ``owner`` [R, L]: the row of the batch that a token of an answer belongs to, else -1."""
        pairs = [(number, *pair) for number, row in enumerate(rows) for pair in self.pairs[row]]
        ids = [torch.tensor(prompt + answer) for _, prompt, answer in pairs]
        owners = [torch.tensor([-1] * len(p) + [number] * len(a)) for number, p, a in pairs]
        return {
            "ids": pad_sequence(ids, batch_first=True),
            "owner": pad_sequence(owners, batch_first=True, padding_value=-1),
            "mask": pad_sequence([torch.ones_like(one) for one in ids], batch_first=True),
        }


def _sft_pairs(
    judge: GenerativeLoraJudge, example: TrainingExample
) -> list[tuple[list[int], list[int]]]:
    """Token ids of an example's prompts and answers. Raises ConfigError for an example whose labels
    answer no whole question."""
    units = {name: float(value) for name, value in example.targets.items()}
    pairs = [
        judge.sft_example(example.dialogue, question, units, example.comments)
        for question in judge.builder(None).questions
        if all(d.name in units for d in question.dimensions)
    ]
    if not pairs and units:
        lacking = [d.name for d in judge.dimensions if d.name not in units]
        raise ConfigError(
            f"{example.source}: dialogue {example.dialogue.id!r} has no label of "
            f"{', '.join(lacking[:3])}, and the prompt asks for all dimensions together",
            hint="set model.layout: each",
        )
    return pairs


def answer_losses(net: nn.Module, inputs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Cross-entropy of each token of an answer [A] in fp32, and the row that it belongs to [A]."""
    answered = inputs["owner"][:, 1:] >= 0  # tokens that are followed by one of an answer
    rows, places = answered.nonzero(as_tuple=True)
    keep, at = torch.unique(places, return_inverse=True)
    output = net(
        input_ids=inputs["ids"],
        attention_mask=inputs["mask"],
        logits_to_keep=keep,
        use_cache=False,
    )
    logits: Tensor = output.logits[rows, at].float()
    losses = functional.cross_entropy(logits, inputs["ids"][:, 1:][answered], reduction="none")
    return losses, inputs["owner"][:, 1:][answered]


class SFTObjective(Objective):
    """Mean over rows of the cross-entropy of a row's answer tokens (nats a token)."""

    def forward(
        self, inputs: Any, targets: Targets, sources: Tensor, weights: Tensor
    ) -> tuple[Tensor, list[Logits]]:
        """(loss, [{}]): a generative judge has no heads, so there are no logits. The tokens of a
        row share its weight, so long answers count no more than short ones."""
        losses, owner = answer_losses(self.net, inputs)
        empty = losses.new_zeros(len(weights))
        total = empty.index_add(0, owner, losses)
        count = empty.index_add(0, owner, torch.ones_like(losses))
        return (total / count.clamp_min(1) * weights).mean(), [{}]
