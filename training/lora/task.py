"""Training a LoRA judge: adapters and heads learn and are kept, the base stays as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from medal_judges.errors import ConfigError
from medal_judges.models.batching import pad_rows
from medal_judges.models.lora.generative import GenerativeLoraJudge
from medal_judges.models.lora.judge import LoraJudge, LoraNet
from medal_judges.training.config import TrainConfig
from medal_judges.training.loop.task import (
    HeadsObjective,
    Objective,
    Targets,
    TrainingData,
    TrainingTask,
)
from medal_judges.training.lora.packing import (
    SFTExample,
    SFTInputs,
    answer_logits,
    in_rows,
    pack,
    packs_cleanly,
)
from medal_judges.training.rows.examples import (
    RowForm,
    TrainingExample,
    encode_examples,
    sources_of,
    tokenizer_key,
)


class AdapterTask(TrainingTask):
    """See TrainingTask. Parameters that learn are kept: of a LoRA judge, all but its base."""

    def _place(
        self,
        judge: LoraJudge | GenerativeLoraJudge,
        quantized: str | None,
        device: torch.device,
    ) -> None:
        if not quantized:  # bitsandbytes has put it where it belongs
            judge.net.to(device)
        judge.device = device
        self.judge = judge

    def trained(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Adapters, and heads where there are any."""
        learns = {n for n, p in self.judge.net.named_parameters() if p.requires_grad}
        return {name: value for name, value in state.items() if name in learns}


class LoraTask(AdapterTask):
    """Training a judge with heads on the last token."""

    def __init__(
        self,
        config: TrainConfig,
        judge: LoraJudge,
        train: Sequence[TrainingExample],
        validation: Sequence[TrainingExample],
        device: torch.device,
    ) -> None:
        self._place(judge, judge.config.quantize, device)
        self.body = judge.net.body
        self.train, self.validation = TokenDataset(judge, train), TokenDataset(judge, validation)
        names = [d.name for d in judge.dimensions]
        sources = sources_of(train)
        self.objective = LoraObjective(judge.net, names, sources, config.source_offsets)


@dataclass(slots=True)
class TokenInputs:
    """Padded ids [B, L] and their mask (1 = token)."""

    ids: Tensor
    mask: Tensor

    def to(self, device: torch.device) -> TokenInputs:
        return TokenInputs(self.ids.to(device), self.mask.to(device))


class TokenDataset(TrainingData[TokenInputs]):
    """Each dialogue as the judge reads it."""

    def __init__(self, judge: LoraJudge, examples: Sequence[TrainingExample]) -> None:
        super().__init__(examples)
        reader = [tokenizer_key(judge.tokenizer), judge.config.max_tokens, judge.config.speaks]
        form: RowForm[list[int]] = RowForm(
            {"ids": ["int32"]}, lambda ids: {"ids": ids}, lambda row: list(row["ids"])
        )
        self.ids, self.lengths = encode_examples(
            examples, reader, lambda example: judge.encode(example.dialogue)[0], len, form
        )
        self.pad = judge.pad

    def inputs(self, rows: Sequence[int]) -> TokenInputs:
        """Inputs of the examples ``rows``."""
        return TokenInputs(*pad_rows([self.ids[row] for row in rows], self.pad))


class LoraObjective(HeadsObjective[TokenInputs]):
    """The losses of the heads on the last token."""

    net: LoraNet

    def logits(self, inputs: TokenInputs) -> list[dict[str, Tensor]]:
        """Logits per dimension."""
        return [self.net(inputs.ids, inputs.mask)]


# -- a generative judge: supervised fine-tuning on the answers' tokens ---------------------------


class GenerativeTask(AdapterTask):
    """Training a judge that writes its answers. Validation has a loss only: writing every answer
    out would cost more than it."""

    def __init__(
        self,
        judge: GenerativeLoraJudge,
        train: Sequence[TrainingExample],
        validation: Sequence[TrainingExample],
        device: torch.device,
    ) -> None:
        self._place(judge, judge.lora.quantize, device)
        self.body = judge.net
        packed = packs_cleanly(judge.net, len(judge.tokenizer), device)
        self.train = SFTDataset(judge, train, packed=packed)
        self.validation = SFTDataset(judge, validation, packed=packed)
        self.objective = SFTObjective(judge.net)


class SFTDataset(TrainingData[SFTInputs]):
    """Each dialogue's prompts and answers: one where all is asked together, one a label otherwise.

    ``packed`` False gives each of them a row of its own (see packing.py).
    """

    def __init__(
        self,
        judge: GenerativeLoraJudge,
        examples: Sequence[TrainingExample],
        *,
        packed: bool = True,
    ) -> None:
        super().__init__(examples)
        self.packed = packed
        reader = [
            tokenizer_key(judge.tokenizer),
            judge.lora.model_dump(),
            judge.prompt.model_dump(mode="json"),
            [d.to_record() for d in judge.dimensions],
        ]
        form: RowForm[list[SFTExample]] = RowForm(
            {"prompts": [["int32"]], "answers": [["int32"]]},
            lambda pairs: {
                "prompts": [x.prompt for x in pairs],
                "answers": [x.answer for x in pairs],
            },
            lambda row: [
                SFTExample(*ids) for ids in zip(row["prompts"], row["answers"], strict=True)
            ],
        )
        self.pairs, self.lengths = encode_examples(
            examples,
            reader,
            lambda example: _sft_examples(judge, example),
            lambda pairs: sum(len(x.prompt) + len(x.answer) for x in pairs),
            form,
        )

    def inputs(self, rows: Sequence[int]) -> SFTInputs:
        """Inputs of the examples ``rows``."""
        pairs = [(number, x) for number, row in enumerate(rows) for x in self.pairs[row]]
        return pack(pairs) if self.packed else in_rows(pairs)


def _sft_examples(judge: GenerativeLoraJudge, example: TrainingExample) -> list[SFTExample]:
    """Raises ConfigError for an example whose labels answer no whole question."""
    units = {name: float(value) for name, value in example.targets.items()}
    pairs = [
        SFTExample(*judge.sft_example(example.dialogue, question, units, example.comments))
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


class SFTObjective(Objective[SFTInputs]):
    """Mean over rows of the cross-entropy of a row's answer tokens (nats a token)."""

    def forward(
        self, inputs: SFTInputs, targets: Targets, sources: Tensor, weights: Tensor
    ) -> tuple[Tensor, list[dict[str, Tensor]]]:
        """(loss, [{}]): the numbers are written, so there are no logits of heads. A row's tokens
        share its weight, however long its answer is."""
        logits = answer_logits(self.net, inputs)
        tokens, owner = inputs.answers
        losses = functional.cross_entropy(logits, tokens, reduction="none")
        empty = losses.new_zeros(len(weights))
        total = empty.index_add(0, owner, losses)
        count = empty.index_add(0, owner, torch.ones_like(losses))
        return (total / count.clamp_min(1) * weights).mean(), [{}]
