"""Training a LoRA judge: adapters and heads learn and are saved, the base stays as it is.

A generative judge learns from the tokens of its answers (SFT). Its examples are packed into one
sequence without padding if the model tells them apart by their positions alone: transformers masks
attention wherever positions begin again. Models that convolve or recur over the sequence, or read
no positions (LFM2, Bloom), would read into the next example: ``packs_cleanly`` tries it, and such a
model gets a row for each example.
"""

from __future__ import annotations

import logging
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
from medal_judges.training.loop.task import (
    HeadsObjective,
    Logits,
    Objective,
    Targets,
    TrainingData,
    TrainingTask,
)
from medal_judges.training.rows.examples import (
    Columns,
    TrainingExample,
    encode_examples,
    tokenizer_key,
)
from medal_judges.training.rows.store import Row

logger = logging.getLogger(__name__)

# Allowed deviation of packed log-probabilities in nats, for weights that tell words apart by a nat:
# the largest in fp32, the mean in 16 bits. Reading into another example costs tenths of a nat.
ALLOWED, ALLOWED_HALF = 0.002, 0.1


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
            packed = packs_cleanly(judge.net, len(judge.tokenizer), device)
            self.train = SFTDataset(judge, train, packed=packed)
            self.validation = SFTDataset(judge, validation, packed=packed)
            self.objective = SFTObjective(judge.net)
        else:
            self.body, self.heads = judge.net.body, judge.net.heads[0]
            self.train = TokenDataset(judge, train)
            self.validation = TokenDataset(judge, validation)
            names = [d.name for d in judge.dimensions]
            sources = sorted(set(Columns.of(train).sources))
            self.objective = LoraObjective(judge.net, names, sources, config.source_offsets)

    def trained(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Adapters, and heads if there are any."""
        learns = {n for n, p in self.judge.net.named_parameters() if p.requires_grad}
        return {name: value for name, value in state.items() if name in learns}


class TokenDataset(TrainingData):
    """Each dialogue as the judge reads it."""

    def __init__(self, judge: LoraJudge, examples: Sequence[TrainingExample]) -> None:
        super().__init__(examples)
        self.rows, self.lengths = encode_examples(
            examples,
            [tokenizer_key(judge.tokenizer), judge.config.max_tokens, judge.config.speaks],
            lambda example: {"ids": judge.encode(example.dialogue)[0]},
            lambda row: len(row["ids"]),
        )
        self.pad = judge.pad

    def inputs(self, rows: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Padded ids [B, L] and their mask (1 = token)."""
        return pad_rows([self.rows[row]["ids"] for row in rows], self.pad)


class LoraObjective(HeadsObjective):
    """The losses of the heads on the last token."""

    def logits(self, inputs: tuple[Tensor, Tensor]) -> list[Logits]:
        return [self.net(*inputs)]


# -- a generative judge ---------------------------------------------------------------------------


class SFTDataset(TrainingData):
    """Each dialogue's prompts and answers: one if the prompt asks for all dimensions together, else
    one a label. Unless ``packed`` each of them has a row of its own."""

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
        self.rows, self.lengths = encode_examples(
            examples,
            reader,
            lambda example: _sft_row(judge, example),
            lambda row: sum(map(len, [*row["prompts"], *row["answers"]])),
        )

    def inputs(self, rows: Sequence[int]) -> dict[str, Tensor]:
        """See ``sft_inputs``."""
        examples = [
            (number, *pair)
            for number, row in enumerate(rows)
            for pair in zip(self.rows[row]["prompts"], self.rows[row]["answers"], strict=True)
        ]
        return sft_inputs(examples, packed=self.packed)


def _sft_row(judge: GenerativeLoraJudge, example: TrainingExample) -> Row:
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
    return {"prompts": [prompt for prompt, _ in pairs], "answers": [answer for _, answer in pairs]}


def sft_inputs(
    examples: Sequence[tuple[int, list[int], list[int]]], *, packed: bool
) -> dict[str, Tensor]:
    """``ids`` [R, L] of (row of the batch, prompt, answer); ``owner`` [R, L]: the row that a token
    of an answer belongs to, -1 for other tokens. Packed: R is 1, and ``positions`` [1, L] begin
    again with each example. Else each example is a row, and ``mask`` [R, L] marks the padding at
    its end."""
    ids = [torch.tensor(prompt + answer) for _, prompt, answer in examples]
    owners = [torch.tensor([-1] * len(p) + [row] * len(a)) for row, p, a in examples]
    if packed:
        positions = torch.cat([torch.arange(len(one)) for one in ids])[None]
        return {
            "ids": torch.cat(ids)[None],
            "owner": torch.cat(owners)[None],
            "positions": positions,
        }
    return {
        "ids": pad_sequence(ids, batch_first=True),
        "owner": pad_sequence(owners, batch_first=True, padding_value=-1),
        "mask": pad_sequence([torch.ones_like(one) for one in ids], batch_first=True),
    }


def answer_losses(net: nn.Module, inputs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Cross-entropy of each token of an answer [A] in fp32, and the row that it belongs to [A]."""
    answered = inputs["owner"][:, 1:] >= 0  # tokens that are followed by one of an answer
    rows, places = answered.nonzero(as_tuple=True)
    keep, at = torch.unique(places, return_inverse=True)
    how = (
        {"position_ids": inputs["positions"]}
        if "positions" in inputs
        else {"attention_mask": inputs["mask"]}
    )
    output = net(input_ids=inputs["ids"], logits_to_keep=keep, use_cache=False, **how)
    logits: Tensor = output.logits[rows, at].float()
    losses = functional.cross_entropy(logits, inputs["ids"][:, 1:][answered], reduction="none")
    return losses, inputs["owner"][:, 1:][answered]


class SFTObjective(Objective):
    """Mean over rows of the cross-entropy of a row's answer tokens (nats a token)."""

    def forward(
        self, inputs: Any, targets: Targets, sources: Tensor, weights: Tensor
    ) -> tuple[Tensor, list[Logits]]:
        """(loss, [{}]): numbers are written, so there are no heads with logits. A row's tokens
        share its weight, however long its answer is."""
        losses, owner = answer_losses(self.net, inputs)
        empty = losses.new_zeros(len(weights))
        total = empty.index_add(0, owner, losses)
        count = empty.index_add(0, owner, torch.ones_like(losses))
        return (total / count.clamp_min(1) * weights).mean(), [{}]


def packs_cleanly(net: nn.Module, words: int, device: torch.device) -> bool:
    """Whether ``net`` reads packed examples as it reads each alone, tried on three of random ids
    below ``words``. An error of its code on packed ids is a no."""
    generator = torch.Generator().manual_seed(0)

    def drawn(count: int) -> list[int]:
        return [int(i) for i in torch.randint(words // 10, words, (count,), generator=generator)]

    def losses(*examples: tuple[int, list[int], list[int]]) -> Tensor:
        inputs = sft_inputs(examples, packed=True)
        return answer_losses(net, {name: value.to(device) for name, value in inputs.items()})[0]

    examples = [(0, drawn(length), drawn(4)) for length in (9, 17, 12)]
    training = net.training
    net.eval()
    try:
        with torch.no_grad():
            apart = torch.cat([losses(example) for example in examples])
            try:
                together = losses(*examples)
            except torch.OutOfMemoryError:
                raise
            except Exception as error:  # the model's code, on ids that it was not written for
                logger.info("SFT examples are not packed: %s", error)
                return False
    finally:
        net.train(training)
    half = next(net.parameters()).dtype != torch.float32
    difference = (together - apart).abs()
    deviation = float(difference.mean() if half else difference.max())
    allowed = (ALLOWED_HALF if half else ALLOWED) * min(1.0, float(apart.std()))
    if deviation > allowed:
        logger.info("SFT examples are not packed: packed they differ by %.2g nats", deviation)
    return deviation <= allowed
