"""How an encoder judge is read in training: turns encoded once, in pieces, or as one sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from medal_judges.models.base.turn_features import FEATURE_NAMES
from medal_judges.models.batching import pad_rows
from medal_judges.models.encoder.judge import EncoderJudge
from medal_judges.models.encoder.net import EncoderNet
from medal_judges.models.encoder.turn_batch import (
    EncodedDialogue,
    TurnBatch,
    collate,
    collate_sequences,
)
from medal_judges.training.loop.task import HeadsObjective, TrainingData
from medal_judges.training.rows.examples import (
    RowForm,
    TrainingExample,
    encode_examples,
    tokenizer_key,
)
from medal_judges.training.rows.row_store import Row


@dataclass(slots=True)
class EncoderInputs:
    """Tensors of one batch, one of three set: ``vectors`` [B, T, H] (frozen body), ``pieces``
    (ids, mask, row of each piece, row of each turn [B, T]) of so many ``texts``, or ``sequence``
    (ids, mask, segments).
    """

    batch: TurnBatch
    vectors: Tensor | None = None
    pieces: tuple[Tensor, ...] | None = None
    sequence: tuple[Tensor, ...] | None = None
    texts: int = 0  # told here: a GPU would be waited for

    def to(self, device: torch.device) -> EncoderInputs:
        return EncoderInputs(
            self.batch.to(device),
            None if self.vectors is None else self.vectors.to(device),
            None if self.pieces is None else tuple(t.to(device) for t in self.pieces),
            None if self.sequence is None else tuple(t.to(device) for t in self.sequence),
            self.texts,
        )


class EncoderObjective(HeadsObjective[EncoderInputs]):
    """The objective of an encoder judge's net."""

    net: EncoderNet

    def __init__(self, net: EncoderNet, sources: Sequence[str], offsets: bool) -> None:
        super().__init__(net, list(net.heads[0]), sources, offsets)

    def turn_vectors(self, inputs: EncoderInputs) -> Tensor:
        """Turn vectors [B, T, H]."""
        if inputs.vectors is not None:
            return inputs.vectors
        turns = inputs.batch.mask.shape[1]
        if inputs.sequence is not None:
            ids, mask, segments = inputs.sequence
            return self.net.sequence_vectors(ids, mask, segments, turns)
        assert inputs.pieces is not None
        ids, mask, owner, index = inputs.pieces
        sums, counts = self.net.piece_sums(ids, mask)
        texts = inputs.texts
        total = sums.new_zeros(texts, sums.shape[-1]).index_add(0, owner, sums)
        count = counts.new_zeros(texts, 1).index_add(0, owner, counts)
        return (total / count.clamp_min(1))[index]

    def logits(self, inputs: EncoderInputs) -> list[dict[str, Tensor]]:
        """Logits per dimension of each member."""
        return [m[0] for m in self.net(self.turn_vectors(inputs), inputs.batch)]

    def learns_from(self, sources: Tensor) -> list[Tensor]:
        """For each member the rows [B] that it learns from: of its feature group's sources."""
        groups = self.net.config.feature_groups
        if not groups:
            return super().learns_from(sources)
        known = self.sources
        wanted = [[known[s] for s in e.sources or known if s in known] for e in groups]
        return [torch.isin(sources, sources.new_tensor(rows)) for rows in wanted]


def _row_of(one: EncodedDialogue) -> Row:
    return {
        "roles": one.roles,
        "features": one.features.reshape(-1) if one.features.any() else [],
        "dropped": one.dropped,
        "ids": one.ids,
        "segments": one.segments,
    }


def _from_row(row: Row) -> EncodedDialogue:
    roles = np.array(row["roles"], dtype=np.int64)
    features = np.zeros((len(roles), len(FEATURE_NAMES)), dtype=np.float32)
    if row["features"]:
        features[:] = np.array(row["features"], dtype=np.float32).reshape(len(roles), -1)
    return EncodedDialogue([], roles, features, row["dropped"], row["ids"], row["segments"])


# A dialogue as one sequence, which is stored without its texts.
_SEQUENCE = RowForm(
    {
        "roles": ["int8"],
        "features": ["float32"],
        "ids": ["int32"],
        "segments": ["int32"],
        "dropped": "int32",
    },
    _row_of,
    _from_row,
)


