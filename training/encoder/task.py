"""Training an encoder judge: what is frozen, what is fitted beside the steps, the closed form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from medal_judges.models.base.judge import ScoreRequest
from medal_judges.models.batching import budget_batches
from medal_judges.models.encoder.config import EncoderConfig
from medal_judges.models.encoder.judge import EncoderJudge
from medal_judges.records.dialogue import Dialogue
from medal_judges.training.config import TrainConfig
from medal_judges.training.encoder.data import EncoderDataset, EncoderObjective, reads_in_bf16
from medal_judges.training.encoder.reply import fit_reply
from medal_judges.training.encoder.ridge import fit_ridge, mute_groups
from medal_judges.training.loop.optimizer import freeze
from medal_judges.training.loop.task import TrainingTask
from medal_judges.training.rows.examples import TrainingExample, sources_of, targets_of

_MOST_POSITIVE_WEIGHT = 10.0  # above this a handful of positives would drown everything else
_LEAST_DEVIATION = 1e-3  # a measure that never varies must not blow up on a new domain
_ROWS_AT_ONCE = 128  # whose turns are read together
_MEAN_DIALOGUES = 256  # a mean needs no more


class EncoderTask(TrainingTask):
    """See TrainingTask."""

    judge: EncoderJudge
    train: EncoderDataset

    def __init__(
        self,
        config: TrainConfig,
        judge: EncoderJudge,
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
        bf16 = reads_in_bf16(config.optim.mixed_precision, device)
        self.train = EncoderDataset(judge, train, frozen, bf16)
        self.validation = EncoderDataset(judge, validation, frozen, bf16)
        if judge.config.net != "sequence":  # which has neither features nor turn vectors
            fit_feature_scale(judge, self.train)
        if judge.config.reply is not None:
            fit_reply(judge, self.train, config.seed)
            fit_feature_scale(judge, self.train)  # once more: now the reactions mean something
        sources = sources_of(train)
        self.objective = EncoderObjective(judge.net, sources, config.source_offsets)

    def solve(self) -> bool:
        """Ridge, where the config asks for it."""
        optim = self.config.optim
        if optim.solver == "ridge":
            fit_ridge(self.judge, self.train, optim.embedding_share, self.config.seed)
        return optim.solver == "ridge"


def balance_heads(model: EncoderConfig, examples: Sequence[TrainingExample]) -> EncoderConfig:
    """``model`` with each ``positive_weight: balanced`` of a binary head replaced by negatives /
    positives: rare issues must not be answered with a flat no."""
    heads = {}
    for name, head in model.heads.items():
        if head.positive_weight == "balanced":
            targets = targets_of(examples, name)
            labels = targets[np.isfinite(targets)] >= 0.5
            positives = max(1, int(labels.sum()))
            weight = min(_MOST_POSITIVE_WEIGHT, max(1.0, (len(labels) - positives) / positives))
            head = head.model_copy(update={"positive_weight": weight})
        heads[name] = head
    return model.model_copy(update={"heads": heads})


# -- what the net subtracts from its inputs and divides them by ----------------------------------


@torch.no_grad()
def fit_feature_scale(judge: EncoderJudge, data: EncoderDataset, rows: int = 4000) -> None:
    """Mean and deviation per role of the net's features, mean of its unit turn embeddings, over
    the first ``rows`` of the training set; each source counts the same."""
    features: dict[tuple[str, int], list[np.ndarray]] = {}
    embeddings: dict[tuple[str, int], list[np.ndarray]] = {}
    for row, own in _turn_vectors(data, min(rows, len(data.examples))):
        batch = data.inputs([row]).batch.to(judge.device)
        # Of a body still in training: from its first weights.
        vectors = own.unsqueeze(0).to(judge.device)
        table = judge.net.raw_features(vectors, batch)[0].cpu().numpy()
        unit = functional.normalize(vectors[0].float(), dim=-1).cpu().numpy()
        for role in (0, 1):
            key, mine = (data.examples[row].source, role), data.encoded[row].roles == role
            features.setdefault(key, []).append(table[mine])
            embeddings.setdefault(key, []).append(unit[mine])
    net = judge.net
    for role in (0, 1):
        tables = _per_source(features, role)
        if tables:
            spread = np.mean([t.std(0) for t in tables], axis=0)
            middle = np.mean([t.mean(0) for t in tables], axis=0)
            net.feature_mean[role, : len(middle)] = torch.tensor(middle)
            net.feature_std[role, : len(spread)] = torch.tensor(
                np.maximum(spread, _LEAST_DEVIATION)
            )
            means = [t.mean(0) for t in _per_source(embeddings, role)]
            net.embedding_mean[role] = torch.tensor(np.mean(means, axis=0))


def _turn_vectors(data: EncoderDataset, count: int) -> Iterator[tuple[int, Tensor]]:
    """(row, its turn vectors [T, H]) of the first ``count`` examples."""
    for start in range(0, count, _ROWS_AT_ONCE):
        rows = range(start, min(count, start + _ROWS_AT_ONCE))
        yield from zip(rows, data.vectors(rows), strict=True)


def _per_source(parts: dict[tuple[str, int], list[np.ndarray]], role: int) -> list[np.ndarray]:
    tables = [np.concatenate(v) for (_, r), v in parts.items() if r == role]
    return [table for table in tables if len(table) > 1]


# -- the average turn, around which contributions are reported -----------------------------------


@torch.inference_mode()
def fit_turn_means(judge: EncoderJudge, dialogues: Sequence[Dialogue]) -> None:
    """Set ``judge.turn_means``: per dimension what a turn of the user, and one of the assistant,
    adds to ``Head.linear`` on average, weighted as the head pools them.

    Of 256 dialogues spread evenly over ``dialogues``; a side that never speaks has 0.
    """
    chosen = dialogues[:: max(1, len(dialogues) // _MEAN_DIALOGUES)][:_MEAN_DIALOGUES]
    sums = {d.name: np.zeros((2, 2)) for d in judge.dimensions}  # evidence and weight, by role
    for start in range(0, len(chosen), judge.window):
        items = [ScoreRequest(dialogue, None) for dialogue in chosen[start : start + judge.window]]
        judge._prepare(items)
        for batch in budget_batches(items, lambda item: item.tokens, judge.token_budget):
            _add_turns(judge, batch, sums)
    judge.turn_means = {}
    for name, (evidence, weight) in sums.items():
        user, assistant = np.divide(evidence, weight, out=np.zeros(2), where=weight > 0).tolist()
        judge.turn_means[name] = (user, assistant)


def _add_turns(
    judge: EncoderJudge, batch: Sequence[ScoreRequest], sums: dict[str, np.ndarray]
) -> None:
    members = judge.members(batch)
    for name, total in sums.items():
        for k in (0, 1):
            table = judge.net.combine([m[k + 1] for m in members], name).cpu().numpy()
            for row, item in zip(table, batch, strict=True):
                roles = item.payload[0].roles
                if row.size:  # the net ``sequence`` does not tell turns apart
                    own = row[: len(roles)]
                    total[k] += [own[roles == role].sum() for role in (0, 1)]
