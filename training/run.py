"""One training run from its config to a judge that a fresh process has checked."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import torch

from medal_judges.config import load_config
from medal_judges.errors import ConfigError
from medal_judges.models.base.judge import Judge
from medal_judges.models.embedding.config import EmbeddingConfig
from medal_judges.models.feature.judge import FeatureConfig, FeatureJudge
from medal_judges.models.hybrid.config import HybridConfig
from medal_judges.records.dimension import Dimension, load_rubric
from medal_judges.storage.files import only_run
from medal_judges.training.card.card import write_card
from medal_judges.training.card.emissions import Meter
from medal_judges.training.config import TrainConfig
from medal_judges.training.finish import finish
from medal_judges.training.hybrid.train import fit_hybrid
from medal_judges.training.rows.examples import learnt_names
from medal_judges.training.rows.rows import RunRows, load_rows

# Families that the loop trains; the others are fitted at once.
BY_STEPS = ("encoder", "lora")

logger = logging.getLogger(__name__)


def train(config: str | Path, overrides: Sequence[str] = (), *, resume: bool = False) -> Path:
    """Train a judge and save it; returns its folder, the config's ``output_dir``.

    ``config`` is a YAML file or the name of one in configs/train/, ``overrides`` are
    ``field=value``; ``resume`` continues from the newest checkpoint. Raises ConfigError, and what
    ``train_judge`` raises.

    >>> from medal_judges import Judge, train
    >>> overrides = ["rubric=overall", "train=[{source: labelled.jsonl}]", "output_dir=judge"]
    >>> folder = train("baseline_length", overrides)
    >>> Judge.from_pretrained(folder).family
    'feature'
    """
    return train_judge(load_config(TrainConfig, config, overrides, folder="train"), resume=resume)


def train_judge(config: TrainConfig, *, resume: bool = False) -> Path:
    """Train, calibrate, save and check the judge of ``config``; returns its folder.

    Of several processes all take the steps and the main one does the rest, alone: a family that is
    fitted at once is the main one's only. Raises LeakError when training and held-out rows share a
    dialogue, JudgeLoadError when the saved judge does not come back the same, and MedalError where
    another run writes to that folder.
    """
    folder = Path(config.output_dir)
    by_steps = config.model.family in BY_STEPS
    if not (by_steps or is_main()):
        return folder
    if config.threads:
        torch.set_num_threads(config.threads)
    with only_run(folder) if is_main() else nullcontext(), Meter() as meter:
        dimensions = load_rubric(config.rubric)
        rows = load_rows(config, dimensions)
        learnt = learnable(dimensions, rows, config.only)
        if by_steps:
            from medal_judges.training.steps import train_by_steps

            train_by_steps(config, learnt, rows, resume)
        else:
            judge, figures = fit_judge(config, learnt, rows)
            finish(config, judge, rows, figures)
        if is_main():
            meter.write(folder)
            write_card(folder)
    return folder


def is_main() -> bool:
    """True in the one process that saves; launchers number theirs."""
    return int(os.environ.get("RANK", "0")) == 0


def fit_judge(
    config: TrainConfig, dimensions: Sequence[Dimension], rows: RunRows
) -> tuple[Judge, dict[str, float]]:
    """The judge of a family that is fitted at once, and its figures on rows it did not learn."""
    model = config.model
    if isinstance(model, HybridConfig):
        return fit_hybrid(config, rows.train, dimensions)
    if isinstance(model, EmbeddingConfig):
        from medal_judges.training.embedding.fit import fit_embedding_judge

        return fit_embedding_judge(config, rows, dimensions)
    assert isinstance(model, FeatureConfig)
    return FeatureJudge.fit(model, rows.train, dimensions, name=config.name), {}


def learnable(
    dimensions: Sequence[Dimension], rows: RunRows, only: Sequence[str] | None = None
) -> list[Dimension]:
    """Dimensions (of ``only``) with at least one training label; a head without any would answer
    at random. Raises ConfigError for a name that the rubric does not have."""
    if unknown := set(only or ()) - {d.name for d in dimensions}:
        raise ConfigError(
            f"only: the rubric has no dimension {', '.join(sorted(unknown))}",
            hint=f"it has: {', '.join(d.name for d in dimensions)}",
        )
    dimensions = [d for d in dimensions if only is None or d.name in only]
    labelled = learnt_names(rows.train)
    if left := [d.name for d in dimensions if d.name not in labelled]:
        logger.warning("no training labels for %s: the judge will not have them", ", ".join(left))
    return [d for d in dimensions if d.name in labelled]