class EncoderDataset(TrainingData[EncoderInputs]):
    """Dialogues as an encoder reads them; with a frozen body every distinct turn is encoded once,
    with ``bf16`` in that precision."""

    def __init__(
        self,
        judge: EncoderJudge,
        examples: Sequence[TrainingExample],
        frozen: bool,
        bf16: bool = False,
    ) -> None:
        super().__init__(examples)
        self.judge = judge
        self.flat = judge.config.shape == "flat"
        self.row: dict[str, int] = {}
        self.pieces: list[list[list[int]]] = []
        self.table: Tensor | None = None
        self.encoded: Sequence[EncodedDialogue]
        if self.flat:
            self.encoded, self.lengths = encode_examples(
                examples,
                [tokenizer_key(judge.tokenizer), judge.config.model_dump(), FEATURE_NAMES],
                lambda example: judge.turns.encode(example.dialogue),
                lambda one: len(one.ids),
                _SEQUENCE,
            )
            return
        self.encoded = [judge.turns.encode(e.dialogue) for e in examples]
        texts = list(dict.fromkeys(t for e in self.encoded for t in e.texts))
        self.row = {text: i for i, text in enumerate(texts)}
        self.pieces = judge.turns.pieces(texts)
        if frozen:
            with torch.autocast(judge.device.type, torch.bfloat16, enabled=bf16):
                self.table = judge.embed_texts(texts)
        self.lengths = [self._cost(one) for one in self.encoded]

    def _cost(self, one: EncodedDialogue) -> int:
        """Turns with a frozen body, else tokens."""
        if self.table is not None:
            return len(one.texts)
        return sum(len(p) for t in one.texts for p in self.pieces[self.row[t]])

    def inputs(self, rows: Sequence[int]) -> EncoderInputs:
        """Inputs of the examples ``rows``."""
        chosen = [self.encoded[row] for row in rows]
        batch = collate(chosen)
        pad = self.judge.pad
        if self.flat:
            return EncoderInputs(batch, sequence=collate_sequences(chosen, pad))
        if self.table is not None:
            return EncoderInputs(batch, vectors=self.table[self._index(chosen, batch, self.row)])
        texts = list(dict.fromkeys(t for e in chosen for t in e.texts))
        local = {text: i for i, text in enumerate(texts)}
        flat = [(i, piece) for i, t in enumerate(texts) for piece in self.pieces[self.row[t]]]
        ids, mask = pad_rows([piece for _, piece in flat], pad)
        owner = torch.tensor([i for i, _ in flat])
        pieces = (ids, mask, owner, self._index(chosen, batch, local))
        return EncoderInputs(batch, pieces=pieces, texts=len(texts))

    def numbers(self, rows: Sequence[int]) -> Tensor:
        """Number of each turn's distinct text [B, T], 0 on padding too."""
        chosen = [self.encoded[row] for row in rows]
        return self._index(chosen, collate(chosen), self.row)

    def vectors(self, rows: Sequence[int]) -> list[Tensor]:
        """Turn vectors [T, H] of each of the examples ``rows`` as the body is now; no gradient.

        What several of them have in common is read once, and texts of all of them in one batch:
        one example at a time would leave a GPU waiting.
        """
        if self.table is not None:
            return [self.table[[self.row[t] for t in self.encoded[r].texts]] for r in rows]
        kept = [self.encoded[r].dropped for r in rows]
        turns = [self.examples[r].dialogue.turns[n:] for r, n in zip(rows, kept, strict=True)]
        texts = list(dict.fromkeys(turn.content for each in turns for turn in each))
        place = {text: number for number, text in enumerate(texts)}
        table = self.judge.embed_texts(texts)
        return [table[[place[turn.content] for turn in each]] for each in turns]

    def _index(
        self, chosen: Sequence[EncodedDialogue], batch: TurnBatch, rows: dict[str, int]
    ) -> Tensor:
        index = torch.zeros(batch.mask.shape, dtype=torch.long)
        for line, one in enumerate(chosen):
            index[line, : len(one.texts)] = torch.tensor([rows[text] for text in one.texts])
        return index


def reads_in_bf16(precision: str, device: torch.device) -> bool:
    """Whether a frozen body is read in bf16: as ``optim.mixed_precision`` says, with ``auto`` where
    there is hardware for it, which is 3 to 4 times as fast.

    The judge itself scores in fp32; the rounding is noise of a thousandth on the turn vectors,
    which training makes into other weights on machines with and without such hardware.
    """
    if precision != "auto":
        return precision == "bf16"
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    check = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)  # private, hence getattr
    return device.type == "cpu" and check is not None and bool(check())
