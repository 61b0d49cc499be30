"""From dialogues to tensors: token pieces, roles, masks, features; nothing is cut silently."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from medal_judges.models.base.turn_features import FEATURE_NAMES, ROLE_INDEX, turn_features
from medal_judges.models.batching import pad_rows
from medal_judges.models.encoder.config import EncoderConfig
from medal_judges.models.special_tokens import SpecialTokens
from medal_judges.records.dialogue import Dialogue

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

MARK = -1  # segment of the tokenizer's own marks and of padding


@dataclass(slots=True)
class EncodedDialogue:
    """One dialogue ready for the net: ``texts``, ``roles`` [turns] and ``features`` [turns,
    features] (float32) of the turns that fit, and how many older ones were ``dropped``.

    Flat shape only: ``ids``, the whole sequence, and ``segments``, the number of the turn of each
    token (MARK for none).
    """

    texts: list[str]
    roles: np.ndarray
    features: np.ndarray
    dropped: int = 0
    ids: list[int] = field(default_factory=list)
    segments: list[int] = field(default_factory=list)


@dataclass(slots=True)
class TurnBatch:
    """Padded tensors of some dialogues: ``roles`` [B, T] (1 = assistant), ``mask`` [B, T] bool,
    ``features`` [B, T, F]."""

    roles: Tensor
    mask: Tensor
    features: Tensor

    def to(self, device: torch.device | str) -> TurnBatch:
        return TurnBatch(self.roles.to(device), self.mask.to(device), self.features.to(device))


class TurnTokenizer:
    """Dialogues to EncodedDialogue, and texts to token pieces that fit the body's window."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, config: EncoderConfig) -> None:
        self.tokenizer, self.config = tokenizer, config
        self.marks = SpecialTokens(tokenizer)
        # Ids that the tokenizer puts before and after a single sequence.
        bare = tokenizer("a", add_special_tokens=False)["input_ids"]
        full = tokenizer("a")["input_ids"]
        starts = range(len(full) - len(bare) + 1)
        start = next((i for i in starts if full[i : i + len(bare)] == bare), None)
        self.prefix: list[int] = [] if start is None else list(full[:start])
        self.suffix: list[int] = [] if start is None else list(full[start + len(bare) :])
        self.limit = config.max_tokens - len(self.prefix) - len(self.suffix)

    def encode(self, dialogue: Dialogue) -> EncodedDialogue:
        """Returns the dialogue's newest turns that fit."""
        lines = self._lines(dialogue) if self.config.shape == "flat" else []
        dropped = len(dialogue.turns) - (
            len(lines) or min(len(dialogue.turns), self.config.max_turns)
        )
        turns = dialogue.turns[dropped:]
        features = np.zeros((len(dialogue.turns), len(FEATURE_NAMES)), dtype=np.float32)
        if self.config.net != "sequence" and set(self.config.features) & set(FEATURE_NAMES):
            features = turn_features(dialogue)
        encoded = EncodedDialogue(
            texts=[t.content for t in turns],
            roles=np.array([ROLE_INDEX[t.role] for t in turns], dtype=np.int64),
            features=features[dropped:],
            dropped=dropped,
        )
        if lines:
            begin, end = [MARK] * len(self.prefix), [MARK] * len(self.suffix)
            encoded.ids = [*self.prefix, *(i for line in lines for i in line), *self.suffix]
            inner = [position for position, line in enumerate(lines) for _ in line]
            encoded.segments = begin + inner + end
        return encoded

    def _lines(self, dialogue: Dialogue) -> list[list[int]]:
        """Role-marked token ids of the newest turns that fit together, oldest first."""
        marked = [f"{t.role}: {self.marks.broken_up(t.content)}" for t in dialogue.turns]
        separator = self.tokenizer.sep_token_id
        end = [] if separator is None else [separator]
        ids = self.tokenizer(marked, add_special_tokens=False, verbose=False)["input_ids"]
        room = self.limit
        fitting: list[list[int]] = []
        for line in reversed(ids):
            line = line + end
            if fitting and len(line) > room:
                break
            fitting.append(line[: self.limit])  # a single turn beyond the window: its beginning
            room -= len(line)
        return fitting[::-1]

    def pieces(self, texts: Sequence[str]) -> list[list[list[int]]]:
        """Returns the token pieces of each text, with the tokenizer's marks; a text longer than the
        window has several."""
        if not texts:
            return []
        plain = [self.marks.broken_up(text) for text in texts]
        if self.tokenizer.is_fast:
            # The library under transformers' class, whose masks, offsets and objects take as long
            # as the tokens. An earlier call may have left truncation and padding on.
            backend: Any = self.tokenizer.backend_tokenizer
            backend.no_truncation()
            backend.no_padding()
            rows = [e.ids for e in backend.encode_batch_fast(plain, add_special_tokens=False)]
        else:
            rows = self.tokenizer(plain, add_special_tokens=False, verbose=False)["input_ids"]
        return [
            [
                [*self.prefix, *ids[start : start + self.limit], *self.suffix]
                for start in range(0, max(1, len(ids)), self.limit)
            ]
            for ids in rows
        ]


def collate(encoded: Sequence[EncodedDialogue]) -> TurnBatch:
    """Returns roles, mask and features padded to the longest dialogue."""
    longest = max(len(e.roles) for e in encoded)
    width = encoded[0].features.shape[1]
    roles = np.zeros((len(encoded), longest), dtype=np.int64)
    mask = np.zeros((len(encoded), longest), dtype=bool)
    features = np.zeros((len(encoded), longest, width), dtype=np.float32)
    for row, one in enumerate(encoded):
        turns = len(one.roles)
        roles[row, :turns], mask[row, :turns], features[row, :turns] = one.roles, True, one.features
    return TurnBatch(torch.from_numpy(roles), torch.from_numpy(mask), torch.from_numpy(features))


def collate_sequences(
    encoded: Sequence[EncodedDialogue], pad: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns ids [B, L], their mask (1 = token) and segments [B, L] of the flat shape."""
    ids, mask = pad_rows([e.ids for e in encoded], pad)
    segments = torch.full_like(ids, MARK)
    for row, one in enumerate(encoded):
        segments[row, : len(one.segments)] = torch.tensor(one.segments)
    return ids, mask, segments
