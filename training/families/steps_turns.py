"""Training an encoder judge: its data, its objective, and what is fitted beside the steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from medal_judges.models.base.judge import ScoreRequest
from medal_judges.models.batching import budget_batches, pad_rows
from medal_judges.models.device import has_bf16
from medal_judges.models.turns.config import TurnsConfig
from medal_judges.models.turns.judge import TurnsJudge
from medal_judges.models.turns.net import (
    EncodedDialogue,
    TurnBatch,
    TurnsNet,
    collate,
    collate_sequences,
)
from medal_judges.records.dialogue import Dialogue
from medal_judges.training.config import TrainConfig
from medal_judges.training.families.reply import fit_reply
from medal_judges.training.families.ridge import fit_ridge, mute_groups
from medal_judges.training.loop.body import freeze
from medal_judges.training.loop.task import Logits, Objective, TrainingData, TrainingTask
from medal_judges.training.rows import Columns, TrainingExample

_MOST_POSITIVE_WEIGHT = 10.0  # a larger one would let a few positives outweigh everything else
_LEAST_DEVIATION = 1e-3  # a measure that never varies must not be large on a new domain
_ROWS_AT_ONCE = 128  # whose turns are read together


class TurnsTask(TrainingTask):
    """An encoder judge in training; everything that is not learnt in steps is fitted here."""

    judge: TurnsJudge
    train: TurnsDataset

    def __init__(
        self,
        config: TrainConfig,
        judge: TurnsJudge,
        train: Sequence[TrainingExample],
        validation: Sequence[TrainingExample],
        device: torch.device,
    ) -> None:
        self.config, self.judge = config, judge
        if config.optim.solver == "gradient":
            mute_groups(judge.net, train, least=1)
        judge.net.to(device)
        judge.device = device
        self.body = judge.net.body
        freeze(self.body, config.trainable_layers)
        frozen = config.trainable_layers == 0 or not judge.config.embedding
        bf16 = frozen and reads_in_bf16(config.optim.mixed_precision, device)
        self.train = TurnsDataset(judge, train, frozen, bf16)
        self.validation = TurnsDataset(judge, validation, frozen, bf16)
        if judge.config.net != "sequence":  # which has neither features nor turn vectors
            fit_feature_scale(judge, self.train)
        if judge.config.reply is not None:
            fit_reply(judge, self.train, config.seed)
            fit_feature_scale(judge, self.train)  # again: now the reactions mean something
        self.objective = TurnsObjective(judge.net, list(judge.net.heads[0]), train)
        self.heads = judge.net.heads[0]

    def solve(self) -> bool:
        optim = self.config.optim
        if optim.solver == "ridge":
            fit_ridge(self.judge, self.train, optim.embedding_share, self.config.seed)
        return optim.solver == "ridge"


def reads_in_bf16(precision: str, device: torch.device) -> bool:
    """Whether a frozen body is read in bf16; ``auto``: if the device multiplies bf16, which is 3 to
    4 times as fast.

    The judge itself scores in fp32. The rounding is noise of a thousandth in the turn vectors, so
    that training gives other weights on machines with and without such hardware.
    """
    return has_bf16(device) if precision == "auto" else precision == "bf16"


def balance_heads(model: TurnsConfig, examples: Sequence[TrainingExample]) -> TurnsConfig:
    """``model`` with each ``positive_weight: balanced`` of a binary head replaced by negatives /
    positives, so that the head does not answer no to every rare issue."""
    heads = dict(model.heads)
    balanced = [n for n, head in heads.items() if head.positive_weight == "balanced"]
    columns = Columns.of(examples).targets if balanced else {}
    for name in balanced:
        targets = columns.get(name, np.zeros(0))
        labels = targets[np.isfinite(targets)] >= 0.5
        positives = max(1, int(labels.sum()))
        weight = min(_MOST_POSITIVE_WEIGHT, max(1.0, (len(labels) - positives) / positives))
        heads[name] = heads[name].model_copy(update={"positive_weight": weight})
    return model.model_copy(update={"heads": heads})


# -- data and objective ---------------------------------------------------------------------------


class TurnsDataset(TrainingData):
    """Dialogues as an encoder reads them. With a frozen body every distinct turn is encoded once,
    into ``table``, in bf16 if ``bf16``; ``row`` is its row by text."""

    def __init__(
        self,
        judge: TurnsJudge,
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
        self.encoded = [judge.turns.encode(example.dialogue) for example in examples]
        if self.flat:
            self.lengths = [len(one.ids) for one in self.encoded]
            return
        texts = list(dict.fromkeys(t for e in self.encoded for t in e.texts))
        self.row = {text: i for i, text in enumerate(texts)}
        self.pieces = judge.turns.pieces(texts)
        if frozen:
            with torch.autocast(judge.device.type, torch.bfloat16, enabled=bf16):
                self.table = judge.embed_texts(texts)
            self.lengths = [len(one.texts) for one in self.encoded]
            return
        tokens = {text: sum(map(len, self.pieces[row])) for text, row in self.row.items()}
        self.lengths = [sum(tokens[text] for text in one.texts) for one in self.encoded]

    def inputs(self, rows: Sequence[int]) -> dict[str, Any]:
        """``batch``, and one of: ``vectors`` [B, T, H] (frozen body), ``sequence`` (ids, mask,
        segments), or ``pieces`` (ids, mask, text of each piece, text of each turn [B, T]) of
        ``texts`` distinct texts."""
        chosen = [self.encoded[row] for row in rows]
        batch, pad = collate(chosen), self.judge.pad
        if self.flat:
            return {"batch": batch, "sequence": collate_sequences(chosen, pad)}
        if self.table is not None:
            return {"batch": batch, "vectors": self.table[_index(chosen, batch, self.row)]}
        texts = list(dict.fromkeys(t for e in chosen for t in e.texts))
        flat = [(i, piece) for i, t in enumerate(texts) for piece in self.pieces[self.row[t]]]
        ids, mask = pad_rows([piece for _, piece in flat], pad)
        owner = torch.tensor([i for i, _ in flat])
        index = _index(chosen, batch, {text: i for i, text in enumerate(texts)})
        # The number of texts is not computed from the pieces: that would wait for the GPU.
        return {"batch": batch, "pieces": (ids, mask, owner, index), "texts": len(texts)}

    def numbers(self, rows: Sequence[int]) -> Tensor:
        """Number of each turn's distinct text [B, T], 0 on padding too."""
        chosen = [self.encoded[row] for row in rows]
        return _index(chosen, collate(chosen), self.row)

    def vectors(self, rows: Sequence[int]) -> list[Tensor]:
        """Turn vectors [T, H] of each of the examples ``rows`` by the current body; no gradient.

        Their distinct texts are read in one batch: one example at a time would leave a GPU waiting.
        """
        dropped = [self.encoded[row].dropped for row in rows]
        turns = [self.examples[r].dialogue.turns[n:] for r, n in zip(rows, dropped, strict=True)]
        table, place = self.table, self.row
        if table is None:
            texts = list(dict.fromkeys(turn.content for each in turns for turn in each))
            place = {text: number for number, text in enumerate(texts)}
            table = self.judge.embed_texts(texts)
        return [table[[place[turn.content] for turn in each]] for each in turns]


