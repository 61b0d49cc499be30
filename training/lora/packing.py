"""Lessons of a generative judge in one forward pass: one after the other, or in rows of their own.

Packed, nothing is padded; but a model must keep the lessons apart by their positions alone. One
that convolves or recurs over the sequence, or is told no positions, reads into the next lesson.
``packs_cleanly`` tries it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

logger = logging.getLogger(__name__)

# Largest deviation of fp32 log-probabilities, mean one of 16 bits; nats, for weights that part
# words by a nat. What leaks is tenths of a nat and more.
ALLOWED, ALLOWED_HALF = 0.002, 0.1


@dataclass(frozen=True, slots=True)
class Lesson:
    """Ids of a prompt and of its answer."""

    prompt: list[int]
    answer: list[int]


@dataclass(slots=True)
class LessonInputs:
    """Lessons as the model reads them.

    ``ids`` [R, L]. Packed: R is 1, there is no padding, and ``positions`` [1, L] begin again with
    each lesson, by which transformers masks attention from one to another
    (masking_utils.find_packed_sequence_indices). In rows: ``mask`` [R, L] tells padding, which
    stands at the end. ``rows`` and ``places`` [A]: where an answer's tokens are foretold;
    ``wanted`` [A]: these tokens; ``owner`` [A]: the row of the batch that each belongs to.
    """

    ids: Tensor
    positions: Tensor | None
    mask: Tensor | None
    rows: Tensor
    places: Tensor
    wanted: Tensor
    owner: Tensor

    def to(self, device: torch.device) -> LessonInputs:
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        given = {name: part for name, part in parts.items() if part is not None}
        return replace(self, **{name: part.to(device) for name, part in given.items()})


def pack(lessons: Sequence[tuple[int, Lesson]]) -> LessonInputs:
    """(row, lesson) pairs as one sequence."""
    ids: list[int] = []
    positions: list[int] = []
    places: list[int] = []
    for _, lesson in lessons:
        first = len(ids) + len(lesson.prompt) - 1
        places += range(first, first + len(lesson.answer))
        whole = lesson.prompt + lesson.answer
        ids += whole
        positions += range(len(whole))
    asked, wanted = torch.tensor(places), _wanted(lessons)
    rows = torch.zeros_like(asked)
    return LessonInputs(
        torch.tensor([ids]), torch.tensor([positions]), None, rows, asked, wanted, _owner(lessons)
    )


def in_rows(lessons: Sequence[tuple[int, Lesson]]) -> LessonInputs:
    """(row, lesson) pairs, each lesson a row, padded at its end."""
    whole = [torch.tensor(lesson.prompt + lesson.answer) for _, lesson in lessons]
    rows = [row for row, (_, lesson) in enumerate(lessons) for _ in lesson.answer]
    places = [len(x.prompt) - 1 + k for _, x in lessons for k in range(len(x.answer))]
    return LessonInputs(
        pad_sequence(whole, batch_first=True),
        None,
        pad_sequence([torch.ones_like(row) for row in whole], batch_first=True),
        torch.tensor(rows),
        torch.tensor(places),
        _wanted(lessons),
        _owner(lessons),
    )


def _wanted(lessons: Sequence[tuple[int, Lesson]]) -> Tensor:
    return torch.tensor([token for _, lesson in lessons for token in lesson.answer])


def _owner(lessons: Sequence[tuple[int, Lesson]]) -> Tensor:
    return torch.tensor([row for row, lesson in lessons for _ in lesson.answer])


def answer_logits(net: Any, inputs: LessonInputs) -> Tensor:
    """Logits [A, words] in fp32 where the answers' tokens are foretold."""
    keep, at = torch.unique(inputs.places, return_inverse=True)
    packed = inputs.mask is None
    how = {"position_ids": inputs.positions} if packed else {"attention_mask": inputs.mask}
    found = net(input_ids=inputs.ids, logits_to_keep=keep, use_cache=False, **how)
    logits: Tensor = found.logits[inputs.rows, at].float()
    return logits


def packs_cleanly(net: Any, words: int, device: torch.device) -> bool:
    """Whether ``net`` reads packed lessons as it reads each alone: tried on three lessons of random
    ids below ``words``. What its code raises on packed ids is a no."""
    generator = torch.Generator().manual_seed(0)

    def drawn(count: int) -> list[int]:
        return [int(i) for i in torch.randint(words // 10, words, (count,), generator=generator)]

    lessons = [Lesson(drawn(length), drawn(4)) for length in (9, 17, 12)]
    training = net.training
    net.eval()
    try:
        with torch.no_grad():
            apart = torch.cat([_logprobs(net, [lesson], device) for lesson in lessons])
            try:
                together = _logprobs(net, lessons, device)
            except torch.OutOfMemoryError:
                raise
            except Exception as error:  # the model's own code, on ids that it was not made for
                logger.info("lessons are not packed: %s", error)
                return False
    finally:
        net.train(training)
    apart_by = (together - apart).abs()
    half = next(net.parameters()).dtype != torch.float32
    deviation = float(apart_by.mean() if half else apart_by.max())
    allowed = (ALLOWED_HALF if half else ALLOWED) * min(1.0, float(apart.std()))
    if deviation <= allowed:
        return True
    logger.info("lessons are not packed: together they read %.2g nats otherwise", deviation)
    return False


def _logprobs(net: Any, lessons: Sequence[Lesson], device: torch.device) -> Tensor:
    inputs = pack(list(enumerate(lessons))).to(device)
    logits = answer_logits(net, inputs)
    return torch.log_softmax(logits, dim=-1).gather(1, inputs.wanted[:, None])[:, 0]
