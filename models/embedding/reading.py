"""From a dialogue to the one vector that an embedding judge's nets read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from medal_judges.models.base.turn_features import (
    ALL_FEATURES,
    ROLE_INDEX,
    SIMILARITY_NAMES,
    turn_features,
    turn_similarities,
)
from medal_judges.models.embedding.config import EmbeddingConfig
from medal_judges.models.embedding.net import Floats
from medal_judges.models.embedding.sentence_encoder import SentenceEncoder
from medal_judges.records.dialogue import Dialogue

_SIDES = ("assistant", "user")
_SPEAKERS = {"assistant": "Assistant", "user": "User"}


@dataclass(slots=True)
class DialogueVector:
    """``vector`` [W] of the dialogue; ``turns`` [T, W / 2] what each turn adds to its side's mean
    (``reading: turns`` only, else None); ``tokens`` of all its turns."""

    vector: Floats
    turns: Floats | None
    tokens: int


class DialogueReader:
    """Dialogues as vectors: the assistant's mean turn beside the user's (features, then
    embedding), or the whole text's embedding beside the two sides' mean features."""

    def __init__(self, config: EmbeddingConfig, encoder: SentenceEncoder) -> None:
        self.config, self.encoder = config, encoder
        self.columns = [ALL_FEATURES.index(name) for name in config.features]
        whole = config.reading == "dialogue"
        self.needs_turns = not whole or bool(set(config.features) & set(SIMILARITY_NAMES))

    @property
    def is_feature(self) -> np.ndarray:
        """Which places of the vector [W] are features and not embeddings."""
        features, embedding = [True] * len(self.columns), [False] * self.encoder.width
        if self.config.reading == "dialogue":
            return np.array(embedding + features * 2)
        return np.array((features + embedding) * 2)

    def read(self, dialogues: Sequence[Dialogue], budget: int) -> list[DialogueVector]:
        """One DialogueVector a dialogue; each distinct text is encoded once."""
        distinct = list(dict.fromkeys(turn.content for d in dialogues for turn in d.turns))
        lengths = dict(zip(distinct, self.encoder.lengths(distinct), strict=True))
        table = self._table(distinct, budget) if self.needs_turns else {}
        whole = [_text(d) for d in dialogues] if self.config.reading == "dialogue" else []
        vectors = self._table(list(dict.fromkeys(whole)), budget)
        read = []
        for number, dialogue in enumerate(dialogues):
            embedded = np.array([table[turn.content] for turn in dialogue.turns]) if table else None
            rows = self._features(dialogue, embedded)
            if not whole and embedded is not None:
                rows = np.concatenate([rows, embedded], axis=1)
            zero = np.zeros(rows.shape[1])
            means = [rows[s].mean(axis=0) if s else zero for s in _sides(dialogue)]
            text = [vectors[whole[number]]] if whole else []
            tokens = sum(lengths[turn.content] for turn in dialogue.turns)
            turns = None if whole else rows
            read.append(DialogueVector(np.concatenate([*text, *means]), turns, tokens))
        return read

    def _table(self, texts: Sequence[str], budget: int) -> dict[str, Floats]:
        return dict(zip(texts, self.encoder.embed(texts, budget), strict=True))

    def _features(self, dialogue: Dialogue, embedded: Floats | None) -> Floats:
        """Features of each turn [T, features]."""
        import torch

        surface = turn_features(dialogue).astype(np.float64)
        similar = np.zeros((len(surface), len(SIMILARITY_NAMES)))
        if embedded is not None:
            roles = torch.tensor([[ROLE_INDEX[turn.role] for turn in dialogue.turns]])
            vectors = torch.from_numpy(embedded).float()[None]
            similar = turn_similarities(vectors, roles, torch.ones_like(roles).bool())[0].numpy()
        features: Floats = np.concatenate([surface, similar], axis=1)[:, self.columns]
        return features


def turn_shares(
    dialogue: Dialogue, turns: Floats, weights: Floats, mean: Floats
) -> tuple[Floats, Floats, Floats]:
    """Of each turn [T]: what it adds to ``weights`` [W] . vector, where the vector is two sides'
    means; 1 / turns of its side; and the part of ``weights`` . ``mean`` [W] that is of its side."""
    half = turns.shape[1]
    shares, pooling, means = np.zeros((3, len(turns)))
    for number, side in enumerate(_sides(dialogue)):
        if side:
            part = slice(number * half, (number + 1) * half)
            shares[side] = turns[side] @ weights[part] / len(side)
            pooling[side] = 1 / len(side)
            means[side] = weights[part] @ mean[part]
    return shares, pooling, means


def _sides(dialogue: Dialogue) -> list[list[int]]:
    """Numbers of the assistant's turns, then of the user's."""
    return [[i for i, t in enumerate(dialogue.turns) if t.role == side] for side in _SIDES]


def _text(dialogue: Dialogue) -> str:
    return "\n".join(f"{_SPEAKERS[turn.role]}: {turn.content}" for turn in dialogue.turns)