def _index(chosen: Sequence[EncodedDialogue], batch: TurnBatch, rows: dict[str, int]) -> Tensor:
    index = torch.zeros(batch.mask.shape, dtype=torch.long)
    for line, one in enumerate(chosen):
        index[line, : len(one.texts)] = torch.tensor([rows[text] for text in one.texts])
    return index


class TurnsObjective(Objective):
    """The objective of an encoder judge's net."""

    net: TurnsNet

    def logits(self, inputs: dict[str, Any]) -> list[Logits]:
        batch: TurnBatch = inputs["batch"]
        if "vectors" in inputs:
            vectors: Tensor = inputs["vectors"]
        elif "sequence" in inputs:
            ids, mask, segments = inputs["sequence"]
            vectors = self.net.sequence_vectors(ids, mask, segments, batch.mask.shape[1])
        else:
            ids, mask, owner, index = inputs["pieces"]
            sums, counts = self.net.piece_sums(ids, mask)
            texts = inputs["texts"]
            total = sums.new_zeros(texts, sums.shape[-1]).index_add(0, owner, sums)
            count = counts.new_zeros(texts, 1).index_add(0, owner, counts)
            vectors = (total / count.clamp_min(1))[index]
        return [member[0] for member in self.net(vectors, batch)]

    def learns_from(self, sources: Tensor) -> list[Tensor]:
        """The rows [B] that each member learns from: of its feature group's sources."""
        groups = self.net.config.feature_groups
        if not groups:
            return super().learns_from(sources)
        known = self.sources
        wanted = [[known[s] for s in e.sources or known if s in known] for e in groups]
        return [torch.isin(sources, sources.new_tensor(rows)) for rows in wanted]


