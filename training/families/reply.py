"""Trains the two reply models of a linear judge. A reply model learns which user turn followed an
assistant turn, from dialogues alone, without ratings. Each model learns from one half of the
training dialogues and is used on the other half.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from medal_judges.errors import ConfigError
from medal_judges.models.linear.reader import DialogueReader, DialogueReading
from medal_judges.models.linear.reply import (
    HALVES,
    Reactions,
    ReplyModel,
    turns_with_context,
)
from medal_judges.training.rows import TrainingExample

_MOST_TURNS = 200  # of one dialogue: one between two bots must not fill a batch
EPOCHS, BATCH_SIZE, LEARNING_RATE = 5, 1024, 1e-3
NOISE = 0.02  # standard deviation of what is added to the entries of unit vectors
_LEAST = 2  # answers: a model cannot learn from one


def half_index(group: str, seed: int) -> int:
    """Returns which half of the training dialogues a conversation belongs to, 0 or 1.

    Args:
        group: The id of the conversation.
        seed: The seed of the random division. Another seed gives other halves.
    """
    return hashlib.sha256(f"{seed}:{group}".encode()).digest()[0] % HALVES


def fit_reactions(
    reader: DialogueReader,
    examples: Sequence[TrainingExample],
    readings: Sequence[DialogueReading],
    seed: int,
    budget: int,
) -> Reactions:
    """Trains two models that predict the user's next turn. Each learns from one half of the
    dialogues.

    Args:
        reader: The judge's feature extractor. Its setting ``reply`` has the positive and negative
            example replies.
        examples: The training dialogues.
        readings: The embeddings and features of the turns of each dialogue, in the order of
            ``examples``.
        seed: Divides the dialogues into halves.
        budget: The maximum number of tokens in a batch of texts to encode.

    Returns:
        The two models, with the embeddings of the example replies.

    Raises:
        ConfigError: In one half, fewer than two assistant turns have a reply.
    """
    config, encoder = reader.config.reply, reader.encoder
    assert config is not None and encoder is not None
    reactions = Reactions(
        config, encoder.width, len(reader.config.bare_names_without_reply)
    )
    for name, replies in config.items():
        pieces = [encoder.to_pieces(ids) for ids in encoder.token_ids(replies)]
        getattr(reactions, name).copy_(torch.from_numpy(encoder.embed(pieces, budget)))
    texts = np.concatenate([reading.texts for reading in readings])
    _, numbers = np.unique(texts, axis=0, return_inverse=True)
    ends = np.cumsum([len(reading.roles) for reading in readings])
    numbers_of_reading = np.split(numbers.reshape(-1), ends[:-1])
    pairs_by_half: list[list[list[Tensor]]] = [[] for _ in range(HALVES)]
    rows = zip(examples, readings, numbers_of_reading, strict=True)
    for example, reading, text_numbers in rows:
        pairs = _reply_examples(reader, reading, text_numbers)
        pairs_by_half[half_index(example.group, seed)].append(pairs)
    for half, model in enumerate(reactions.models):
        columns = [
            torch.cat(column) for column in zip(*pairs_by_half[half], strict=True)
        ]
        count = len(columns[0]) if columns else 0
        if count < _LEAST:
            raise ConfigError(
                f"the reply models learn from two halves of the conversations, and one of them has "
                f"{count} answers that a user replied to (in {len(pairs_by_half[half])} "
                f"dialogues): {_LEAST} or more are needed",
                hint="Give more conversations of several turns, or type model.reply=null",
            )
        assert isinstance(model, ReplyModel)
        generator = torch.Generator().manual_seed(seed * HALVES + half)
        train_reply_model(model, columns, generator)
        model.half().float()  # as it is saved
    return reactions.requires_grad_(False)


def _reply_examples(
    reader: DialogueReader, reading: DialogueReading, numbers: np.ndarray
) -> list[Tensor]:
    """Returns the training data of a reply model from one dialogue, with a row for each assistant
    turn that a user replied to. The first turn of the dialogue gives no row.

    Args:
        reader: The judge's feature extractor, which standardises features.
        reading: The embeddings and features of the dialogue's T turns.
        numbers: [T] the index of each turn's text among the distinct texts of all dialogues.

    Returns:
        Six tensors: the embeddings of the turn, of the turn before and of the turn two before, the
            turn's features, the embedding of the reply, and the index of the reply's text.
    """
    roles = reading.roles
    # Neither the opening turn nor the last one.
    turns = np.arange(1, max(1, min(len(roles) - 1, _MOST_TURNS)))
    answered = turns[(roles[turns] == 1) & (roles[turns + 1] == 0)]
    unit = torch.from_numpy(reading.texts).float()
    measures = reader.scale.standardise(reading.measures, roles, reader.config.limit)
    context = [vectors[answered] for vectors in turns_with_context(unit)]
    return [
        *context,
        torch.from_numpy(measures[answered]).float(),
        unit[answered + 1],
        torch.from_numpy(numbers[answered + 1]),
    ]


def train_reply_model(
    model: ReplyModel, pairs: Sequence[Tensor], generator: torch.Generator
) -> None:
    """Trains ``model`` in place to tell the user's real reply from replies to other turns.

    Args:
        pairs: Six tensors, each with a row for each of the n turns that have a reply: the embedding
            of the turn, that of the turn before, that of the turn two before, the turn's features,
            the embedding of the reply, and a number of the reply. Replies with equal text have the
            same number.
        generator: The random generator of the order of rows and of the noise.
    """
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=LEARNING_RATE, weight_decay=0.05
    )
    count = len(pairs[0])
    size = min(BATCH_SIZE, count)

    def noisy(vectors: Tensor) -> Tensor:
        return vectors + NOISE * torch.randn(vectors.shape, generator=generator)

    model.train()
    for _ in range(EPOCHS):
        order = torch.randperm(count, generator=generator)
        for start in range(0, count - size // 2, size):
            rows = order[start : start + size]
            turn, before, earlier, measures, following, number = (
                part[rows] for part in pairs
            )
            expected = model(noisy(turn), noisy(before), noisy(earlier), measures)
            scores = (
                expected
                @ model.project_turns(noisy(following)).T
                * model.log_sharpness.exp()
            )
            # A symmetric InfoNCE: other replies of the batch are negatives, unless equal.
            is_equal = (number[:, None] == number[None, :]).fill_diagonal_(False)
            scores = scores.masked_fill(is_equal, -1e4)
            target = torch.arange(len(rows))
            loss = functional.cross_entropy(scores, target)
            loss = (loss + functional.cross_entropy(scores.T, target)) / 2
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    model.eval()
