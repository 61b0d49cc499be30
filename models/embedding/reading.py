"""From a dialogue to the one vector that an embedding judge's nets read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from medal_judges.dialogue import Dialogue
from medal_judges.models.embedding.config import EmbeddingConfig
from medal_judges.models.embedding.net import Floats
from medal_judges.models.embedding.sentence_encoder import SentenceEncoder
from medal_judges.models.encoder.similarity import SIMILARITY_NAMES, turn_similarities
from medal_judges.models.encoder.turn_batch import ROLE_INDEX
from medal_judges.models.feature.turn_features import FEATURE_NAMES, turn_features

_SIDES = ("assistant", "user")
_SPEAKERS = {"assistant": "Assistant", "user": "User"}


@dataclass(slots=True)
class Reading:
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
        known = FEATURE_NAMES + SIMILARITY_NAMES
        self.columns = [known.index(name) for name in config.features]
        whole = config.reading == "dialogue"
        self.needs_turns = not whole or bool(set(config.features) & set(SIMILARITY_NAMES))

    @property
    def is_feature(self) -> np.ndarray:
        """Which places of the vector [W] are features and not embeddings."""
        features, embedding = [True] * len(self.columns), [False] * self.encoder.width
        if self.config.reading == "dialogue":
            return np.array(embedding + features * 2)
        return np.array((features + embedding) * 2)

    def read(self, dialogues: Sequence[Dialogue], budget: int) -> list[Reading]:
        """One Reading a dialogue; each distinct text is encoded once."""
        turns = [turn.content for d in dialogues for turn in d.turns]
        distinct = list(dict.fromkeys(turns))
        lengths = dict(zip(distinct, self.encoder.lengths(distinct), strict=True))
        table = self._table(distinct, budget) if self.needs_turns else {}
        whole = [_text(d) for d in dialogues] if self.config.reading == "dialogue" else []
        vectors = self._table(list(dict.fromkeys(whole)), budget)
        found = []
        for number, dialogue in enumerate(dialogues):
            tokens = sum(lengths[turn.content] for turn in dialogue.turns)
            text = vectors[whole[number]] if whole else None
            vector, parts = self._reading(dialogue, table, text)
            found.append(Reading(vector, parts, tokens))
        return found

    def _table(self, texts: Sequence[str], budget: int) -> dict[str, Floats]:
        return dict(zip(texts, self.encoder.embed(texts, budget), strict=True))

    def _reading(
        self, dialogue: Dialogue, table: dict[str, Floats], text: Floats | None
    ) -> tuple[Floats, Floats | None]:
        embedded = (
            np.array([table[turn.content] for turn in dialogue.turns]) if self.needs_turns else None
        )
        rows = self._features(dialogue, embedded)
        if text is None:
            assert embedded is not None
            rows = np.concatenate([rows, embedded], axis=1)
        means = [rows[s].mean(axis=0) if s else rows[:1].mean(axis=0) * 0 for s in _sides(dialogue)]
        if text is None:
            return np.concatenate(means), rows
        return np.concatenate([text, *means]), None

    def _features(self, dialogue: Dialogue, embedded: Floats | None) -> Floats:
        """Features of each turn [T, features]."""
        import torch

        surface = turn_features(dialogue).astype(np.float64)
        similar = np.zeros((len(surface), len(SIMILARITY_NAMES)))
        if embedded is not None:
            roles = torch.tensor([[ROLE_INDEX[turn.role] for turn in dialogue.turns]])
            vectors = torch.from_numpy(embedded).float()[None]
            similar = turn_similarities(vectors, roles, torch.ones_like(roles, dtype=torch.bool))[
                0
            ].numpy()
        features: Floats = np.concatenate([surface, similar], axis=1)[:, self.columns]
        return features


def turn_shares(dialogue: Dialogue, turns: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """(what each turn [T] adds to ``weights`` [W] . vector, 1 / turns of its side [T]), where the
    vector is two sides' means."""
    half = turns.shape[1]
    shares, pooling = np.zeros(len(turns)), np.zeros(len(turns))
    for number, side in enumerate(_sides(dialogue)):
        if side:
            shares[side] = turns[side] @ weights[number * half : (number + 1) * half] / len(side)
            pooling[side] = 1 / len(side)
    return shares, pooling


def side_products(dialogue: Dialogue, weights: Floats, vector: Floats) -> Floats:
    """For each turn [T] the part of ``weights`` [W] . ``vector`` [W] that is of its side."""
    half = len(weights) // 2
    sides = [float(weights[p] @ vector[p]) for p in (slice(half), slice(half, None))]
    products = np.zeros(len(dialogue.turns))
    for side, product in zip(_sides(dialogue), sides, strict=True):
        products[side] = product
    return products


def _sides(dialogue: Dialogue) -> list[list[int]]:
    """Numbers of the assistant's turns, then of the user's."""
    return [[i for i, t in enumerate(dialogue.turns) if t.role == side] for side in _SIDES]


def _text(dialogue: Dialogue) -> str:
    return "\n".join(f"{_SPEAKERS[turn.role]}: {turn.content}" for turn in dialogue.turns)
