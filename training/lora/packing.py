"""SFT examples of a generative judge in one forward pass: packed into one sequence, or in rows.

Packed, nothing is padded; but a model must keep the examples apart by their positions alone. One
that convolves or recurs over the sequence, or reads no positions, reads into the next example.
``packs_cleanly`` tries it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

logger = logging.getLogger(__name__)

# Largest deviation of fp32 log-probabilities, mean one of 16 bits; nats, for weights that part
# words by a nat. What leaks is tenths of a nat and more.
ALLOWED, ALLOWED_HALF = 0.002, 0.1


@dataclass(frozen=True, slots=True)
class SFTExample:
    """Token ids of a prompt and of the answer that is learnt."""

    prompt: list[int]
    answer: list[int]


@dataclass(slots=True)
class SFTInputs:
    """SFT examples as the model reads them.

    ``ids`` [R, L]; ``owner`` [R, L]: the row of the batch that a token of an answer belongs to, -1
    for other tokens. Packed: R is 1, there is no padding, and ``positions`` [1, L] begin again with
    each example, by which transformers masks attention from one to another
    (masking_utils.find_packed_sequence_indices). In rows: ``mask`` [R, L] marks padding, which
    stands at the end.
    """

    ids: Tensor
    owner: Tensor
    positions: Tensor | None = None
    mask: Tensor | None = None

    def to(self, device: torch.device) -> SFTInputs:
        return SFTInputs(
            self.ids.to(device),
            self.owner.to(device),
            None if self.positions is None else self.positions.to(device),
            None if self.mask is None else self.mask.to(device),
        )

    @property
    def answered(self) -> Tensor:
        """Where a token is followed by one of an answer [R, L - 1]."""
        return self.owner[:, 1:] >= 0

    @property
    def answers(self) -> tuple[Tensor, Tensor]:
        """The answers' tokens [A], and the row of the batch that each belongs to [A]."""
        return self.ids[:, 1:][self.answered], self.owner[:, 1:][self.answered]


def pack(examples: Sequence[tuple[int, SFTExample]]) -> SFTInputs:
    """(row, example) pairs as one sequence."""
    ids, owners = _tensors(examples)
    positions = torch.cat([torch.arange(len(one)) for one in ids])
    return SFTInputs(torch.cat(ids)[None], torch.cat(owners)[None], positions=positions[None])


def in_rows(examples: Sequence[tuple[int, SFTExample]]) -> SFTInputs:
    """(row, example) pairs, each example a row, padded at its end."""
    ids, owners = _tensors(examples)
    mask = pad_sequence([torch.ones_like(one) for one in ids], batch_first=True)
    owner = pad_sequence(owners, batch_first=True, padding_value=-1)
    return SFTInputs(pad_sequence(ids, batch_first=True), owner, mask=mask)


def _tensors(examples: Sequence[tuple[int, SFTExample]]) -> tuple[list[Tensor], list[Tensor]]:
    ids = [torch.tensor(x.prompt + x.answer) for _, x in examples]
    owners = [torch.tensor([-1] * len(x.prompt) + [row] * len(x.answer)) for row, x in examples]
    return ids, owners


def answer_logits(net: nn.Module, inputs: SFTInputs) -> Tensor:
    """Logits [A, words] in fp32 where the answers' tokens are predicted."""
    rows, places = inputs.answered.nonzero(as_tuple=True)
    keep, at = torch.unique(places, return_inverse=True)
    how = (
        {"position_ids": inputs.positions}
        if inputs.mask is None
        else {"attention_mask": inputs.mask}
    )
    output = net(input_ids=inputs.ids, logits_to_keep=keep, use_cache=False, **how)
    logits: Tensor = output.logits[rows, at].float()
    return logits


def packs_cleanly(net: nn.Module, words: int, device: torch.device) -> bool:
    """Whether ``net`` reads packed examples as it reads each alone: tried on three of random ids
    below ``words``. What its code raises on packed ids is a no."""
    generator = torch.Generator().manual_seed(0)

    def drawn(count: int) -> list[int]:
        return [int(i) for i in torch.randint(words // 10, words, (count,), generator=generator)]

    examples = [SFTExample(drawn(length), drawn(4)) for length in (9, 17, 12)]
    training = net.training
    net.eval()
    try:
        with torch.no_grad():
            apart = torch.cat([_logprobs(net, [example], device) for example in examples])
            try:
                together = _logprobs(net, examples, device)
            except torch.OutOfMemoryError:
                raise
            except Exception as error:  # the model's own code, on ids that it was not made for
                logger.info("SFT examples are not packed: %s", error)
                return False
    finally:
        net.train(training)
    apart_by = (together - apart).abs()
    half = next(net.parameters()).dtype != torch.float32
    deviation = float(apart_by.mean() if half else apart_by.max())
    allowed = (ALLOWED_HALF if half else ALLOWED) * min(1.0, float(apart.std()))
    if deviation <= allowed:
        return True
    logger.info("SFT examples are not packed: together they read %.2g nats otherwise", deviation)
    return False


def _logprobs(net: nn.Module, examples: Sequence[SFTExample], device: torch.device) -> Tensor:
    inputs = pack(list(enumerate(examples))).to(device)
    logits = answer_logits(net, inputs)
    return torch.log_softmax(logits, dim=-1).gather(1, inputs.answers[0][:, None])[:, 0]
