"""The contract between a run and the families that it can train.

A module of training/families has two entries: ``check(config)`` raises ValueError for settings that
the family cannot follow, and ``fit(run)`` returns the trained judge. That of a family which is
trained by steps also has ``new_judge(config, dimensions, args)`` and ``trainer_class(config)``
(training/steps.py). A run knows nothing else of a family; FAMILIES in training/config.py names
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from medal_judges.records.dimension import Dimension
from medal_judges.training.config import TrainConfig
from medal_judges.training.rows import RunRows

if TYPE_CHECKING:
    from medal_judges.models.base.judge import Judge


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """What a family fits: the run's ``config``, the ``dimensions`` that have labels, the ``rows``.

    ``overwrite`` removes the checkpoints of an earlier run.
    """

    config: TrainConfig
    dimensions: list[Dimension]
    rows: RunRows
    overwrite: bool = False


@dataclass(frozen=True, slots=True)
class FittedJudge:
    """A trained judge, not saved yet.

    ``figures`` are its figures on validation rows.
    """

    judge: Judge
    figures: Mapping[str, float] = field(default_factory=dict)