# -- what the net subtracts from its inputs and divides them by ------------------------------------


@torch.no_grad()
def fit_feature_scale(judge: TurnsJudge, data: TurnsDataset, rows: int = 4000) -> None:
    """Mean and deviation per role of the net's features, and mean of its unit turn embeddings, over
    the first ``rows`` of the training set; each source counts the same. Of a body that learns: by
    its first weights."""
    net = judge.net
    tables: list[dict[str, list[tuple[np.ndarray, np.ndarray]]]] = [{}, {}]  # by role and source
    count = min(rows, len(data.examples))
    for start in range(0, count, _ROWS_AT_ONCE):
        numbers = range(start, min(count, start + _ROWS_AT_ONCE))
        for row, own in zip(numbers, data.vectors(numbers), strict=True):
            batch = collate([data.encoded[row]]).to(judge.device)
            vectors = own.unsqueeze(0).to(judge.device)
            features = net.raw_features(vectors, batch)[0].cpu().numpy()
            unit = functional.normalize(vectors[0].float(), dim=-1).cpu().numpy()
            roles, source = batch.roles[0].cpu().numpy(), data.examples[row].source
            for role in (0, 1):
                mine = roles == role
                tables[role].setdefault(source, []).append((features[mine], unit[mine]))
    for role in (0, 1):
        each = [
            [np.concatenate(column) for column in zip(*t, strict=True)]
            for t in tables[role].values()
        ]
        each = [columns for columns in each if len(columns[0]) > 1]
        if not each:
            continue
        middle = np.mean([features.mean(0) for features, _ in each], axis=0)
        spread = np.mean([features.std(0) for features, _ in each], axis=0)
        spread = np.maximum(spread, _LEAST_DEVIATION)
        net.feature_mean[role, : len(middle)] = torch.tensor(middle)
        net.feature_std[role, : len(spread)] = torch.tensor(spread)
        net.embedding_mean[role] = torch.tensor(np.mean([unit.mean(0) for _, unit in each], axis=0))


@torch.inference_mode()
def fit_turn_means(judge: TurnsJudge, dialogues: Sequence[Dialogue]) -> None:
    """Set ``judge.turn_means``, around which contributions are reported: per dimension what a turn
    of the user, and one of the assistant, adds to ``Head.linear`` on average, weighted as the head
    pools them; a side that never speaks has 0."""
    sums = {d.name: np.zeros((2, 2)) for d in judge.dimensions}  # evidence and weight, by role
    for start in range(0, len(dialogues), judge.window):
        given = dialogues[start : start + judge.window]
        items = [ScoreRequest(dialogue, None) for dialogue in given]
        judge._prepare(items)
        for batch in budget_batches(items, lambda item: item.tokens, judge.token_budget):
            members = judge.members(batch)
            for name, total in sums.items():
                for k in (0, 1):
                    table = judge.net.combine([m[k + 1] for m in members], name).cpu().numpy()
                    for row, item in zip(table, batch, strict=True):
                        roles = item.payload[0].roles
                        if row.size:  # the net ``sequence`` does not tell turns apart
                            own = row[: len(roles)]
                            total[k] += [own[roles == role].sum() for role in (0, 1)]
    judge.turn_means = {}
    for name, (evidence, weight) in sums.items():
        user, assistant = np.divide(evidence, weight, out=np.zeros(2), where=weight > 0).tolist()
        judge.turn_means[name] = (user, assistant)
