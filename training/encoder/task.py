"""Training an encoder judge: what is frozen, what is fitted beforehand, and the closed form."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from medal_judges.models.encoder.judge import EncoderJudge
from medal_judges.training.config import TrainConfig
from medal_judges.training.encoder.data import EncoderDataset, EncoderObjective, reads_in_bf16
from medal_judges.training.encoder.fitting import fit_feature_scale, mute_groups
from medal_judges.training.encoder.reply import fit_reply
from medal_judges.training.encoder.ridge import fit_ridge
from medal_judges.training.loop.optimizer import freeze
from medal_judges.training.loop.task import TrainingTask
from medal_judges.training.rows.example_store import sources_of
from medal_judges.training.rows.examples import TrainingExample


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
