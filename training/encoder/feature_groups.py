"""Which feature group has a say in which dimension: those alone that saw labels of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from medal_judges.errors import ConfigError
from medal_judges.models.encoder.config import EncoderConfig, FeatureGroup
from medal_judges.models.encoder.net import EncoderNet
from medal_judges.training.rows.example_store import targets_of
from medal_judges.training.rows.examples import Example


def groups_of(config: EncoderConfig) -> tuple[FeatureGroup, ...]:
    """The settings of each member of the ensemble; without groups all of them read all sources."""
    return config.feature_groups or (FeatureGroup(name="all"),) * config.members


def labelled_rows(examples: Sequence[Example], group: FeatureGroup, name: str) -> list[int]:
    """The rows of the sources of ``group`` that have a label of dimension ``name``."""
    labelled = np.flatnonzero(np.isfinite(targets_of(examples, name))).tolist()
    if not group.sources:
        return labelled
    return [i for i in labelled if examples[i].source in group.sources]


def mute_groups(net: EncoderNet, examples: Sequence[Example], least: int) -> None:
    """Set to 0 the share of each feature group in each dimension of which it has fewer than
    ``least`` labels: its head there has learnt nothing.

    Raises ConfigError for a dimension in which nobody is left.
    """
    groups = groups_of(net.config)
    for place, name in enumerate(net.names):
        for row, group in enumerate(groups):
            if len(labelled_rows(examples, group, name)) < least:
                net.shares[row, place] = 0
        if not bool(net.shares[:, place].any()):
            raise ConfigError(
                f"no feature group has {least} or more training labels of {name!r}",
                hint="name a source that has them in model.feature_groups, or one without sources",
            )
