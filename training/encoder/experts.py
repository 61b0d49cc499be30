"""Which expert has a say in which dimension: those alone that saw labels of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from medal_judges.errors import ConfigError
from medal_judges.models.encoder.config import EncoderConfig, ExpertConfig
from medal_judges.models.encoder.net import EncoderNet
from medal_judges.training.rows.example_store import targets_of
from medal_judges.training.rows.examples import Example


def experts_of(config: EncoderConfig) -> tuple[ExpertConfig, ...]:
    """The settings of each member of the ensemble; without experts all of them read all sources."""
    return config.experts or (ExpertConfig(name="all"),) * config.members


def labelled_rows(examples: Sequence[Example], expert: ExpertConfig, name: str) -> list[int]:
    """The rows of the sources of ``expert`` that have a label of dimension ``name``."""
    labelled = np.flatnonzero(np.isfinite(targets_of(examples, name))).tolist()
    if not expert.sources:
        return labelled
    return [i for i in labelled if examples[i].source in expert.sources]


def mute_experts(net: EncoderNet, examples: Sequence[Example], least: int) -> None:
    """Set to 0 the share of each expert in each dimension of which it has fewer than ``least``
    labels: its head there has learnt nothing.

    Raises ConfigError for a dimension in which nobody is left.
    """
    experts = experts_of(net.config)
    for place, name in enumerate(net.names):
        for row, expert in enumerate(experts):
            if len(labelled_rows(examples, expert, name)) < least:
                net.shares[row, place] = 0
        if not bool(net.shares[:, place].any()):
            raise ConfigError(
                f"no expert has {least} or more training labels of {name!r}",
                hint="name a source that has them in model.experts, or one expert without sources",
            )
